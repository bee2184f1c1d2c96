//! A tree by the descriptor of its root: nothing in it is reached through a link.

use crate::entry::{Attribute, EntryKind, Facts, inode};
use crate::error::Error;
use crate::limits::{ATTRIBUTE_BYTES_MAX, PATH_BYTES_MAX};
use crate::path::{shown_path, split};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The attributes in which Linux keeps ACLs.
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// A folder and what is below it.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    path: PathBuf,
    follows_links: bool,
}

/// A folder of a destination that is open, to which several copies go: nothing else is written to, whatever somebody puts at
/// its path between them.
#[derive(Debug, Clone)]
pub(crate) struct Within {
    pub(crate) tree: Arc<Tree>,
    /// The folder in the tree. The root is empty.
    pub(crate) path: &'static [u8],
}

impl Within {
    /// Its path on the machine.
    pub(crate) fn full(&self) -> PathBuf {
        if self.path.is_empty() { self.tree.path.clone() } else { self.tree.full(self.path) }
    }

    /// Opens it, or makes it with this mode. Returns whether it was missing.
    ///
    /// # Errors
    /// Something else is at its path now.
    pub(crate) fn open(&self, mode: Mode) -> Result<(Arc<Tree>, bool), Error> {
        self.tree.check_place()?;
        if self.path.is_empty() {
            return Ok((Arc::clone(&self.tree), false));
        }
        let (tree, was_missing) = self.tree.make(self.path, mode)?;
        Ok((Arc::new(tree), was_missing))
    }
}

impl Tree {
    /// Opens the root. A link at its own path is followed.
    pub(crate) fn open(path: &Path, follows_links: bool) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty())?;
        Ok(Self { root, path: path.to_owned(), follows_links })
    }

    /// Opens the root of a destination. Its path had no links when it was found, so one that is there now is not followed.
    pub(crate) fn open_plain(path: &Path) -> io::Result<Self> {
        Ok(Self { root: plain(CWD, path.as_os_str(), OFlags::RDONLY)?, path: path.to_owned(), follows_links: false })
    }

    /// The same of a root that is made if it is missing. Returns whether it was.
    pub(crate) fn make_plain(path: &Path, mode: Mode) -> Result<(Self, bool), Error> {
        let (root, was_missing) = make_plain(path, mode, OFlags::RDONLY)?;
        Ok((Self { root, path: path.to_owned(), follows_links: false }, was_missing))
    }

    /// Makes a folder of the tree, unless it is there. Returns it as a tree of its own, and whether it was missing.
    pub(crate) fn make(&self, path: &[u8], mode: Mode) -> Result<(Self, bool), Error> {
        let full = self.full(path);
        let (folder, name) = self.parent(path).map_err(Error::file("make", &full))?;
        let name = OsStr::from_bytes(name.to_bytes());
        let (root, was_missing) = make_in(folder.as_fd(), name, &full, mode, OFlags::RDONLY)?;
        Ok((Self { root, path: full, follows_links: false }, was_missing))
    }

    /// Checks that its path still leads to it. What is copied goes to what is open, and nobody would find it by the path.
    ///
    /// # Errors
    /// Something else is there.
    pub(crate) fn check_place(&self) -> Result<(), Error> {
        let there = plain(CWD, self.path.as_os_str(), OFlags::PATH).and_then(fs::fstat);
        match (there, fs::fstat(&self.root)) {
            (Ok(there), Ok(own)) if inode(&there) == inode(&own) => Ok(()),
            _ => {
                let says = format!(
                    "{} is no longer the folder that this copy has opened: somebody has moved or replaced it",
                    shown_path(&self.path)
                );
                Err(Error::refused(says, OTHERS))
            }
        }
    }

    /// Takes the lock of the root, which is held until the tree is dropped. Returns whether nobody else holds it.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        match fs::flock(&self.root, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            locked => Ok(locked.map(|()| true)?),
        }
    }

    /// A path of the root that leads to it wherever it is now.
    pub(crate) fn opened(&self) -> PathBuf {
        opened(self.root.as_fd()).into()
    }

    /// Whether nothing is in the root.
    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.opened()).is_ok_and(|mut names| names.next().is_none())
    }

    /// Where the root is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path of the tree as one of the machine.
    pub(crate) fn full(&self, path: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(path))
    }

    /// What the system says of the root.
    pub(crate) fn root_stat(&self) -> io::Result<Stat> {
        Ok(fs::fstat(&self.root)?)
    }

    /// Opens a folder of the tree, to list it and to reach what is in it.
    ///
    /// # Errors
    /// There is none, a part of its path is a link, or it cannot be read.
    pub(crate) fn folder(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let mut rest = path;
        let mut folder = None;
        while rest.len() > PATH_BYTES_MAX {
            let at = rest[..PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
            folder = Some(self.step(folder.as_ref().unwrap_or(&self.root), &rest[..at])?);
            rest = &rest[at + 1..];
        }
        let from = folder.as_ref().unwrap_or(&self.root);
        Ok(self.step(from, if rest.is_empty() { b"." } else { rest })?)
    }

    /// Opens the folder in which a path is, and returns its name there.
    pub(crate) fn parent(&self, path: &[u8]) -> io::Result<(OwnedFd, CString)> {
        let (folder, name) = split(path);
        Ok((self.folder(folder)?, named(name)?))
    }

    /// Whether something has this path. What cannot be looked at counts as there.
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        match self.parent(path).and_then(|(folder, name)| stat(&folder, &name)) {
            Ok(there) => there.is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    fn step(&self, from: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        if self.follows_links {
            return fs::openat(from, path, flags, Mode::empty());
        }
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        fs::openat2(from, path, flags, Mode::empty(), within)
    }
}

/// What helps if somebody moves the destination.
const OTHERS: &str =
    "let no other account change the destination or the folders above it, and run the same command again";

/// Makes a folder whose path had no links when it was found, unless it is there.
///
/// # Errors
/// It cannot be made, or a link is on the way to it now.
pub(crate) fn make_folder(path: &Path, mode: Mode) -> Result<(), Error> {
    make_plain(path, mode, OFlags::PATH).map(drop)
}

fn make_plain(path: &Path, mode: Mode, flags: OFlags) -> Result<(OwnedFd, bool), Error> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        let root = plain(CWD, path.as_os_str(), flags).map_err(unopened("open", path))?;
        return Ok((root, false));
    };
    // It may be one that we may not list.
    let above = plain(CWD, above.as_os_str(), OFlags::PATH).map_err(unopened("make", path))?;
    make_in(above.as_fd(), name, path, mode, flags)
}

/// Makes a name in a folder, unless it is there, and opens it. Returns whether it was missing. `path`: that of the name.
fn make_in(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    mode: Mode,
    flags: OFlags,
) -> Result<(OwnedFd, bool), Error> {
    let was_missing = match fs::mkdirat(folder, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(unopened("make", path)(error)),
    };
    let opened = plain(folder, name, flags).map_err(unopened("open", path))?;
    Ok((opened, was_missing))
}

/// Opens a folder to which no link may lead.
fn plain(from: BorrowedFd<'_>, path: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat2(from, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Converts the system's error about a folder of the destination.
fn unopened(what: &'static str, path: &Path) -> impl Fn(Errno) -> Error + use<> {
    let path = path.to_owned();
    move |error| match error {
        Errno::LOOP => {
            let says = format!("a link is in the place of {} or of a folder above it", shown_path(&path));
            Error::refused(says, OTHERS)
        }
        error => Error::file(what, &path)(error.into()),
    }
}

/// A name for the system.
///
/// # Errors
/// It holds a zero byte, which no name of a file does.
pub(crate) fn named(name: &[u8]) -> io::Result<CString> {
    Ok(CString::new(name)?)
}

/// What the system says of a name in a folder; of a link itself. `None` if there is nothing of this name.
pub(crate) fn stat(folder: &OwnedFd, name: &CStr) -> io::Result<Option<Stat>> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes what has this name in a folder and is no folder, if there is such a thing.
pub(crate) fn remove(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Removes the folder of this name in another one with everything in it, if there is such a thing. A link is removed itself.
pub(crate) fn remove_folder(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    // Of this path, only the name may be a link, and that is not followed.
    match std::fs::remove_dir_all(OsStr::from_bytes(below(folder.as_fd(), name).as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What a link holds.
pub(crate) fn target(folder: &OwnedFd, name: &CStr) -> io::Result<Vec<u8>> {
    Ok(fs::readlinkat(folder, name, Vec::new())?.into_bytes())
}

/// A thing in a tree whose owner, rights, times and attributes are read and set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Thing<'a> {
    /// A file that is open.
    Open(BorrowedFd<'a>),
    /// A name in a folder. A link is meant itself.
    Named(BorrowedFd<'a>, &'a CStr),
}

/// What is set besides rights and times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dress {
    /// Attributes, too.
    pub(crate) attributes: bool,
    /// The user may give files away.
    pub(crate) owner: bool,
}

impl Thing<'_> {
    /// Gives it the owner, the rights, the attributes and the time of `wanted`, as far as it has others.
    pub(crate) fn dress(self, wanted: &Facts, now: &Facts, dress: Dress) -> io::Result<()> {
        let owner = (dress.owner && wanted.uid != now.uid).then(|| Uid::from_raw(wanted.uid));
        let group = (wanted.gid != now.gid).then(|| Gid::from_raw(wanted.gid));
        let mut owned = (now.uid, now.gid);
        if owner.is_some() || group.is_some() {
            match self.own(owner, group) {
                Ok(()) => owned = (if dress.owner { wanted.uid } else { now.uid }, wanted.gid),
                // Only the superuser may choose any group.
                Err(Errno::PERM) if !dress.owner => {}
                Err(error) => return Err(error.into()),
            }
        }
        if dress.attributes {
            self.set_attributes(&wanted.attributes)?;
        }
        let is_link = matches!(wanted.kind, EntryKind::Link { .. });
        let mode = wanted.mode_as(owned.0, owned.1);
        // A change of owner may take rights away.
        if !is_link && (mode != now.mode || owned != (now.uid, now.gid)) {
            self.chmod(mode)?;
        }
        if !wanted.modified.is_kept_as(now.modified) || dress.attributes {
            self.set_time(wanted)?;
        }
        Ok(())
    }

    fn own(self, owner: Option<Uid>, group: Option<Gid>) -> rustix::io::Result<()> {
        match self {
            Self::Open(file) => fs::fchown(file, owner, group),
            Self::Named(folder, name) => fs::chownat(folder, name, owner, group, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn chmod(self, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self {
            Self::Open(file) => fs::fchmod(file, mode),
            Self::Named(folder, name) => {
                // A name may become a link at any time; what is open does not.
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = fs::openat(folder, name, flags, Mode::empty())?;
                fs::chmodat(CWD, opened(file.as_fd()), mode, AtFlags::empty())
            }
        }
    }

    fn set_time(self, wanted: &Facts) -> rustix::io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: wanted.modified.seconds, tv_nsec: i64::from(wanted.modified.nanos) },
        };
        match self {
            Self::Open(file) => fs::futimens(file, &times),
            Self::Named(folder, name) => fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Its extended attributes, ACLs among them, by their names.
    pub(crate) fn attributes(self) -> io::Result<Vec<Attribute>> {
        let mut names = vec![0; ATTRIBUTE_BYTES_MAX];
        let listed = match self {
            Self::Open(file) => fs::flistxattr(file, &mut names[..]),
            Self::Named(folder, name) => fs::llistxattr(below(folder, name), &mut names[..]),
        };
        let len = match listed {
            Err(Errno::OPNOTSUPP) => 0,
            len => len?,
        };
        let mut found = Vec::new();
        for name in names[..len].split(|byte| *byte == 0).filter(|name| is_copied(name)) {
            let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
            let got = match self {
                Self::Open(file) => fs::fgetxattr(file, name, &mut value[..]),
                Self::Named(folder, of) => fs::lgetxattr(below(folder, of), name, &mut value[..]),
            };
            match got {
                Ok(len) => {
                    value.truncate(len);
                    found.push(Attribute { name: name.to_vec(), value });
                }
                // Somebody has just removed it.
                Err(Errno::NODATA) => {}
                Err(error) => return Err(error.into()),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn set_attributes(self, wanted: &[Attribute]) -> io::Result<()> {
        let now = self.attributes()?;
        for old in now.iter().filter(|old| wanted.iter().all(|new| new.name != old.name)) {
            match self {
                Self::Open(file) => fs::fremovexattr(file, &old.name[..])?,
                Self::Named(folder, name) => fs::lremovexattr(below(folder, name), &old.name[..])?,
            }
        }
        for Attribute { name, value } in wanted.iter().filter(|new| !now.contains(new)) {
            match self {
                Self::Open(file) => fs::fsetxattr(file, &name[..], value, XattrFlags::empty())?,
                Self::Named(folder, of) => fs::lsetxattr(below(folder, of), &name[..], value, XattrFlags::empty())?,
            }
        }
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked has the root, too, until it becomes another program.
        let _ = fs::flock(&self.root, FlockOperation::Unlock);
    }
}

/// The path of what is open.
fn opened(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The path of a name in an open folder: there are no calls for attributes that take both.
fn below(folder: BorrowedFd<'_>, name: &CStr) -> CString {
    let path = [opened(folder).as_bytes(), b"/", name.to_bytes()].concat();
    CString::new(path).expect("neither part holds a zero byte")
}

/// Whether an attribute belongs to a file, and not to its file system, and may be set by this user.
fn is_copied(name: &[u8]) -> bool {
    let is_own = name.starts_with(b"user.") || ACLS.contains(&name);
    is_own || !name.is_empty() && !name.starts_with(b"system.") && rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_lock_of_a_tree_ends_with_it_although_a_forked_child_still_has_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let [first, next] = [(); 2].map(|()| Tree::open_plain(&dir.path().canonicalize().unwrap()).unwrap());
        let forked = first.root.try_clone().unwrap();
        assert!(first.try_lock().unwrap() && !next.try_lock().unwrap());
        drop(first);
        assert!(next.try_lock().unwrap());
        drop(forked);
    }

    #[test]
    fn a_destination_that_is_open_is_reached_through_no_link_and_not_taken_for_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().canonicalize().unwrap();
        let at = |name: &str| above.join(name);
        for name in ["to", "victim/folder"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let (tree, was_missing) = Tree::make_plain(&at("to"), Mode::RWXU).unwrap();
        assert!(!was_missing && tree.is_empty());
        tree.check_place().unwrap();
        symlink(at("victim"), at("to/link")).unwrap();
        let refused = tree.make(b"link", Mode::RWXU).unwrap_err().to_string();
        assert!(refused.starts_with("a link is in the place of "), "{refused}");
        let (folder, name) = tree.parent(b"link").unwrap();
        for _ in 0..2 {
            remove_folder(&folder, &name).unwrap();
        }
        std::fs::rename(at("to"), at("aside")).unwrap();
        symlink(at("victim"), at("to")).unwrap();
        let refused = tree.check_place().unwrap_err().to_string();
        assert!(refused.contains("is no longer the folder"), "{refused}");
        assert!(Tree::open_plain(&at("to")).is_err() && Tree::make_plain(&at("to/in"), Mode::RWXU).is_err());
        let (inner, was_missing) = tree.make(b"in", Mode::RWXU).unwrap();
        assert!(was_missing && inner.check_place().is_err() && at("aside/in").is_dir());
        assert!(at("victim/folder").is_dir() && !at("victim/in").exists());
    }
}
