//! Threads that take work from one queue.

use crate::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Where threads get their work.
pub(crate) struct Queue<W>(Arc<Mutex<Receiver<W>>>);

impl<W> Queue<W> {
    /// The next piece of work. `None` once there is no more.
    pub(crate) fn next(&self) -> Option<W> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// Runs threads on what `feed` sends, and returns what they made of it. So many pieces of work may wait for a thread.
///
/// If all threads end early, sending fails, and `feed` should end, too.
///
/// # Errors
/// The first error of a thread, else that of `feed`.
pub(crate) fn crew<W: Send, R: Send>(
    threads: usize,
    waiting_max: usize,
    work: impl Fn(usize, Queue<W>) -> Result<R, Error> + Sync,
    feed: impl FnOnce(&SyncSender<W>) -> Result<(), Error>,
) -> Result<Vec<R>, Error> {
    let (sender, receiver) = sync_channel(waiting_max);
    let receiver = Arc::new(Mutex::new(receiver));
    std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|number| {
                let (queue, work) = (Queue(Arc::clone(&receiver)), &work);
                scope.spawn(move || work(number, queue))
            })
            .collect();
        // With it, the queue would outlive its readers.
        drop(receiver);
        let fed = feed(&sender);
        drop(sender);
        let ended: Result<Vec<R>, Error> =
            spawned.into_iter().map(|thread| thread.join().map_err(|_| Error::Bug)?).collect();
        let ended = ended?;
        fed?;
        Ok(ended)
    })
}
