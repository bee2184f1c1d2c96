//! `order`: how fast documents load again in their first order, as a nightly dump has it.

use super::{Comparison, Experiment};
use crate::core::KEYS;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

const PHASES: &[Phase] = &[
    Phase::FRESH,
    Phase::new("changed", Stream::again(2, 1), &["updated"]),
    Phase::new("changed 3", Stream::again(3, 1), &["updated"]),
    Phase::new("changed 4", Stream::again(4, 1), &["updated"]),
    Phase::new("changed 5", Stream::again(5, 1), &["updated"]),
    Phase::new("unchanged", Stream::again(5, 1), &["unchanged"]),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "order",
    about: "how fast documents load again in the order of the first load, compared with binary COPY",
    subjects: &["copy", "compact", "millstream"],
    phases: PHASES,
    keys: KEYS,
    comparison: Some(Comparison::with_subject("copy", "OF COPY")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::WAL, column::SIZE, column::VACUUMS],
    legend: &[
        "As in the experiment ingest, but that every wave comes in the order of the first one: one transaction then \
         changes all rows of a page, of which few find room there. compact: copy at fillfactor 100, for its size.",
    ],
    ..Experiment::PLAIN
};
