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
    /// Says that the next lot may come.
    pub(crate) freed: Arc<Notify>,
    /// Gets the place behind the last document that is committed.
    pub(crate) committed: Arc<AtomicU64>,
}

impl Worker {
    /// Sends all lots, and waits until they are committed.
    ///
    /// # Errors
    /// The stream has ended. Closing it says why.
    pub(crate) async fn run(self, mut lots: mpsc::Receiver<Lot>) -> Result<(), Error> {
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
            if let Err(error) = self.send(&lot.records, &commits).await {
                break Err(error);
            }
        };
        drop(commits);
        // It ends with the last commit, or with the stream.
        let _ = following.await;
        sent
    }

    /// Sends records in portions.
    async fn send(&self, records: &[Record], commits: &mpsc::Sender<(Commit, u64)>) -> Result<(), Error> {
        let mut rest = records;
        while let Some(first) = rest.first() {
            let (mut placed, mut taken) = (Placed::at(first.offset, self.print.bits()), 0);
            for record in rest.iter().take(PORTION_RECORDS) {
                let document = self.messages.document(self.partition, record);
                let bytes = document.as_ref().map_or(0, |document| document.len());
                if taken > 0 && placed.bytes() + bytes > PORTION_BYTES {
                    break;
                }
                let hash = self.print.with(record).bits();
                match document {
                    Ok(document) => placed.push(record.offset, &document, hash),
                    Err(fault) => {
                        placed.push_bad(record.offset, record.value.as_deref().unwrap_or_default(), fault, hash);
                    }
                }
                taken += 1;
            }
            rest = &rest[taken..];
            let end = placed.end();
            let commit = self.producer.send_placed(placed).await?;
            // If nobody follows, the stream has ended, and the next send says so.
            let _ = commits.send((commit, end)).await;
        }
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
