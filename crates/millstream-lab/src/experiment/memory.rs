//! `memory`: what the client holds, whatever the size of documents and input.

use super::{Experiment, Phase};
use crate::column;
use crate::limits::DOCUMENT_BYTES_MAX;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    about: "how much memory the client takes for small documents, large ones and the largest",
    subjects: &["millstream"],
    phases: &[Phase::FRESH, Phase::CHANGED],
    sizes: &[150, 20_480, DOCUMENT_BYTES_MAX],
    columns: &[column::MEMORY, column::CPU],
    legend: &[],
    ..Experiment::PLAIN
};
