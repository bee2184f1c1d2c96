//! `mixed`: how fast new documents load when some keys are stored already.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;
use crate::limits::ROUND_TRIP_MS;

/// Documents of which so many of 10,000 have the key of an earlier one, into a table of their own.
const fn stored(name: &'static str, of_ten_thousand: u64) -> Phase {
    Phase::new(name, Stream::repeating(2, of_ten_thousand), &["inserted", "updated", "superseded"]).in_new_table()
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mixed",
    about: "how fast documents load when some of their keys are stored already, compared with new keys only",
    subjects: &["millstream"],
    phases: &[
        Phase::FRESH,
        stored("0.02 % stored", 2),
        stored("3 % stored", 300),
        stored("10 % stored", 1_000),
        stored("30 % stored", 3_000),
    ],
    round_trips_ms: &[None, Some(ROUND_TRIP_MS)],
    comparison: Some(Comparison::with_phase("fresh", "OF NEW")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::WAL],
    legend: &[
        "of new: the rate divided by that of documents whose keys are all new, in the same round and over the same \
         network, median (min-max). Every phase finds no table.",
        "3 % stored: of 100 documents, evenly spread, 3 have any earlier key. 5 ms: a proxy holds each byte for 2.5 ms \
         in each direction.",
    ],
    ..Experiment::PLAIN
};
