//! Chooses how a lane writes its next batch: by which writer, and whether row by row from the start.

use super::probe::Sample;
use super::{Writer, arrays, copy, divided, staged, upsert};
use crate::limits::{
    COMPARED_PERCENT_MIN, DIVIDED_PERCENT_MIN, FIRST_BATCH_ROWS, MET_WRONGLY_ONE_OF, WRITER_PENALTY, WRITER_PENALTY_MAX,
};
use crate::merge::Written;
use crate::request::SkipUnchanged;

/// A lane uses `copy` after a batch of new keys. If `copy` meets a stored key, the lane avoids it for some batches and
/// divides them, as long as enough of their keys are new. If another session inserts a key of a batch at the same time,
/// the lane upserts some batches.
#[derive(Debug)]
pub(super) struct Choice {
    keys: Keys,
    /// Whether we know nothing about the keys: the table had rows, and no batch has written a key yet.
    pub(super) blind: bool,
    /// Whether the writers `staged` and `divided` can be used.
    merges: bool,
    /// Whether enough of the last keys were new for dividing a batch to pay.
    often_new: bool,
    /// Batches to write before the better writer is used. While keys are contended, any batch counts; otherwise only
    /// batches of new keys.
    wait: u32,
    penalty: u32,
    compares: Compares,
}

/// Whether stored documents are compared with new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compares {
    Never,
    Always,
    /// While it pays; whether it did the last time.
    Now(bool),
}

/// A part of a batch's keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) of: u64,
}

impl Share {
    /// Whether it is large enough for dividing a batch to pay.
    fn divides(self) -> bool {
        self.part * 100 >= self.of * DIVIDED_PERCENT_MIN
    }

    /// Whether the others may well be new, too: the lane takes some new keys for known ones.
    fn is_almost_all(self) -> bool {
        (self.of - self.part) * MET_WRONGLY_ONE_OF <= self.of
    }
}

/// Which keys we expect in the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    New,
    Any,
    /// Any, and other sessions insert the same ones.
    Contended,
}

impl Choice {
    /// Begins with `copy` if the table is empty, because there is no stored key to meet.
    pub(super) fn new(table_empty: bool, merges: bool, skip: SkipUnchanged) -> Self {
        let keys = if table_empty { Keys::New } else { Keys::Any };
        let compares = match skip {
            SkipUnchanged::Off => Compares::Never,
            SkipUnchanged::On => Compares::Always,
            SkipUnchanged::Auto => Compares::Now(false),
        };
        Self { compares, keys, blind: !table_empty, merges, often_new: table_empty, wait: 1, penalty: WRITER_PENALTY }
    }

    /// The writer of the next batch. `small`: the batch is small enough for `arrays`. `new`: how many of its keys are
    /// certainly new, if the lane knows all keys of the table.
    pub(super) fn writer(&self, small: bool, new: Option<Share>) -> &'static Writer {
        let often_new = new.map_or(self.often_new, Share::divides);
        match self.keys {
            _ if small => &arrays::WRITER,
            Keys::New if new.is_none_or(Share::is_almost_all) => &copy::WRITER,
            Keys::Any if new.is_some_and(|new| new.part == new.of) => &copy::WRITER,
            Keys::Contended if self.compares() => &upsert::COMPARING,
            Keys::Contended => &upsert::WRITER,
            _ if self.compares() => &divided::COMPARED,
            _ if self.merges && often_new => &divided::DIVIDED,
            _ if self.merges => &staged::WRITER,
            _ => &upsert::WRITER,
        }
    }

    fn compares(&self) -> bool {
        matches!(self.compares, Compares::Always | Compares::Now(true))
    }

    /// Most documents in the next batch: few, as long as we do not know which writer they need.
    pub(super) fn rows_max(&self) -> usize {
        if self.blind { FIRST_BATCH_ROWS } else { usize::MAX }
    }

    /// Whether to compare a sample of the next batch, to learn whether comparing pays.
    pub(super) fn samples(&self) -> bool {
        self.keys != Keys::New && self.compares == Compares::Now(false)
    }

    /// Learns from a comparison whether comparing pays, and before the first batch also whether dividing does.
    pub(super) fn compared(&mut self, Sample { unchanged, absent, keys }: Sample) {
        if keys == 0 {
            return;
        }
        if matches!(self.compares, Compares::Now(_)) {
            self.compares = Compares::Now(unchanged * 100 >= keys * COMPARED_PERCENT_MIN);
        }
        if self.blind {
            self.often_new = Share { part: absent, of: keys }.divides();
        }
    }

    /// The writer met a key that it cannot write.
    pub(super) fn missed(&mut self) {
        self.expect(if self.keys == Keys::New { Keys::Any } else { Keys::Contended });
    }

    /// Another session has locked the rows of a batch in another order. The upsert locks them in key order, as every load
    /// does that writes few rows.
    pub(super) fn deadlocked(&mut self) {
        self.expect(Keys::Contended);
    }

    fn expect(&mut self, keys: Keys) {
        self.keys = keys;
        self.wait = self.penalty;
        self.penalty = (self.penalty * 2).min(WRITER_PENALTY_MAX);
    }

    /// A batch was written. `compared`: its writer also found out which documents are unchanged.
    pub(super) fn wrote(&mut self, compared: bool, written: Written) {
        self.blind &= written.keys == 0;
        if compared {
            self.compared(Sample { unchanged: written.unchanged, absent: written.inserted, keys: written.keys });
        }
        self.met(written);
    }

    /// A batch was written row by row, which works for any key.
    pub(super) fn replayed(&mut self, written: Written) {
        self.blind &= written.keys == 0;
        if self.keys == Keys::New && written.inserted < written.keys {
            self.missed();
        } else {
            self.met(written);
        }
    }

    /// Updates which keys we expect next.
    fn met(&mut self, written: Written) {
        if written.keys == 0 {
            return;
        }
        self.often_new = Share { part: written.inserted, of: written.keys }.divides();
        let all_new = written.inserted == written.keys;
        match self.keys {
            Keys::New if all_new => self.penalty = WRITER_PENALTY,
            Keys::New => self.keys = Keys::Any,
            Keys::Any if !all_new => self.wait = self.wait.max(1),
            Keys::Any | Keys::Contended => {
                self.wait = self.wait.saturating_sub(1);
                if self.wait == 0 {
                    self.keys = if self.keys == Keys::Any { Keys::New } else { Keys::Any };
                }
            }
        }
    }
}

/// Whether a lane writes its next batch row by row from the start. That saves the try that a refusal would waste.
#[derive(Debug)]
pub(super) struct Caution {
    /// Batches without a refusal that are still to be written row by row.
    left: u32,
    penalty: u32,
}

impl Default for Caution {
    fn default() -> Self {
        Self { left: 0, penalty: WRITER_PENALTY }
    }
}

impl Caution {
    pub(super) fn replays(&self) -> bool {
        self.left > 0
    }

    /// The server refused something in a batch that was not written row by row from the start.
    pub(super) fn surprised(&mut self) {
        self.left = self.penalty;
        self.penalty = (self.penalty * 2).min(WRITER_PENALTY_MAX);
    }

    /// A batch with this number of keys was written without a refusal.
    pub(super) fn wrote(&mut self, keys: usize) {
        if keys > 0 {
            self.penalty = WRITER_PENALTY;
        }
    }

    /// A batch was written row by row. `refused`: the server refused something in it.
    pub(super) fn replayed(&mut self, refused: bool) {
        self.left = if refused { self.left.max(1) } else { self.left.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_with_refusals_in_every_second_batch_replays_all() {
        let mut caution = Caution::default();
        let mut surprises = 0;
        for n in 0..1_000 {
            let refused = n % 2 == 0;
            if caution.replays() || refused {
                if !caution.replays() {
                    surprises += 1;
                    caution.surprised();
                }
                caution.replayed(refused);
            } else {
                caution.wrote(1);
            }
        }
        assert!(surprises < 20, "{surprises}");
        while caution.replays() {
            caution.replayed(false);
        }
        caution.wrote(1);
        caution.surprised();
        caution.replayed(true);
        caution.replayed(false);
        assert!(!caution.replays(), "a batch that was written ends the penalty");
    }

    fn written(keys: u64, inserted: u64) -> Written {
        Written { documents: keys, keys, inserted, updated: keys - inserted, ..Written::default() }
    }

    #[test]
    fn the_last_batch_chooses_the_writer() {
        assert_eq!(Choice::new(true, true, SkipUnchanged::Off).writer(false, None).name, "copy");
        for (merges, few_new, some_new) in [(true, "staged", "divided"), (false, "upsert", "upsert")] {
            for (inserted, next) in [(5, "copy"), (4, some_new), (1, few_new), (0, few_new)] {
                let mut choice = Choice::new(false, merges, SkipUnchanged::Off);
                assert_eq!(choice.writer(false, None).name, few_new);
                choice.wrote(false, written(5, inserted));
                assert_eq!(choice.writer(false, None).name, next);
            }
        }
    }

    #[test]
    fn a_lane_that_knows_all_keys_need_not_ask() {
        let choice = Choice::new(true, true, SkipUnchanged::Off);
        for (part, name) in [(10, "copy"), (9, "divided"), (3, "divided"), (2, "staged"), (0, "staged")] {
            assert_eq!(choice.writer(false, Some(Share { part, of: 10 })).name, name);
        }
        assert_eq!(choice.writer(true, Some(Share { part: 9, of: 10 })).name, "arrays");
        let mut other = Choice::new(true, true, SkipUnchanged::Off);
        other.wrote(false, written(5, 4));
        assert_eq!(other.writer(false, Some(Share { part: 5, of: 5 })).name, "copy", "also after others");
        let doubtful = Some(Share { part: 9_999, of: 10_000 });
        assert_eq!(choice.writer(false, doubtful).name, "copy");
        assert_eq!(other.writer(false, doubtful).name, "divided", "the last such key was stored");
    }

    #[test]
    fn an_empty_batch_does_not_change_the_choice() {
        let mut choice = Choice::new(false, true, SkipUnchanged::Off);
        assert_eq!(choice.rows_max(), FIRST_BATCH_ROWS);
        choice.wrote(false, Written::default());
        assert_eq!((choice.writer(false, None).name, choice.rows_max()), ("staged", FIRST_BATCH_ROWS));
        choice.wrote(false, written(5, 4));
        assert_eq!((choice.writer(false, None).name, choice.rows_max()), ("divided", usize::MAX));
    }

    #[test]
    fn a_sample_decides_about_the_first_batch() {
        for (absent, name) in [(5, "divided"), (1, "staged")] {
            let mut choice = Choice::new(false, true, SkipUnchanged::Auto);
            choice.compared(Sample { unchanged: 0, absent, keys: 5 });
            assert_eq!(choice.writer(false, None).name, name);
        }
    }

    #[test]
    fn small_batches_go_as_arrays_and_inform_the_choice() {
        let mut choice = Choice::new(true, true, SkipUnchanged::Auto);
        assert_eq!((choice.writer(true, None).name, choice.writer(false, None).name), ("arrays", "copy"));
        choice.wrote(true, written(5, 4));
        assert_eq!((choice.writer(true, None).name, choice.writer(false, None).name), ("arrays", "divided"));
        choice.wrote(true, Written { documents: 5, keys: 5, unchanged: 5, ..Written::default() });
        assert_eq!((choice.writer(true, None).name, choice.writer(false, None).name), ("arrays", "compared"));
        choice.wrote(true, written(5, 0));
        assert_eq!(choice.writer(false, None).name, "staged");
    }

    #[test]
    fn each_miss_doubles_the_penalty_up_to_the_limit() {
        for (inserted, name) in [(5, "copy"), (4, "divided"), (1, "staged")] {
            let mut choice = Choice::new(false, true, SkipUnchanged::Off);
            choice.wrote(false, written(5, inserted));
            let mut waits = Vec::new();
            for _ in 0..10 {
                choice.missed();
                let mut batches = 0;
                while choice.writer(false, None).name != name {
                    choice.wrote(false, written(5, inserted));
                    batches += 1;
                }
                waits.push(batches);
            }
            assert_eq!(waits[..3], [WRITER_PENALTY, 2 * WRITER_PENALTY, 4 * WRITER_PENALTY], "{name}");
            assert_eq!(waits[9], WRITER_PENALTY_MAX, "{name}");
        }
        let mut choice = Choice::new(true, true, SkipUnchanged::Off);
        choice.missed();
        choice.wrote(false, written(5, 5));
        choice.wrote(false, written(5, 5));
        choice.missed();
        choice.wrote(false, written(5, 5));
        assert_eq!(choice.writer(false, None).name, "copy", "a batch that it wrote ends the penalty");
    }

    #[test]
    fn concurrent_inserts_make_the_lane_upsert_for_a_while() {
        let mut choice = Choice::new(true, true, SkipUnchanged::Off);
        choice.missed();
        assert_eq!(choice.writer(false, None).name, "divided");
        choice.missed();
        let mut names = Vec::new();
        for _ in 0..4 {
            names.push(choice.writer(false, None).name);
            choice.wrote(false, written(5, 5));
        }
        assert_eq!(names, ["upsert", "upsert", "divided", "copy"]);
        let mut comparing = Choice::new(false, true, SkipUnchanged::On);
        assert_eq!(comparing.writer(false, None).name, "compared");
        comparing.missed();
        let next = comparing.writer(false, None);
        assert!(next.name == "upsert" && next.facts.compares);
        let mut deadlocked = Choice::new(true, true, SkipUnchanged::Off);
        deadlocked.deadlocked();
        assert_eq!(deadlocked.writer(false, None).name, "upsert");
    }
}
