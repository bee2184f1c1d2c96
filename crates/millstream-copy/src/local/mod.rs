//! Copies a tree on this machine: folders first, then files by several workers, then the folders' rights and times.

mod folders;
mod large;
mod pace;
mod pieces;
mod transfer;
mod worker;

pub(crate) use folders::sweep;
pub(crate) use transfer::{buffer, hash};
pub(crate) use worker::open_to_read;

use crate::counts::Counts;
use crate::error::Error;
use crate::feed::{Fed, Item, feed};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ENTRIES_MAX, BLOCKS_MAX};
use crate::receipt::Verification;
use crate::request::Workers;
use crate::road::{Carried, Road};
use crate::state::State;
use crate::task::Task;
use crate::tree::{Dress, Tree};
use crate::walk::Listed;
use crate::workers::{self, Found, Gate, Shift, Trials};
use folders::Made;
use large::Large;
use pace::Pace;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;
use worker::Worker;

/// How the names of unfinished files begin, of whichever copy.
pub(crate) const UNFINISHED: &str = ".millstream-copy.";

/// How the names of unfinished files of a copy begin.
pub(crate) fn unfinished(state: &State) -> String {
    format!("{UNFINISHED}{}", state.token)
}

/// What all workers of a copy share.
struct Job<'a> {
    task: &'a Task<'a>,
    listed: &'a Listed,
    source: Arc<Tree>,
    destination: Arc<Tree>,
    /// How the names of unfinished files begin.
    temporary: String,
    dress: Dress,
    pace: Pace,
    /// Whether the file system may be able to share bytes.
    clones: AtomicBool,
    /// Whether the source lies on a server, which can copy by itself.
    is_on_server: bool,
    /// Whether the destination does: then a file is there only once the server has said so.
    is_to_server: bool,
}

/// What workers take.
enum Work {
    Block(Vec<Item>),
    /// Names of files with several names, all names of a file together.
    Groups(Vec<Vec<Item>>),
    Piece(Arc<Large>, u32),
}

/// The way between two folders of this machine: threads of ours.
pub(crate) struct ByThreads<'a> {
    job: Job<'a>,
    /// The folders, once they are made.
    made: Option<Made>,
}

impl<'a> ByThreads<'a> {
    pub(crate) fn new(task: &'a Task<'a>, listed: &'a Listed, source: Arc<Tree>, destination: Arc<Tree>) -> Self {
        let dress = Dress { attributes: task.request.attributes, owner: rustix::process::geteuid().is_root() };
        let is_on_server = |tree: &Tree| tree.folder(b"").is_ok_and(|folder| transfer::is_on_server(&folder));
        let job = Job {
            temporary: format!("{}.", unfinished(&task.state)),
            dress,
            pace: Pace::new(task.request.bytes_per_second),
            clones: AtomicBool::new(true),
            is_on_server: is_on_server(&source),
            is_to_server: is_on_server(&destination),
            task,
            listed,
            source,
            destination,
        };
        Self { job, made: None }
    }
}

impl Road for ByThreads<'_> {
    fn carry(&mut self, gate: &Gate, root_was_missing: bool) -> Result<Carried, Error> {
        let Job { task, destination, .. } = &self.job;
        let (made, of_folders) = folders::make(&self.job, root_was_missing)?;
        self.made = Some(made);
        let (of_files, found) = run(&self.job, gate)?;
        if task.state.is_resumed {
            sweep(destination, &unfinished(&task.state), task.tally)?;
        }
        Ok(Carried { counts: of_folders.plus(of_files), found, root_was_missing })
    }

    fn dress(&mut self, counts: Counts) -> Result<Counts, Error> {
        match self.made.take() {
            Some(made) => Ok(counts.plus(folders::dress(&self.job, made)?)),
            None => Ok(counts),
        }
    }

    fn compare(&self, _: &Gate) -> Result<Option<Verification>, Error> {
        Ok(None)
    }
}

/// Copies everything but folders. Returns the counts, and which number of workers was found to be best.
///
/// # Errors
/// Nothing more can be copied.
fn run(job: &Job<'_>, gate: &Gate) -> Result<(Counts, Option<Found>), Error> {
    let mut own = Counts::default();
    let search = (job.task.request.workers == Workers::Auto).then_some(Trials::WithOne);
    let (counts, found) = workers::run(
        &Shift { gate, search, waiting_max: BLOCKS_MAX, tally: job.task.tally },
        |number| Worker::new(job, number),
        |worker, work| match work {
            Work::Block(items) => items.iter().try_for_each(|item| worker.item(item).map(drop)),
            Work::Groups(groups) => groups.iter().try_for_each(|group| worker.group(group)),
            Work::Piece(large, piece) => worker.piece(&large, piece),
        },
        |worker| worker.counts,
        |sender| {
            let mut worker = Worker::new(job, gate.all)?;
            send_all(job, &mut worker, sender)?;
            own = worker.counts;
            Ok(())
        },
    )?;
    Ok((own.plus(counts), found))
}

/// Sends the work. A large file is begun here, and its pieces are sent.
fn send_all(job: &Job<'_>, worker: &mut Worker<'_>, sender: &SyncSender<Work>) -> Result<(), Error> {
    let send = |work: Work| !job.task.tally.is_stopped() && sender.send(work).is_ok();
    let is_full = |entries, bytes| entries >= BLOCK_ENTRIES_MAX || bytes >= BLOCK_BYTES_MAX;
    feed(&job.task.state, job.listed, is_full, |fed| match fed {
        Fed::Block(items) => Ok(send(Work::Block(items))),
        Fed::Groups(groups) => Ok(send(Work::Groups(groups))),
        Fed::Large(_) if job.task.tally.is_stopped() => Ok(false),
        Fed::Large(item) => Ok(worker
            .start_large(&item)?
            .is_none_or(|(file, pieces)| pieces.into_iter().all(|piece| send(Work::Piece(Arc::clone(&file), piece))))),
    })
}
