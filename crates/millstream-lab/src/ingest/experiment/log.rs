//! `log`: how fast documents are appended, and what the rate is if merging them into the table counts.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "log",
    about: "how fast documents are appended in the log layout, and then merged, compared with COPY and a plain load",
    subjects: &["copy", "millstream", "log", "merged"],
    phases: &[
        Phase::FRESH,
        Phase::new("repeated", Stream::repeating(2, 5_000), &["inserted", "updated", "superseded"]).in_new_table(),
    ],
    comparison: Some(Comparison::beside("millstream", "OF TABLE")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::MEMORY, column::WAL],
    legend: &[
        "of table: the rate divided by that of millstream, which loads the same documents into the table, in the same \
         round and phase, median (min-max). Both phases find no table. repeated: of two documents one has a new key, \
         and one that of any before.",
        "log: appended only; its segments are merged after the clock, and then verified. merged: load and compaction, \
         two processes whose times are added.",
    ],
    ..Experiment::PLAIN
};
