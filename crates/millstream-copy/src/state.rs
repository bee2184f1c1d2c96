//! What a copy keeps between its runs: a manifest, and while it is unfinished, journals.

use crate::entry::{Entry, EntryKind, Facts, Inode, inode};
use crate::error::Error;
use crate::hasher::Hashing;
use crate::manifest::{self, Header, Journal, Note, Notes, Piece, Reader, Sorted, Sorter, Writer};
use crate::path::order;
use crate::place::Place;
use millstream_host::{FileLock, PRIVATE, check_ours, make_ours, read_note, write_private};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hash, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Names of the files in the folder of a copy.
const LOCK: &str = "lock";
const MANIFEST: &str = "manifest";
const KNOWN: &str = "known";
const LIST: &str = "list";
/// The starts of the machine on which unfinished runs have begun, one a line.
const BOOT: &str = "boot";
/// How these runs hash files.
const HASHING: &str = "hashing";
/// Holds the digits with which the names of unfinished files begin.
const TOKEN: &str = "token";
const FAILURES: &str = "failures.ndjson";
/// How the names of notes begin that name a slot on a server, which goes on to keep WAL.
pub(crate) const SLOTS: &str = "slot-";
/// How lists of names begin that rsync reads.
pub(crate) const NAMES: &str = "names.";

/// The folder of a copy, which no other process uses meanwhile, and no other account may enter.
pub(crate) struct State {
    folder: PathBuf,
    /// Sixteen digits that no other copy has, also of another user or machine to the same destination.
    pub(crate) token: String,
    hashing: Hashing,
    /// Whether an earlier run has not reached its end.
    pub(crate) is_resumed: bool,
    /// Whether the machine was started again since one of these began. The notes that it made last may be lost, too.
    pub(crate) is_doubtful: bool,
    /// Pieces of large files that an earlier run has copied.
    pub(crate) pieces: BTreeMap<Vec<u8>, Vec<Piece>>,
    _lock: FileLock,
}

impl State {
    /// Opens the folder of a copy to this destination that hashes files so. Gathers what earlier runs have noted.
    ///
    /// # Errors
    /// Another copy writes there; the folder cannot be written, or somebody else may change it.
    pub(crate) fn open(home: &Path, destination: &Path, hashing: Hashing) -> Result<Self, Error> {
        let folder = Self::folder_of(home, destination);
        // Whoever writes there decides what counts as copied.
        for private in [home, folder.as_path()] {
            make_ours(private, PRIVATE)?;
        }
        let lock = FileLock::try_take(&folder.join(LOCK)).map_err(Error::file("lock", &folder))?;
        let lock = lock.ok_or_else(|| Error::Busy { path: destination.to_owned() })?;
        let token = token(&folder.join(TOKEN))?;
        let pieces = BTreeMap::new();
        let mut state = Self { folder, token, hashing, is_resumed: false, is_doubtful: false, pieces, _lock: lock };
        state.sweep()?;
        state.gather()?;
        Ok(state)
    }

    /// Forgets what copies to a destination have noted of its files, which is no longer true. `folder`: that of
    /// [`Self::folder_of`].
    ///
    /// # Errors
    /// Another copy writes there; the folder cannot be emptied.
    pub(crate) fn forget(folder: &Path, destination: &Path) -> Result<(), Error> {
        if check_ours(folder)?.is_none() {
            return Ok(());
        }
        let lock = FileLock::try_take(&folder.join(LOCK)).map_err(Error::file("lock", folder))?;
        let _lock = lock.ok_or_else(|| Error::Busy { path: destination.to_owned() })?;
        let failed = Error::file("empty", folder);
        for entry in fs::read_dir(folder).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let name = entry.file_name();
            if name != LOCK && !name.as_bytes().starts_with(SLOTS.as_bytes()) {
                fs::remove_file(entry.path()).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// The folder of copies to a destination.
    pub(crate) fn folder_of(home: &Path, destination: &Path) -> PathBuf {
        home.join(format!("{:016x}", xxh3_64(destination.as_os_str().as_bytes())))
    }

    /// The manifest of the last finished copy, in such a folder.
    pub(crate) fn manifest_in(folder: &Path) -> PathBuf {
        folder.join(MANIFEST)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of all copies, which is never copied or deleted.
    pub(crate) fn home(&self) -> Option<Inode> {
        rustix::fs::stat(self.folder.parent()?).ok().map(|stat| inode(&stat))
    }

    /// Where the source is listed.
    pub(crate) fn list(&self) -> PathBuf {
        self.folder.join(LIST)
    }

    /// Where the manifest of the last finished run is.
    pub(crate) fn manifest(&self) -> PathBuf {
        Self::manifest_in(&self.folder)
    }

    /// Where failures are written.
    pub(crate) fn failures(&self) -> PathBuf {
        self.folder.join(FAILURES)
    }

    /// A journal for a worker.
    pub(crate) fn journal(&self, worker: usize) -> Result<Journal, Error> {
        Journal::create(&self.folder, worker).map_err(Error::file("write to", &self.folder))
    }

    /// Notes that a run has begun, on this start of the machine. Until one has finished, the starts before count, too.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        let hashing = self.folder.join(HASHING);
        write_private(&hashing, self.hashing.name()).map_err(Error::file("write", &hashing))?;
        let path = self.folder.join(BOOT);
        let before = read_note(&path).map_err(Error::file("read", &path))?.unwrap_or_default();
        let now = boot();
        let others = before.lines().filter(|boot| *boot != now);
        let boots: String = others.chain([&now[..]]).map(|boot| format!("{boot}\n")).collect();
        write_private(&path, &boots).map_err(Error::file("write", &path))
    }

    /// Removes the lists of names that a killed run has left.
    fn sweep(&self) -> Result<(), Error> {
        let left = manifest::files_named(&self.folder, NAMES).map_err(Error::file("list", &self.folder))?;
        left.iter().try_for_each(fs::remove_file).map_err(Error::file("tidy", &self.folder))
    }

    /// Joins the journals of unfinished runs into one sorted file.
    fn gather(&mut self) -> Result<(), Error> {
        let failed = Error::file("read", &self.folder);
        let known = self.folder.join(KNOWN);
        let journals = manifest::files_named(&self.folder, manifest::JOURNALS).map_err(&failed)?;
        let boots = read_note(&self.folder.join(BOOT)).map_err(&failed)?;
        self.is_resumed = !journals.is_empty() || known.exists() || boots.is_some();
        if !self.is_resumed {
            return Ok(());
        }
        // What was not yet on the disk when the machine stopped is lost, and nobody knows what that was.
        let (boots, now) = (boots.unwrap_or_default(), boot());
        let is_doubtful = boots.lines().last() != Some(&now);
        self.is_doubtful = is_doubtful || boots.lines().any(|boot| boot != now);
        let hashing = read_note(&self.folder.join(HASHING)).map_err(&failed)?;
        let forgets_hashes = hashing.is_some_and(|hashing| hashing != self.hashing.name());
        let gathered = (|| {
            let mut sorter = Sorter::new(&self.folder);
            // What is known holds what the manifest did.
            let mut old = if known.exists() { Old::default() } else { Old::open(&self.manifest(), self.hashing)? };
            while let Some((path, facts)) = old.next()? {
                sorter.push(&path, &manifest::encode(&Note::Done(facts))?)?;
            }
            for file in known.exists().then_some(&known).into_iter().chain(&journals) {
                let mut notes = manifest::read_journal(file)?;
                while let Some((path, note)) = notes.next()? {
                    let Some(note) = note.after(is_doubtful) else { continue };
                    let note = if forgets_hashes { note.without_hash() } else { note };
                    sorter.push(&path, &manifest::encode(&note)?)?;
                }
            }
            let new = self.folder.join(format!("{KNOWN}{}", millstream_host::NEW));
            self.write_known(&new, sorter.finish()?)?;
            fs::rename(&new, &known)
        })();
        gathered.map_err(&failed)?;
        for journal in journals {
            fs::remove_file(&journal).map_err(&failed)?;
        }
        Ok(())
    }

    /// Writes the last note of each path, and the pieces behind it.
    fn write_known(&mut self, path: &Path, sorted: Sorted) -> io::Result<()> {
        let mut file = Journal::create_at(path)?;
        let mut all = Source::Sorted(sorted);
        let (mut now, mut notes) = (Vec::new(), Vec::new());
        while let Some((path, note)) = all.next()? {
            if path != now {
                self.keep(&mut file, &now, &notes)?;
                (now, notes) = (path, Vec::new());
            }
            if !matches!(note, Note::Piece(_)) {
                notes.clear();
            }
            notes.push(note);
        }
        self.keep(&mut file, &now, &notes)?;
        file.finish()
    }

    fn keep(&mut self, file: &mut Journal, path: &[u8], notes: &[Note]) -> io::Result<()> {
        for note in notes {
            file.add(path, note)?;
            if let Note::Piece(piece) = note {
                self.pieces.entry(path.to_vec()).or_default().push(piece.clone());
            }
        }
        Ok(())
    }

    /// What earlier runs know, in the order of paths.
    pub(crate) fn known(&self) -> Result<Known, Error> {
        let path = self.folder.join(KNOWN);
        let source = if path.exists() {
            Source::Notes(manifest::read_journal(&path).map_err(Error::file("read", &path))?)
        } else {
            let manifest = self.manifest();
            Source::Old(Old::open(&manifest, self.hashing).map_err(Error::file("read", &manifest))?)
        };
        Ok(Known { source, next: None, is_over: false })
    }

    /// Writes the list of the source again. `keep` may change an entry, and says whether it stays.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub(crate) fn rewrite_list(&self, mut keep: impl FnMut(&mut Entry) -> bool) -> Result<(), Error> {
        let path = self.list();
        let failed = Error::file("write to", &self.folder);
        let new = self.folder.join(format!("{LIST}{}", millstream_host::NEW));
        let mut list = Reader::open(&path).map_err(Error::manifest(&path))?;
        let mut writer = Writer::create(&new, &list.header).map_err(&failed)?;
        while let Some(mut entry) = list.next().map_err(Error::manifest(&path))? {
            if keep(&mut entry) {
                writer.push_entry(&entry).map_err(&failed)?;
            }
        }
        writer.finish().and_then(|()| fs::rename(&new, &path)).map_err(failed)
    }

    /// Makes the manifest of what is at the destination, and forgets the journals.
    ///
    /// Entries of earlier copies to the same destination stay in it, unless `forgets`: then what the source has not is gone.
    pub(crate) fn finish(&self, header: &Header, forgets: bool) -> Result<Finished, Error> {
        let failed = Error::file("write to", &self.folder);
        let new = self.folder.join(format!("{MANIFEST}{}", millstream_host::NEW));
        let journals = manifest::files_named(&self.folder, manifest::JOURNALS).map_err(&failed)?;
        let mut known = self.known()?;
        let mut list = Reader::open(&self.list()).map_err(Error::manifest(&self.list()))?;
        let finished = (|| {
            let mut sorter = Sorter::new(&self.folder);
            for journal in &journals {
                let mut notes = manifest::read_journal(journal)?;
                while let Some((path, note)) = notes.next()? {
                    if !matches!(note, Note::Piece(_)) {
                        sorter.push(&path, &manifest::encode(&note)?)?;
                    }
                }
            }
            let mut journal = Known { source: Source::Sorted(sorter.finish()?), next: None, is_over: false };
            let mut writer = Writer::create(&new, header)?;
            let mut finished = Finished::default();
            while let Some(mut entry) = list.next()? {
                while let Some((path, note)) = known.before(&entry.path)? {
                    keep_old(&mut writer, &path, note, forgets)?;
                }
                let before = known.at(&entry.path)?;
                match journal.at(&entry.path)? {
                    Some(Note::Absent) => continue,
                    Some(Note::Done(facts)) => entry.facts = facts,
                    _ => {
                        if let Some(hash) = before.and_then(|note| note.hash_of(&entry.facts)) {
                            entry.facts.set_hash(hash);
                        }
                    }
                }
                if matches!(entry.facts.kind, EntryKind::File { .. }) {
                    finished.hashed += u64::from(entry.facts.hash().is_some());
                    finished.unhashed += u64::from(entry.facts.hash().is_none());
                }
                writer.push_entry(&entry)?;
            }
            while let Some((path, note)) = known.next()? {
                keep_old(&mut writer, &path, note, forgets)?;
            }
            writer.finish()?;
            fs::rename(&new, self.manifest())?;
            Ok(finished)
        })();
        let finished = finished.map_err(&failed)?;
        // The run is unfinished until all others are gone.
        for path in journals.into_iter().chain([self.folder.join(KNOWN), self.list(), self.folder.join(BOOT)]) {
            millstream_host::remove_whole(&path).map_err(&failed)?;
        }
        Ok(finished)
    }
}

/// What the manifest of a finished run holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Finished {
    /// Files with a hash.
    pub(crate) hashed: u64,
    /// Files that nobody has read.
    pub(crate) unhashed: u64,
}

/// Keeps what an earlier copy knows of an entry that the source does not have.
fn keep_old(writer: &mut Writer, path: &[u8], note: Note, forgets: bool) -> io::Result<()> {
    match note {
        Note::Done(facts) | Note::Doubtful(facts) if !forgets => writer.push(path, &manifest::encode(&facts)?),
        _ => Ok(()),
    }
}

/// What earlier runs know about paths, read in their order.
pub(crate) struct Known {
    source: Source,
    next: Option<(Vec<u8>, Note)>,
    is_over: bool,
}

enum Source {
    Old(Old),
    Notes(Notes),
    Sorted(Sorted),
}

impl Known {
    /// The next note.
    fn next(&mut self) -> io::Result<Option<(Vec<u8>, Note)>> {
        self.look()?;
        Ok(self.next.take())
    }

    /// The next note about a path before this one.
    fn before(&mut self, path: &[u8]) -> io::Result<Option<(Vec<u8>, Note)>> {
        self.look()?;
        Ok(self.next.take_if(|(next, _)| order(next, path) == Ordering::Less))
    }

    fn look(&mut self) -> io::Result<()> {
        if self.next.is_none() && !self.is_over {
            self.next = self.source.next()?;
            self.is_over = self.next.is_none();
        }
        Ok(())
    }

    /// The last note about a path that is no piece. Paths must be asked for in order.
    pub(crate) fn at(&mut self, path: &[u8]) -> io::Result<Option<Note>> {
        let mut found = None;
        loop {
            self.look()?;
            let Some((next, _)) = &self.next else { return Ok(found) };
            match order(next, path) {
                Ordering::Less => self.next = None,
                Ordering::Greater => return Ok(found),
                Ordering::Equal => {
                    let note = self.next.take().map(|(_, note)| note);
                    found = note.filter(|note| !matches!(note, Note::Piece(_))).or(found);
                }
            }
        }
    }
}

impl Source {
    fn next(&mut self) -> io::Result<Option<(Vec<u8>, Note)>> {
        match self {
            Self::Old(old) => Ok(old.next()?.map(|(path, facts)| (path, Note::Done(facts)))),
            Self::Notes(notes) => notes.next(),
            Self::Sorted(sorted) => {
                let decoded = |(path, body): (_, Vec<u8>)| Ok((path, manifest::decode(&body, manifest::NO_NOTE)?));
                sorted.next()?.map(decoded).transpose()
            }
        }
    }
}

/// The manifest of the last finished run, if there is a whole one.
#[derive(Default)]
struct Old {
    reader: Option<Box<Reader>>,
    /// Whether it has hashes of another kind than ours.
    forgets_hashes: bool,
}

impl Old {
    fn open(path: &Path, hashing: Hashing) -> io::Result<Self> {
        let reader = match Reader::open(path) {
            // Without it, nothing is known; the copy is not wrong.
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::InvalidData].contains(&error.kind()) => {
                return Ok(Self::default());
            }
            reader => reader?,
        };
        let forgets_hashes = reader.header.is_sha256 != (hashing == Hashing::Sha256);
        Ok(Self { reader: Some(Box::new(reader)), forgets_hashes })
    }

    fn next(&mut self) -> io::Result<Option<(Vec<u8>, Facts)>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let known = |facts: Facts| if self.forgets_hashes { facts.without_hash() } else { facts };
        match reader.next() {
            Ok(entry) => Ok(entry.map(|entry| (entry.path, known(entry.facts)))),
            Err(error) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData].contains(&error.kind()) => {
                self.reader = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The header of the copy's manifest.
pub(crate) fn header(place: &Place, destination: &Path, has_attributes: bool, hashing: Hashing) -> Header {
    Header {
        source: place.source.display().to_string(),
        destination: destination.as_os_str().as_bytes().to_vec(),
        file: place.file.as_ref().map(|single| single.to.clone()),
        has_attributes,
        is_sha256: hashing == Hashing::Sha256,
    }
}

/// Manifests of finished copies.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    /// Each with what it is about.
    pub(crate) whole: Vec<(PathBuf, Header)>,
    /// Why others cannot be read.
    pub(crate) damaged: Vec<Error>,
}

/// Finds the manifests of finished copies.
///
/// # Errors
/// The folder cannot be listed, or somebody else may change it or a manifest in it.
pub(crate) fn finished(home: &Path) -> Result<Manifests, Error> {
    check_ours(home)?;
    let entries = match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Manifests::default()),
        entries => entries.map_err(Error::file("list", home))?,
    };
    let mut found = Manifests::default();
    for entry in entries {
        let path = entry.map_err(Error::file("list", home))?.path().join(MANIFEST);
        // What is made for a copy of a cluster lies there too, and belongs to the server's account.
        if fs::symlink_metadata(&path).is_ok() {
            check_ours(&path)?;
        }
        match Reader::open(&path) {
            Ok(reader) => found.whole.push((path, reader.header)),
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {}
            Err(error) => found.damaged.push(Error::manifest(&path)(error)),
        }
    }
    Ok(found)
}

/// The digits of a copy, which are chosen once.
fn token(path: &Path) -> Result<String, Error> {
    if let Some(known) = read_note(path).map_err(Error::file("read", path))? {
        return Ok(known);
    }
    let token = format!("{:016x}", random(path));
    write_private(path, &token).map_err(Error::file("write", path))?;
    Ok(token)
}

/// A number that is another one each time.
pub(crate) fn random(of: impl Hash) -> u64 {
    RandomState::new().hash_one(of)
}

/// The machine's start, as the kernel names it. No other machine has one of this name.
pub(crate) fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow;
    use crate::policy::{Policy, Same};
    use crate::request::Request;
    use crate::tally::Tally;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn no_other_account_may_read_or_write_the_notes_of_copies() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("from")).unwrap();
        fs::write(path("from/file"), "text").unwrap();
        let request = Request::new(path("from/"), path("to"), path("home"));
        // Somebody may have put notes there.
        fs::create_dir(path("home")).unwrap();
        fs::set_permissions(path("home"), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = flow::copy(&request, &Tally::default(), &|_| false).unwrap_err();
        assert!(refused.to_string().starts_with("others than its owner may write to"), "{refused}");
        fs::remove_dir(path("home")).unwrap();
        flow::copy(&request, &Tally::default(), &|_| false).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
        let folder = fs::read_dir(path("home")).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&path("home")), mode(&folder)), (0o700, 0o700));
        let notes: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|note| note.unwrap().path()).collect();
        assert!(notes.contains(&folder.join(MANIFEST)) && notes.contains(&folder.join(TOKEN)), "{notes:?}");
        notes.iter().for_each(|note| assert_eq!(mode(note), 0o600, "{}", note.display()));
    }

    #[test]
    fn hashes_of_one_kind_are_not_taken_for_those_of_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("from")).unwrap();
        fs::write(path("from/file"), "text").unwrap();
        let mut request = Request::new(path("from/"), path("to"), path("home"));
        request.policy = Some(Policy::of_cluster(Same::ByBytes, true));
        assert_eq!(flow::copy(&request, &Tally::default(), &|_| false).unwrap().hashed, 1);
        request.policy = None;
        let plain = flow::copy(&request, &Tally::default(), &|_| false).unwrap();
        assert_eq!((plain.same, plain.hashed), (2, 0));
        let found = flow::verify(&path("to"), None, &path("home"), 1, &Tally::default()).unwrap();
        assert_eq!((found[0].problems, found[0].unhashed), (0, 1));
        // A run that was killed has noted hashes, too.
        let state = State::open(&path("home"), &path("to"), Hashing::Sha256).unwrap();
        state.begin().unwrap();
        let mut facts = Facts::of(&rustix::fs::stat(path("from/file")).unwrap());
        facts.set_hash([7; 32]);
        state.journal(0).unwrap().add(b"file", &Note::Done(facts)).unwrap();
        let hash = |state: &State| {
            let note = state.known().unwrap().at(b"file").unwrap().unwrap();
            let Note::Done(facts) = note else { panic!("{note:?}") };
            facts.hash()
        };
        drop(state);
        let state = State::open(&path("home"), &path("to"), Hashing::Sha256).unwrap();
        assert!(state.is_resumed && hash(&state) == Some([7; 32]));
        drop(state);
        let state = State::open(&path("home"), &path("to"), Hashing::Blake3).unwrap();
        assert!(state.is_resumed && hash(&state).is_none());
    }
}
