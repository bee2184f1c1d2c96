//! Copies a tree on this machine: folders first, then files by several workers, then the folders' rights and times.

mod folders;
mod jobs;
mod large;
mod pace;
mod transfer;
mod worker;

pub(crate) use folders::{dress, make, sweep};
pub(crate) use jobs::Gate;
pub use jobs::{Found, Rate};
pub(crate) use transfer::{buffer, hash};
pub(crate) use worker::open_to_read;

use crate::counts::Counts;
use crate::crew::{Queue, crew};
use crate::entry::{Entry, Facts, Kind};
use crate::error::Error;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ENTRIES_MAX, LARGE_FILES_MAX};
use crate::manifest::{Note, Reader, Sorter, damaged};
use crate::place::Place;
use crate::request::{Jobs, Request};
use crate::state::{State, is_large};
use crate::tally::{Failures, Tally};
use crate::tree::{Dress, Tree};
use crate::walk::Listed;
use large::Large;
use pace::Pace;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;
use worker::{Item, Start, Worker};

/// How the names of unfinished files begin.
const UNFINISHED: &str = ".millstream-copy.";

/// What all workers of a copy share.
pub(crate) struct Job<'a> {
    pub(crate) request: &'a Request,
    pub(crate) place: &'a Place,
    pub(crate) state: &'a State,
    pub(crate) source: &'a Tree,
    pub(crate) destination: &'a Tree,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: &'a Failures,
    /// How the names of unfinished files begin.
    temporary: String,
    dress: Dress,
    pace: Pace,
    /// Whether the file system may be able to share bytes.
    clones: AtomicBool,
    /// Whether the source lies on a server, which can copy by itself.
    is_on_server: bool,
}

/// What workers take.
enum Work {
    Block(Vec<Item>),
    /// Names of files with several names, all names of a file together.
    Groups(Vec<Vec<Item>>),
    Piece(Arc<Large>, u32),
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        request: &'a Request,
        (place, state): (&'a Place, &'a State),
        (source, destination): (&'a Tree, &'a Tree),
        (tally, failures): (&'a Tally, &'a Failures),
    ) -> Self {
        let dress = Dress { attributes: request.attributes, owner: rustix::process::geteuid().is_root() };
        let is_on_server = source.folder(b"").is_ok_and(|folder| transfer::is_on_server(&folder));
        Self {
            request,
            place,
            state,
            source,
            destination,
            tally,
            failures,
            temporary: format!("{}{}.", UNFINISHED, state.token()),
            dress,
            pace: Pace::new(request.bytes_per_second),
            clones: AtomicBool::new(true),
            is_on_server,
        }
    }
}

/// Copies everything but folders. Returns the counts, and which number of workers was found to be best.
///
/// # Errors
/// Nothing more can be copied.
pub(crate) fn run(job: &Job<'_>, listed: &Listed, gate: &Gate) -> Result<(Counts, Option<Found>), Error> {
    let mut own = Counts::default();
    let (counts, found) = std::thread::scope(|scope| {
        let search = (job.request.jobs == Jobs::Auto).then(|| scope.spawn(|| gate.search(job.tally)));
        let counts = crew(
            gate.workers(),
            |number, queue| {
                let worked = work(job, number, &queue, gate);
                if worked.is_err() || job.tally.is_stopped() {
                    // The others have nothing to do either.
                    job.tally.stop();
                    gate.finish();
                }
                worked
            },
            |sender| {
                let fed = Worker::new(job, gate.workers()).and_then(|mut worker| {
                    feed(job, &mut worker, listed, sender)?;
                    Ok(worker.counts)
                });
                gate.finish();
                own = fed?;
                Ok(())
            },
        );
        gate.finish();
        (counts, search.map(|search| search.join().map_err(|_| Error::Bug)))
    });
    let sum = counts?.into_iter().fold(own, Counts::plus);
    Ok((sum, found.transpose()?.flatten()))
}

fn work(job: &Job<'_>, number: usize, queue: &Queue<Work>, gate: &Gate) -> Result<Counts, Error> {
    let mut worker: Option<Worker<'_>> = None;
    loop {
        gate.pass(number);
        if job.tally.is_stopped() {
            break;
        }
        let Some(work) = queue.next() else { break };
        // Most workers never begin if the copy is short.
        let worker = match &mut worker {
            Some(worker) => worker,
            none => none.insert(Worker::new(job, number)?),
        };
        match work {
            Work::Block(items) => items.iter().try_for_each(|item| worker.item(item).map(drop))?,
            Work::Groups(groups) => groups.iter().try_for_each(|group| worker.group(group))?,
            Work::Piece(large, piece) => worker.piece(&large, piece)?,
        }
    }
    Ok(worker.map(|worker| worker.counts).unwrap_or_default())
}

/// Sends the large files, then the others in the order of their paths, then those with several names.
fn feed(job: &Job<'_>, worker: &mut Worker<'_>, listed: &Listed, sender: &SyncSender<Work>) -> Result<(), Error> {
    if listed.large > 0 {
        feed_large(job, worker, sender)?;
    }
    let mut shared = Sorter::new(job.state.folder());
    let failed = Error::file("write to", job.state.folder());
    let (mut block, mut bytes, mut large) = (Vec::new(), 0, 0);
    let mut entries = Entries::open(job)?;
    while let Some(item) = entries.next()? {
        let facts = &item.entry.facts;
        if facts.kind == Kind::Folder {
            continue;
        }
        if facts.shared.is_some() {
            keep_shared(&mut shared, &item).map_err(&failed)?;
            continue;
        }
        if is_large(facts) && large < LARGE_FILES_MAX {
            large += 1;
            continue;
        }
        bytes += facts.size();
        block.push(item);
        if block.len() >= BLOCK_ENTRIES_MAX || bytes >= BLOCK_BYTES_MAX {
            bytes = 0;
            if !send(job, sender, Work::Block(std::mem::take(&mut block))) {
                return Ok(());
            }
        }
    }
    if !block.is_empty() && !send(job, sender, Work::Block(block)) {
        return Ok(());
    }
    feed_shared(job, shared, sender)
}

/// Whether workers still take work.
fn send(job: &Job<'_>, sender: &SyncSender<Work>, work: Work) -> bool {
    !job.tally.is_stopped() && sender.send(work).is_ok()
}

fn feed_large(job: &Job<'_>, worker: &mut Worker<'_>, sender: &SyncSender<Work>) -> Result<(), Error> {
    let mut entries = Entries::open(job)?;
    let mut large = 0;
    while let Some(item) = entries.next()? {
        if !is_large(&item.entry.facts) || large == LARGE_FILES_MAX {
            continue;
        }
        large += 1;
        if job.tally.is_stopped() {
            return Ok(());
        }
        if let Start::Pieces(file, pieces) = worker.start_large(&item)? {
            for piece in pieces {
                if !send(job, sender, Work::Piece(Arc::clone(&file), piece)) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn keep_shared(sorter: &mut Sorter, item: &Item) -> io::Result<()> {
    let Some(inode) = item.entry.facts.shared else { return Ok(()) };
    let mut key = format!("{:x}-{:x}/", inode.device, inode.number).into_bytes();
    key.extend_from_slice(&item.entry.path);
    let body = postcard::to_stdvec(&(&item.entry.facts, &item.known));
    sorter.push(&key, &body.map_err(|error| io::Error::other(error.to_string()))?)
}

fn feed_shared(job: &Job<'_>, sorter: Sorter, sender: &SyncSender<Work>) -> Result<(), Error> {
    let failed = Error::file("read", job.state.folder());
    let mut sorted = sorter.finish().map_err(&failed)?;
    let (mut groups, mut now, mut group, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    loop {
        let record = sorted.next().map_err(&failed)?;
        let Some(record) = record else { break };
        let at = record.path.iter().position(|byte| *byte == b'/').unwrap_or_default();
        let (inode, path) = (&record.path[..at], record.path[at + 1..].to_vec());
        if inode != now {
            now = inode.to_vec();
            groups.extend(Some(std::mem::take(&mut group)).filter(|group: &Vec<Item>| !group.is_empty()));
            if count >= BLOCK_ENTRIES_MAX {
                count = 0;
                if !send(job, sender, Work::Groups(std::mem::take(&mut groups))) {
                    return Ok(());
                }
            }
        }
        let read: (Facts, Option<Note>) =
            postcard::from_bytes(&record.body).map_err(|_| failed(damaged("a note cannot be read")))?;
        let (facts, known) = read;
        group.push(Item { entry: Entry { path, facts }, known });
        count += 1;
    }
    groups.extend(Some(group).filter(|group| !group.is_empty()));
    send(job, sender, Work::Groups(groups));
    Ok(())
}

/// The entries of the source, with what earlier runs know of them.
struct Entries<'a> {
    job: &'a Job<'a>,
    list: Reader,
    known: crate::state::Known,
}

impl<'a> Entries<'a> {
    fn open(job: &'a Job<'a>) -> Result<Self, Error> {
        let list = Reader::open(&job.state.list()).map_err(Error::manifest(&job.state.list()))?;
        Ok(Self { job, list, known: job.state.known()? })
    }

    fn next(&mut self) -> Result<Option<Item>, Error> {
        let Some(entry) = self.list.next().map_err(Error::manifest(&self.job.state.list()))? else { return Ok(None) };
        let known = self.known.at(&entry.path).map_err(Error::file("read", self.job.state.folder()))?;
        Ok(Some(Item { entry, known }))
    }
}
