//! Files and folders of our own, which nobody else may write, whatever the process's umask is.

use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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

/// Makes a folder that nobody else may enter, and those above it that are missing. One that is there gets the same rights.
///
/// # Errors
/// It belongs to another account, or is no folder; errors of the disk.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        make_folder(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made,
    }
    // Opened first: at the path, there may soon be another one.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let folder = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if folder.metadata()?.uid() != geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another account"));
    }
    folder.set_permissions(Permissions::from_mode(0o700))
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
    use millstream_testkit::{Need, machine_has};
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

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

    #[test]
    fn a_private_folder_is_closed_to_others_also_if_it_was_open() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("above/folder");
        make_private_folder(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&dir.path().join("above")) & 0o022), (0o700, 0));
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        make_private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        let link = dir.path().join("link");
        symlink(&folder, &link).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(make_private_folder(&link).is_err());
        assert_eq!(mode(&folder), 0o755);
    }

    #[test]
    fn a_private_folder_of_another_account_is_refused() {
        if !machine_has(&[Need::Root]) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(65_534), None).unwrap();
        let before = mode(&folder);
        let refused = make_private_folder(&folder).unwrap_err();
        assert!(refused.to_string().contains("another account"), "{refused}");
        assert_eq!(mode(&folder), before);
    }
}
