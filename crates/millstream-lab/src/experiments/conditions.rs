//! The conditions of an experiment: what was asked, and how it was run.

use super::data::Data;
use super::disk::MeasuredDisk;
use super::experiment::Experiment;
use super::files::Source;
use crate::core::{Build, Disk, Environment};
use crate::limits::{
    LOG_COST_PAIRS, LOG_COST_SECONDS, QUICK_RUN_SECONDS_MAX, QUICK_SECONDS, RUN_PAUSE_SECONDS, SCALE_BYTES,
    STEAL_PERCENT_MAX,
};
use millstream_pg::ConnInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How an experiment is to be run.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Blocks, if not as many as the experiment plans.
    pub blocks: Option<u32>,
    /// Seconds of a run, if not as many as the experiment plans.
    pub seconds: Option<u32>,
    /// One block of short runs. It shows that everything works, and is not evidence.
    pub quick: bool,
    /// Seed of the order and of the random numbers.
    pub seed: u64,
    /// This program, whose hidden command `lab recorder` records beside each run. `None`: nothing is recorded.
    pub program: Option<PathBuf>,
    /// A server of the user's instead of the lab's own.
    pub db: Option<ConnInfo>,
    /// Settings of that server may be changed.
    pub may_change: bool,
    /// Settings of the host may be changed. They are given back.
    pub change_host: bool,
    /// An empty directory on another device, for arms with the WAL apart.
    pub wal_dir: Option<PathBuf>,
    /// The PostgreSQL for arms that name none: a major version, or the directory of its programs.
    pub postgres: Option<String>,
    /// Percent of the processors' time that the hypervisor may take before a run is void; `None`: 2.
    pub steal_percent_max: Option<f64>,
}

impl Request {
    /// Percent of the processors' time that the hypervisor may take before a run is void.
    pub(crate) fn steal_max(&self) -> f64 {
        self.steal_percent_max.unwrap_or(STEAL_PERCENT_MAX)
    }
}

/// What was asked, and how it was run: with the runs, all that a report needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The experiment.
    pub experiment: Experiment,
    /// Scripts and SQL files, by name.
    pub files: BTreeMap<String, String>,
    /// Blocks that were planned.
    pub blocks: u32,
    /// Finished blocks at each time that the experiment was finished, and its result looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// Seconds of each run.
    pub seconds: u32,
    /// One block of short runs, no evidence.
    pub quick: bool,
    /// It was run in a guest, whose processor is emulated: the numbers say nothing about speed.
    #[serde(default)]
    pub emulated: bool,
    /// Seed of the order and of the random numbers.
    pub seed: u64,
    /// The build of this program, which may also be what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The PostgreSQL that was asked for, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// The server was named by the user, and is not the lab's own.
    #[serde(default)]
    pub foreign: bool,
    /// The servers: version of each, by the name that arms give it.
    pub servers: BTreeMap<String, String>,
    /// The version of pgbench; empty if no arm runs it.
    pub pgbench: String,
    /// What commands print of their version, by arm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Everything else about each server and its machine on which numbers may depend, by the name that arms give it: what
    /// held in the runs of all its arms. Earlier versions wrote what there was before the first run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, Environment>,
    /// What held besides in the runs of an arm, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arm_facts: BTreeMap<String, ArmFacts>,
    /// The disk that holds the data of the lab's own server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The slow disks: each as it was measured before its first run, by the words that arms have for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slow_disks: BTreeMap<String, MeasuredDisk>,
    /// What pgbench's log takes, measured once: transactions per second with it, divided by those without it, of pairs
    /// of short runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_ratios: Vec<f64>,
    /// Mean milliseconds of each statement, by arm, from runs of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<String, BTreeMap<String, f64>>,
    /// Percent of the processors' time that the hypervisor may have taken: the most that any of the commands accepted.
    #[serde(default = "steal_percent_max")]
    pub steal_percent_max: f64,
    /// Runs that were made again because something else used the machine.
    #[serde(default)]
    pub voids: u32,
    /// Runs that were made again because pgbench had no time left or fell behind its rate. Earlier records count them
    /// among `voids`.
    #[serde(default)]
    pub saturated: u32,
}

/// The facts that held in the runs of an arm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmFacts {
    /// Its server, by the name that arms give it.
    pub server: String,
    /// What not all arms on this server have in common.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub own: Environment,
}

fn steal_percent_max() -> f64 {
    STEAL_PERCENT_MAX
}

impl Conditions {
    /// The conditions before the first run.
    pub fn planned(source: &Source, request: &Request) -> Self {
        let experiment = &source.experiment;
        let (blocks, seconds) = match request.quick {
            true => (1, request.seconds.unwrap_or(experiment.quick_seconds())),
            false => (request.blocks.unwrap_or(experiment.blocks), request.seconds.unwrap_or(experiment.seconds)),
        };
        Self {
            experiment: experiment.clone(),
            files: source.files.clone(),
            blocks,
            seconds,
            quick: request.quick,
            seed: request.seed,
            postgres: request.postgres.clone(),
            foreign: request.db.is_some(),
            steal_percent_max: request.steal_max(),
            ..Self::default()
        }
    }

    /// Which look at the result this is, after so many finished blocks.
    pub fn look(&self, finished: u32) -> u32 {
        let counted = u32::try_from(self.looks.len()).unwrap_or(u32::MAX);
        if self.looks.last().is_some_and(|last| *last >= finished) { counted } else { counted.saturating_add(1) }
    }
}

impl Experiment {
    /// Seconds of a run in a quick experiment: the whole is short, whatever the number of arms.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    fn quick_seconds(&self) -> u32 {
        let runs = f64::from(u32::try_from(self.arms.len() + 1).unwrap_or(u32::MAX));
        (QUICK_SECONDS / runs - RUN_PAUSE_SECONDS).clamp(1.0, QUICK_RUN_SECONDS_MAX) as u32
    }

    /// Seconds of all runs, with the pauses between them.
    fn all_seconds(&self, blocks: u32, seconds: u32) -> f64 {
        let arms = f64::from(u32::try_from(self.arms.len()).unwrap_or(u32::MAX));
        let statements = if self.statements { arms * f64::from(seconds) } else { 0.0 };
        f64::from(blocks) * (arms + 1.0) * (f64::from(seconds) + RUN_PAUSE_SECONDS) + statements
    }

    /// Minutes that the whole experiment takes, and bytes of its data.
    pub fn cost(&self) -> (f64, u64) {
        let has_log = self.setup(self.twice()).scripts.is_some();
        let log_cost = if has_log { 2.0 * f64::from(LOG_COST_PAIRS * LOG_COST_SECONDS) } else { 0.0 };
        let minutes = (self.all_seconds(self.blocks, self.seconds) + log_cost) / 60.0;
        let mut data: Vec<Data> = Vec::new();
        let source = Source { experiment: self.clone(), files: BTreeMap::new() };
        for arm in &self.arms {
            let one = Data::of(&source, &self.setup(arm));
            if !data.contains(&one) {
                data.push(one);
            }
        }
        (minutes, data.len() as u64 * u64::from(self.data.scale) * SCALE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Commands;

    #[test]
    fn each_end_of_an_experiment_is_a_look() {
        let experiment = Commands::new("true", "false").experiment().unwrap();
        let source = Source { experiment, files: BTreeMap::new() };
        let mut conditions = Conditions::planned(&source, &Request::default());
        assert_eq!((conditions.blocks, conditions.look(10)), (10, 1));
        conditions.looks = vec![10];
        assert_eq!((conditions.look(10), conditions.look(24)), (1, 2));
        conditions.looks.push(24);
        assert_eq!(conditions.look(24), 2);
    }

    #[test]
    fn a_quick_experiment_takes_about_a_minute() {
        let mut experiment = Commands::new("true", "false").experiment().unwrap();
        assert_eq!(experiment.quick_seconds(), 5);
        experiment.arms = vec![experiment.arms[0].clone(); 31];
        assert_eq!(experiment.quick_seconds(), 1);
    }

    #[test]
    fn quick_experiments_take_less_than_two_minutes_but_three() {
        let seconds = |one: &Source| one.experiment.all_seconds(1, one.experiment.quick_seconds());
        let all = Source::built_in().unwrap();
        let long: Vec<&str> =
            all.iter().filter(|one| seconds(one) > 120.0).map(|one| one.experiment.name.as_str()).collect();
        assert_eq!(long, ["noise", "packets", "rivals"], "docs/guides/lab.md says so");
    }
}
