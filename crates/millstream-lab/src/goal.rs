//! Goals: what the measurements are to show, and what they show.

use crate::column::MEBIBYTE;
use crate::data_set::DataSet;
use crate::durability::Durability;
use crate::limits::ROUND_TRIP_MS;
use crate::record::Record;
use crate::sample::{Sample, number};
use crate::spread::Spread;
use serde::Serialize;

/// Something that is to be reached, or is shown beside what is.
#[derive(Debug, Clone, Copy)]
struct Goal {
    name: &'static str,
    target: Option<Target>,
    experiment: &'static str,
    /// The data set of the goal; those of other sizes are shown beside.
    data_set: &'static str,
    /// Subject and phase.
    of: (&'static str, &'static str),
    /// Subject, phase and durability of what it is divided by.
    by: Option<(&'static str, &'static str, Durability)>,
    value: Value,
}

type Value = fn(&Sample, &DataSet) -> Option<f64>;

/// What has to be reached, and what it is meant to be.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Target {
    /// What has to be reached.
    pub must: f64,
    /// What it is meant to be.
    pub aim: f64,
    /// Less is better.
    pub at_most: bool,
}

/// What a record says of a goal.
#[derive(Debug, Clone, Serialize)]
pub struct Reached {
    /// What it is about.
    pub goal: &'static str,
    /// What is to be reached, if it is not only shown.
    pub target: Option<Target>,
    /// What was measured, round by round.
    pub measured: Spread,
    /// The same with documents of 2 kB.
    pub at_2_kb: Option<Spread>,
    /// The same with documents of 20 kB.
    pub at_20_kb: Option<Spread>,
    /// The same with a round trip of 5 ms.
    pub at_5_ms: Option<Spread>,
}

const fn at_least(must: f64, aim: f64) -> Option<Target> {
    Some(Target { must, aim, at_most: false })
}

const fn at_most(must: f64, aim: f64) -> Option<Target> {
    Some(Target { must, aim, at_most: true })
}

const INGEST: Goal = Goal {
    name: "new / COPY, random keys",
    target: at_least(1.0, 1.3),
    experiment: "ingest",
    data_set: "random-150",
    of: ("millstream", "fresh"),
    by: Some(("copy", "fresh", Durability::Durable)),
    value: rate,
};

const DURABILITY: Goal = Goal {
    name: "durable / unlogged, new",
    target: at_least(0.9, 0.98),
    experiment: "durability",
    by: Some(("millstream", "fresh", Durability::Unlogged)),
    ..INGEST
};

const HOT: Goal = Goal {
    name: "1 hot key / all keys",
    target: at_least(1.5, 3.0),
    experiment: "hot",
    of: ("millstream", "1 key"),
    by: Some(("millstream", "changed", Durability::Durable)),
    ..INGEST
};

const RIVAL: Goal = Goal {
    name: "/ recipe, new",
    target: at_least(2.0, 4.0),
    experiment: "rivals",
    by: Some(("recipe", "fresh", Durability::Durable)),
    ..INGEST
};

const RIVAL_CHANGED: Goal = Goal {
    name: "/ recipe, changed",
    of: ("millstream", "changed"),
    by: Some(("recipe", "changed", Durability::Durable)),
    ..RIVAL
};

const WAL: Goal = Goal {
    name: "WAL / input, direct COPY",
    target: at_most(2.3, 2.1),
    experiment: "wal",
    by: None,
    value: wal_per_byte,
    ..INGEST
};

const CPU: Goal =
    Goal { name: "client CPU s per 1M, new", target: at_most(1.0, 0.5), by: None, value: cpu_per_million, ..INGEST };

const MEMORY: Goal = Goal {
    name: "client memory, MiB",
    target: at_most(256.0, 128.0),
    experiment: "memory",
    by: None,
    value: peak_mebibytes,
    ..INGEST
};

const GROWTH: Goal = Goal {
    name: "new keys, large / small",
    target: at_least(0.6, 0.85),
    experiment: "growth",
    of: ("millstream", "large, new"),
    by: Some(("millstream", "small, new", Durability::Durable)),
    ..INGEST
};

const PUBLISHED: Goal = Goal {
    name: "8 read indexes / 0, new",
    target: at_least(0.9, 0.97),
    experiment: "published",
    of: ("published", "fresh"),
    by: Some(("millstream", "fresh", Durability::Durable)),
    ..INGEST
};

const REFRESH: Goal = Goal {
    name: "refresh 1 % / matview",
    target: at_most(0.10, 0.03),
    experiment: "refresh",
    of: ("model", "1 %"),
    by: Some(("concurrently", "1 %", Durability::Durable)),
    value: seconds,
    ..INGEST
};

const DISTINCT: Goal = Goal {
    name: "distinct, SQL / select",
    target: at_least(80.0, 120.0),
    experiment: "distinct",
    data_set: "sequential-150",
    of: ("function", "large"),
    by: Some(("select", "large", Durability::Durable)),
    ..INGEST
};

const DISTINCT_COMMAND: Goal = Goal { name: "  the command", of: ("distinct", "large"), ..DISTINCT };

const FIRST_ROW: Goal = Goal {
    name: "  its first row, ms",
    target: at_most(10.0, 5.0),
    by: None,
    value: first_milliseconds,
    ..DISTINCT_COMMAND
};

const DISTINCT_LARGE: Goal = Goal {
    name: "  SQL, large / small",
    target: at_most(2.0, 1.5),
    by: Some(("function", "small", Durability::Durable)),
    value: seconds,
    ..DISTINCT
};

/// Every goal, in the order of the report.
const GOALS: &[Goal] = &[
    INGEST,
    Goal { name: "new / COPY, sequential", target: at_least(0.9, 1.1), data_set: "sequential-150", ..INGEST },
    Goal { name: "third wave / COPY", target: at_least(0.9, 1.3), of: ("millstream", "changed 3"), ..INGEST },
    Goal {
        name: "size of 5 waves / compact",
        target: at_most(1.6, 1.6),
        of: ("millstream", "changed 5"),
        by: Some(("compact", "fresh", Durability::Durable)),
        value: total_bytes,
        ..INGEST
    },
    Goal { name: "unchanged / COPY", target: at_least(1.5, 2.5), of: ("millstream", "unchanged"), ..INGEST },
    DURABILITY,
    HOT,
    Goal { name: "100 hot keys / all keys", of: ("millstream", "100 keys"), ..HOT },
    RIVAL,
    RIVAL_CHANGED,
    Goal { name: "/ pipelined, new", by: Some(("pipelined", "fresh", Durability::Durable)), ..RIVAL },
    Goal { name: "/ pipelined, changed", by: Some(("pipelined", "changed", Durability::Durable)), ..RIVAL_CHANGED },
    Goal {
        name: "/ \\copy + merge, new",
        target: at_least(1.3, 2.5),
        by: Some(("merge", "fresh", Durability::Durable)),
        ..RIVAL
    },
    Goal {
        name: "/ \\copy + merge, changed",
        target: at_least(1.3, 2.5),
        by: Some(("merge", "changed", Durability::Durable)),
        ..RIVAL_CHANGED
    },
    WAL,
    Goal { name: "  page images in it", target: None, value: images_per_byte, ..WAL },
    Goal { name: "WAL / input, staged", target: at_most(2.9, 2.6), of: ("millstream", "staged"), ..WAL },
    Goal { name: "  page images in it", target: None, of: ("millstream", "staged"), value: images_per_byte, ..WAL },
    CPU,
    Goal { name: "  third wave", of: ("millstream", "changed 3"), ..CPU },
    MEMORY,
    Goal { name: "  16 MiB documents", data_set: "random-16777216", ..MEMORY },
    GROWTH,
    Goal {
        name: "  stored keys",
        target: None,
        of: ("millstream", "large, stored"),
        by: Some(("millstream", "small, stored", Durability::Durable)),
        ..GROWTH
    },
    PUBLISHED,
    Goal {
        name: "  changed",
        of: ("published", "changed"),
        by: Some(("millstream", "changed", Durability::Durable)),
        ..PUBLISHED
    },
    Goal { name: "  8 on the table, new", target: None, of: ("indexed", "fresh"), ..PUBLISHED },
    Goal {
        name: "  changed",
        target: None,
        of: ("indexed", "changed"),
        by: Some(("millstream", "changed", Durability::Durable)),
        ..PUBLISHED
    },
    REFRESH,
    Goal {
        name: "  all",
        target: at_most(0.25, 0.12),
        of: ("model", "all"),
        by: Some(("concurrently", "all", Durability::Durable)),
        ..REFRESH
    },
    DISTINCT,
    DISTINCT_COMMAND,
    FIRST_ROW,
    Goal { name: "  SQL, first row, ms", of: ("function", "large"), ..FIRST_ROW },
    DISTINCT_LARGE,
    Goal {
        name: "  command, large / small",
        of: ("distinct", "large"),
        by: Some(("distinct", "small", Durability::Durable)),
        ..DISTINCT_LARGE
    },
];

/// What a record says of the goals that it says something of.
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
    /// How far the median gets: `aim`, `must` or `no`; nothing where it is only shown.
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

fn rate(one: &Sample, _: &DataSet) -> Option<f64> {
    one.rows_per_second()
}

fn seconds(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.wall_seconds)
}

fn first_milliseconds(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.first_seconds? * 1e3)
}

fn total_bytes(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.size?.total_bytes()))
}

fn wal_per_byte(one: &Sample, set: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.wal_bytes?) / input_bytes(one, set))
}

fn images_per_byte(one: &Sample, set: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.page_image_bytes?) / input_bytes(one, set))
}

fn input_bytes(one: &Sample, set: &DataSet) -> f64 {
    number(one.rows * set.document_bytes as u64)
}

fn cpu_per_million(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.client_cpu_seconds? / number(one.rows) * 1e6)
}

fn peak_mebibytes(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.timing.client_peak_bytes?) / MEBIBYTE)
}

#[cfg(test)]
mod tests {
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
            assert_eq!(target.at_most, target.aim < target.must || target.aim == 1.6, "{}", goal.name);
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
