//! A tree by the descriptor of its root: nothing in it is reached through a link.

use crate::entry::{Attribute, EntryKind, Facts};
use crate::limits::{ATTRIBUTE_BYTES_MAX, PATH_BYTES_MAX};
use crate::path::split;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The attributes in which Linux keeps ACLs.
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// A folder and what is below it.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    path: PathBuf,
    follows_links: bool,
}

impl Tree {
    /// Opens the root. A link at its own path is followed.
    pub(crate) fn open(path: &Path, follows_links: bool) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty())?;
        Ok(Self { root, path: path.to_owned(), follows_links })
    }

    /// Where the root is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path of the tree as one of the machine.
    pub(crate) fn full(&self, path: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(path))
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
        let mode = wanted.mode_as(owned);
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
