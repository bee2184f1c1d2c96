//! A lock of a file, which other processes respect.

use crate::plain_file::open_private;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A lock that is held until this is dropped, or the process ends.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the lock of a file, which is made if it does not exist. `None` if somebody holds it. The file is private: whoever
    /// can open it could hold the lock for ever.
    ///
    /// # Errors
    /// The file cannot be made or locked, or is a symbolic link.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = open_private(path, File::options().write(true))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked has the file, too, until it becomes another program.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::try_take(&path).unwrap().unwrap();
        assert!(FileLock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }
}
