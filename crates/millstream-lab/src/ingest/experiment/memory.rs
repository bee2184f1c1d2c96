//! `memory`: how much memory the client needs for documents of different sizes.

use super::Experiment;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::limits::DOCUMENT_BYTES_MAX;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    about: "how much memory the client needs for small documents, large documents and the largest possible ones",
    subjects: &["millstream"],
    phases: &[Phase::FRESH, Phase::CHANGED],
    sizes: &[150, 20_480, DOCUMENT_BYTES_MAX],
    columns: &[column::MEMORY, column::CPU, column::SERVER],
    legend: &[],
    ..Experiment::PLAIN
};
