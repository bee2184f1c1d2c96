//! Goals of the project, and how far a record reaches them.

mod list;

use crate::data_set::DataSet;
use crate::durability::Durability;
use crate::limits::ROUND_TRIP_MS;
use crate::record::Record;
use crate::sample::Sample;
use crate::spread::Spread;
use list::{GOALS, INGEST};
use serde::Serialize;

/// A value that must be reached, or that is shown next to such values.
#[derive(Debug, Clone, Copy)]
struct Goal {
    name: &'static str,
    target: Option<Target>,
    experiment: &'static str,
    /// The data set of the goal. Data sets of other sizes are shown next to it.
    data_set: &'static str,
    /// Subject and phase.
    of: (&'static str, &'static str),
    /// Subject, phase and durability of the value it is divided by.
    by: Option<(&'static str, &'static str, Durability)>,
    value: Value,
}

type Value = fn(&Sample, &DataSet) -> Option<f64>;

/// The value that must be reached, and the value to aim for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Target {
    /// The value that must be reached.
    pub must: f64,
    /// The value to aim for.
    pub aim: f64,
    /// Less is better.
    pub at_most: bool,
}

/// How far a record reaches a goal.
#[derive(Debug, Clone, Serialize)]
pub struct Reached {
    /// Name of the goal.
    pub goal: &'static str,
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

impl Goal {
    fn reached(&self, record: &Record) -> Option<Reached> {
        let sized = |name: &str| self.measured(record, self.experiment, name, None).filter(|_| self.has_sizes());
        let delayed = || self.measured(record, "latency", self.data_set, Some(ROUND_TRIP_MS));
        Some(Reached {
            goal: self.name,
            target: self.target,
            measured: self.measured(record, self.experiment, self.data_set, None)?,
            at_2_kb: sized("random-2048"),
            at_20_kb: sized("random-20480"),
            at_5_ms: (self.experiment == INGEST.experiment).then(delayed).flatten(),
        })
    }

    fn has_sizes(&self) -> bool {
        self.data_set == INGEST.data_set
    }

    fn measured(&self, record: &Record, experiment: &str, name: &str, round_trip_ms: Option<u32>) -> Option<Spread> {
        let alike = |set: &&DataSet| (set.experiment.as_str(), set.name.as_str()) == (experiment, name);
        let set = record.data_sets.iter().find(alike)?;
        let samples = || {
            let of_set = |one: &&Sample| (one.experiment.as_str(), one.data_set.as_str()) == (experiment, name);
            record.samples.iter().filter(of_set).filter(move |one| one.round_trip_ms == round_trip_ms)
        };
        let is = |one: &Sample, subject, phase, durability| {
            (one.subject.as_str(), one.phase.as_str(), one.durability) == (subject, phase, durability)
        };
        let (subject, phase) = self.of;
        let own = samples().filter(|one| is(one, subject, phase, Durability::Durable));
        Spread::of(own.filter_map(|one| {
            let own = (self.value)(one, set)?;
            let Some((subject, phase, durability)) = self.by else { return Some(own) };
            let base = samples().find(|base| base.round == one.round && is(base, subject, phase, durability))?;
            Some(own / (self.value)(base, set)?)
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
    use super::list::{at_least, at_most};
    use super::*;
    use crate::experiment::Experiment;
    use crate::record::tests::fixture;

    #[test]
    fn every_goal_is_measured_by_an_experiment() {
        for goal in GOALS {
            let experiment = Experiment::by_name(goal.experiment).unwrap();
            let phases: Vec<&str> = experiment.phases.iter().map(|phase| phase.name).collect();
            let by = goal.by.unwrap_or((goal.of.0, goal.of.1, Durability::Durable));
            for (subject, phase) in [goal.of, (by.0, by.1)] {
                assert!(experiment.subjects.contains(&subject) && phases.contains(&phase), "{}", goal.name);
            }
            assert!(experiment.durabilities.contains(&by.2), "{}", goal.name);
            let named = |keys: &crate::data_set::Keys, bytes: &usize| format!("{}-{bytes}", keys.name());
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
        let names: Vec<&str> = found.iter().map(|one| one.goal).collect();
        let expected = ["new / COPY, random keys", "third wave / COPY", "client CPU s per 1M, new", "  third wave"];
        assert_eq!(names, expected, "nothing is said of what was not measured");
    }

    #[test]
    fn a_verdict_is_about_the_median_in_the_direction_of_the_goal() {
        let verdict = |target, median| {
            let measured = Spread { median, min: 0.0, max: 9.0 };
            let one = Reached { goal: "", target, measured, at_2_kb: None, at_20_kb: None, at_5_ms: None };
            one.verdict()
        };
        let [more, less] = [at_least(1.0, 2.0), at_most(2.0, 1.0)];
        assert_eq!([0.9, 1.0, 2.0].map(|median| verdict(more, median)), [Some("no"), Some("must"), Some("aim")]);
        assert_eq!([2.1, 2.0, 1.0].map(|median| verdict(less, median)), [Some("no"), Some("must"), Some("aim")]);
        assert_eq!(verdict(None, 1.0), None);
    }
}
