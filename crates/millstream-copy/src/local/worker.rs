//! A worker of a local copy: what it does with one entry. Pieces of large files are in `pieces.rs`.

use super::Job;
use super::transfer::{self, Ended, Transfer, clone, copy_on_server};
use crate::counts::Counts;
use crate::entry::{Entry, EntryKind, Facts, Hash, Time, changed, inode, is_sparse, modified, size_of};
use crate::error::{Error, is_final};
use crate::feed::Item;
use crate::hasher::Hasher;
use crate::manifest::{Journal, Note};
use crate::path::split;
use crate::policy::{Gone, Proof};
use crate::tree::{self, Dress, Thing, named};
use millstream_failpoint::hit_on_thread;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// What has become of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Copied,
    Same,
    Linked,
}

/// What has become of an entry, with what is known of it, or why it is not at the destination.
pub(super) type Copied = Result<(Outcome, Facts), Trouble>;

/// Why an entry is not at the destination.
pub(super) enum Trouble {
    /// The source has it no longer.
    Gone,
    /// It cannot be copied, for this reason.
    Reason(String),
    /// Nothing more can be copied.
    Final(Error),
    /// Somebody has stopped the copy.
    Stopped,
}

/// A thread that copies.
pub(super) struct Worker<'a> {
    pub(super) job: &'a Job<'a>,
    /// The name of the file that it writes.
    temporary: CString,
    journal: Journal,
    pub(super) buffer: Vec<u8>,
    /// The folder of the last entry, at both ends.
    folders: Option<Rc<Folders>>,
    pub(super) counts: Counts,
}

pub(super) struct Folders {
    path: Vec<u8>,
    source: OwnedFd,
    pub(super) destination: OwnedFd,
    /// Whether both lie in one file system.
    pub(super) is_one_device: bool,
}

/// Where a file that is whole gets its name.
pub(super) struct Names<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) temporary: &'a CStr,
    pub(super) name: &'a CStr,
}

impl<'a> Worker<'a> {
    pub(super) fn new(job: &'a Job<'a>, number: usize) -> Result<Self, Error> {
        let temporary = named(format!("{}{number}", job.temporary).as_bytes()).expect("it holds no zero byte");
        let journal = job.task.state.journal(number)?;
        Ok(Self { job, temporary, journal, buffer: transfer::buffer(), folders: None, counts: Counts::default() })
    }

    /// Copies an entry, and accounts for it.
    ///
    /// # Errors
    /// Nothing more can be copied.
    pub(super) fn item(&mut self, item: &Item) -> Result<Option<Facts>, Error> {
        let copied = self.entry(item);
        self.account(&item.entry.path, item.entry.facts.size(), copied)
    }

    /// Copies the names of one file: the first one as a file, the others as links to it.
    pub(super) fn group(&mut self, items: &[Item]) -> Result<(), Error> {
        let mut first: Option<(&[u8], Facts)> = None;
        for item in items {
            match &first {
                None => first = self.item(item)?.map(|facts| (&item.entry.path[..], facts)),
                Some((path, facts)) => {
                    let linked = self.link(item, path, facts);
                    self.account(&item.entry.path, item.entry.facts.size(), linked)?;
                }
            }
        }
        Ok(())
    }

    /// Accounts for an entry. `bytes`: those of it that no piece has counted.
    pub(super) fn account(&mut self, path: &[u8], bytes: u64, ended: Copied) -> Result<Option<Facts>, Error> {
        let done = match ended {
            Ok((outcome, facts)) => {
                match outcome {
                    Outcome::Copied => self.counts.copied(&facts),
                    Outcome::Same => self.counts.same += 1,
                    Outcome::Linked => self.counts.linked += 1,
                }
                Some(facts)
            }
            Err(Trouble::Final(error)) => return Err(error),
            Err(Trouble::Stopped) => return Ok(None),
            Err(Trouble::Gone) => {
                self.counts.skipped += 1;
                self.note(path, &Note::Absent)?;
                if self.job.task.policy.gone == Gone::Goes {
                    self.remove_copy(path)?;
                }
                None
            }
            Err(Trouble::Reason(reason)) => {
                self.counts.failed += 1;
                self.job.task.failures.add(path, reason);
                self.job.task.tally.failed.fetch_add(1, Relaxed);
                self.note(path, &Note::Absent)?;
                None
            }
        };
        self.job.task.tally.done(bytes);
        Ok(done)
    }

    /// Removes what an earlier copy has left of an entry that the source has no longer.
    fn remove_copy(&self, path: &[u8]) -> Result<(), Error> {
        let (folder, name) = split(path);
        let removed = self.job.destination.folder(folder).and_then(|folder| tree::remove(&folder, &named(name)?));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("remove", OsStr::from_bytes(path).as_ref())(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn note(&mut self, path: &[u8], note: &Note) -> Result<(), Error> {
        self.journal.add(path, note).map_err(Error::file("write to", self.job.task.state.folder()))
    }

    /// The folder of a path, at both ends.
    pub(super) fn folders(&mut self, path: &[u8]) -> Result<Rc<Folders>, Trouble> {
        let (folder, _) = split(path);
        if let Some(folders) = self.folders.as_ref().filter(|folders| folders.path == folder) {
            return Ok(Rc::clone(folders));
        }
        self.folders = None;
        let source = self.job.source.folder(split(self.job.task.place.source_path(path)).0).map_err(of_source)?;
        let destination = self.job.destination.folder(folder).map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::LOOP.raw_os_error() => {
                Trouble::Reason("its folder at the destination is reached by a link".to_owned())
            }
            _ => Trouble::Reason(format!("its folder at the destination cannot be opened: {error}")),
        })?;
        let stat = fs::fstat(&destination).map_err(io::Error::from).map_err(self.of_destination())?;
        let of_source = fs::fstat(&source).map_err(io::Error::from).map_err(of_source)?;
        let is_one_device = stat.st_dev == of_source.st_dev;
        let folders = Rc::new(Folders { path: folder.to_vec(), source, destination, is_one_device });
        self.folders = Some(Rc::clone(&folders));
        Ok(folders)
    }

    fn entry(&mut self, item: &Item) -> Copied {
        if self.job.task.tally.is_stopped() {
            return Err(Trouble::Stopped);
        }
        let path = &item.entry.path;
        let folders = self.folders(path)?;
        let name = named(split(path).1).map_err(self.of_destination())?;
        match &item.entry.facts.kind {
            EntryKind::File { .. } => match self.unchanged(item, &folders, &name)? {
                Some(facts) => Ok((Outcome::Same, facts)),
                None => self.copy_file(path, &folders, &name),
            },
            EntryKind::Folder => Err(Trouble::Reason("it has become a folder".to_owned())),
            _ => self.special(&item.entry, &folders, &name),
        }
    }

    /// Copies a file, again if it changes meanwhile.
    pub(super) fn copy_file(&mut self, path: &[u8], folders: &Folders, name: &CStr) -> Copied {
        let mut reads = 0;
        loop {
            reads += 1;
            let is_last = reads == self.job.task.policy.reads_max;
            match self.copy_once(path, folders, name, is_last) {
                Ok(Some(facts)) => return Ok((Outcome::Copied, facts)),
                Ok(None) => {}
                Err(trouble) => {
                    // What failed is said; a file that is left has a name of ours.
                    let _ = tree::remove(&folders.destination, &self.temporary);
                    return Err(trouble);
                }
            }
        }
    }

    /// The facts of a file that is at the destination already. Gives it the rights of the source.
    pub(super) fn unchanged(&mut self, item: &Item, folders: &Folders, name: &CStr) -> Result<Option<Facts>, Trouble> {
        let Some(there) = tree::stat(&folders.destination, name).map_err(self.of_destination())? else {
            return Ok(None);
        };
        let (now, mut facts) = (Facts::of(&there), item.entry.facts.clone());
        if now.kind == EntryKind::Folder {
            return Err(Trouble::Reason("a folder is in its place at the destination".to_owned()));
        }
        if !facts.is_same_file(&now) {
            return Ok(None);
        }
        let known = item.known.as_ref();
        let is_doubtful = match known {
            Some(Note::Doubtful(_)) => true,
            Some(Note::Done(done)) if done.is_same_file(&facts) => false,
            // Perhaps a run has copied it, and its note was lost with the bytes.
            _ => self.job.task.state.is_doubtful,
        };
        let noted = known.and_then(|note| note.hash_of(&facts));
        let proof = self.job.task.policy.proof(is_doubtful, noted);
        let (there, wanted) = match proof {
            Proof::Nothing => return Ok(None),
            Proof::Time => (None, None),
            Proof::Noted(hash) => (self.hash_of_copy(folders, name)?, Some(hash)),
            Proof::BothEnds => (self.hash_of_copy(folders, name)?, self.hash_of_source(&item.entry.path, folders)?),
        };
        // Without a hash, somebody has stopped the copy.
        if there != wanted || there.is_none() && proof != Proof::Time {
            return Ok(None);
        }
        // What the earlier copy has noted is no longer so if the bytes are others.
        let is_noted = matches!(known, Some(Note::Done(_))) && noted.is_some() && (there.is_none() || there == noted);
        let thing = Thing::Named(folders.destination.as_fd(), name);
        thing.dress(&facts, &now, self.job.dress).map_err(self.of_destination())?;
        if let Some(hash) = there.or(noted) {
            facts.set_hash(hash);
            if !is_noted {
                self.note(&item.entry.path, &Note::Done(facts.clone())).map_err(Trouble::Final)?;
            }
        }
        Ok(Some(facts))
    }

    /// The hash of what is at the destination. `None` if somebody has stopped the copy.
    fn hash_of_copy(&mut self, folders: &Folders, name: &CStr) -> Result<Option<Hash>, Trouble> {
        let file = open_to_read(&folders.destination, name).map_err(self.of_destination())?;
        self.hash_of(&file).map_err(self.of_destination())
    }

    /// The hash of what the source has now.
    fn hash_of_source(&mut self, path: &[u8], folders: &Folders) -> Result<Option<Hash>, Trouble> {
        let (source, _) = self.open_source(path, folders)?;
        self.hash_of(&source).map_err(of_source)
    }

    fn hash_of(&mut self, file: &OwnedFd) -> io::Result<Option<Hash>> {
        transfer::hash(self.job.task.policy.hashing, file, self.job.task.tally, &mut self.buffer)
    }

    pub(super) fn open_source(&self, path: &[u8], folders: &Folders) -> Result<(OwnedFd, Stat), Trouble> {
        let name = named(split(self.job.task.place.source_path(path)).1).map_err(of_source)?;
        let opened = if self.job.task.request.copy_links {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            fs::openat(&folders.source, name, flags, Mode::empty()).map_err(io::Error::from)
        } else {
            open_to_read(&folders.source, &name)
        };
        let source = opened.map_err(of_source)?;
        let stat = fs::fstat(&source).map_err(io::Error::from).map_err(of_source)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Trouble::Reason("it is no longer a file".to_owned()));
        }
        Ok((source, stat))
    }

    /// Copies a file under a temporary name and renames it. `None` if it changed meanwhile, unless this was the last try.
    fn copy_once(
        &mut self,
        path: &[u8],
        folders: &Folders,
        name: &CStr,
        is_last_try: bool,
    ) -> Result<Option<Facts>, Trouble> {
        let (source, stat) = self.open_source(path, folders)?;
        let mut facts = self.facts_of(&source, &stat)?;
        let destination = create(&folders.destination, &self.temporary).map_err(self.of_destination())?;
        let (size, hash) = self.fill(&source, &stat, &destination, folders.is_one_device)?;
        let after = fs::fstat(&source).map_err(io::Error::from).map_err(of_source)?;
        if has_changed(&stat, &after) || size != size_of(&stat) {
            if !is_last_try {
                return Ok(None);
            }
            self.counts.changed += u64::from(self.job.task.policy.minds_changes());
        }
        facts.kind = EntryKind::File { size, hash };
        let temporary = self.temporary.clone();
        let names = Names { folder: &folders.destination, temporary: &temporary, name };
        self.complete(path, &facts, &destination, &names)?;
        Ok(Some(facts))
    }

    pub(super) fn facts_of(&self, source: &OwnedFd, stat: &Stat) -> Result<Facts, Trouble> {
        let mut facts = Facts::of(stat);
        if self.job.dress.attributes {
            facts.attributes = Thing::Open(source.as_fd()).attributes().map_err(of_source)?;
        }
        Ok(facts)
    }

    /// Writes the bytes of a file. Returns how many, and their hash if they were read.
    fn fill(
        &mut self,
        source: &OwnedFd,
        stat: &Stat,
        destination: &OwnedFd,
        is_one_device: bool,
    ) -> Result<(u64, Option<Hash>), Trouble> {
        let size = size_of(stat);
        if is_one_device && self.is_cloned(source, destination)? {
            return Ok((size, None));
        }
        if is_one_device && self.job.is_on_server && !self.job.task.policy.hashes_all {
            return Ok((copy_on_server(source, destination, size).map_err(self.of_destination())?, None));
        }
        let is_sparse = is_sparse(stat);
        if is_sparse {
            fs::ftruncate(destination, size).map_err(io::Error::from).map_err(self.of_destination())?;
        }
        let (pace, tally) = (&self.job.pace, self.job.task.tally);
        let transfer = Transfer { source, destination, is_sparse, pace, tally };
        let mut hasher = Hasher::new(self.job.task.policy.hashing);
        let moved = transfer.run(0..size, |bytes| hasher.update(bytes), &mut self.buffer);
        let moved = moved.map_err(|ended| self.trouble(ended))?;
        if is_sparse && moved < size {
            fs::ftruncate(destination, moved).map_err(io::Error::from).map_err(self.of_destination())?;
        }
        Ok((moved, Some(hasher.finish())))
    }

    pub(super) fn is_cloned(&self, source: &OwnedFd, destination: &OwnedFd) -> Result<bool, Trouble> {
        if self.job.task.policy.hashes_all || !self.job.clones.load(Relaxed) {
            return Ok(false);
        }
        let is_cloned = clone(source, destination).map_err(self.of_destination())?;
        // If it cannot clone one file, it cannot clone others.
        if !is_cloned {
            self.job.clones.store(false, Relaxed);
        }
        Ok(is_cloned)
    }

    /// Gives a whole file its owner, rights and time, notes it, and gives it its name.
    pub(super) fn complete(
        &mut self,
        path: &[u8],
        facts: &Facts,
        file: &OwnedFd,
        names: &Names<'_>,
    ) -> Result<(), Trouble> {
        if self.job.is_to_server {
            // A server may say only now that it has no room. What it takes later would also change the time.
            fs::fdatasync(file).map_err(io::Error::from).map_err(self.of_destination())?;
        }
        let now = fs::fstat(file).map_err(io::Error::from).map_err(self.of_destination())?;
        Thing::Open(file.as_fd()).dress(facts, &untimed(&now), self.job.dress).map_err(self.of_destination())?;
        hit_on_thread("file-written");
        self.note(path, &Note::Done(facts.clone())).map_err(Trouble::Final)?;
        hit_on_thread("file-noted");
        rename(names.folder, names.temporary, names.name).map_err(self.of_destination())?;
        hit_on_thread("file-named");
        Ok(())
    }

    /// Makes a link, a pipe, a socket or a device.
    fn special(&mut self, entry: &Entry, folders: &Folders, name: &CStr) -> Copied {
        let (facts, folder) = (&entry.facts, &folders.destination);
        let failed = self.of_destination();
        if let Some(there) = tree::stat(folder, name).map_err(&failed)? {
            let mut now = Facts::of(&there);
            if now.kind == EntryKind::Folder {
                return Err(Trouble::Reason("a folder is in its place at the destination".to_owned()));
            }
            if let EntryKind::Link { target } = &mut now.kind {
                *target = tree::target(folder, name).map_err(&failed)?;
            }
            if now.kind == facts.kind {
                Thing::Named(folder.as_fd(), name).dress(facts, &now, self.job.dress).map_err(&failed)?;
                return Ok((Outcome::Same, facts.clone()));
            }
        }
        tree::remove(folder, &self.temporary).map_err(&failed)?;
        let mode = Mode::from_raw_mode(0o600);
        let made = match &facts.kind {
            EntryKind::Link { target } => fs::symlinkat(&target[..], folder, &self.temporary),
            EntryKind::Pipe => fs::mknodat(folder, &self.temporary, FileType::Fifo, mode, 0),
            EntryKind::Socket => fs::mknodat(folder, &self.temporary, FileType::Socket, mode, 0),
            EntryKind::Device { is_block, number } => {
                let kind = if *is_block { FileType::BlockDevice } else { FileType::CharacterDevice };
                fs::mknodat(folder, &self.temporary, kind, mode, *number)
            }
            EntryKind::File { .. } | EntryKind::Folder => Err(Errno::INVAL),
        };
        made.map_err(io::Error::from).map_err(&failed)?;
        let thing = Thing::Named(folder.as_fd(), &self.temporary);
        let made = tree::stat(folder, &self.temporary).and_then(|made| made.ok_or(io::ErrorKind::NotFound.into()));
        let dressed = made.and_then(|made| thing.dress(facts, &untimed(&made), self.job.dress));
        let placed = dressed.and_then(|()| rename(folder, &self.temporary, name));
        if let Err(error) = placed {
            let _ = tree::remove(folder, &self.temporary);
            return Err(failed(error));
        }
        Ok((Outcome::Copied, facts.clone()))
    }

    /// Makes another name of a file that is at the destination.
    fn link(&mut self, item: &Item, first: &[u8], facts: &Facts) -> Copied {
        if self.job.task.tally.is_stopped() {
            return Err(Trouble::Stopped);
        }
        let failed = self.of_destination();
        let folders = self.folders(&item.entry.path)?;
        let folder = &folders.destination;
        let name = named(split(&item.entry.path).1).map_err(&failed)?;
        let (first_folder, first_name) = self.job.destination.parent(first).map_err(&failed)?;
        let of_first = tree::stat(&first_folder, &first_name).map_err(&failed)?;
        let there = tree::stat(folder, &name).map_err(&failed)?;
        if let (Some(first), Some(there)) = (&of_first, &there)
            && inode(first) == inode(there)
        {
            return Ok((Outcome::Same, facts.clone()));
        }
        if there.is_some_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::Directory) {
            return Err(Trouble::Reason("a folder is in its place at the destination".to_owned()));
        }
        tree::remove(folder, &self.temporary).map_err(&failed)?;
        let linked = fs::linkat(&first_folder, &first_name, folder, &self.temporary, AtFlags::empty());
        linked.map_err(io::Error::from).map_err(&failed)?;
        self.note(&item.entry.path, &Note::Done(facts.clone())).map_err(Trouble::Final)?;
        if let Err(error) = rename(folder, &self.temporary, &name) {
            let _ = tree::remove(folder, &self.temporary);
            return Err(failed(error));
        }
        Ok((Outcome::Linked, facts.clone()))
    }

    /// Makes a folder that only we may enter until its content is complete. Returns whether it was missing.
    pub(super) fn folder(&mut self, path: &[u8]) -> Result<bool, Trouble> {
        let failed = self.of_destination();
        let (folder, name) = self.job.destination.parent(path).map_err(&failed)?;
        let mode = Mode::RWXU;
        match fs::mkdirat(&folder, &name, mode) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let there = tree::stat(&folder, &name).map_err(&failed)?;
        if let Some(there) = there.filter(|there| FileType::from_raw_mode(there.st_mode) == FileType::Directory) {
            self.open_to_us(Thing::Named(folder.as_fd(), &name), &there).map_err(&failed)?;
            return Ok(false);
        }
        // A file or a link: the source has a folder here.
        tree::remove(&folder, &name).map_err(&failed)?;
        fs::mkdirat(&folder, &name, mode).map_err(io::Error::from).map_err(&failed)?;
        Ok(true)
    }

    /// Lets us write in the root of the destination, which is there.
    pub(super) fn open_root(&self) -> Result<(), Trouble> {
        let root = self.job.destination.folder(b"").map_err(self.of_destination())?;
        let stat = fs::fstat(&root).map_err(io::Error::from);
        let opened = stat.and_then(|stat| self.open_to_us(Thing::Open(root.as_fd()), &stat));
        opened.map_err(self.of_destination())
    }

    /// Lets us write in a folder, unless we may write everywhere.
    fn open_to_us(&self, folder: Thing<'_>, stat: &Stat) -> io::Result<()> {
        if self.job.dress.owner {
            return Ok(());
        }
        let now = Facts::of(stat);
        let usable = Facts { mode: now.mode | 0o700, ..now.clone() };
        folder.dress(&usable, &now, Dress { attributes: false, owner: false })
    }

    /// Accounts for a folder whose content is complete, or that could not be made.
    pub(super) fn account_folder(&mut self, entry: &Entry, ended: Result<bool, Trouble>) -> Result<(), Error> {
        let outcome = ended.map(|was_missing| if was_missing { Outcome::Copied } else { Outcome::Same });
        self.account(&entry.path, 0, outcome.map(|outcome| (outcome, entry.facts.clone()))).map(drop)
    }

    /// What an error of the destination means.
    pub(super) fn of_destination(&self) -> impl Fn(io::Error) -> Trouble + use<'a> {
        let path = self.job.destination.path();
        move |error| match is_final(&error) {
            true => Trouble::Final(Error::Full { path: path.to_owned(), source: error }),
            false => Trouble::Reason(format!("the destination refuses: {error}")),
        }
    }

    pub(super) fn trouble(&self, ended: Ended) -> Trouble {
        match ended {
            Ended::Source(error) => of_source(error),
            Ended::Destination(error) => self.of_destination()(error),
            Ended::Stopped => Trouble::Stopped,
        }
    }
}

/// What an error of the source means.
pub(super) fn of_source(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::NotFound => Trouble::Gone,
        _ => Trouble::Reason(format!("the source cannot be read: {error}")),
    }
}

/// Opens a file, not what a link leads to, and without waiting for the other end of a pipe.
pub(crate) fn open_to_read(folder: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Its time of access stays, where the system lets us.
    match fs::openat(folder, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => Ok(fs::openat(folder, name, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}

/// Makes a file that nobody else may read yet. One that a killed run has left goes first.
pub(super) fn create(folder: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match fs::openat(folder, name, flags, mode) {
        Err(Errno::EXIST) => {
            tree::remove(folder, name)?;
            Ok(fs::openat(folder, name, flags, mode)?)
        }
        made => Ok(made?),
    }
}

fn rename(folder: &OwnedFd, from: &CStr, to: &CStr) -> io::Result<()> {
    Ok(fs::renameat(folder, from, folder, to)?)
}

pub(super) fn has_changed(before: &Stat, after: &Stat) -> bool {
    modified(before) != modified(after) || size_of(before) != size_of(after) || changed(before) != changed(after)
}

/// What is known of a file that was just written. Its time is still to be set, whatever it is.
fn untimed(stat: &Stat) -> Facts {
    // No file has this time.
    Facts { modified: Time { seconds: i64::MIN, nanos: 0 }, ..Facts::of(stat) }
}
