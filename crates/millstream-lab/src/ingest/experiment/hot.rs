//! `hot`: how fast documents load that all have one of a few keys.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// Of the documents of one key in a batch, one is written and the others are superseded.
const COUNTERS: &[&str] = &["updated", "superseded"];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hot",
    about: "how fast documents of a single key or of 100 keys load, compared with documents of all keys",
    subjects: &["millstream", "producers"],
    phases: &[
        Phase::FRESH,
        Phase::CHANGED,
        Phase::new("100 keys", Stream::hot(3, 100), COUNTERS),
        Phase::new("1 key", Stream::hot(4, 1), COUNTERS),
    ],
    comparison: Some(Comparison::with_phase("changed", "OF CHANGED")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::WAL],
    legend: &[
        "of changed: the rate divided by that of a wave over all keys of the same table in the same round, median \
         (min-max). 100 keys, 1 key: as many documents, all of the first 100 keys or of the first one.",
        "producers: 8 tasks of one program send the documents through the library. Which of theirs is the last of a \
         hot key nobody knows, so that any that was sent is right.",
    ],
    ..Experiment::PLAIN
};
