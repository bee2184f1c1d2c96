//! A temporary directory that goes away with the demo, however it ends.

use crate::failure::Failure;
use crate::signal::Signals;
use millstream_host::{own_file, scratch_folder};
use std::fs::File;
use std::io;
use tempfile::TempDir;

/// The directory. Dropping this value removes it.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// A new directory under `TMPDIR`, for this user only. It is removed as soon as somebody asks the
    /// process to stop, because a second signal leaves no time for it; files that are open stay
    /// readable until they are closed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(signals: &Signals) -> Result<Self, Failure> {
        let dir = scratch_folder(&std::env::temp_dir(), "millstream-demo-", 0o700)
            .map_err(|error| failed("make a temporary directory", &error))?;
        let (path, signals) = (dir.path().to_owned(), signals.clone());
        tokio::spawn(async move {
            signals.stop_asked().await;
            // Nothing is lost when it cannot be removed, and dropping it tries again.
            let _ = std::fs::remove_dir_all(path);
        });
        Ok(Self { dir })
    }

    /// Writes a file on a thread that may block. Returns its path and what `write` returned.
    ///
    /// # Errors
    /// It cannot be written, for instance because the disk is full.
    pub async fn file<T: Send + 'static>(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<T> + Send + 'static,
    ) -> Result<(String, T), Failure> {
        let path = self.dir.path().join(name);
        let text = path.to_str().map(str::to_owned).ok_or_else(|| {
            Failure::user("the name of the temporary directory is not UTF-8").hint("set TMPDIR to another directory")
        })?;
        let create = move || own_file(0o600).write(true).create_new(true).open(path);
        let writing = tokio::task::spawn_blocking(move || write(&mut create()?));
        let written = writing.await.map_err(|error| Failure::bug("writing a file broke off").because(&error))?;
        let written = written.map_err(|error| failed("write the demo's documents", &error).at(text.clone()))?;
        Ok((text, written))
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    let dir = std::env::temp_dir();
    Failure::user(format!("cannot {what}")).because(error).hint(format!(
        "free some space in {}, set TMPDIR to a directory with room, or ask for less with --docs",
        dir.display()
    ))
}
