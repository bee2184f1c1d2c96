//! The process that undoes a change in time, whatever happens to the one that made it.

use crate::changes::Changes;
use crate::journal::State;
use crate::limits::{CHANGE_LATE_SECONDS_MAX, CHANGE_LOOK, CHANGE_PAUSE_MAX, WATCH_READY_MAX};
use millstream_host::{Command, Error};
use millstream_model::Refusal;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What is there while systemd runs. Source: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// How that process is started. It ends in [`Changes::watch_over`], and prints something when it is ready.
#[derive(Debug, Clone)]
pub struct Watchdog {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub words: Vec<String>,
    /// What it reads from its input: what nobody else may see.
    pub input: Vec<u8>,
    /// Variables of this process that it gets from its input instead.
    pub hidden: Vec<OsString>,
    /// Variables without secrets that it needs.
    pub open: Vec<&'static str>,
}

impl Watchdog {
    /// Starts it, and returns when it is ready.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(&self) -> Result<(), Error> {
        // The end of a session may end all of its processes, but not a unit of its own.
        if Path::new(SYSTEMD).is_dir() {
            let mut unit = Command::new("systemd-run");
            if is_where_systemd_is() {
                unit.args(self.unit_words());
            } else {
                // As a process of ours, with our network and files, in a unit of its own.
                unit.args(["--quiet", "--collect", "--scope"]).arg(&self.program);
            }
            if self.leave(unit).await.is_ok() {
                return Ok(());
            }
        }
        self.leave(Command::new(&self.program)).await
    }

    async fn leave(&self, mut command: Command) -> Result<(), Error> {
        command.args(&self.words).input(self.input.as_slice());
        for name in &self.hidden {
            command.env_remove(name);
        }
        command.leave(WATCH_READY_MAX).await
    }

    /// The program as a unit that ends by itself. Every user of the machine can read the variables of a unit, so it gets those
    /// alone that hold no secret, and the others by its input.
    fn unit_words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["--quiet", "--collect", "--pipe"].map(OsString::from).to_vec();
        words.extend(self.open.iter().map(|name| OsString::from(format!("--setenv={name}"))));
        words.push(self.program.clone().into());
        words
    }
}

/// Whether a unit would have the network and the files of this process. Otherwise it would undo the change elsewhere.
fn is_where_systemd_is() -> bool {
    let namespace = |process: &str, kind: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    ["net", "mnt"].iter().all(|kind| {
        let own = namespace("self", kind);
        own.is_some() && own == namespace("1", kind)
    })
}

impl Changes<'_> {
    /// Watches over a change until it is confirmed, or undoes it in time. Returns then.
    ///
    /// # Errors
    /// It cannot be undone, however often that is tried; or its record cannot be read.
    pub async fn watch_over(&self, number: u32) -> Result<(), Refusal> {
        let mut pause = CHANGE_LOOK;
        let mut was_held = false;
        loop {
            let is_held = self.journal.try_lock(number)?.is_none();
            was_held |= is_held;
            let entry = self.journal.entry(number)?;
            // Without a deadline, nothing is undone by itself.
            if entry.state.is_over() || entry.deadline.is_none() {
                return Ok(());
            }
            // Whoever applied it has ended before the change was verified.
            let is_left = was_held && !is_held && entry.state == State::Planned;
            match entry.late_seconds().or(is_left.then_some(0)) {
                None => pause = CHANGE_LOOK,
                Some(late) => match self.undo_if_late(number, is_left).await {
                    // Another process works on it, or has given it another deadline.
                    Ok(None) => pause = CHANGE_LOOK,
                    // What somebody else has set stays. The next run of the doctor shows that the change is open.
                    Ok(Some(_)) => return Ok(()),
                    Err(refusal) if late >= CHANGE_LATE_SECONDS_MAX => return Err(refusal),
                    // For example the server restarts.
                    Err(_) => pause = (2 * pause).min(CHANGE_PAUSE_MAX),
                },
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_gets_no_variable_that_may_hold_a_secret() {
        let of = |open: &[&'static str]| Watchdog {
            program: "/bin/millstream".into(),
            words: vec!["watch".to_owned()],
            input: b"PGPASSWORD=x\0".to_vec(),
            hidden: vec!["PGPASSWORD".into()],
            open: open.to_vec(),
        };
        let words = of(&["MILLSTREAM_HOME", "HOME"]).unit_words();
        let expected =
            ["--quiet", "--collect", "--pipe", "--setenv=MILLSTREAM_HOME", "--setenv=HOME", "/bin/millstream"];
        assert_eq!(words, expected);
        assert!(!of(&[]).unit_words().iter().any(|word| word == "--setenv=HOME"));
    }
}
