//! Goals of the project, and how far a record reaches them.

mod value;

use crate::core::{DataSet, Record, Run, Spread};
use crate::ingest::durability::Durability;
use crate::limits::ROUND_TRIP_MS;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use value::Value;

/// The goals as data.
const TEXT: &str = include_str!("../../../../lab/goals.toml");

/// Every goal, in the order of the report. A test checks that the data can be read.
static GOALS: LazyLock<Vec<Goal>> = LazyLock::new(|| parse(TEXT).unwrap_or_default());

/// The experiment whose goals are also shown with a slow network.
const INGEST: &str = "ingest";

/// The data set of a goal that names none. Larger documents are shown next to it.
const DATA_SET: &str = "random-150";

/// A value that must be reached, or that is shown next to such values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    name: String,
    target: Option<Target>,
    experiment: String,
    #[serde(default = "data_set")]
    data_set: String,
    of: Arm,
    /// The arm by whose value it is divided.
    by: Option<Arm>,
    #[serde(default)]
    value: Value,
}

/// Runs whose value counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    subject: String,
    phase: String,
    #[serde(default)]
    durability: Durability,
}

/// The file of goals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goals {
    goal: Vec<Goal>,
}

/// The value that must be reached, and the value to aim for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The value that must be reached.
    pub must: f64,
    /// The value to aim for.
    pub aim: f64,
    /// Less is better.
    #[serde(default)]
    pub at_most: bool,
}

/// How far a record reaches a goal.
#[derive(Debug, Clone, Serialize)]
pub struct Reached {
    /// Name of the goal.
    pub goal: String,
    /// What must be reached; `None` if the value is only shown.
    pub target: Option<Target>,
    /// The measured values of the rounds.
    pub measured: Spread,
    /// The same with documents of 2 kB.
    pub at_2_kb: Option<Spread>,
    /// The same with documents of 20 kB.
    pub at_20_kb: Option<Spread>,
    /// The same with a round trip of 5 ms.
    pub at_5_ms: Option<Spread>,
}

/// How far a record reaches the goals that it measured.
pub(crate) fn reached(record: &Record) -> Vec<Reached> {
    GOALS.iter().filter_map(|goal| goal.reached(record)).collect()
}

/// Reads goals. The error names the line and what is wrong with it.
fn parse(text: &str) -> Result<Vec<Goal>, toml::de::Error> {
    toml::from_str::<Goals>(text).map(|goals| goals.goal)
}

fn data_set() -> String {
    DATA_SET.to_owned()
}

impl Arm {
    fn has(&self, one: &Run) -> bool {
        (one.arm.as_str(), one.phase(), one.durability()) == (&*self.subject, &*self.phase, self.durability)
    }
}

impl Goal {
    fn reached(&self, record: &Record) -> Option<Reached> {
        let sized = |name: &str| self.measured(record, &self.experiment, name, None).filter(|_| self.has_sizes());
        let delayed = || self.measured(record, "latency", &self.data_set, Some(ROUND_TRIP_MS));
        Some(Reached {
            goal: self.name.clone(),
            target: self.target,
            measured: self.measured(record, &self.experiment, &self.data_set, None)?,
            at_2_kb: sized("random-2048"),
            at_20_kb: sized("random-20480"),
            at_5_ms: (self.experiment == INGEST).then(delayed).flatten(),
        })
    }

    fn has_sizes(&self) -> bool {
        self.data_set == DATA_SET
    }

    fn measured(&self, record: &Record, experiment: &str, name: &str, round_trip_ms: Option<u32>) -> Option<Spread> {
        let alike = |set: &&DataSet| (set.experiment.as_str(), set.name.as_str()) == (experiment, name);
        let set = record.data_sets().iter().find(alike)?;
        let runs = || {
            let of_set = |one: &&Run| (one.experiment.as_str(), one.data_set()) == (experiment, name);
            record.runs.iter().filter(of_set).filter(move |one| one.round_trip_ms() == round_trip_ms)
        };
        let own = runs().filter(|one| self.of.has(one));
        Spread::of(own.filter_map(|one| {
            let own = (self.value.of)(one, set)?;
            let Some(by) = &self.by else { return Some(own) };
            let base = runs().find(|base| base.block == one.block && by.has(base))?;
            Some(own / (self.value.of)(base, set)?)
        }))
    }
}

impl Reached {
    /// What the median reaches: `aim`, `must` or `no`; `None` if the value is only shown.
    pub fn verdict(&self) -> Option<&'static str> {
        let Target { must, aim, at_most } = self.target?;
        let reaches = |goal: f64| if at_most { self.measured.median <= goal } else { self.measured.median >= goal };
        Some(if reaches(aim) {
            "aim"
        } else if reaches(must) {
            "must"
        } else {
            "no"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::tests::fixture;
    use crate::ingest::experiment::Experiment;

    #[test]
    fn every_goal_is_measured_by_an_experiment() {
        let goals = parse(TEXT).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(GOALS.len(), goals.len());
        for goal in &goals {
            let experiment = Experiment::by_name(&goal.experiment).unwrap();
            let phases: Vec<&str> = experiment.phases.iter().map(|phase| phase.name).collect();
            for arm in [Some(&goal.of), goal.by.as_ref()].into_iter().flatten() {
                assert!(experiment.subjects.contains(&&*arm.subject), "{}: {arm:?}", goal.name);
                assert!(phases.contains(&&*arm.phase), "{}: {arm:?}", goal.name);
                assert!(experiment.durabilities.contains(&arm.durability), "{}: {arm:?}", goal.name);
            }
            let named = |keys: &crate::core::Keys, bytes: &usize| format!("{}-{bytes}", keys.name());
            let mut sets = experiment.keys.iter().flat_map(|keys| experiment.sizes.iter().map(|b| named(keys, b)));
            assert!(sets.any(|set| set == goal.data_set), "{}", goal.name);
            let target = goal.target.unwrap_or(Target { must: 0.0, aim: 0.0, at_most: false });
            let is_further = if target.at_most { target.aim <= target.must } else { target.aim >= target.must };
            assert!(is_further, "{}", goal.name);
        }
    }

    #[test]
    fn what_was_measured_is_compared_round_by_round() {
        let found = reached(&fixture());
        assert_eq!(found[0].goal, "new / COPY, random keys");
        assert!((found[0].measured.median - 0.85).abs() < 1e-9, "{found:?}");
        assert!(found[0].at_20_kb.is_none() && found[0].at_5_ms.is_none());
        let names: Vec<&str> = found.iter().map(|one| one.goal.as_str()).collect();
        let expected = ["new / COPY, random keys", "third wave / COPY", "client CPU s per 1M, new", "  third wave"];
        assert_eq!(names, expected, "nothing is said of what was not measured");
    }

    #[test]
    fn a_verdict_is_about_the_median_in_the_direction_of_the_goal() {
        let verdict = |target, median| {
            let measured = Spread { median, min: 0.0, max: 9.0 };
            let one = Reached { goal: String::new(), target, measured, at_2_kb: None, at_20_kb: None, at_5_ms: None };
            one.verdict()
        };
        let more = Some(Target { must: 1.0, aim: 2.0, at_most: false });
        let less = Some(Target { must: 2.0, aim: 1.0, at_most: true });
        assert_eq!([0.9, 1.0, 2.0].map(|median| verdict(more, median)), [Some("no"), Some("must"), Some("aim")]);
        assert_eq!([2.1, 2.0, 1.0].map(|median| verdict(less, median)), [Some("no"), Some("must"), Some("aim")]);
        assert_eq!(verdict(None, 1.0), None);
    }

    #[test]
    fn an_error_in_the_data_names_its_line() {
        let goal = "[[goal]]\nexperiment = \"hot\"\nname = \"n\"\nof = { subject = \"s\", phase = \"p\" }\n";
        assert_eq!(parse(goal).unwrap()[0].data_set, "random-150");
        for (more, why) in [
            ("value = \"speed\"", "there is no value speed, only rate, seconds"),
            ("target = { must = 1.0 }", "missing field `aim`"),
            ("tarket = { must = 1.0, aim = 2.0 }", "unknown field `tarket`"),
        ] {
            let error = parse(&format!("{goal}{more}\n")).unwrap_err().to_string();
            assert!(error.contains("line 5") && error.contains(why), "{error}");
        }
    }
}
