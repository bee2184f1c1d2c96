//! `ingest`: how fast documents load, compared with PostgreSQL's fastest way, binary COPY.

use super::{Comparison, Experiment, SIZES};
use crate::core::KEYS;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// After the third wave the state of a table changes little. Two more waves show how its size develops.
const PHASES: &[Phase] = &[
    Phase::FRESH,
    Phase::CHANGED,
    Phase::new("changed 3", Stream::wave(3), &["updated"]),
    Phase::new("changed 4", Stream::wave(4), &["updated"]),
    Phase::new("changed 5", Stream::wave(5), &["updated"]),
    Phase::new("unchanged", Stream::again(5, 6), &["unchanged"]),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ingest",
    about: "how fast new, changed and unchanged documents load, compared with binary COPY into the same table",
    subjects: &["copy", "compact", "millstream"],
    phases: PHASES,
    keys: KEYS,
    sizes: SIZES,
    comparison: Some(Comparison::with_subject("copy", "OF COPY")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::MEMORY, column::WAL, column::SIZE, column::VACUUMS],
    legend: &[
        "rows/s: documents by wall clock, median over the rounds. copy: connections open and data encoded before \
         the clock starts. millstream: the whole process, from start to exit.",
        "of copy: the rate divided by copy's in the same round, median (min-max) over the rounds.",
        "changed: the second wave, each document of another content; then the third to the fifth. unchanged: the \
         fifth once more, in another order. compact: copy at fillfactor 100, for its size.",
    ],
    ..Experiment::PLAIN
};
