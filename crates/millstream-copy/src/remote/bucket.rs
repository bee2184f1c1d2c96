//! Buckets of files, each of which one process of rsync copies.

use super::PARTIAL;
use super::address::{By, joined};
use super::folders::{Unmade, remove_link};
use super::job::RemoteJob;
use super::rsync::{Change, Line, NameList, silence};
use super::said::reason;
use crate::counts::Counts;
use crate::entry::{EntryKind, Facts, Hash};
use crate::error::Error;
use crate::feed::{Fed, Item, feed};
use crate::limits::{BUCKET_BYTES_MIN, BUCKET_ENTRIES_MAX, ENTRY_BYTES};
use crate::local::{buffer, hash, open_to_read};
use crate::manifest::{Journal, Note};
use crate::request::Workers;
use crate::tree;
use crate::workers::{self, Found, Gate, Shift, Trials};
use millstream_failpoint::hit_on_thread;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that one process of rsync copies.
pub(super) type Bucket = Vec<Item>;

/// Copies everything but folders. Returns the counts, and which number of workers was found to be best.
pub(super) fn run(job: &RemoteJob<'_>, unmade: &Unmade, gate: &Gate) -> Result<(Counts, Option<Found>), Error> {
    // A limit of bytes per second is divided by their number.
    let climbs = job.task.request.workers == Workers::Auto && job.task.request.bytes_per_second.is_none();
    let search = climbs.then_some(Trials::Upwards);
    workers::run(
        &Shift { gate, search, waiting_max: 0, tally: job.task.tally },
        |number| {
            Ok(Courier { job, journal: job.task.state.journal(number)?, buffer: buffer(), counts: Counts::default() })
        },
        |courier, bucket| courier.copy(bucket, unmade, gate.workers()),
        |courier| courier.counts,
        |sender| send_all(job, gate, |bucket| !job.task.tally.is_stopped() && sender.send(bucket).is_ok()),
    )
}

/// Cuts the source into buckets: large ones first, and smaller ones towards the end, so that all workers end together.
pub(super) fn send_all(job: &RemoteJob<'_>, gate: &Gate, send: impl Fn(Bucket) -> bool) -> Result<(), Error> {
    let mut left = weight(job.listed.entries, job.listed.bytes);
    let is_full = |entries: usize, bytes: u64| {
        let work = weight(entries as u64, bytes);
        let part = left / (2 * gate.workers() as u64);
        let is_full = work >= part.max(BUCKET_BYTES_MIN) || entries >= BUCKET_ENTRIES_MAX;
        if is_full {
            left = left.saturating_sub(work);
        }
        is_full
    };
    feed(&job.task.state, job.listed, is_full, |fed| {
        Ok(send(match fed {
            Fed::Large(item) => vec![*item],
            Fed::Block(items) => items,
            Fed::Groups(groups) => groups.into_iter().flatten().collect(),
        }))
    })
}

/// What entries count when buckets are cut.
fn weight(entries: u64, bytes: u64) -> u64 {
    entries.saturating_mul(ENTRY_BYTES).saturating_add(bytes)
}

/// What rsync would do to an entry now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Nothing.
    Settled,
    /// Something.
    Unsettled,
    /// It does not even name it: the source has it no longer, or it cannot be looked at.
    Unnamed,
}

/// A worker: it copies buckets one after the other, and notes what has arrived.
struct Courier<'a> {
    job: &'a RemoteJob<'a>,
    journal: Journal,
    buffer: Vec<u8>,
    counts: Counts,
}

impl Courier<'_> {
    /// Leaves out what is in folders that are not there: rsync would follow a link in the place of one.
    fn without_unmade(&mut self, bucket: Bucket, unmade: &Unmade) -> Result<Bucket, Error> {
        let (lost, rest): (Bucket, Bucket) = bucket.into_iter().partition(|item| unmade.holds(&item.entry.path));
        for item in lost {
            self.job.task.tally.done(item.entry.facts.size());
            self.failed(&item, "its folder could not be made at the destination")?;
        }
        Ok(rest)
    }

    /// What comes from another machine is asked for apart: links in one process of rsync, which cannot put anything in them,
    /// and everything else in one that makes no links. Otherwise that machine could send a link in the place of a folder, and
    /// then files for it, which rsync would write to where the link leads.
    fn copy(&mut self, bucket: Bucket, unmade: &Unmade, workers: usize) -> Result<(), Error> {
        let bucket = self.without_unmade(bucket, unmade)?;
        if !self.job.arrives_here() {
            return self.copy_alike(&bucket, workers);
        }
        let (links, others): (Bucket, Bucket) = bucket.into_iter().partition(is_link);
        for item in &others {
            remove_link(&self.job.here, &item.entry.path)?;
        }
        self.copy_alike(&others, workers)?;
        self.copy_alike(&links, workers)
    }

    fn copy_alike(&mut self, bucket: &Bucket, workers: usize) -> Result<(), Error> {
        if bucket.is_empty() || self.job.task.tally.is_stopped() {
            return Ok(());
        }
        let job = self.job;
        let batch = Batch::new(job, bucket)?;
        let mut changes = vec![None; bucket.len()];
        // There may be fewer buckets than workers.
        let buckets = (weight(job.listed.entries, job.listed.bytes) / BUCKET_BYTES_MIN).max(1);
        let limit = job.task.request.bytes_per_second.map(|bytes| bytes / buckets.min(workers as u64).max(1));
        let each = &mut |line: Line| {
            let Some(place) = batch.place(&line) else { return };
            // A process that was started again may say it twice.
            if changes[place].replace(line.change).is_none() {
                job.task.tally.done(bucket[place].entry.facts.size());
            }
        };
        let limit = limit.map(|bytes| format!("--bwlimit={}", (bytes / 1024).max(1)).into());
        let ran = job.there.rsync.run(&batch.arguments(limit.as_slice()), job.task.tally, each)?;
        if job.task.tally.is_stopped() {
            // What rsync has said was done may have been undone when it ended.
            return Ok(());
        }
        hit_on_thread("bucket-copied");
        let failed = match ran.is_whole {
            true => BTreeMap::new(),
            false => batch.unfinished(&changes, &ran.said)?,
        };
        if job.task.tally.is_stopped() {
            // Nobody knows what has failed.
            return Ok(());
        }
        for (place, item) in bucket.iter().enumerate() {
            if changes[place].is_none() {
                job.task.tally.done(item.entry.facts.size());
            }
            match failed.get(&place) {
                _ if changes[place] == Some(Change::LeftOut) => self.failed(item, left_out(item))?,
                Some(None) => {
                    self.counts.skipped += 1;
                    self.note(item, &Note::Absent)?;
                }
                Some(Some(reason)) => self.failed(item, reason)?,
                None => self.arrived(item, changes[place].unwrap_or(Change::Kept))?,
            }
        }
        hit_on_thread("bucket-noted");
        Ok(())
    }

    fn failed(&mut self, item: &Item, reason: &str) -> Result<(), Error> {
        self.counts.failed += 1;
        self.job.task.failures.add(&item.entry.path, reason);
        self.job.task.tally.failed.fetch_add(1, Relaxed);
        self.note(item, &Note::Absent)
    }

    /// Accounts for an entry that is at the destination, and notes its hash.
    fn arrived(&mut self, item: &Item, change: Change) -> Result<(), Error> {
        let news = match self.news(item, change) {
            // It has gone meanwhile, or its rights are such that others read it.
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) => None,
            Err(error) => return self.failed(item, &format!("it was copied, but cannot be read here: {error}")),
            Ok(news) => news,
        };
        match change {
            Change::Copied => self.counts.copied(&item.entry.facts),
            Change::Linked => self.counts.linked += 1,
            Change::Kept | Change::Deleted | Change::LeftOut => self.counts.same += 1,
        }
        news.map_or(Ok(()), |facts| self.note(item, &Note::Done(facts)))
    }

    /// What is to be noted of an entry that is at the destination. `None` if everything is known, or if it has changed
    /// meanwhile: then it has no hash.
    fn news(&mut self, item: &Item, change: Change) -> io::Result<Option<Facts>> {
        let (facts, policy, arrives_here) = (&item.entry.facts, self.job.task.policy, self.job.arrives_here());
        let is_believed = change == Change::Kept && policy.believes_notes();
        let known = item.known.as_ref().and_then(|note| note.hash_of(facts)).filter(|_| is_believed);
        let is_noted = known.is_some() && matches!(item.known, Some(Note::Done(_)));
        // A daemon does not tell everything: times to the second, for one.
        let is_vague = arrives_here && self.job.there.root.by == By::Daemon;
        if is_noted && !is_vague {
            return Ok(None);
        }
        let is_new = arrives_here && change != Change::Kept;
        let reads = known.is_none() && (is_new || policy.hashes_all);
        match reads || known.is_some() || is_vague {
            true => self.look(item, known, reads),
            false => Ok(None),
        }
    }

    /// The facts of what is on this machine: the source, or what has arrived. `None` if it is not what was copied.
    fn look(&mut self, item: &Item, known: Option<Hash>, reads: bool) -> io::Result<Option<Facts>> {
        let job = self.job;
        let (folder, name) = job.here.parent(job.path_here(&item.entry.path))?;
        let Some(stat) = tree::stat(&folder, &name)? else { return Ok(None) };
        let mut facts = Facts::of(&stat);
        let is_file = matches!(facts.kind, EntryKind::File { .. });
        let is_source = is_file && item.entry.facts.is_same_file(&facts);
        if !(job.arrives_here() || is_source) {
            return Ok(None);
        }
        if let EntryKind::Link { target } = &mut facts.kind {
            *target = tree::target(&folder, &name)?;
        }
        if let Some(hash) = known {
            facts.set_hash(hash);
        } else if is_file && reads {
            let file = open_to_read(&folder, &name)?;
            let hash = hash(job.hashing(), &file, job.task.tally, &mut self.buffer)?;
            let Some(hash) = hash else { return Ok(None) };
            facts.set_hash(hash);
        }
        Ok(Some(facts))
    }

    fn note(&mut self, item: &Item, note: &Note) -> Result<(), Error> {
        self.journal.add(&item.entry.path, note).map_err(Error::file("write to", self.job.task.state.folder()))
    }
}

fn is_link(item: &Item) -> bool {
    matches!(item.entry.facts.kind, EntryKind::Link { .. })
}

/// Why rsync leaves an entry out.
fn left_out(item: &Item) -> &'static str {
    match item.entry.facts.kind {
        EntryKind::File { .. } => "it is no file any more: a link or a device is in its place",
        _ => "only root can make a device",
    }
}

/// A bucket as a process of rsync gets it.
pub(super) struct Batch<'a> {
    job: &'a RemoteJob<'a>,
    bucket: &'a Bucket,
    /// Where each name that rsync prints is in the bucket.
    places: HashMap<Vec<u8>, usize>,
    names: NameList,
}

impl<'a> Batch<'a> {
    /// # Errors
    /// The list of its names cannot be written.
    pub(super) fn new(job: &'a RemoteJob<'a>, bucket: &'a Bucket) -> Result<Self, Error> {
        let name = |item: &Item| job.task.place.source_path(&item.entry.path).to_vec();
        let places = bucket.iter().enumerate().map(|(place, item)| (name(item), place)).collect();
        let names = NameList::new(job.task.state.folder(), bucket.iter().map(|item| Ok(&item.entry.path)))?;
        Ok(Self { job, bucket, places, names })
    }

    /// Where what a line is about is in the bucket.
    pub(super) fn place(&self, line: &Line) -> Option<usize> {
        self.places.get(&line.path).copied()
    }

    /// The option that gives rsync the time to hash its files.
    pub(super) fn silence(&self) -> OsString {
        silence(self.bucket.iter().map(|item| item.entry.facts.size()).sum())
    }

    /// Arguments of a process that copies the files.
    fn arguments(&self, more: &[OsString]) -> Vec<OsString> {
        let job = self.job;
        let links_only = self.bucket.iter().all(is_link);
        let mut args = job.options(!job.arrives_here() || links_only);
        args.extend((job.arrives_here() && links_only).then(|| "--no-dirs".into()));
        args.extend(job.compares_bytes().then(|| self.silence()));
        let temporary = job.temporary();
        // What is unfinished when the connection breaks off is kept, and goes on from there. rsync removes the second folder
        // when it is empty, so it is another one.
        let folders = [format!("--temp-dir={temporary}"), format!("--partial-dir={temporary}{PARTIAL}")];
        args.extend(folders.map(OsString::from));
        args.extend_from_slice(more);
        args.extend(self.targets());
        args
    }

    /// What is copied, and where to.
    pub(super) fn targets(&self) -> Vec<OsString> {
        let [from, to] = self.job.roots();
        let Some(single) = &self.job.task.place.file else {
            // The folders are there already.
            return [&self.names.options()[..], &["--no-implied-dirs".into(), from, to]].concat();
        };
        let named = |root: &OsString, name: &[u8]| joined([root, &OsStr::from_bytes(name)]);
        vec![named(&from, &single.from), named(&to, &single.to)]
    }

    /// What rsync would still have to do, although it has ended: each with the reason, or `None` if the source has it no
    /// longer.
    fn unfinished(&self, changes: &[Option<Change>], said: &str) -> Result<BTreeMap<usize, Option<String>>, Error> {
        let Self { job, bucket, .. } = self;
        let (mut looks, said_again) = self.look_again("-1")?;
        let is_open = |look: &Look, change: &Option<Change>| *look != Look::Settled && change.is_some();
        if looks.iter().zip(changes).any(|(look, change)| is_open(look, change)) {
            // Where times are kept less exactly, what was just copied has another one.
            let (coarse, _) = self.look_again("0")?;
            for ((look, change), coarse) in looks.iter_mut().zip(changes).zip(coarse) {
                *look = if is_open(look, change) { coarse } else { *look };
            }
        }
        // A link that leads nowhere is no file that has gone.
        let says_gone = ["No such file or directory", "vanished"].iter().any(|text| said_again.contains(text));
        let may_be_gone = !job.arrives_here() || says_gone && !job.task.request.copy_links;
        let mut failed = BTreeMap::new();
        for ((place, item), look) in bucket.iter().enumerate().zip(looks).filter(|(_, look)| *look != Look::Settled) {
            let path = job.path_here(&item.entry.path);
            let is_gone = look == Look::Unnamed && may_be_gone && !job.here.holds(path);
            failed.insert(place, (!is_gone).then(|| reason(path, said)));
        }
        Ok(failed)
    }

    /// What rsync would do now. `window`: how exactly it compares times; 0 is to the second.
    fn look_again(&self, window: &str) -> Result<(Vec<Look>, String), Error> {
        let job = self.job;
        let mut looks = vec![Look::Unnamed; self.bucket.len()];
        // It names what needs no change, too.
        let more = ["-n".into(), "-ii".into(), format!("--modify-window={window}").into()];
        let dry = job.there.rsync.run(&self.arguments(&more), job.task.tally, &mut |line| {
            if let Some(place) = self.place(&line) {
                looks[place] = if line.is_untouched { Look::Settled } else { Look::Unsettled };
            }
        })?;
        Ok((looks, dry.said))
    }
}
