//! Which writer a lane uses next, from what its last batches met.

use super::{Writer, copy, staged};
use crate::limits::{COPY_PENALTY, COPY_PENALTY_MAX};
use crate::merge::Written;

/// Direct COPY while keys are new, staged when they are not.
#[derive(Debug)]
pub(super) struct Choice {
    copy: bool,
    /// Batches to stay away from COPY.
    wait: u32,
    penalty: u32,
}

impl Choice {
    /// Begins with direct COPY where it cannot meet a stored key.
    pub(super) fn new(table_empty: bool) -> Self {
        Self { copy: table_empty, wait: 1, penalty: COPY_PENALTY }
    }

    pub(super) fn writer(&self) -> &'static Writer {
        if self.copy { &copy::WRITER } else { &staged::WRITER }
    }

    /// Whether the next batch goes by direct COPY, which a stored key ends.
    pub(super) fn is_copy(&self) -> bool {
        self.copy
    }

    /// A duplicate ended a COPY.
    pub(super) fn duplicate(&mut self) {
        self.copy = false;
        self.wait = self.penalty;
        self.penalty = (self.penalty * 2).min(COPY_PENALTY_MAX);
    }

    /// The writer wrote a batch.
    pub(super) fn wrote(&mut self, written: Written) {
        if self.copy {
            self.penalty = COPY_PENALTY;
        } else if written.inserted < written.keys {
            self.wait = self.wait.max(1);
        } else {
            self.wait = self.wait.saturating_sub(1);
            self.copy = self.wait == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(keys: u64, inserted: u64) -> Written {
        Written { documents: keys, keys, inserted, updated: keys - inserted }
    }

    #[test]
    fn copy_is_tried_on_an_empty_table_and_after_a_batch_of_new_keys() {
        assert_eq!(Choice::new(true).writer().name, "copy");
        let mut choice = Choice::new(false);
        assert_eq!(choice.writer().name, "staged");
        choice.wrote(written(5, 4));
        assert!(!choice.is_copy(), "a key was stored already");
        choice.wrote(written(5, 5));
        assert!(choice.is_copy());
    }

    #[test]
    fn each_miss_keeps_copy_away_for_longer_up_to_the_limit() {
        let mut choice = Choice::new(true);
        let mut waits = Vec::new();
        for _ in 0..10 {
            choice.duplicate();
            let mut batches = 0;
            while !choice.is_copy() {
                choice.wrote(written(5, 5));
                batches += 1;
            }
            waits.push(batches);
        }
        assert_eq!(waits[..3], [COPY_PENALTY, 2 * COPY_PENALTY, 4 * COPY_PENALTY]);
        assert_eq!(waits[9], COPY_PENALTY_MAX);
        choice.wrote(written(5, 5));
        choice.duplicate();
        choice.wrote(written(5, 5));
        assert!(choice.is_copy(), "a batch that COPY wrote ends the penalty");
    }
}
