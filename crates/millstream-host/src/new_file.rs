//! A file that is made beside its name, and gets it when it is whole.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file. It is removed unless it gets its name.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    beside: PathBuf,
    is_placed: bool,
}

impl NewFile {
    /// Makes the file under another name, which nothing may have. `mode`: rights, of which the process's umask takes some
    /// away.
    pub(crate) fn create(beside: PathBuf, mode: u32) -> io::Result<Self> {
        // This opens nothing that is there, and so it follows no link.
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        Ok(Self { file, beside, is_placed: false })
    }

    /// Gives it its name. What has the name is replaced; of a symbolic link, the link itself. The file is on the disk when
    /// this returns.
    pub(crate) fn replace(mut self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, path)?;
        self.is_placed = true;
        sync_name(path)
    }

    /// The same, but an error if something has the name.
    pub(crate) fn place(mut self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        match renameat_with(CWD, self.beside.as_path(), CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => self.is_placed = true,
            // Not every file system can rename so. A hard link replaces nothing either, and the other name goes.
            Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&self.beside, path)?,
            Err(error) => return Err(error.into()),
        }
        sync_name(path)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // On a full disk it would take what little room there is.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// A name is on the disk, or gone from it, only with its directory.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    match File::open(dir.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all()) {
        // Whoever may write a directory may not always read it, and not every file system can flush one.
        Err(error) if [ErrorKind::PermissionDenied, ErrorKind::InvalidInput].contains(&error.kind()) => Ok(()),
        synced => synced,
    }
}
