//! A file that is replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside its name and renames it: a reader sees the old file or the new one, never a part of one, also after
/// a crash of the machine. It is on the disk when this returns.
///
/// # Errors
/// Errors of the disk. Then the old file is as it was.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_name(path)
}

/// Removes a file. It is gone from the disk when this returns.
///
/// # Errors
/// Errors of the disk.
pub fn remove_whole(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_name(path)
}

/// A name is on the disk, or gone from it, only with its directory.
fn sync_name(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        write_whole(&file, "old").unwrap();
        write_whole(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_whole(&dir.path().join("none/a"), "x").is_err());
        remove_whole(&file).unwrap();
        assert!(!file.exists() && remove_whole(&file).is_err());
    }
}
