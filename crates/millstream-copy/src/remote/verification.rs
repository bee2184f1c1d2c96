//! Compares a copy on another machine: with its source, or with what was noted of it.

use super::address::{Address, By};
use super::bucket::{Batch, Bucket, send_all};
use super::empty_folder;
use super::far_folder::{in_batches, sha256sum};
use super::job::RemoteJob;
use super::listing::Listing;
use super::rsync::{Change, Rsync};
use super::said::reason;
use crate::crew::{Queue, crew};
use crate::entry::{Entry, EntryKind, Facts, Hash};
use crate::error::Error;
use crate::hasher::hex;
use crate::manifest::{Header, Reader};
use crate::path::{order, shown_path};
use crate::receipt::Verification;
use crate::request::Request;
use crate::state::finished;
use crate::tally::{Failures, Phase, Tally};
use crate::verification::{NO_TABLESPACE, difference, tablespaces};
use crate::walk::Scope;
use crate::workers::Gate;
use millstream_model::Refusal;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Compares the bytes of both ends, after a copy: rsync reads them all.
///
/// # Errors
/// The other machine cannot be reached.
pub(super) fn compare(job: &RemoteJob<'_>, gate: &Gate) -> Result<Verification, Error> {
    let begun = Instant::now();
    let (failures, tally) = (Failures::default(), job.task.tally);
    tally.begin(Phase::Verifying);
    let compared = AtomicU64::new(0);
    crew(
        gate.workers(),
        0,
        |_, queue: Queue<Bucket>| {
            while let Some(bucket) = queue.next() {
                let batch = Batch::new(job, &bucket)?;
                let own = ["-n".into(), "-c".into(), batch.silence()];
                let args = [&own[..], &job.options(true), &batch.targets()].concat();
                let ran = job.there.rsync.run(&args, tally, &mut |line| {
                    if batch.place(&line).is_some() && line.change != Change::Kept {
                        failures.add(&line.path, "both ends differ");
                    }
                })?;
                if !ran.is_whole && !tally.is_stopped() {
                    failures.add(b"", format!("not everything could be compared: {}", reason(b"", &ran.said)));
                }
                compared.fetch_add(bucket.len() as u64, Relaxed);
                bucket.iter().for_each(|item| tally.done(item.entry.facts.size()));
            }
            Ok(())
        },
        |sender| send_all(job, gate, |bucket| !tally.is_stopped() && sender.send(bucket).is_ok()),
    )?;
    let compared = compared.into_inner();
    let ended = Verification::ended(shown_path(&job.task.target), begun, &failures, tally);
    let ended = ended.map_err(Error::file("read", job.task.state.folder()))?;
    let bytes = tally.done_bytes.load(Relaxed);
    Ok(Verification { entries: compared, hashed: compared, bytes, ..ended })
}

/// Compares every copy that was made to this place on another machine, or below it, with what was noted. `None` if the path
/// is one of this machine.
///
/// # Errors
/// There is no manifest of such a copy; the other machine cannot be reached, or runs only a daemon.
pub(crate) fn verify(
    destination: &Path,
    shell: Option<OsString>,
    home: &Path,
    workers: usize,
    tally: &Tally,
) -> Result<Option<Vec<Verification>>, Error> {
    let Some(wanted) = Address::parse(destination)? else {
        return match shell {
            Some(_) => Err(Refusal::new("--ssh is for copies to other machines").into()),
            None => Ok(None),
        };
    };
    let wanted = wanted.trimmed();
    let By::Shell(host) = &wanted.by else {
        let says = "a daemon of rsync tells no hashes";
        let hint = "copy again with --verify, which compares with the source";
        return Err(Error::refused(says, hint));
    };
    let mut request = Request::new("", "", home);
    request.shell = shell;
    let rsync = Rsync::new(&request)?;
    let address = |header: &Header| Address::parse(Path::new(OsStr::from_bytes(&header.destination))).ok().flatten();
    let whole = finished(home)?.whole.into_iter();
    let all: Vec<_> = whole.filter_map(|(manifest, header)| Some((address(&header)?, manifest))).collect();
    let is_below = |address: &Address| {
        // An empty path is the home folder, and holds no absolute ones.
        let is_elsewhere = wanted.path.is_empty() && address.path.starts_with(b"/");
        let is_below = Path::new(OsStr::from_bytes(&address.path)).starts_with(OsStr::from_bytes(&wanted.path));
        !is_elsewhere && address.by == wanted.by && is_below || *address == wanted
    };
    let (mut chosen, mut found) = (Vec::new(), Vec::new());
    for one in all.iter().filter(|(address, _)| is_below(address)) {
        chosen.push(one);
        for space in tablespaces(&one.1)? {
            let space = one.0.at(Path::new(OsStr::from_bytes(&space))).trimmed();
            match all.iter().find(|(address, _)| *address == space) {
                Some(known) => chosen.push(known),
                None => found.push(Verification::of_what_is_gone(space.text(), NO_TABLESPACE)),
            }
        }
    }
    chosen.sort_by_key(|(address, _)| address.text());
    chosen.dedup();
    for (address, manifest) in chosen {
        let comparison = Comparison { rsync: &rsync, host, address: address.clone(), workers, tally };
        found.push(comparison.run(manifest)?);
    }
    if found.is_empty() {
        return Err(Error::no_manifest(Path::new(&wanted.text())));
    }
    found.sort_by(|a, b| a.destination.cmp(&b.destination));
    Ok(Some(found))
}

/// A comparison with one manifest.
struct Comparison<'a> {
    rsync: &'a Rsync,
    host: &'a OsStr,
    address: Address,
    workers: usize,
    tally: &'a Tally,
}

/// Files and their hashes.
type Files = Vec<(Vec<u8>, u64, Hash)>;

impl Comparison<'_> {
    fn run(&self, manifest: &Path) -> Result<Verification, Error> {
        let begun = Instant::now();
        let mut list = Reader::open(manifest).map_err(Error::manifest(manifest))?;
        let header = list.header.clone();
        let root = if header.file.is_some() { self.address.parent() } else { self.address.clone() };
        let failures = Failures::default();
        self.tally.begin(Phase::Verifying);
        let folder = empty_folder()?;
        let there = folder.path().join("list");
        let looked = self.tally.aside();
        let scope = Scope { only: header.file.as_deref().map(|name| (name, name)), ..Scope::default() };
        let listing =
            Listing { rsync: self.rsync, root: &root, scope, tally: &looked, failures: &failures, is_source: false };
        if let (_, Some(why)) = listing.list_what_is_there(&header, &there, folder.path())? {
            return Ok(Verification::of_what_is_gone(self.address.text(), &format!("it cannot be listed: {why}")));
        }
        let mut now = Reader::open(&there).map_err(Error::manifest(&there))?;
        let mut next = now.next().map_err(Error::manifest(&there))?;
        let (entries, unhashed) = (AtomicU64::new(0), AtomicU64::new(0));
        let read = in_batches(
            self.workers,
            self.tally,
            |files| self.hash(&root, &files, &failures),
            |send| {
                while let Some(entry) = list.next().map_err(Error::manifest(manifest))? {
                    // What was not listed any more is not missing.
                    if self.tally.is_stopped() {
                        return Ok(());
                    }
                    while next.as_ref().is_some_and(|next| order(&next.path, &entry.path) == Ordering::Less) {
                        next = now.next().map_err(Error::manifest(&there))?;
                    }
                    entries.fetch_add(1, Relaxed);
                    let found = next.as_ref().filter(|next| next.path == entry.path);
                    if !self.is_as_noted(&entry, found.map(|found| &found.facts), &failures) {
                        continue;
                    }
                    let size = entry.facts.size();
                    let Some(hash) = entry.facts.hash() else {
                        let is_file = matches!(entry.facts.kind, EntryKind::File { .. });
                        unhashed.fetch_add(u64::from(is_file), Relaxed);
                        self.tally.done(size);
                        continue;
                    };
                    if !send((entry.path, size, hash), size) {
                        return Ok(());
                    }
                }
                Ok(())
            },
        )?;
        let destination = shown_path(self.address.text());
        let ended = Verification::ended(destination, begun, &failures, self.tally);
        Ok(Verification {
            entries: entries.into_inner(),
            hashed: read.iter().map(|(files, _)| files).sum(),
            unhashed: unhashed.into_inner(),
            bytes: read.iter().map(|(_, bytes)| bytes).sum(),
            ..ended.map_err(Error::file("read", manifest))?
        })
    }

    /// Whether an entry looks as it was noted. Else it is a problem.
    fn is_as_noted(&self, entry: &Entry, now: Option<&Facts>, failures: &Failures) -> bool {
        let problem = match now {
            None => Some("it is missing".to_owned()),
            // The listing does not tell the numbers of devices.
            Some(now) if is_device(&entry.facts) && is_device(now) => None,
            Some(now) => difference(&entry.facts, now),
        };
        if let Some(problem) = &problem {
            failures.add(&entry.path, problem.as_str());
            self.tally.done(entry.facts.size());
        }
        problem.is_none()
    }

    /// Compares the hashes of files there. Returns how many were read, and their bytes.
    fn hash(&self, root: &Address, files: &Files, failures: &Failures) -> Result<(u64, u64), Error> {
        let mut read = (0, 0);
        let mut wanted: HashMap<&[u8], (u64, Hash)> =
            files.iter().map(|(path, size, hash)| (&path[..], (*size, *hash))).collect();
        let paths: Vec<&[u8]> = files.iter().map(|(path, ..)| &path[..]).collect();
        let said = sha256sum(self.rsync, self.host, root, &paths, self.tally, &mut |path, hash| {
            if let Some((size, expected)) = wanted.remove(path) {
                if hash != hex(&expected).as_bytes() {
                    failures.add(path, "its bytes differ, although its size and time do not");
                }
                read = (read.0 + 1, read.1 + size);
                self.tally.done(size);
            }
        })?;
        if !self.tally.is_stopped() {
            let why = said.lines().next().unwrap_or("there is no answer").to_owned();
            wanted.keys().for_each(|path| failures.add(path, format!("it cannot be read: {why}")));
        }
        Ok(read)
    }
}

fn is_device(facts: &Facts) -> bool {
    matches!(facts.kind, EntryKind::Device { .. })
}
