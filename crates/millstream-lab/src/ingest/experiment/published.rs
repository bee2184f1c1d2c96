//! `published`: what a read model's change record costs a load, and what indexes on the table itself cost it.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::phase::Phase;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "published",
    about: "how fast documents load if 8 indexes are on a read model, and if they are on the table itself",
    subjects: &["millstream", "published", "indexed"],
    phases: &[Phase::FRESH, Phase::CHANGED],
    rounds_each: 3,
    comparison: Some(Comparison::beside("millstream", "OF NO MODEL")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::WAL],
    legend: &[
        "of no model: the rate divided by that of millstream without model and indexes in the same round and phase, \
         median (min-max). The model is not refreshed meanwhile. Three rounds for each that was asked for.",
    ],
    ..Experiment::PLAIN
};
