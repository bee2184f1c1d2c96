//! Chooses how a lane writes its next batch: by which writer, and whether row by row from the start.

use super::comparison::Sample;
use super::{Writer, arrays, comparison, copy, staged, upsert};
use crate::limits::{COMPARED_PERCENT_MIN, FIRST_BATCH_ROWS, WRITER_PENALTY, WRITER_PENALTY_MAX};
use crate::merge::Written;
use crate::request::SkipUnchanged;

/// A lane uses `copy` after a batch of new keys. If `copy` meets a stored key, the lane avoids it for some batches. If
/// another session inserts a key of the batch at the same time, the lane avoids `staged` for some batches.
#[derive(Debug)]
pub(super) struct Choice {
    keys: Keys,
    /// Whether we know nothing about the keys: the table had rows, and no batch has written a key yet.
    blind: bool,
    /// Whether the writer `staged` can be used.
    merges: bool,
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
        Self { compares, keys, blind: !table_empty, merges, wait: 1, penalty: WRITER_PENALTY }
    }

    /// The writer of the next batch. `small`: the batch is small enough for `arrays`.
    pub(super) fn writer(&self, small: bool) -> &'static Writer {
        match self.keys {
            _ if small => &arrays::WRITER,
            Keys::New => &copy::WRITER,
            _ if matches!(self.compares, Compares::Always | Compares::Now(true)) => &comparison::WRITER,
            Keys::Any if self.merges => &staged::WRITER,
            Keys::Any | Keys::Contended => &upsert::WRITER,
        }
    }

    /// Most documents in the next batch: few, as long as we do not know which writer they need.
    pub(super) fn rows_max(&self) -> usize {
        if self.blind { FIRST_BATCH_ROWS } else { usize::MAX }
    }

    /// Whether we know nothing about the keys yet.
    pub(super) fn blind(&self) -> bool {
        self.blind
    }

    /// Whether to compare a sample of the next batch, to learn whether comparing pays.
    pub(super) fn samples(&self) -> bool {
        self.keys != Keys::New && self.compares == Compares::Now(false)
    }

    /// Learns from a comparison whether comparing pays.
    pub(super) fn compared(&mut self, Sample { unchanged, keys }: Sample) {
        if matches!(self.compares, Compares::Now(_)) && keys > 0 {
            self.compares = Compares::Now(unchanged * 100 >= keys * COMPARED_PERCENT_MIN);
        }
    }

    /// The writer met a key that it cannot write.
    pub(super) fn missed(&mut self) {
        self.keys = match self.keys {
            Keys::New => Keys::Any,
            Keys::Any => Keys::Contended,
            Keys::Contended => unreachable!("the upsert writes any key"),
        };
        self.wait = self.penalty;
        self.penalty = (self.penalty * 2).min(WRITER_PENALTY_MAX);
    }

    /// A batch was written. `compared`: its writer also found out which documents are unchanged.
    pub(super) fn wrote(&mut self, compared: bool, written: Written) {
        self.blind &= written.keys == 0;
        if compared {
            self.compared(Sample { unchanged: written.unchanged, keys: written.keys });
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
        assert_eq!(Choice::new(true, true, SkipUnchanged::Off).writer(false).name, "copy");
        for (merges, any) in [(true, "staged"), (false, "upsert")] {
            for (inserted, next) in [(5, "copy"), (4, any), (0, any)] {
                let mut choice = Choice::new(false, merges, SkipUnchanged::Off);
                assert_eq!(choice.writer(false).name, any);
                choice.wrote(false, written(5, inserted));
                assert_eq!(choice.writer(false).name, next);
            }
        }
    }

    #[test]
    fn an_empty_batch_does_not_change_the_choice() {
        let mut choice = Choice::new(false, true, SkipUnchanged::Off);
        assert_eq!(choice.rows_max(), FIRST_BATCH_ROWS);
        choice.wrote(false, Written::default());
        assert_eq!((choice.writer(false).name, choice.rows_max()), ("staged", FIRST_BATCH_ROWS));
        choice.wrote(false, written(5, 4));
        assert_eq!((choice.writer(false).name, choice.rows_max()), ("staged", usize::MAX));
    }

    #[test]
    fn small_batches_go_as_arrays_and_inform_the_choice() {
        let mut choice = Choice::new(true, true, SkipUnchanged::Auto);
        assert_eq!((choice.writer(true).name, choice.writer(false).name), ("arrays", "copy"));
        choice.wrote(true, written(5, 4));
        assert_eq!((choice.writer(true).name, choice.writer(false).name), ("arrays", "staged"));
        choice.wrote(true, Written { documents: 5, keys: 5, unchanged: 5, ..Written::default() });
        assert_eq!((choice.writer(true).name, choice.writer(false).name), ("arrays", "compared"));
        choice.wrote(true, written(5, 0));
        assert_eq!(choice.writer(false).name, "staged");
    }

    #[test]
    fn each_miss_doubles_the_penalty_up_to_the_limit() {
        for (inserted, name) in [(5, "copy"), (4, "staged")] {
            let mut choice = Choice::new(false, true, SkipUnchanged::Off);
            choice.wrote(false, written(5, inserted));
            let mut waits = Vec::new();
            for _ in 0..10 {
                choice.missed();
                let mut batches = 0;
                while choice.writer(false).name != name {
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
        assert_eq!(choice.writer(false).name, "copy", "a batch that it wrote ends the penalty");
    }

    #[test]
    fn concurrent_inserts_make_the_lane_upsert_for_a_while() {
        let mut choice = Choice::new(true, true, SkipUnchanged::Off);
        choice.missed();
        assert_eq!(choice.writer(false).name, "staged");
        choice.missed();
        let mut names = Vec::new();
        for _ in 0..4 {
            names.push(choice.writer(false).name);
            choice.wrote(false, written(5, 5));
        }
        assert_eq!(names, ["upsert", "upsert", "staged", "copy"]);
    }
}
