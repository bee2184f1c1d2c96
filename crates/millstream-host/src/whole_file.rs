//! A file of our own that is replaced as a whole, in a directory where nobody else writes.

use crate::new_file::{NewFile, sync_name};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// How the name ends under which a file is written, before it gets its own.
pub const NEW: &str = ".new";

/// Writes a file beside its name and renames it: a reader sees the old file or the new one, never a part of one, also after
/// a crash of the machine. It is on the disk when this returns. Others may read it if the process's umask lets them, and
/// nobody else may write it, whatever the umask is. For a place that a user
/// names, see [`TargetFile`](crate::TargetFile): this removes what has the other name.
///
/// # Errors
/// Errors of the disk. Then the old file is as it was.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    write_with_mode(path, text, 0o644)
}

/// The same for a text that its owner alone may read, at any time.
///
/// # Errors
/// As [`write_whole`].
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    write_with_mode(path, text, 0o600)
}

/// `mode`: rights, of which the process's umask takes some away.
fn write_with_mode(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(NEW);
    let new = PathBuf::from(new);
    // What a crash has left may have other rights.
    remove_whole(&new)?;
    let mut new = NewFile::create(new, mode)?;
    new.file.write_all(text.as_bytes())?;
    new.replace(path)
}

/// Removes a file if there is one. It is gone from the disk when this returns.
///
/// # Errors
/// Errors of the disk.
pub fn remove_whole(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_name(path)),
    }
}

/// The text of a file; `None` if there is none.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn read_whole(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        write_whole(&file, "old").unwrap();
        write_private(&file, "new").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_whole(&dir.path().join("none/a"), "x").is_err());
        assert_eq!(read_whole(&file).unwrap().as_deref(), Some("new"));
        remove_whole(&file).unwrap();
        assert_eq!(read_whole(&file).unwrap(), None);
        remove_whole(&file).unwrap();
        assert!(remove_whole(dir.path()).is_err() && read_whole(dir.path()).is_err(), "a directory");
    }
}
