//! `refused`: how fast documents load if the table refuses some of them.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::phase::Phase;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "refused",
    about: "how fast documents load if the table refuses one of ten, compared with a table that refuses none",
    subjects: &["millstream", "constraint", "trigger", "check"],
    phases: &[Phase::FRESH],
    comparison: Some(Comparison::beside("millstream", "OF CLEAN")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::WAL],
    legend: &[
        "of clean: the rate divided by that of the same documents into a table that refuses none, in the same round, \
         median (min-max). constraint: a CHECK on the table. trigger: one that raises an error. check: load --check. \
         The receipt counts each refused document as rejected.",
    ],
    ..Experiment::PLAIN
};
