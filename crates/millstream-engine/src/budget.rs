//! What the loads of a process share: the memory that bounds the source bytes in flight, and who of them writes.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The memory and the writing, as one load has them. Bytes return to the memory when they are committed.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    bytes_max: usize,
    loads: u16,
    /// Who writes, and how many may at once.
    writers: Arc<Semaphore>,
    writers_max: u16,
    own: Arc<Own>,
}

/// What one load has of the memory.
#[derive(Debug, Default)]
struct Own {
    bytes: AtomicUsize,
    /// Some of it has returned.
    returned: Notify,
}

/// A part of the memory, which returns when this is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: usize,
    all: Arc<Semaphore>,
    own: Arc<Own>,
}

/// A lane may write for as long as it holds this.
#[derive(Debug)]
pub(crate) struct Writing {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// So many bytes for one load, whose lanes all write at once.
    pub(crate) fn of_one(bytes_max: usize) -> Self {
        Self::new(bytes_max, 1, u16::MAX)
    }

    /// So many bytes, for up to so many loads at once, of whose lanes so many write at once.
    pub(crate) fn new(bytes_max: usize, loads: u16, writers_max: u16) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            loads: loads.max(1),
            writers: Arc::new(Semaphore::new(usize::from(writers_max))),
            writers_max,
            own: Arc::default(),
        }
    }

    /// The same memory and writers, for another load.
    pub(crate) fn of_another(&self) -> Self {
        Self { own: Arc::default(), ..self.clone() }
    }

    /// All of the memory, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// How many lanes share it, if each load has so many.
    pub(crate) fn lanes(&self, of_load: u16) -> u16 {
        of_load.saturating_mul(self.loads)
    }

    /// How many of them write at once.
    pub(crate) fn writers(&self, of_load: u16) -> u16 {
        self.lanes(of_load).min(self.writers_max)
    }

    /// Waits for so many bytes, at most all of the memory.
    ///
    /// Of several loads, none may have more than twice as much as it leaves to the others. So one that is alone has two thirds,
    /// and one whose batch does not get on leaves room for the rest, however much it is sent. Four still have room for two
    /// batches each: one is written, and one grows. What a load has then returns when its batch is committed, and that takes no
    /// room. A load that has nothing waits only until there are as many bytes.
    pub(crate) async fn take(&self, bytes: u32) -> Option<Memory> {
        loop {
            // Before the look: what returns after it wakes this.
            let returned = self.own.returned.notified();
            if self.leaves_enough(bytes as usize) {
                break;
            }
            returned.await;
        }
        self.bytes.acquire_many(bytes).await.ok()?.forget();
        let bytes = bytes as usize;
        self.own.bytes.fetch_add(bytes, AcqRel);
        Some(Memory { bytes, all: Arc::clone(&self.bytes), own: Arc::clone(&self.own) })
    }

    fn leaves_enough(&self, more: usize) -> bool {
        let own = self.own.bytes.load(Acquire);
        let left = self.bytes.available_permits().saturating_sub(more);
        self.loads == 1 || own == 0 || own + more <= 2 * left
    }

    /// Waits until a lane may write.
    pub(crate) async fn writing(&self) -> Writing {
        // Nobody closes it.
        Writing { _permit: Arc::clone(&self.writers).acquire_owned().await.ok() }
    }
}

impl Memory {
    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.all.add_permits(self.bytes);
        self.own.bytes.fetch_sub(self.bytes, AcqRel);
        self.own.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// Takes as often as that needs no waiting.
    fn taken(budget: &Budget, bytes: u32) -> Vec<Memory> {
        std::iter::from_fn(|| budget.take(bytes).now_or_never().flatten()).collect()
    }

    #[test]
    fn a_load_that_is_alone_in_its_process_takes_all_of_the_memory() {
        let budget = Budget::of_one(100);
        assert_eq!((taken(&budget, 10).len(), budget.writers(4)), (10, 4));
    }

    #[test]
    fn a_load_leaves_half_as_much_to_the_others_as_it_has() {
        let one = Budget::new(1_000, 64, 4);
        let ones = taken(&one, 10);
        assert_eq!(ones.len(), 66, "two thirds of it");
        let others: Vec<Budget> = (0..5).map(|_| one.of_another()).collect();
        let had: Vec<Vec<Memory>> = others.iter().map(|other| taken(other, 10)).collect();
        assert!(had.iter().all(|had| !had.is_empty()), "one that has nothing gets something: {had:?}");
        drop(had);
        let other = one.of_another();
        assert_eq!(taken(&other, 10).len(), 22, "two thirds of the rest");
        drop(ones);
        assert_eq!(taken(&one, 10).len(), 66);
        // All of it was returned.
        assert_eq!(one.bytes.available_permits(), 1_000);
    }

    #[test]
    fn what_is_larger_than_a_share_is_taken_alone() {
        let one = Budget::new(100, 2, 4);
        let all = one.take(100).now_or_never().flatten().expect("there is room");
        assert!(one.take(1).now_or_never().is_none());
        drop(all);
        assert!(one.take(1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_load_that_waits_goes_on_when_its_own_bytes_return() {
        let one = Budget::new(100, 2, 4);
        let mut ones = taken(&one, 10);
        let waits = one.take(10);
        let returns = async {
            tokio::task::yield_now().await;
            ones.pop();
        };
        let (taken, ()) = tokio::join!(waits, returns);
        assert_eq!(taken.map(|memory| memory.bytes()), Some(10));
    }

    #[test]
    fn so_many_lanes_write_at_once() {
        let one = Budget::new(100, 64, 2);
        assert_eq!((one.lanes(1), one.writers(1)), (64, 2));
        let other = one.of_another();
        let (first, _second) = (one.writing().now_or_never(), other.writing().now_or_never());
        assert!(first.is_some() && one.writing().now_or_never().is_none());
        drop(first);
        assert!(other.writing().now_or_never().is_some());
    }
}
