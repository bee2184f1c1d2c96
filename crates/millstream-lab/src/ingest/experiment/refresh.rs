//! `refresh`: how long the refresh of a read model takes, compared with a materialized view.

use super::{Comparison, Experiment, Scale};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// One of this many rows is changed before the incremental refresh.
const CHANGED_ONE_OF: u64 = 100;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "refresh",
    about: "how long a refresh takes after 1 % or all of the rows changed, compared with a materialized view",
    subjects: &["model", "concurrently"],
    phases: &[
        Phase::FRESH,
        Phase::new("1 %", Stream::changed_one_of(2, CHANGED_ONE_OF), &[]).by("incremental"),
        Phase::new("all", Stream::wave(3), &[]).by("swap"),
    ],
    scale: Scale::ReadModel,
    comparison: Some(Comparison::beside("concurrently", "TIMES AS FAST")),
    columns: &[column::RATIO, column::WAL],
    legend: &[
        "rows/s: rows changed by the time of the refresh; of the load before it nothing counts but its log. fresh: the \
         model or the view is made. 1 %: one row of 100 was changed. all: every row was.",
        "times as fast: the rate divided by that of concurrently in the same round and phase, median (min-max).",
    ],
    ..Experiment::PLAIN
};
