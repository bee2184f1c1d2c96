//! `distinct`: how fast the values of a column are found, if it has few of them in many rows.

use super::{Comparison, Experiment, Scale};
use crate::core::Keys;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::{Part, Stream};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "distinct",
    about: "how fast Millstream finds 1,000 distinct values in many rows, compared with `select distinct`",
    subjects: &["select", "function", "walk", "distinct"],
    phases: &[Phase::part("small", Part { from: 0, to: 1, of: 10 }), Phase::new("large", Stream::wave(1), &[])],
    keys: &[Keys::Sequential],
    scale: Scale::Distinct,
    comparison: Some(Comparison::beside("select", "TIMES AS FAST")),
    columns: &[column::RATIO, column::MILLISECONDS, column::FIRST_ROW],
    legend: &[
        "rows/s: rows of the table by the time of the answer, the median of several. small: a tenth of the rows. \
         large: all. The tables are made once and vacuumed; the number and the order of the values are verified.",
        "select: the faster of the server's own plan and one with workers, on an open session. function: \
         millstream.distinct_values, on an open session. walk: the statement that \
         millstream.distinct_walk gives, with asking for it, on an open session. distinct: `millstream distinct`, from the start of its process.",
        "times as fast: the rate divided by that of select in the same round and phase, median (min-max).",
    ],
    ..Experiment::PLAIN
};
