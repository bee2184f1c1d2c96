//! The bytes of a Parquet file, read at any place, and what was taken of the memory.

use crate::limits::{BATCH_BYTES_MAX, BATCH_VALUES_MAX};
use crate::{FileExtent, Trouble};
use parquet::errors::ParquetError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A file that all columns read.
pub(super) struct Source {
    extent: FileExtent,
    read: AtomicU64,
    /// Bytes and values of the pages that were opened for the batch.
    bytes: AtomicUsize,
    values: AtomicUsize,
    /// Why reading failed. The crate `parquet` keeps only the text of an error.
    trouble: Mutex<Option<Trouble>>,
}

impl Source {
    pub(super) fn new(extent: FileExtent) -> Self {
        let (read, bytes, values) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { extent, read, bytes, values, trouble: Mutex::new(None) }
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.extent.len
    }

    /// Bytes that were read.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed).min(self.extent.len)
    }

    /// Notes that bytes were read for good.
    pub(super) fn passed(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads bytes, which must be there.
    pub(super) fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, ParquetError> {
        if at.checked_add(length as u64).is_none_or(|end| end > self.extent.len) {
            let why = format!("the file ends before the {length} bytes from its byte {at} on");
            return Err(ParquetError::General(why));
        }
        self.extent.bytes(at, length).map_err(|error| self.fail(Trouble::Io(error)))
    }

    /// Counts from now on for another batch.
    pub(super) fn begin_batch(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.values.store(0, Ordering::Relaxed);
    }

    /// Takes memory for a page.
    ///
    /// # Errors
    /// One batch has taken too much.
    pub(super) fn claim(&self, bytes: usize, values: u32) -> Result<(), ParquetError> {
        let values = usize::try_from(values).unwrap_or(usize::MAX);
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let values = self.values.fetch_add(values, Ordering::Relaxed).saturating_add(values);
        if bytes <= BATCH_BYTES_MAX && values <= BATCH_VALUES_MAX {
            return Ok(());
        }
        let problem =
            "is Parquet of which a few rows take gigabytes of memory, because of the sizes of its pages".into();
        let hint = "write it with pages of 1 MiB, the default of most writers".into();
        Err(self.fail(Trouble::Refused { problem, hint }))
    }

    /// Keeps the reason of an error.
    pub(super) fn fail(&self, trouble: Trouble) -> ParquetError {
        let text = format!("{trouble:?}");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        ParquetError::General(text)
    }

    /// The reason of an error that `parquet` reports.
    pub(super) fn trouble(&self, error: &dyn std::fmt::Display) -> Trouble {
        let kept = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.unwrap_or_else(|| Trouble::Damaged(format!("its columns cannot be decoded: {error}")))
    }
}
