//! Reads the keys of the table and those of the documents side by side, and lists those that no document has.

use super::session::Session;
use crate::error::Error;
use crate::limits::{FOLDED_BATCH_BYTES, FOLDED_QUEUE, MISSING_MEMORY_BYTES, MISSING_ROWS_MAX};
use crate::verify::{Stored, TableReading};
use millstream_input::{SortRecord, Sorted, Sorter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// What the comparison found.
#[derive(Debug)]
pub(super) struct Compared {
    /// Rows of the table.
    pub(super) rows: u64,
    /// The keys that are missing.
    pub(super) list: MissingKeys,
}

/// The keys of rows that no document has, in order.
#[derive(Debug)]
pub(super) struct MissingKeys {
    sorted: Arc<Mutex<Sorted>>,
    /// How many they are.
    pub(super) count: u64,
    /// How many of them make a batch.
    batch_rows: usize,
    directory: PathBuf,
}

impl MissingKeys {
    pub(super) fn new(sorted: Sorted, count: u64, batch_rows: usize, directory: PathBuf) -> Self {
        Self { sorted: Arc::new(Mutex::new(sorted)), count, batch_rows, directory }
    }

    /// Begins again with the first.
    ///
    /// # Errors
    /// [`Error::Runs`].
    pub(super) async fn rewind(&self) -> Result<(), Error> {
        let sorted = Arc::clone(&self.sorted);
        let done = blocking(move || lock(&sorted).rewind()).await?;
        done.map_err(|source| Error::Runs { directory: self.directory.clone(), source })
    }

    /// The next ones, as many as a batch takes; none after the last.
    ///
    /// # Errors
    /// [`Error::Runs`].
    pub(super) async fn next(&self) -> Result<Vec<Vec<u8>>, Error> {
        let (sorted, batch_rows) = (Arc::clone(&self.sorted), self.batch_rows);
        let keys = blocking(move || {
            let (mut sorted, mut keys, mut record) = (lock(&sorted), Vec::new(), SortRecord::default());
            while keys.len() < batch_rows && sorted.next(&mut record)? {
                keys.push(std::mem::take(&mut record.key));
            }
            Ok::<_, io::Error>(keys)
        });
        keys.await?.map_err(|source| Error::Runs { directory: self.directory.clone(), source })
    }
}

/// Keys of the table on their way to the thread that compares them.
#[derive(Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Page {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(move |(start, end)| &self.bytes[start..*end])
    }
}

/// Compares all keys. Rows up to the key `after` are counted, but not listed.
///
/// # Errors
/// [`Error::Runs`]; the server's.
pub(super) async fn compare(
    session: &Session<'_>,
    reading: &TableReading,
    keys: &Arc<Mutex<Sorted>>,
    after: Option<&[u8]>,
    directory: &Path,
) -> Result<Compared, Error> {
    let (sender, pages) = mpsc::channel(FOLDED_QUEUE);
    let (keys, after, runs) = (Arc::clone(keys), after.map(<[u8]>::to_vec), directory.to_owned());
    let batch_rows = session.plan().request.batch_rows.min(MISSING_ROWS_MAX);
    let merging = blocking(move || merge(&mut lock(&keys), pages, after.as_deref(), (batch_rows, runs)));
    let merging = tokio::spawn(merging);
    let read = Box::pin(read(session, reading, sender)).await;
    // Without its sender, the thread ends.
    let merged = merging.await.map_err(|_| GONE)??;
    read?;
    let merged = merged.map_err(|source| Error::Runs { directory: directory.to_owned(), source })?;
    merged.ok_or(GONE)
}

const GONE: Error = Error::BrokenOff("the thread that compares keys has gone");

/// Reads the keys of the table in order. The end is a page without keys. If nobody compares them any more, the thread
/// says why.
async fn read(session: &Session<'_>, reading: &TableReading, pages: Sender<Page>) -> Result<(), Error> {
    let mut stored = Stored::keys(session.client(), reading).await?;
    let mut page = Page::default();
    while let Some(row) = stored.next().await? {
        // No document has a null in its key, and no statement finds it by one.
        let Some(key) = row.key else { continue };
        page.push(&key);
        if page.bytes.len() >= FOLDED_BATCH_BYTES {
            session.lanes.around.tally.compared(page.ends.len() as u64);
            if pages.send(std::mem::take(&mut page)).await.is_err() {
                return Ok(());
            }
        }
    }
    for page in [Some(page).filter(|page| !page.ends.is_empty()), Some(Page::default())].into_iter().flatten() {
        if pages.send(page).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Merges both sides, on a thread of its own. The list is sorted in a directory, and makes batches of so many rows. `None`
/// if the table was not read to its end.
fn merge(
    keys: &mut Sorted,
    mut pages: Receiver<Page>,
    after: Option<&[u8]>,
    (batch_rows, directory): (usize, PathBuf),
) -> io::Result<Option<Compared>> {
    keys.rewind()?;
    let mut missing = Sorter::new(&directory, MISSING_MEMORY_BYTES);
    let mut key = SortRecord::default();
    let mut more = keys.next(&mut key)?;
    let (mut rows, mut count) = (0, 0);
    while let Some(page) = pages.blocking_recv() {
        if page.ends.is_empty() {
            let list = MissingKeys::new(missing.finish()?, count, batch_rows, directory);
            return Ok(Some(Compared { rows, list }));
        }
        for stored in page.keys() {
            rows += 1;
            while more && key.key.as_slice() < stored {
                more = keys.next(&mut key)?;
            }
            let is_there = more && key.key == stored;
            if !is_there && after.is_none_or(|after| stored > after) {
                missing.push(stored, &[])?;
                count += 1;
            }
        }
    }
    Ok(None)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs work that waits for the disk on a thread where it blocks nobody.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| GONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;
    use std::collections::BTreeSet;

    fn sorted(directory: &Path, memory_bytes: usize, keys: &[Vec<u8>]) -> Sorted {
        let mut sorter = Sorter::new(directory, memory_bytes);
        keys.iter().for_each(|key| sorter.push(key, &[]).unwrap());
        sorter.finish().unwrap()
    }

    #[tokio::test]
    async fn the_keys_that_no_document_has_are_listed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for mut rng in Cases::new(60) {
            let mut some = |count: usize| -> Vec<Vec<u8>> {
                (0..rng.usize(0..count)).map(|_| (0..rng.usize(1..3)).map(|_| rng.u8(0..8)).collect()).collect()
            };
            let (documents, rows) = (some(200), some(60));
            let rows: BTreeSet<Vec<u8>> = rows.into_iter().collect();
            let after = rng.bool().then(|| vec![rng.u8(0..8)]);
            let (sender, pages) = mpsc::channel(100);
            let mut page = Page::default();
            for row in &rows {
                page.push(row);
                if rng.bool() {
                    sender.send(std::mem::take(&mut page)).await.unwrap();
                }
            }
            if !page.ends.is_empty() {
                sender.send(page).await.unwrap();
            }
            let ended = rng.u8(..) > 30;
            if ended {
                sender.send(Page::default()).await.unwrap();
            }
            drop(sender);
            let mut keys = sorted(directory.path(), rng.usize(1..2_000), &documents);
            let (bound, into) = (after.clone(), (rng.usize(1..20), directory.path().to_owned()));
            let merged = blocking(move || merge(&mut keys, pages, bound.as_deref(), into)).await.unwrap().unwrap();
            let Some(Compared { rows: counted, list }) = merged else {
                assert!(!ended);
                continue;
            };
            let documents: BTreeSet<Vec<u8>> = documents.into_iter().collect();
            let missing = rows.difference(&documents).filter(|key| after.as_ref().is_none_or(|after| *key > after));
            let missing: Vec<Vec<u8>> = missing.cloned().collect();
            assert_eq!((counted, list.count), (rows.len() as u64, missing.len() as u64));
            for _ in 0..2 {
                let mut found = Vec::new();
                loop {
                    let some = list.next().await.unwrap();
                    if some.is_empty() {
                        break;
                    }
                    found.extend(some);
                }
                assert_eq!(found, missing);
                list.rewind().await.unwrap();
            }
        }
    }
}
