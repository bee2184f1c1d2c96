//! The keys of all documents that a load reads, sorted on disk, to be compared with those of the table.

use crate::error::Error;
use millstream_input::{Sorted, Sorter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys, as canonical bytes. The decoding thread adds them, and whoever compares them takes them at the end.
#[derive(Debug)]
pub(crate) struct Keys {
    directory: PathBuf,
    state: Mutex<Collected>,
}

/// What was collected.
#[derive(Debug)]
pub(crate) struct Collected {
    /// `None` once a key could not be written, or all were taken.
    sorter: Option<Sorter>,
    failed: Option<io::Error>,
    documents: u64,
}

impl Keys {
    /// Nothing yet. Requires that files can be made in the directory: that may be needed only when the memory is full, long
    /// after the user has gone.
    ///
    /// # Errors
    /// [`Error::Runs`].
    pub(crate) fn new(directory: &Path, memory_bytes: usize) -> Result<Self, Error> {
        let directory = directory.to_owned();
        tempfile::tempfile_in(&directory).map_err(|source| Error::Runs { directory: directory.clone(), source })?;
        let sorter = Some(Sorter::new(&directory, memory_bytes));
        Ok(Self { directory, state: Mutex::new(Collected { sorter, failed: None, documents: 0 }) })
    }

    /// Where the keys are written if they do not fit into memory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// To add keys.
    pub(super) fn collecting(&self) -> MutexGuard<'_, Collected> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all keys, in order, and the number of documents that had them.
    ///
    /// # Errors
    /// [`Error::Runs`] if one could not be written.
    pub(crate) fn take(&self) -> Result<(Sorted, u64), Error> {
        let mut collected = self.collecting();
        let failed = |source| Error::Runs { directory: self.directory.clone(), source };
        if let Some(source) = collected.failed.take() {
            return Err(failed(source));
        }
        let sorter = collected.sorter.take().ok_or(Error::BrokenOff("the keys of the documents were taken before"))?;
        Ok((sorter.finish().map_err(failed)?, collected.documents))
    }
}

impl Collected {
    /// Adds the key of a document. If it cannot be written, the load goes on: it commits its documents, and then fails.
    pub(super) fn push(&mut self, key: &[u8]) {
        self.documents += 1;
        if let Some(Err(error)) = self.sorter.as_mut().map(|sorter| sorter.push(key, &[])) {
            (self.sorter, self.failed) = (None, Some(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_input::SortRecord;

    #[test]
    fn keys_come_out_in_order_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let keys = Keys::new(directory.path(), 1).unwrap();
        for n in [3_u8, 1, 2, 1] {
            keys.collecting().push(&[n]);
        }
        let (mut sorted, documents) = keys.take().unwrap();
        let (mut found, mut record) = (Vec::new(), SortRecord::default());
        while sorted.next(&mut record).unwrap() {
            found.push(record.key[0]);
        }
        assert_eq!((found, documents), (vec![1, 1, 2, 3], 4));
        assert!(keys.take().is_err());
    }

    #[test]
    fn a_directory_that_is_not_there_is_found_before_it_is_needed() {
        let missing = tempfile::tempdir().unwrap().path().join("none");
        assert!(matches!(Keys::new(&missing, 1 << 20), Err(Error::Runs { .. })));
    }
}
