//! Files and folders of our own, which nobody else may write, whatever the process's umask is.

use rustix::fs::OFlags;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

/// How a file of ours is opened, such as a lock or a journal. A symbolic link in its place is an error. `mode`: the rights
/// of a new file, of which the umask takes some away.
pub fn own_file(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(mode).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

/// Makes a folder, and those above it that are missing. Others may enter them.
///
/// # Errors
/// Errors of the disk.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Makes a temporary folder in another one, which is removed when it is dropped. Its name begins with `prefix`, and `mode`
/// are its rights.
///
/// # Errors
/// Errors of the disk.
pub fn scratch_folder(above: &Path, prefix: &str, mode: u32) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(mode)).tempdir_in(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_file_of_ours_is_not_opened_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        let open = |path: &Path| own_file(0o600).write(true).create(true).truncate(true).open(path);
        symlink(&file, &link).unwrap();
        assert!(open(&link).is_err() && !file.exists());
        open(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert!(open(&link).is_err());
    }
}
