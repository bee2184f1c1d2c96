//! A run: one measurement of one arm, the unit of all statistics.

use super::limiter::{Limited, Observed};
use super::series::Series;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a run varies, by name: for example `protocol` is `prepared`.
pub type Factors = BTreeMap<String, String>;

/// One measurement of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the arm.
    pub arm: String,
    /// What distinguishes this run from others of the experiment.
    #[serde(default, skip_serializing_if = "Factors::is_empty")]
    pub factors: Factors,
    /// The block, from 1. In a block every arm has its turn.
    pub block: u32,
    /// Position in the block, from 1.
    pub turn: u32,
    /// What was measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Numbers, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The result was verified.
    Measured(Measures),
    /// It was measured under conditions that make the numbers worthless: the reason.
    Void(String),
    /// The arm cannot be run here: the reason.
    Skipped(String),
    /// It failed, or its result was wrong.
    Error(String),
}

impl Outcome {
    /// Why there are no numbers, after the word for it; `None` if there are.
    pub fn reason(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Measured(_) => None,
            Self::Void(why) => Some(("void", why)),
            Self::Skipped(why) => Some(("skipped", why)),
            Self::Error(why) => Some(("failed", why)),
        }
    }
}

/// The numbers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Values of metrics, by name.
    pub values: BTreeMap<String, f64>,
    /// Of these, what the command measured itself and printed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub said: BTreeSet<String>,
    /// Means of what the recorder wrote beside the run, by its names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded: BTreeMap<String, f64>,
    /// Values over time, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Series>,
    /// What to know when reading these numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Measures {
    /// Sets the value of a metric, unless it was not measured, or is not finite: JSON has no such numbers.
    pub fn set(&mut self, metric: &str, value: Option<f64>) {
        self.values.extend(value.filter(|value| value.is_finite()).map(|value| (metric.to_owned(), value)));
    }

    /// What limited the run; `None` if nothing was recorded beside it.
    pub fn limited(&self) -> Option<Limited> {
        let value = |metric: &str| self.values.get(metric).copied();
        let client_percent = value("client_share").map(|share| 100.0 * share);
        let of_command = value("client_cpu_seconds").zip(value("wall_seconds").filter(|wall| *wall > 0.0));
        let command_percent = of_command.map(|(cpu, wall)| 100.0 * cpu / wall);
        let observed = Observed { values: &self.recorded, client_percent, command_percent };
        (!self.recorded.is_empty()).then(|| Limited::of(&observed))
    }
}

impl Run {
    /// The numbers, if the run is good.
    pub fn measures(&self) -> Option<&Measures> {
        match &self.outcome {
            Outcome::Measured(measures) => Some(measures),
            Outcome::Void(_) | Outcome::Skipped(_) | Outcome::Error(_) => None,
        }
    }

    /// The value of a metric, if the run is good and has it.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.measures()?.values.get(metric).copied()
    }
}
