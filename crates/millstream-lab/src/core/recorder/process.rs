//! The recorder's process, as the run beside it sees it.

use super::file::{Recording, has_started};
use crate::core::libpq;
use crate::error::Error;
use crate::limits::RECORDER_START_MS;
use millstream_host::{Child, Command, remove_whole, wait_until};
use millstream_pg::ConnInfo;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variable that tells the recorder the server, as keywords and values. Other users could read an argument.
pub(super) const DB_VARIABLE: &str = "MILLSTREAM_LAB_RECORDER_DB";

/// Time between two looks whether the recorder has started.
const LOOK: Duration = Duration::from_millis(10);

/// What to record, beside the machine itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watched<'a> {
    /// The server's data directory, if it is on this machine.
    pub data: Option<&'a Path>,
    /// The directory of its WAL, if it is not in the data directory.
    pub wal: Option<&'a Path>,
    /// The server.
    pub db: Option<&'a ConnInfo>,
}

/// A recorder at work. If this is dropped, or our process dies, the recorder ends too.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    out: PathBuf,
}

impl Recorder {
    /// Starts the program's hidden command `lab recorder`, which writes to `out`, and waits until it has taken its
    /// first readings.
    ///
    /// # Errors
    /// The program does not start, or has no readings in time, for example because the server refuses the session.
    pub async fn start(program: &Path, out: &Path, watched: Watched<'_>) -> Result<Self, Error> {
        // A file that is there already would look like a start.
        remove_whole(out).map_err(Error::io("replace", out))?;
        let mut command = Command::new(program);
        command.args(["lab", "recorder", "--out"]).arg(out);
        for (name, dir) in [("--data", watched.data), ("--wal", watched.wal)] {
            if let Some(dir) = dir {
                command.arg(name).arg(dir);
            }
        }
        command.env_remove(DB_VARIABLE);
        if let Some(db) = watched.db {
            command.env(DB_VARIABLE, libpq::text(db));
        }
        let mut child = command.start().map_err(|error| Error::Recorder(error.to_string()))?;
        let limit = Duration::from_millis(RECORDER_START_MS);
        let started = wait_until(limit, LOOK, || {
            let ended = child.ended();
            has_started(out).or_else(|| Some(Err(format!("it ended ({})", ended?))))
        });
        match started.await {
            Some(Ok(())) => Ok(Self { child, out: out.to_owned() }),
            Some(Err(why)) => Err(Error::Recorder(why)),
            None => Err(Error::Recorder(format!("no readings after {limit:?}"))),
        }
    }

    /// Ends the recorder and reads what it wrote.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn finish(self) -> Result<Recording, Error> {
        let Self { mut child, out } = self;
        // It ends within the time of a few answers, because each of them has a limit.
        let finished = tokio::task::spawn_blocking(move || child.finish()).await;
        finished.map_err(|error| Error::Recorder(error.to_string()))?;
        Recording::read(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[tokio::test]
    async fn a_program_that_ends_at_once_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let failed = Recorder::start(Path::new("false"), &dir.path().join("out"), Watched::default()).await;
        assert_eq!(failed.unwrap_err().to_string(), "the recorder failed: it ended (exit status: 1)");
        let missing = Recorder::start(Path::new("/nowhere/x"), &dir.path().join("out"), Watched::default()).await;
        assert_eq!(missing.unwrap_err().to_string(), "the recorder failed: there is no program /nowhere/x");
    }
}
