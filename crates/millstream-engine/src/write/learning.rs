//! When a lane reads the keys of the table, instead of asking the server about the keys of each batch.

use crate::limits::{LEARNED_KEYS, MET_KEYS_PER_WORD};

/// The lane reads few keys soon, and no more than it and the other lanes may have asked for: those are in the table by then.
/// Reading a key costs a third of asking for it, so it loses little if the load ends soon, however large the table is.
#[derive(Debug)]
pub(super) struct Learning {
    /// Keys that it has asked for.
    asked: u32,
    /// How many they must be before it reads.
    due: u32,
    /// Most keys to read: the lane cannot remember many more.
    rows_max: u32,
    /// How many lanes write into the table.
    lanes: u32,
}

impl Learning {
    /// For one of so many lanes, which remembers the keys that it has met in so many words; zero if it remembers none.
    pub(super) fn new(met_words: usize, lanes: u16) -> Self {
        // There must be room for what the load inserts.
        let rows = met_words as u64 * MET_KEYS_PER_WORD / 2;
        Self { asked: 0, due: 1, rows_max: u32::try_from(rows).unwrap_or(u32::MAX), lanes: u32::from(lanes) }
    }

    /// The lane has asked for so many keys.
    pub(super) fn asked(&mut self, keys: usize) {
        self.asked = self.asked.saturating_add(u32::try_from(keys).unwrap_or(u32::MAX));
    }

    /// Most keys to read, if it pays to read now. If the table has more, the lane waits until it has asked for twice as many.
    pub(super) fn due(&mut self) -> Option<u32> {
        // What all lanes have inserted since, and as much again that was there.
        let rows = self.asked.saturating_mul(self.lanes + 1).max(LEARNED_KEYS).min(self.rows_max);
        let pays = (self.due..=self.rows_max).contains(&self.asked);
        pays.then(|| {
            self.due = self.asked.saturating_mul(2);
            rows
        })
    }

    /// The table has more keys than the lane remembers, or they cannot be read.
    pub(super) fn stop(&mut self) {
        self.rows_max = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_reads_as_many_keys_as_were_asked_for_and_seldom() {
        let mut learning = Learning::new(1_000_000, 2);
        assert_eq!(learning.due(), None, "it has asked for none");
        learning.asked(100);
        assert_eq!((learning.due(), learning.due()), (Some(LEARNED_KEYS), None));
        learning.asked(99);
        assert_eq!(learning.due(), None);
        learning.asked(99_801);
        assert_eq!(learning.due(), Some(300_000));
    }

    #[test]
    fn a_lane_reads_no_more_than_it_can_remember() {
        let mut learning = Learning::new(100_000, 1);
        learning.asked(70_000);
        assert_eq!(learning.due(), Some(140_000));
        learning.asked(70_000);
        assert_eq!(learning.due(), Some(150_000));
        learning.asked(usize::MAX);
        assert_eq!(learning.due(), None);
        for words in [0, 100_000] {
            let mut learning = Learning::new(words, 1);
            learning.stop();
            learning.asked(10);
            assert_eq!(learning.due(), None);
        }
    }
}
