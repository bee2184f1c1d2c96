//! Copies a tree on this machine: folders first, then files by several workers, then the folders' rights and times.

mod folders;
mod large;
mod pace;
mod pieces;
mod transfer;
mod worker;

pub(crate) use folders::{dress, make, sweep};
pub(crate) use transfer::{buffer, hash};
pub(crate) use worker::open_to_read;

use crate::counts::Counts;
use crate::error::Error;
use crate::feed::{Fed, Item, feed};
use crate::jobs::{self, Found, Gate, Trials};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_ENTRIES_MAX, BLOCKS_MAX};
use crate::place::Ends;
use crate::request::{Jobs, Request};
use crate::state::State;
use crate::tally::{Failures, Tally};
use crate::tree::{Dress, Tree};
use crate::walk::Listed;
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
pub(crate) struct Job<'a> {
    pub(crate) request: &'a Request,
    pub(crate) place: &'a Ends,
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

impl<'a> Job<'a> {
    pub(crate) fn new(
        request: &'a Request,
        (place, state): (&'a Ends, &'a State),
        (source, destination): (&'a Tree, &'a Tree),
        (tally, failures): (&'a Tally, &'a Failures),
    ) -> Self {
        let dress = Dress { attributes: request.attributes, owner: rustix::process::geteuid().is_root() };
        let is_on_server = |tree: &Tree| tree.folder(b"").is_ok_and(|folder| transfer::is_on_server(&folder));
        Self {
            request,
            place,
            state,
            source,
            destination,
            tally,
            failures,
            temporary: format!("{}.", unfinished(state)),
            dress,
            pace: Pace::new(request.bytes_per_second),
            clones: AtomicBool::new(true),
            is_on_server: is_on_server(source),
            is_to_server: is_on_server(destination),
        }
    }
}

/// Copies everything but folders. Returns the counts, and which number of workers was found to be best.
///
/// # Errors
/// Nothing more can be copied.
pub(crate) fn run(job: &Job<'_>, listed: &Listed, gate: &Gate) -> Result<(Counts, Option<Found>), Error> {
    let mut own = Counts::default();
    let search = (job.request.jobs == Jobs::Auto).then_some(Trials::WithOne);
    let (counts, found) = jobs::run(
        (gate, search, BLOCKS_MAX),
        job.tally,
        |number| Worker::new(job, number),
        |worker, work| match work {
            Work::Block(items) => items.iter().try_for_each(|item| worker.item(item).map(drop)),
            Work::Groups(groups) => groups.iter().try_for_each(|group| worker.group(group)),
            Work::Piece(large, piece) => worker.piece(&large, piece),
        },
        |worker| worker.counts,
        |sender| {
            let mut worker = Worker::new(job, gate.workers)?;
            send_all(job, &mut worker, listed, sender)?;
            own = worker.counts;
            Ok(())
        },
    )?;
    Ok((own.plus(counts), found))
}

/// Sends the work. A large file is begun here, and its pieces are sent.
fn send_all(job: &Job<'_>, worker: &mut Worker<'_>, listed: &Listed, sender: &SyncSender<Work>) -> Result<(), Error> {
    let send = |work: Work| !job.tally.is_stopped() && sender.send(work).is_ok();
    let is_full = |entries, bytes| entries >= BLOCK_ENTRIES_MAX || bytes >= BLOCK_BYTES_MAX;
    feed(job.state, listed, is_full, |fed| match fed {
        Fed::Block(items) => Ok(send(Work::Block(items))),
        Fed::Groups(groups) => Ok(send(Work::Groups(groups))),
        Fed::Large(_) if job.tally.is_stopped() => Ok(false),
        Fed::Large(item) => Ok(worker
            .start_large(&item)?
            .is_none_or(|(file, pieces)| pieces.into_iter().all(|piece| send(Work::Piece(Arc::clone(&file), piece))))),
    })
}
