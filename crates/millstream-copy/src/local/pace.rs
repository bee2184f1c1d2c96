//! Holds all workers together to a number of bytes per second.

use crate::limits::LOOK_EVERY;
use crate::tally::Tally;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that may be used at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// A limit of bytes per second.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: Option<u64>,
    /// When the bytes taken so far are due.
    due: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, due: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes may be copied, or the copy is stopped.
    pub(super) fn take(&self, bytes: u64, tally: &Tally) {
        let Some(limit) = self.bytes_per_second else { return };
        let now = Instant::now();
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            *due = next(*due, now, bytes, limit);
            *due
        };
        while !tally.is_stopped() {
            let wait = due.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                break;
            }
            std::thread::sleep(wait.min(LOOK_EVERY));
        }
    }
}

fn next(due: Instant, now: Instant, bytes: u64, limit: u64) -> Instant {
    let takes = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
    due.max(now.checked_sub(BURST).unwrap_or(now)) + takes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_at_the_limit_and_a_pause_saves_up_little() {
        let now = Instant::now();
        let due = next(now, now, 500, 1_000);
        assert_eq!(due - now, Duration::from_millis(500));
        assert_eq!(next(due, now, 1_000, 1_000) - now, Duration::from_millis(1_500));
        let later = now + Duration::from_secs(60);
        assert_eq!(next(due, later, 1_000, 1_000), later - BURST + Duration::from_secs(1));
    }
}
