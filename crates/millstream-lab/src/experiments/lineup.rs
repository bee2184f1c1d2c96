//! Any number of records of the same experiment beside each other: their numbers, the times of their statements, and in
//! which facts their machines differ.

use super::chosen_metric::ChosenMetric;
use super::compare::{Differences, compare};
use super::record::Record;
use crate::core::{Metric, Run, Spread, groups};
use crate::error::Error;
use crate::limits::LINEUP_SIDES_MAX;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Metrics that are shown besides those of the experiment, if a side has them.
const SHOWN: &[&str] = &["read_mb_per_second", "write_mb_per_second"];

/// Records beside each other.
#[derive(Debug, Serialize)]
pub struct Lineup {
    /// The sides in the order in which they were named.
    pub sides: Vec<Side>,
    /// Their numbers: a row for each arm and metric.
    pub rows: Vec<Row>,
    /// Mean times of statements: a row for each arm and statement.
    pub statements: Vec<StatementRow>,
    /// What each further side says, compared with the first.
    pub differences: Vec<Differences>,
    /// Facts of servers and machines in which sides differ.
    pub facts: Vec<Fact>,
}

/// Records of one kernel, machine or version: one, or at least five.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// The kernel of its first record.
    pub kernel: String,
    /// Its records.
    #[serde(skip)]
    pub records: Vec<Record>,
}

/// The numbers of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the arm.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Median and extremes of each side: over the runs of a record, or over the medians of several records.
    pub values: Vec<Option<Spread>>,
}

/// The times of a statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementRow {
    /// Name of the arm.
    pub arm: String,
    /// Its text.
    pub statement: String,
    /// Mean milliseconds of each side, over several records their median and extremes.
    pub milliseconds: Vec<Option<Spread>>,
}

/// A fact in which sides differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its value of each side; `None` where it is not known.
    pub values: Vec<Option<String>>,
}

impl Side {
    /// A side with its name.
    pub fn new(name: String, records: Vec<Record>) -> Self {
        let kernel = records.first().map(|record| record.machine.kernel.clone()).unwrap_or_default();
        Self { name, kernel, records }
    }

    /// Median and extremes of an arm.
    fn spread(&self, arm: &str, metric: &str) -> Option<Spread> {
        let of = |record: &Record| {
            let own = record.runs.iter().filter(|run| run.arm == arm);
            Spread::of(own.filter_map(|run| run.value(metric)))
        };
        match self.records.as_slice() {
            [record] => of(record),
            records => Spread::of(records.iter().filter_map(|record| Some(of(record)?.median))),
        }
    }

    /// The run of an arm that has the middle value of a metric, of those that have a series.
    pub(super) fn typical(&self, arm: &str, metric: &str, series: &str) -> Option<&Run> {
        let has = |run: &&Run| run.measures().is_some_and(|measures| measures.series.contains_key(series));
        let own = self.records.iter().flat_map(|record| &record.runs).filter(|run| run.arm == arm).filter(has);
        let mut runs: Vec<(f64, &Run)> = own.map(|run| (run.value(metric).unwrap_or(0.0), run)).collect();
        runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        runs.get(runs.len() / 2).map(|(_, run)| *run)
    }
}

impl Lineup {
    /// Puts sides beside each other.
    ///
    /// # Errors
    /// [`Error::Asked`] if there are fewer than two, or too many; if they are not comparable with the first, with the reason.
    pub fn of(sides: Vec<Side>) -> Result<Self, Error> {
        if !(2..=LINEUP_SIDES_MAX).contains(&sides.len()) {
            return Err(Error::Asked(format!("name from 2 to {LINEUP_SIDES_MAX} records")));
        }
        let (first, rest) = sides.split_at(1);
        let against = |side: &Side| {
            let found = compare(&first[0].records, &side.records);
            found.map_err(|error| match error {
                Error::Asked(why) => Error::Asked(format!("{} and {}: {why}", first[0].name, side.name)),
                other => other,
            })
        };
        let differences = rest.iter().map(against).collect::<Result<Vec<Differences>, Error>>()?;
        let (rows, statements, facts) = (rows(&sides), statements(&sides), facts(&differences));
        Ok(Self { sides, rows, statements, differences, facts })
    }

    /// The first record of all, whose experiment is that of every other.
    ///
    /// # Panics
    /// Never: a side has a record.
    pub(super) fn first(&self) -> &Record {
        &self.sides[0].records[0]
    }

    /// The arms of all sides, in their order.
    pub(super) fn arms(&self) -> Vec<&str> {
        groups(self.rows.iter().map(|row| (row.arm.as_str(), ()))).into_iter().map(|(arm, _)| arm).collect()
    }
}

/// A row for each arm and metric of which a side has numbers.
fn rows(sides: &[Side]) -> Vec<Row> {
    let experiments = || sides.iter().flat_map(|side| side.records.first()).map(|record| &record.conditions.experiment);
    let Some(one) = experiments().next() else { return Vec::new() };
    let own = std::iter::once(&one.metric).chain(&one.show).map(ChosenMetric::metric);
    let shown: Vec<&Metric> = SHOWN.iter().copied().filter_map(Metric::by_name).collect();
    let metrics: Vec<&Metric> = groups(own.chain(shown).map(|metric| (&metric.name, metric)))
        .into_iter()
        .filter_map(|(_, same)| same.first().copied())
        .collect();
    let arms = groups(experiments().flat_map(|one| &one.arms).map(|arm| (arm.name.as_str(), ())));
    let row = |arm: &str, metric: &Metric| {
        let values: Vec<Option<Spread>> = sides.iter().map(|side| side.spread(arm, &metric.name)).collect();
        let has = values.iter().any(Option::is_some);
        has.then(|| Row { arm: arm.to_owned(), metric: metric.clone(), values })
    };
    arms.iter().flat_map(|(arm, _)| metrics.iter().filter_map(|metric| row(arm, metric)).collect::<Vec<_>>()).collect()
}

/// A row for each arm and statement of which a side has a time.
fn statements(sides: &[Side]) -> Vec<StatementRow> {
    let all = || sides.iter().flat_map(|side| &side.records).map(|record| &record.conditions.statements);
    let names: BTreeSet<(&String, &String)> =
        all().flatten().flat_map(|(arm, own)| own.keys().map(move |text| (arm, text))).collect();
    let row = |(arm, statement): (&String, &String)| {
        let of = |side: &Side| {
            let times = side.records.iter().filter_map(|record| record.conditions.statements.get(arm)?.get(statement));
            Spread::of(times.copied())
        };
        let milliseconds = sides.iter().map(of).collect();
        StatementRow { arm: arm.clone(), statement: statement.clone(), milliseconds }
    };
    names.into_iter().map(row).collect()
}

/// The facts in which a side differs from the first, with the values of all.
fn facts(differences: &[Differences]) -> Vec<Fact> {
    let mut facts: BTreeMap<&str, Vec<Option<String>>> = BTreeMap::new();
    for (place, found) in (1_usize..).zip(differences) {
        for one in &found.surroundings {
            // Where a side does not differ, it has the value of the first.
            let same = || vec![one.a.clone(); differences.len() + 1];
            facts.entry(&one.name).or_insert_with(same)[place].clone_from(&one.b);
        }
    }
    facts.into_iter().map(|(name, values)| Fact { name: name.to_owned(), values }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Environment;
    use crate::experiments::report::fixture::record;

    fn side(name: &str, kernel: &str) -> Side {
        let mut one = record(3, 4, 8);
        one.machine.kernel = kernel.to_owned();
        let facts = BTreeMap::from([("scheduler".to_owned(), kernel.to_owned()), ("same".to_owned(), "1".to_owned())]);
        let sections = BTreeMap::from([("kernel".to_owned(), facts)]);
        one.conditions.environments = BTreeMap::from([(String::new(), Environment { sections })]);
        Side::new(name.to_owned(), vec![one])
    }

    #[test]
    fn sides_have_their_numbers_statements_and_facts_beside_each_other() {
        let lineup = Lineup::of(vec![side("a", "6.1"), side("b", "6.12"), side("c", "6.1")]).unwrap();
        assert_eq!((lineup.differences.len(), lineup.arms().len()), (2, 2), "the third arm was skipped");
        let row = &lineup.rows[0];
        assert_eq!((row.metric.name.as_ref(), row.values.len()), ("tps", 3));
        assert!(row.values.iter().all(|one| one.is_some_and(|spread| spread.min < spread.max)), "{row:?}");
        assert!(!lineup.statements.is_empty() && lineup.statements[0].milliseconds.iter().all(Option::is_some));
        let values = ["6.1", "6.12", "6.1"].map(|kernel| Some(kernel.to_owned())).to_vec();
        assert_eq!(lineup.facts, [Fact { name: "kernel.scheduler".to_owned(), values }]);
    }

    #[test]
    fn sides_that_are_not_comparable_are_named() {
        let mut other = side("b", "6.1");
        other.records[0].conditions.seconds = 99;
        let why = Lineup::of(vec![side("a", "6.1"), other]).unwrap_err().to_string();
        assert!(why.starts_with("a and b: these records are not comparable: their runs have different"), "{why}");
        assert!(Lineup::of(vec![side("a", "6.1")]).is_err());
    }

    #[test]
    fn the_typical_run_is_the_middle_one() {
        let side = side("a", "6.1");
        let arm = side.records[0].conditions.experiment.arms[1].name.clone();
        let own = side.records[0].runs.iter().filter(|run| run.arm == arm);
        let mut values: Vec<f64> = own.filter_map(|run| run.value("tps")).collect();
        values.sort_by(f64::total_cmp);
        assert_eq!(side.typical(&arm, "tps", "tps").unwrap().value("tps"), Some(values[2]));
        assert!(side.typical(&arm, "tps", "nothing").is_none());
    }
}
