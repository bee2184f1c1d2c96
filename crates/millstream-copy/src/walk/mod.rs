//! Lists a tree by descriptors, in several threads, into a sorted manifest.

mod filter;
mod pattern;

pub(crate) use filter::Filter;
pub use filter::Rule;
pub use pattern::Pattern;

use crate::data_directory;
use crate::entry::{Attribute, Entry, EntryKind, Facts, Inode, inode};
use crate::error::Error;
use crate::folding::Folding;
use crate::limits::LISTED_ENTRIES_MAX;
use crate::manifest::{Header, Sorter, Writer, encode};
use crate::path::{join, shown_path};
use crate::tally::{Failures, Tally};
use crate::tree::{self, Thing, Tree};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes for names that the system returns at once.
const LISTING_BYTES: usize = 32 << 10;

/// What of a tree is listed.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    pub(crate) filter: Filter,
    pub(crate) copy_links: bool,
    pub(crate) one_file_system: bool,
    /// Only this name, under which it is listed.
    pub(crate) only: Option<(&'a [u8], &'a [u8])>,
    /// Bytes of the pieces in which large files are copied, if they are.
    pub(crate) piece_bytes: Option<u64>,
}

/// How a tree is listed.
pub(crate) struct Walk<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) scope: Scope<'a>,
    pub(crate) attributes: bool,
    /// A folder that is not listed: it holds the notes of copies.
    pub(crate) skip: Option<Inode>,
    /// Folders of the other end, which must not be below this one.
    pub(crate) others: &'a HashSet<Inode>,
    pub(crate) threads: usize,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: &'a Failures,
}

/// What was listed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listed {
    pub(crate) entries: u64,
    pub(crate) folders: u64,
    pub(crate) bytes: u64,
    /// Files that are copied in pieces, unless there are too many.
    pub(crate) large: u64,
    /// Bytes of a piece. Without them, no file is large.
    piece_bytes: Option<u64>,
    /// Entries that share an inode with others.
    pub(crate) shared: u64,
    /// Files that give the right to act as their owner or group.
    pub(crate) privileged: u64,
    /// Whether these rights are left out.
    pub(crate) leaves_out_rights: bool,
    /// Which names the destination takes for the same.
    pub(crate) folding: Folding,
    /// Files that may be the control files of data directories of PostgreSQL.
    controls: u64,
    /// Whether everything could be listed.
    pub(crate) is_whole: bool,
}

struct Folder {
    path: Vec<u8>,
    /// The folders that it is in, if links are followed: a link to one of them would never end.
    above: Option<Arc<Above>>,
}

struct Above {
    inode: Inode,
    above: Option<Arc<Above>>,
}

/// Folders that are still to be listed.
struct Queue {
    folders: Vec<Folder>,
    busy: usize,
    error: Option<Error>,
}

struct Shared<'a> {
    walk: &'a Walk<'a>,
    device: u64,
    queue: Mutex<Queue>,
    changed: Condvar,
    found: Mutex<(Sorter, Listed)>,
    /// Folders that were gone when they were to be listed.
    gone: Mutex<HashSet<Vec<u8>>>,
    folder: &'a Path,
    is_whole: AtomicBool,
}

impl Listed {
    /// Nothing so far.
    pub(crate) fn new(scope: &Scope<'_>) -> Self {
        Self { piece_bytes: scope.piece_bytes, ..Self::default() }
    }

    /// Whether this is a file that is copied in pieces.
    pub(crate) fn is_large(&self, facts: &Facts) -> bool {
        self.piece_bytes_of(facts).is_some()
    }

    /// Bytes of the pieces in which a file is copied. `None` if it is copied whole.
    pub(crate) fn piece_bytes_of(&self, facts: &Facts) -> Option<u64> {
        self.piece_bytes.filter(|bytes| facts.is_large(*bytes))
    }

    /// Counts an entry that was found.
    pub(crate) fn count(&mut self, entry: &Entry, tally: &Tally) {
        let Entry { path, facts } = entry;
        let size = facts.size();
        tally.found(size);
        self.entries += 1;
        self.bytes += size;
        self.folders += u64::from(facts.kind == EntryKind::Folder);
        self.shared += u64::from(facts.shared.is_some());
        self.large += u64::from(self.is_large(facts));
        self.privileged += u64::from(facts.is_privileged());
        self.controls += u64::from(data_directory::is_control(path));
    }

    /// Whether there may be data directories of PostgreSQL.
    pub(crate) fn may_hold_clusters(&self) -> bool {
        self.controls > 0
    }
}

impl Walk<'_> {
    /// Lists the tree into a manifest. What cannot be listed is a failure.
    ///
    /// # Errors
    /// The root cannot be listed, or the manifest cannot be written.
    pub(crate) fn list(&self, header: &Header, manifest: &Path, folder: &Path) -> Result<Listed, Error> {
        let root = self.tree.root_stat().map_err(Error::file("look at", self.tree.path()))?;
        let shared = Shared::new(self, &root, folder);
        match self.scope.only {
            Some((from, to)) => shared.list_one(from, to)?,
            None => {
                self.scope.filter.refuse_root(self.tree.path())?;
                shared.keep(vec![Entry { path: Vec::new(), facts: self.root_facts(&root)? }])?;
                let above = self.scope.copy_links.then(|| Arc::new(Above { inode: inode(&root), above: None }));
                lock(&shared.queue).folders.push(Folder { path: Vec::new(), above });
                std::thread::scope(|scope| {
                    for _ in 0..self.threads {
                        scope.spawn(|| shared.work());
                    }
                });
            }
        }
        if let Some(error) = lock(&shared.queue).error.take() {
            return Err(error);
        }
        shared.write(header, manifest).map_err(Error::file("write", manifest))
    }

    fn root_facts(&self, stat: &Stat) -> Result<Facts, Error> {
        let mut facts = Facts::of(stat);
        if self.attributes {
            let folder = self.tree.folder(b"");
            let read = folder.and_then(|folder| Thing::Open(folder.as_fd()).attributes());
            facts.attributes = read.map_err(Error::file("read the attributes of", self.tree.path()))?;
        }
        Ok(facts)
    }
}

impl<'a> Shared<'a> {
    fn new(walk: &'a Walk<'a>, root: &Stat, folder: &'a Path) -> Self {
        Self {
            walk,
            device: root.st_dev,
            queue: Mutex::new(Queue { folders: Vec::new(), busy: 0, error: None }),
            changed: Condvar::new(),
            found: Mutex::new((Sorter::new(folder), Listed::new(&walk.scope))),
            gone: Mutex::default(),
            folder,
            is_whole: AtomicBool::new(true),
        }
    }

    fn work(&self) {
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        while let Some(folder) = self.next() {
            let listed = self.list(&folder, &mut buffer);
            let mut queue = lock(&self.queue);
            queue.busy -= 1;
            match listed {
                Ok(folders) => queue.folders.extend(folders),
                Err(error) => queue.error = Some(error),
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// The next folder. `None` once all are listed.
    fn next(&self) -> Option<Folder> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.error.is_some() || self.walk.tally.is_stopped() {
                return None;
            }
            if let Some(folder) = queue.folders.pop() {
                queue.busy += 1;
                return Some(folder);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lists a folder, keeps its entries and returns the folders in it.
    fn list(&self, folder: &Folder, buffer: &mut Vec<u8>) -> Result<Vec<Folder>, Error> {
        let (mut entries, mut inner) = (Vec::new(), Vec::new());
        let opened = match self.walk.tree.folder(&folder.path) {
            Ok(opened) => opened,
            Err(error) if folder.path.is_empty() => return Err(Error::file("list", self.walk.tree.path())(error)),
            // The name of a folder that cannot be mounted is there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.walk.tree.holds(&folder.path) => {
                lock(&self.gone).insert(folder.path.clone());
                return Ok(inner);
            }
            Err(error) => {
                self.failed(&folder.path, format!("what is in it cannot be listed: {error}"));
                return Ok(inner);
            }
        };
        let mut names = RawDir::new(&opened, buffer.spare_capacity_mut());
        while let Some(name) = names.next() {
            let name = match name {
                Ok(name) => name,
                Err(error) => {
                    self.failed(&folder.path, format!("what is in it cannot be listed: {error}"));
                    break;
                }
            };
            let name = name.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let path = join(&folder.path, name.to_bytes());
            let Some((mut facts, stat)) = self.look(&opened, name, &path) else { continue };
            let is_folder = facts.kind == EntryKind::Folder;
            if is_folder && self.walk.skip == Some(inode(&stat)) {
                continue;
            }
            facts.is_closed = is_folder && self.walk.scope.one_file_system && stat.st_dev != self.device;
            if is_folder && !facts.is_closed {
                if self.walk.others.contains(&inode(&stat)) {
                    return Err(self.meets(&path));
                }
                if !self.descends(folder, &stat, &path) {
                    continue;
                }
                let above = folder.above.as_ref();
                let above = above.map(|above| Above { inode: inode(&stat), above: Some(Arc::clone(above)) });
                inner.push(Folder { path: path.clone(), above: above.map(Arc::new) });
            }
            entries.push(Entry { path, facts });
            if entries.len() == LISTED_ENTRIES_MAX {
                self.keep(std::mem::take(&mut entries))?;
            }
        }
        self.keep(entries)?;
        Ok(inner)
    }

    /// Why a folder of the other end is no folder of this one: what is in it would be copied onto itself, or deleted with its
    /// source.
    fn meets(&self, path: &[u8]) -> Error {
        let path = shown_path(self.walk.tree.full(path));
        let says = format!("the source and the destination both hold the folder {path}, perhaps by a mount");
        Error::refused(says, "unmount it, or copy without deleting")
    }

    /// What the system says of a name. `None` if it is not copied.
    fn look(&self, folder: &OwnedFd, name: &CStr, path: &[u8]) -> Option<(Facts, Stat)> {
        let flags = if self.walk.scope.copy_links { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match statat(folder, name, flags) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if !self.walk.scope.copy_links => return None,
            Err(error) => {
                // Rules are asked first: what is excluded cannot fail.
                if self.walk.scope.filter.takes(path, false) {
                    let reason = match error {
                        Errno::NOENT => "the link leads nowhere".to_owned(),
                        Errno::LOOP => "the link leads in a circle".to_owned(),
                        error => io::Error::from(error).to_string(),
                    };
                    self.failed(path, reason);
                }
                return None;
            }
        };
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !self.walk.scope.filter.takes(path, is_folder) {
            return None;
        }
        let mut facts = Facts::of(&stat);
        if let EntryKind::Link { target } = &mut facts.kind {
            *target = self.read(path, "the link", tree::target(folder, name))?;
        }
        if self.walk.attributes {
            facts.attributes = self.read(path, "its attributes", self.attributes(folder, name, &facts.kind))?;
        }
        Some((facts, stat))
    }

    /// What was read of an entry. If it cannot be read, the entry has failed.
    fn read<T>(&self, path: &[u8], what: &str, read: io::Result<T>) -> Option<T> {
        read.map_err(|error| self.failed(path, format!("{what} cannot be read: {error}"))).ok()
    }

    /// Whether a folder is not one of those that it is in.
    fn descends(&self, folder: &Folder, stat: &Stat, path: &[u8]) -> bool {
        let inode = inode(stat);
        let mut above = std::iter::successors(folder.above.as_ref(), |folder| folder.above.as_ref());
        let is_new = above.all(|folder| folder.inode != inode);
        if !is_new {
            self.failed(path, "the link leads to a folder that it is in");
        }
        is_new
    }

    fn attributes(&self, folder: &OwnedFd, name: &CStr, kind: &EntryKind) -> io::Result<Vec<Attribute>> {
        if !self.walk.scope.copy_links {
            return Thing::Named(folder.as_fd(), name).attributes();
        }
        // Of a link, those of what it leads to count. Opening a device may have effects.
        match kind {
            EntryKind::Folder | EntryKind::File { .. } => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                Thing::Open(openat(folder, name, flags, Mode::empty())?.as_fd()).attributes()
            }
            _ => Ok(Vec::new()),
        }
    }

    fn list_one(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let full = self.walk.tree.full(from);
        let opened = self.walk.tree.folder(b"").map_err(Error::file("open", self.walk.tree.path()))?;
        let name = tree::named(from).map_err(Error::file("open", &full))?;
        // Rules ask for the name that it has in the source.
        match self.look(&opened, &name, from) {
            Some((facts, _)) => self.keep(vec![Entry { path: to.to_vec(), facts }]),
            None => Ok(()),
        }
    }

    fn failed(&self, path: &[u8], reason: impl Into<String>) {
        self.is_whole.store(false, Relaxed);
        self.walk.tally.found(0);
        self.walk.failures.add(path, reason);
    }

    fn keep(&self, entries: Vec<Entry>) -> Result<(), Error> {
        let bodies: io::Result<Vec<_>> = entries.iter().map(|entry| encode(&entry.facts)).collect();
        let bodies = bodies.map_err(Error::file("write to", self.folder))?;
        let mut found = lock(&self.found);
        let (sorter, listed) = &mut *found;
        for (entry, body) in entries.iter().zip(bodies) {
            listed.count(entry, self.walk.tally);
            sorter.push(&entry.path, &body).map_err(Error::file("write to", self.folder))?;
        }
        Ok(())
    }

    /// Writes the manifest. Returns what was listed.
    fn write(self, header: &Header, manifest: &Path) -> io::Result<Listed> {
        let (sorter, mut listed) = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        listed.is_whole = self.is_whole.into_inner() && !self.walk.tally.is_stopped();
        let gone = self.gone.into_inner().unwrap_or_else(PoisonError::into_inner);
        Writer::write_list(manifest, header, sorter, |path| {
            // It was perhaps renamed, and its new name not listed: what its copy holds is not deleted this time.
            gone.contains(path).then_some(|facts: &mut Facts| facts.is_closed = true)
        })?;
        Ok(listed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Reader;

    #[test]
    fn a_listed_folder_that_is_not_found_is_no_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("from/renamed")).unwrap();
        // What it leads to is not found, as with a folder that cannot be mounted.
        std::os::unix::fs::symlink("nowhere", dir.path().join("from/unmounted")).unwrap();
        let (tree, manifest) = (Tree::open(&dir.path().join("from"), true).unwrap(), dir.path().join("list"));
        let (scope, tally) = (Scope { copy_links: true, ..Scope::default() }, Tally::default());
        let failures = Failures::default();
        let (attributes, skip, threads) = (false, None, 1);
        let (tally, failures, others) = (&tally, &failures, &HashSet::new());
        let walk = Walk { tree: &tree, scope, attributes, skip, others, threads, tally, failures };
        let shared = Shared::new(&walk, &tree.root_stat().unwrap(), dir.path());
        let list =
            |path: &[u8]| shared.list(&Folder { path: path.to_vec(), above: None }, &mut Vec::with_capacity(4_096));
        assert_eq!(list(b"").unwrap().len(), 1);
        std::fs::rename(dir.path().join("from/renamed"), dir.path().join("from/other")).unwrap();
        shared.is_whole.store(true, Relaxed);
        list(b"renamed").unwrap();
        list(b"renamed/inner").unwrap();
        assert!(shared.is_whole.load(Relaxed));
        list(b"unmounted").unwrap();
        assert!(!shared.is_whole.load(Relaxed));
        shared.write(&Header::default(), &manifest).unwrap();
        let entry = Reader::open(&manifest).unwrap().next().unwrap().unwrap();
        assert_eq!((&entry.path[..], entry.facts.is_closed), (&b"renamed"[..], true));
    }
}
