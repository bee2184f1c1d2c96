//! The conditions of an experiment: what was asked, and how it was run.

use super::data::Data;
use super::experiment::Experiment;
use super::files::Source;
use crate::core::{Build, Disk, Environment};
use crate::limits::{QUICK_RUN_SECONDS_MAX, QUICK_SECONDS, RUN_PAUSE_SECONDS};
use millstream_pg::ConnInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How an experiment is to be run.
#[derive(Debug, Clone)]
pub struct Request {
    /// Blocks, if not as many as the experiment plans.
    pub blocks: Option<u32>,
    /// Seconds of a run, if not as many as the experiment plans.
    pub seconds: Option<u32>,
    /// One block of short runs. It shows that everything works, and is no evidence.
    pub quick: bool,
    /// Seed of the order and of the random numbers.
    pub seed: u64,
    /// This program, whose hidden command `lab recorder` records beside each run. `None`: nothing is recorded.
    pub program: Option<PathBuf>,
    /// A server of the user's instead of the lab's own.
    pub db: Option<ConnInfo>,
    /// Settings of that server may be changed.
    pub may_change: bool,
    /// The PostgreSQL for arms that name none: a major version, or the directory of its programs.
    pub postgres: Option<String>,
}

/// What was asked, and how it was run: with the runs, all that a report needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The experiment.
    pub experiment: Experiment,
    /// Scripts and SQL files, by name.
    pub files: BTreeMap<String, String>,
    /// Blocks that were planned.
    pub blocks: u32,
    /// Seconds of each run.
    pub seconds: u32,
    /// One block of short runs, no evidence.
    pub quick: bool,
    /// Seed of the order and of the random numbers.
    pub seed: u64,
    /// The build of this program, which may also be what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The servers: version of each, by the name that arms give it.
    pub servers: BTreeMap<String, String>,
    /// The version of pgbench; empty if no arm runs it.
    pub pgbench: String,
    /// What commands print of their version, by arm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Everything else about each server and its machine on which numbers may depend, by the name that arms give it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, Environment>,
    /// The disk that holds the data of the lab's own server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// How many percent of the transactions per second pgbench's log takes, measured once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_cost_percent: Option<f64>,
    /// Mean milliseconds of each statement, by arm, from runs of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<String, BTreeMap<String, f64>>,
    /// Runs that were made again because the machine disturbed them.
    #[serde(default)]
    pub voids: u32,
}

impl Conditions {
    /// The conditions before the first run.
    pub fn planned(source: &Source, request: &Request) -> Self {
        let experiment = &source.experiment;
        let (blocks, seconds) = match request.quick {
            true => (1, experiment.quick_seconds()),
            false => (request.blocks.unwrap_or(experiment.blocks), request.seconds.unwrap_or(experiment.seconds)),
        };
        Self {
            experiment: experiment.clone(),
            files: source.files.clone(),
            blocks,
            seconds,
            quick: request.quick,
            seed: request.seed,
            build: None,
            servers: BTreeMap::new(),
            pgbench: String::new(),
            versions: BTreeMap::new(),
            environments: BTreeMap::new(),
            disk: None,
            log_cost_percent: None,
            statements: BTreeMap::new(),
            voids: 0,
        }
    }
}

impl Experiment {
    /// Seconds of a run in a quick experiment: the whole is short, whatever the number of arms.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    fn quick_seconds(&self) -> u32 {
        let runs = f64::from(u32::try_from(self.arms.len() + 1).unwrap_or(u32::MAX));
        (QUICK_SECONDS / runs - RUN_PAUSE_SECONDS).clamp(1.0, QUICK_RUN_SECONDS_MAX) as u32
    }

    /// Minutes that the whole experiment takes, and bytes of its data.
    pub fn cost(&self) -> (f64, u64) {
        let runs = f64::from(self.blocks) * f64::from(u32::try_from(self.arms.len() + 1).unwrap_or(u32::MAX));
        let minutes = runs * (f64::from(self.seconds) + RUN_PAUSE_SECONDS) / 60.0;
        let mut data: Vec<Data> = Vec::new();
        let source = Source { experiment: self.clone(), files: BTreeMap::new() };
        for arm in &self.arms {
            let one = Data::of(&source, &self.setup(arm));
            if !data.contains(&one) {
                data.push(one);
            }
        }
        // A pgbench database takes about 15 MB for each unit of scale.
        (minutes, data.len() as u64 * u64::from(self.data.scale) * 15_000_000)
    }
}
