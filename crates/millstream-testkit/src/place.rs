//! A folder for the files of a test.

use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder, which is removed when it is dropped.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// Makes an empty one.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    /// The path of a file in it, which need not be there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same as a word of a command line.
    ///
    /// # Panics
    /// If the path is no text.
    pub fn word(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file. Returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Writes a file. Returns its path as a word of a command line.
    ///
    /// # Panics
    /// If it cannot be written, or its path is no text.
    pub fn written(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        self.write(name, content);
        self.word(name)
    }
}
