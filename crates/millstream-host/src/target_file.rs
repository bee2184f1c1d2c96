//! A file at a place that a user names.

use crate::new_file::NewFile;
use crate::own_file::own_file;
use rustix::process::geteuid;
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the names of a process's open files are. Whatever they lead to, that open file is meant.
const OPEN_FILES: &[&str] = &["/dev/fd", "/proc"];

/// A file at a place that a user names, while it is written. It must be [finished](TargetFile::finish).
///
/// It is made beside its name, and gets the name when it is whole: a reader sees the old file or the new one. A symbolic link
/// or a named pipe of another account that has the name is replaced, and what the link leads to stays as it is, because
/// somebody else may have put it there. What else is no regular file, such as `/dev/stdout`, is written as it is.
///
/// Nobody else may write a new file, whatever the umask is. One that replaces a file keeps that file's rights.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// A new file, which gets the name.
    New(NewFile),
    /// What has the name.
    AsItIs(File),
}

impl TargetFile {
    /// Begins the file.
    ///
    /// # Errors
    /// It is a directory; errors of the disk.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, 0o644, true)
    }

    /// Begins a file that its owner alone may read.
    ///
    /// # Errors
    /// As [`TargetFile::create`].
    pub fn create_private(path: &Path) -> io::Result<Self> {
        Self::begin(path, 0o600, false)
    }

    /// Whether something would be replaced now.
    pub fn replaces(&self) -> bool {
        matches!(self.way, Way::New(_)) && self.path.symlink_metadata().is_ok()
    }

    /// Gives the file its name. It is on the disk when this returns. A file that is dropped before is removed.
    ///
    /// # Errors
    /// Errors of the disk. Then what had the name still has it.
    pub fn finish(self) -> io::Result<()> {
        match self.way {
            Way::New(new) => new.replace(&self.path),
            Way::AsItIs(_) => Ok(()),
        }
    }

    /// The same, but nothing is replaced.
    ///
    /// # Errors
    /// Something has the name; errors of the disk.
    pub fn finish_new(self) -> io::Result<()> {
        match self.way {
            Way::New(new) => new.place(&self.path),
            Way::AsItIs(_) => Ok(()),
        }
    }

    fn begin(path: &Path, mode: u32, keeps_rights: bool) -> io::Result<Self> {
        let way = match opened(path)? {
            Some(file) => Way::AsItIs(file),
            None => {
                let new = NewFile::create(beside(path), mode)?;
                let old = path.symlink_metadata().ok().filter(|old| keeps_rights && old.is_file());
                if let Some(old) = old {
                    new.file.set_permissions(Permissions::from_mode(old.mode() & kept(&old)))?;
                }
                Way::New(new)
            }
        };
        Ok(Self { path: path.to_owned(), way })
    }

    fn file(&mut self) -> &mut File {
        match &mut self.way {
            Way::New(new) => &mut new.file,
            Way::AsItIs(file) => file,
        }
    }
}

impl Write for TargetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Writes a text to a place that a user names, as [`TargetFile`] does.
///
/// # Errors
/// As [`TargetFile::create`] and [`TargetFile::finish`].
pub fn write_target(path: &Path, text: &str) -> io::Result<()> {
    let mut file = TargetFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

/// What has the name, if it is to be written as it is.
fn opened(path: &Path) -> io::Result<Option<File>> {
    // Opened anew, a file would be written from its beginning again.
    if path == Path::new("/dev/stdout") {
        return again(io::stdout().as_fd()).map(Some);
    }
    if path == Path::new("/dev/stderr") {
        return again(io::stderr().as_fd()).map(Some);
    }
    if OPEN_FILES.iter().any(|dir| path.starts_with(dir)) {
        return File::options().append(true).open(path).map(Some);
    }
    let there = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        there => there?,
    };
    let Ok(led_to) = fs::metadata(path) else { return Ok(None) };
    if led_to.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    // A link is replaced, also one to a device: it could lead to a disk. A stranger could read his pipe.
    let is_ours = [0, geteuid().as_raw()].contains(&there.uid()) || there.file_type().is_char_device();
    if there.is_symlink() || there.is_file() || !is_ours {
        return Ok(None);
    }
    let file = own_file(0o600).write(true).open(path)?;
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
        return Err(io::Error::other("somebody has just replaced it"));
    }
    Ok(Some(file))
}

/// The same open file once more.
fn again(file: BorrowedFd<'_>) -> io::Result<File> {
    file.try_clone_to_owned().map(File::from)
}

/// A name in the same directory that nobody can know before.
fn beside(path: &Path) -> PathBuf {
    let number = RandomState::new().hash_one(path);
    path.with_file_name(format!(".millstream-{number:016x}"))
}

/// Which rights of a file its successor keeps. Of another account's, those stay away that let others write what is ours now.
fn kept(old: &Metadata) -> u32 {
    if old.uid() == geteuid().as_raw() { 0o777 } else { 0o755 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;
    use millstream_testkit::{Need, machine_has};
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn names(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all_and_keeps_its_rights() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        write_target(&path, "old").unwrap();
        assert_eq!(mode(&path) & 0o133, 0);
        set_mode(&path, 0o4664);
        let mut unfinished = TargetFile::create(&path).unwrap();
        unfinished.write_all(b"ne").unwrap();
        assert!(unfinished.replaces());
        drop(unfinished);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path())), ("old", 1));
        write_target(&path, "new").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path())), ("new", 1));
        assert_eq!(mode(&path), 0o664, "the owner has given these rights to the group; nobody gets the owner's own");
        let mut private = TargetFile::create_private(&path).unwrap();
        private.write_all(b"newer").unwrap();
        private.finish().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("newer", 0o600));
        assert!(write_target(dir.path(), "x").is_err() && write_target(&dir.path().join("none/a"), "x").is_err());
    }

    #[test]
    fn a_new_file_replaces_nothing_if_it_must_not() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        let first = TargetFile::create(&path).unwrap();
        assert!(!first.replaces());
        let mut second = TargetFile::create(&path).unwrap();
        second.write_all(b"second").unwrap();
        second.finish_new().unwrap();
        assert_eq!(first.finish_new().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path())), ("second", 1));
        symlink("nowhere", &link).unwrap();
        let at_link = TargetFile::create(&link).unwrap();
        assert!(at_link.replaces() && at_link.finish_new().is_err() && link.is_symlink());
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        fs::write(&path, "other").unwrap();
        set_mode(&path, 0o666);
        for to in ["a", "nowhere"] {
            symlink(to, &link).unwrap();
            write_target(&link, "ours").unwrap();
            assert!(!link.is_symlink() && fs::read_to_string(&link).unwrap() == "ours", "{to}");
            assert_eq!(mode(&link) & 0o022, 0, "the rights of what it led to do not count");
            fs::remove_file(&link).unwrap();
        }
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path), names(dir.path())), ("other", 0o666, 1));
        // A link to a directory is more likely a mistake.
        symlink(".", &link).unwrap();
        assert!(write_target(&link, "ours").is_err() && link.is_symlink());
    }

    #[test]
    fn a_named_pipe_of_ours_is_written_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let from = pipe.clone();
        let reading = std::thread::spawn(move || fs::read_to_string(from).unwrap());
        write_target(&pipe, "text").unwrap();
        assert_eq!(reading.join().unwrap(), "text");
        assert_eq!(names(dir.path()), 1);
        write_target(Path::new("/dev/null"), "text").unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let open = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        write_target(Path::new(&open), "text").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn what_another_account_has_put_there_harms_nothing_else() {
        if !machine_has(&[Need::Root]) {
            return;
        }
        let (shared, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        set_mode(shared.path(), 0o1777);
        let nobody = |program: &str, args: &[&str], path: &Path| {
            let ran = Account::numbered(65_534, 65_534).command(program).args(args).arg(path).run_blocking();
            assert!(ran.unwrap().status.success(), "{program}");
        };
        let (victim, pipe) = (own.path().join("victim"), own.path().join("pipe"));
        fs::write(&victim, "secret").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for to in [&victim, &pipe] {
            let link = shared.path().join("link");
            nobody("ln", &["-s", to.to_str().unwrap()], &link);
            write_target(&link, "ours").unwrap();
            assert!(link.symlink_metadata().unwrap().is_file());
            fs::remove_file(link).unwrap();
        }
        assert_eq!(fs::read_to_string(victim).unwrap(), "secret");
        let theirs = shared.path().join("pipe");
        nobody("mkfifo", &["-m", "666"], &theirs);
        write_target(&theirs, "ours").unwrap();
        assert!(theirs.symlink_metadata().unwrap().is_file());
        fs::remove_file(theirs).unwrap();
        let file = shared.path().join("file");
        nobody("touch", &[], &file);
        nobody("chmod", &["666"], &file);
        write_target(&file, "ours").unwrap();
        assert_eq!((mode(&file), file.metadata().unwrap().uid()), (0o644, 0));
    }
}
