//! A folder with files and stores.

use std::fs;
use std::path::PathBuf;

/// Lines as files of ranges have them.
pub(crate) const DIRTY: &str = include_str!("dirty.csv");

/// It is removed when it is dropped.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}
