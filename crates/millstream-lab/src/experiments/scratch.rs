//! Temporary directories of the lab.

use crate::error::Error;
use crate::limits::OLD_FILES;
use millstream_host::scratch_folder;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system in memory, so that what is written there takes nothing from the disk.
const MEMORY: &str = "/dev/shm";

/// How their names begin.
const PREFIX: &str = "millstream-lab-";

/// A directory for what is written during a run: in memory, if that is possible.
pub(crate) fn for_a_run() -> Result<TempDir, Error> {
    let home = if Path::new(MEMORY).is_dir() { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
    make(&home)
}

/// A directory that the server can read too.
pub(crate) fn for_the_server() -> Result<TempDir, Error> {
    make(&std::env::temp_dir())
}

/// A directory for what is large.
pub(crate) fn on_disk() -> Result<TempDir, Error> {
    make(&std::env::temp_dir())
}

/// Others can read it: commands of an experiment may run as another account.
fn make(home: &Path) -> Result<TempDir, Error> {
    scratch_folder(home, PREFIX, 0o755).map_err(Error::io("make a directory in", home))
}

/// Removes what a lab has left that was killed a day ago or earlier.
pub(crate) fn remove_old() {
    for dir in [std::env::temp_dir(), PathBuf::from(MEMORY)] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
            let age = entry.metadata().and_then(|facts| facts.modified()).ok().and_then(|time| time.elapsed().ok());
            if ours && age.is_some_and(|age| age > OLD_FILES) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
