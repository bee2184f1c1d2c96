//! Compares a copy with its manifest: without the source, and at any later time.

use crate::crew::crew;
use crate::entry::{Entry, EntryKind, Facts};
use crate::error::Error;
use crate::hasher::Hashing;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ENTRIES_MAX, BLOCKS_MAX};
use crate::local::{buffer, hash, open_to_read};
use crate::manifest::{Header, Reader};
use crate::path::{shown_path, split};
use crate::receipt::Verification;
use crate::state::finished;
use crate::tally::{Failures, Phase, Tally};
use crate::tree::{self, Thing, Tree, named};
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Why a tablespace is not compared.
pub(crate) const NO_TABLESPACE: &str = "there is no manifest of this tablespace of the copy: it cannot be compared";

/// Compares every copy that was made to this path of this machine, or below it.
///
/// # Errors
/// There is no manifest of such a copy, it is damaged, or the destination cannot be read at all.
pub(crate) fn verify(
    destination: &Path,
    home: &Path,
    workers: usize,
    tally: &Tally,
) -> Result<Vec<Verification>, Error> {
    let wanted = fs::canonicalize(destination).map_err(Error::file("find", destination))?;
    let mut found = Vec::new();
    let mut manifests = finished(home)?;
    let root = |header: &Header| PathBuf::from(OsStr::from_bytes(&header.destination));
    let all: Vec<_> = manifests.whole.into_iter().map(|(manifest, header)| (root(&header), manifest)).collect();
    let mut lost = Vec::new();
    for (root, manifest) in all.iter().filter(|(root, _)| root.starts_with(&wanted)) {
        found.push((root.clone(), manifest.clone()));
        for space in tablespaces(manifest)? {
            let space = PathBuf::from(OsStr::from_bytes(&space));
            let space = fs::canonicalize(&space).unwrap_or(space);
            match all.iter().find(|(root, _)| *root == space) {
                Some(known) => found.push(known.clone()),
                None => lost.push(Verification::of_what_is_gone(&space, NO_TABLESPACE)),
            }
        }
    }
    if found.is_empty() {
        // Perhaps it is the one that is looked for.
        if let Some(damaged) = manifests.damaged.pop() {
            return Err(damaged);
        }
        return Err(Error::no_manifest(&wanted));
    }
    found.sort();
    found.dedup();
    let compared = found.iter().map(|(_, manifest)| compare(manifest, workers, tally));
    let damaged = manifests.damaged.iter().map(|error| Ok(Verification::of_damaged(&wanted, error)));
    compared.chain(damaged).chain(lost.into_iter().map(Ok)).collect()
}

/// Where the links of a copy of a cluster say that its tablespaces are: each has a manifest of its own.
pub(crate) fn tablespaces(manifest: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let mut list = Reader::open(manifest).map_err(Error::manifest(manifest))?;
    let mut found = Vec::new();
    // Only copies of clusters have this hash, and few entries stand before the links.
    while list.header.is_sha256
        && let Some(Entry { path, facts }) = list.next().map_err(Error::manifest(manifest))?
    {
        match facts.kind {
            EntryKind::Link { target } if path.starts_with(b"pg_tblspc/") => found.push(target),
            _ => {}
        }
    }
    Ok(found)
}

/// Compares a copy with one manifest.
pub(crate) fn compare(manifest: &Path, workers: usize, tally: &Tally) -> Result<Verification, Error> {
    let begun = Instant::now();
    let mut list = Reader::open(manifest).map_err(Error::manifest(manifest))?;
    let header = list.header.clone();
    let target = PathBuf::from(OsStr::from_bytes(&header.destination));
    // The path of a single file is that of the file; its entry has its name.
    let root = if header.file.is_some() { target.parent().unwrap_or(&target) } else { &target };
    let tree = match Tree::open(root, false) {
        Ok(tree) => tree,
        // The other copies are compared all the same.
        Err(error) => {
            let why = format!("it cannot be opened: {error}");
            return Ok(Verification::of_what_is_gone(&target, &why));
        }
    };
    let failures = Failures::default();
    tally.begin(Phase::Verifying);
    let compared = crew(
        workers,
        BLOCKS_MAX,
        |_, queue| {
            let (tree, failures, header) = (&tree, &failures, &header);
            let (folder, buffer, compared) = (None, buffer(), Verification::default());
            let mut checker = Checker { tree, tally, failures, header, folder, buffer, compared };
            while let Some(block) = queue.next() {
                for entry in block {
                    checker.check(&entry);
                }
            }
            Ok(checker.compared)
        },
        |sender| {
            let (mut block, mut bytes) = (Vec::new(), 0);
            while let Some(entry) = list.next().map_err(Error::manifest(manifest))? {
                bytes += entry.facts.size();
                block.push(entry);
                if block.len() >= BLOCK_ENTRIES_MAX || bytes >= BLOCK_BYTES_MAX {
                    bytes = 0;
                    if tally.is_stopped() || sender.send(std::mem::take(&mut block)).is_err() {
                        return Ok(());
                    }
                }
            }
            let _ = sender.send(block);
            Ok(())
        },
    )?;
    let sum = |of: fn(&Verification) -> u64| compared.iter().map(of).sum();
    let ended = Verification::ended(shown_path(&target), begun, &failures, tally);
    Ok(Verification {
        entries: sum(|compared| compared.entries),
        hashed: sum(|compared| compared.hashed),
        unhashed: sum(|compared| compared.unhashed),
        bytes: sum(|compared| compared.bytes),
        ..ended.map_err(Error::file("read", manifest))?
    })
}

struct Checker<'a> {
    tree: &'a Tree,
    tally: &'a Tally,
    failures: &'a Failures,
    header: &'a Header,
    folder: Option<(Vec<u8>, OwnedFd)>,
    buffer: Vec<u8>,
    /// What it has counted.
    compared: Verification,
}

impl Checker<'_> {
    fn check(&mut self, entry: &Entry) {
        if self.tally.is_stopped() {
            return;
        }
        match self.problem(entry) {
            // It was not read to its end.
            Ok(None) if self.tally.is_stopped() => return,
            Ok(None) => {}
            Ok(Some(problem)) => self.failures.add(&entry.path, problem),
            Err(error) => self.failures.add(&entry.path, format!("it cannot be read: {error}")),
        }
        self.compared.entries += 1;
        self.tally.done(entry.facts.size());
    }

    /// What is wrong with an entry.
    fn problem(&mut self, entry: &Entry) -> io::Result<Option<String>> {
        let (folder_path, name) = split(&entry.path);
        let name = named(if name.is_empty() { b"." } else { name })?;
        if self.folder.as_ref().is_none_or(|(path, _)| path != folder_path) {
            match self.tree.folder(folder_path) {
                Ok(folder) => self.folder = Some((folder_path.to_vec(), folder)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some("it is missing".to_owned())),
                Err(error) => return Err(error),
            }
        }
        let Some((_, folder)) = self.folder.take() else { return Ok(None) };
        let found = self.compare(entry, &folder, &name);
        self.folder = Some((folder_path.to_vec(), folder));
        found
    }

    fn compare(&mut self, entry: &Entry, folder: &OwnedFd, name: &CStr) -> io::Result<Option<String>> {
        let wanted = &entry.facts;
        let Some(stat) = tree::stat(folder, name)? else { return Ok(Some("it is missing".to_owned())) };
        let mut now = Facts::of(&stat);
        if let EntryKind::Link { target } = &mut now.kind {
            *target = tree::target(folder, name)?;
        }
        if let Some(problem) = difference(wanted, &now) {
            return Ok(Some(problem));
        }
        if self.header.has_attributes && Thing::Named(folder.as_fd(), name).attributes()? != wanted.attributes {
            return Ok(Some("its attributes differ".to_owned()));
        }
        let EntryKind::File { size, hash: wanted } = wanted.kind else { return Ok(None) };
        let Some(wanted) = wanted else {
            self.compared.unhashed += 1;
            return Ok(None);
        };
        let file = open_to_read(folder, name)?;
        // `None`: somebody has stopped the comparison.
        let hashing = if self.header.is_sha256 { Hashing::Sha256 } else { Hashing::Blake3 };
        let Some(found) = hash(hashing, &file, self.tally, &mut self.buffer)? else { return Ok(None) };
        self.compared.hashed += 1;
        self.compared.bytes += size;
        Ok((found != wanted).then(|| "its bytes differ, although its size and time do not".to_owned()))
    }
}

/// How an entry differs, as far as one sees without reading it.
pub(crate) fn difference(wanted: &Facts, now: &Facts) -> Option<String> {
    match (&wanted.kind, &now.kind) {
        (EntryKind::File { size: a, .. }, EntryKind::File { size: b, .. }) if a != b => {
            return Some(format!("it has {b} bytes instead of {a}"));
        }
        (EntryKind::File { .. }, EntryKind::File { .. }) if !wanted.modified.is_kept_as(now.modified) => {
            return Some("it was changed later".to_owned());
        }
        (EntryKind::File { .. }, EntryKind::File { .. }) | (EntryKind::Folder, EntryKind::Folder) => {}
        (EntryKind::Link { target: a }, EntryKind::Link { target: b }) if a != b => {
            return Some("the link leads elsewhere".to_owned());
        }
        // Rights of a link mean nothing.
        (EntryKind::Link { .. }, EntryKind::Link { .. }) => return None,
        // rsync lists devices without their numbers.
        (EntryKind::Device { number: 0, .. }, EntryKind::Device { .. }) => {}
        (a, b) if a != b => return Some("it is of another kind".to_owned()),
        _ => {}
    }
    let is_wanted = now.mode == wanted.mode || now.mode == wanted.mode_as(now.uid, now.gid);
    (!is_wanted).then(|| format!("its rights are {:o} instead of {:o}", now.mode, wanted.mode))
}
