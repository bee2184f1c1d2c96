//! The memory that bounds the source bytes in flight, of one load or of all loads of a process.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory. Bytes return to it when they are committed.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    bytes_max: usize,
    loads: u16,
}

impl Budget {
    /// So many bytes, for up to so many loads at once.
    pub(crate) fn new(bytes_max: usize, loads: u16) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes_max)), bytes_max, loads: loads.max(1) }
    }

    /// All of it, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// How many lanes share it, if each load has so many.
    pub(crate) fn lanes(&self, of_load: u16) -> u16 {
        of_load.saturating_mul(self.loads)
    }

    /// Waits for so many bytes, at most all of it.
    pub(crate) async fn take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.bytes).acquire_many_owned(bytes).await.ok()
    }
}
