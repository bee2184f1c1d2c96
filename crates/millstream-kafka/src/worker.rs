//! What turns the records of a partition into documents and sends them to its stream.

use crate::client::{Lot, Record};
use crate::fingerprint::Fingerprint;
use crate::limits::{COMMITS_MAX, PORTION_BYTES, PORTION_RECORDS};
use crate::message::Messages;
use millstream_engine::{Commit, Error, Placed, Producer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{Notify, mpsc};

/// What a partition's task works with.
pub(crate) struct Worker {
    pub(crate) partition: i32,
    pub(crate) producer: Producer,
    pub(crate) messages: Messages,
    /// The topic.
    pub(crate) print: Fingerprint,
    /// What an earlier run has noted of its last record.
    pub(crate) last: Option<Fingerprint>,
    /// Says that the next lot may come.
    pub(crate) freed: Arc<Notify>,
    /// Gets the place behind the last document that is committed. It holds the place where loading begins.
    pub(crate) committed: Arc<AtomicU64>,
}

/// How far a partition was sent.
struct Sent {
    /// The place up to which all was sent.
    end: u64,
    /// The last record before it.
    print: Fingerprint,
}

impl Worker {
    /// Sends all lots, and waits until they are committed.
    ///
    /// # Errors
    /// The stream has ended. Closing it says why.
    pub(crate) async fn run(self, mut lots: mpsc::Receiver<Lot>) -> Result<(), Error> {
        let print = self.last.map_or(self.print, |last| self.print.with_record_of(last));
        let mut so_far = Sent { end: self.committed.load(Relaxed), print };
        let (commits, awaited) = mpsc::channel(COMMITS_MAX);
        let mut following = tokio::spawn(follow(awaited, Arc::clone(&self.committed)));
        let sent = loop {
            let lot = tokio::select! {
                biased;
                _ = &mut following => return Err(Error::StreamEnded("not all of its documents are committed")),
                lot = lots.recv() => lot,
            };
            let Some(lot) = lot else { break Ok(()) };
            self.freed.notify_one();
            if let Err(error) = self.send(&lot, &mut so_far, &commits).await {
                break Err(error);
            }
        };
        drop(commits);
        // It ends with the last commit, or with the stream.
        let _ = following.await;
        sent
    }

    /// Sends records in portions, and how far the lot goes beyond them. Offsets without a record must be committed, too: if
    /// retention removes them before the next run, that run would look for records at them.
    async fn send(&self, lot: &Lot, so_far: &mut Sent, commits: &mpsc::Sender<(Commit, u64)>) -> Result<(), Error> {
        let mut rest: &[Record] = &lot.records;
        while let Some(first) = rest.first() {
            let (mut placed, mut taken) = (Placed::at(first.offset, self.print.bits()), 0);
            for record in rest.iter().take(PORTION_RECORDS) {
                let document = self.messages.document(self.partition, record);
                let bytes = document.as_ref().map_or(0, |document| document.len());
                if taken > 0 && placed.bytes() + bytes > PORTION_BYTES {
                    break;
                }
                so_far.print = self.print.with(record);
                let hash = so_far.print.bits();
                match document {
                    Ok(document) => placed.push(record.offset, &document, hash),
                    Err(fault) => {
                        placed.push_bad(record.offset, record.value.as_deref().unwrap_or_default(), fault, hash);
                    }
                }
                taken += 1;
            }
            rest = &rest[taken..];
            so_far.end = placed.end();
            self.hand(placed, commits).await?;
        }
        if lot.next > so_far.end {
            so_far.print = so_far.print.behind(lot.next - so_far.end);
            so_far.end = lot.next;
            self.hand(Placed::at(so_far.end, so_far.print.bits()), commits).await?;
        }
        Ok(())
    }

    /// Sends a portion, and lets its commit be followed.
    async fn hand(&self, placed: Placed, commits: &mpsc::Sender<(Commit, u64)>) -> Result<(), Error> {
        let end = placed.end();
        let commit = self.producer.send_placed(placed).await?;
        // If nobody follows, the stream has ended, and the next send says so.
        let _ = commits.send((commit, end)).await;
        Ok(())
    }
}

/// Notes how far the partition is committed.
async fn follow(mut awaited: mpsc::Receiver<(Commit, u64)>, committed: Arc<AtomicU64>) {
    while let Some((commit, end)) = awaited.recv().await {
        if commit.committed().await.is_err() {
            return;
        }
        committed.store(end, Relaxed);
    }
}
