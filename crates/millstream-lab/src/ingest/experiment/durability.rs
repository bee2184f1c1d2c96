//! `durability`: what durable commits cost.

use super::{Comparison, Experiment};
use crate::ingest::column;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "durability",
    about: "what durable commits cost: durable and async loads of new documents, compared with an unlogged table",
    subjects: &["millstream"],
    phases: &[Phase::FRESH],
    durabilities: &[Durability::Durable, Durability::Async, Durability::Unlogged],
    comparison: Some(Comparison::with_durability(Durability::Unlogged, "OF UNLOGGED")),
    columns: &[column::RATIO, column::WAL],
    legend: &["of unlogged: the rate divided by that of the unlogged table in the same round, median (min-max)."],
    ..Experiment::PLAIN
};
