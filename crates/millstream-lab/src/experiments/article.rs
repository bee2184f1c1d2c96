//! A published table that the arms of an experiment repeat, with its figures and its conclusions.

use serde::{Deserialize, Serialize};

/// A published table. Field names are the words of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Article {
    /// The year of its figures.
    pub year: u32,
    /// The metric of its figures: a rate, of which the experiment's metric is the time in nanoseconds.
    pub rate: String,
    /// Its rows, in its order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// What it concludes.
    #[serde(rename = "conclusion")]
    pub conclusions: Vec<Conclusion>,
}

/// A row of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// What the names of its arms begin with, before a slash.
    pub row: String,
    /// What it is, as a phrase.
    pub says: String,
    /// The figure of the article.
    pub then: f64,
}

/// What the article concludes from two rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conclusion {
    /// It, as a phrase.
    pub title: String,
    /// The row that costs more, as the article says, or as much.
    pub row: String,
    /// The row with which it is compared.
    pub than: String,
}

impl Article {
    /// The figure of a row, as a time in nanoseconds.
    pub(super) fn ns_then(&self, row: &str) -> Option<f64> {
        let step = self.steps.iter().find(|step| step.row == row)?;
        (step.then > 0.0).then_some(1e9 / step.then)
    }
}
