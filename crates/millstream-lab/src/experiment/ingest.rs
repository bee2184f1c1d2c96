//! `ingest`: how fast documents come in, compared with the fastest thing PostgreSQL has for it.

use super::{Comparison, Experiment};
use crate::data_set::KEYS;
use crate::durability::Durability;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ingest",
    about: "how fast documents come in, new and changed, beside binary COPY into the same table",
    subjects: &["copy", "millstream"],
    waves: 3,
    durabilities: &[Durability::Durable],
    keys: KEYS,
    comparison: Comparison::Yardstick("copy"),
    legend: &[
        "rows/s: documents by wall clock, median (min-max). copy: connections open and data encoded before the clock \
         starts. millstream: the whole process, from start to exit.",
        "receipt: the rate that the process itself states, without its start.",
        "of copy: the rate divided by copy's in the same round, median (min-max) over the rounds.",
    ],
};
