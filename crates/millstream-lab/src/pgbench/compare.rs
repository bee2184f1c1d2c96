//! Compares two records of the same experiment, arm by arm.

use super::experiment::Experiment;
use super::record::Record;
use crate::core::statistics::{Arms, Comparison, Criteria, Verdict};
use crate::core::{self, Measures, Outcome, Run, Spread};
use crate::error::Error;
use serde::Serialize;

/// What two records say of an arm.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Name of the arm.
    pub arm: String,
    /// The numbers, unless they cannot be compared.
    pub comparison: Option<Comparison>,
    /// The first record has numbers of this arm and the second has none.
    pub lost: bool,
    /// The second record is worse by at least this many percent with certainty; negative if it may be better.
    pub worse_percent: Option<f64>,
    /// The verdict, as a sentence.
    pub sentence: String,
}

/// Fewest records a side that show something about the machines or kernels of the records, and not only about the
/// records: as many boots are needed for a verdict at 1 %.
pub(super) const RECORDS_MIN: usize = 5;

/// Instead of a verdict about an arm that was run in guests on both sides.
const EMULATED: &str = "works in both; emulated, so no verdict about speed";

/// Joins several records of a side into one that holds, for each arm, the median of each record as a run.
///
/// # Errors
/// [`Error::Asked`] if they are not comparable among themselves, or are too few.
pub fn joined(records: Vec<Record>) -> Result<Record, Error> {
    if records.len() > 1 && records.len() < RECORDS_MIN {
        let why = format!("name one record a side, or at least {RECORDS_MIN}: with fewer, no verdict is possible");
        return Err(Error::Asked(why));
    }
    let Some((first, rest)) = records.split_first() else {
        return Err(Error::Asked("there is no record to compare".to_owned()));
    };
    if rest.is_empty() {
        return Ok(first.clone());
    }
    for other in rest {
        comparable(first, other)?;
    }
    let metric = first.conditions.experiment.metric.as_str();
    let mut one = first.clone();
    one.runs.clear();
    for (block, record) in (1..).zip(&records) {
        for arm in &record.conditions.experiment.arms {
            let own = record.runs.iter().filter(|run| run.arm == arm.name);
            let Some(spread) = Spread::of(own.clone().filter_map(|run| run.value(metric))) else { continue };
            let Some(run) = own.clone().next() else { continue };
            let mut measures = Measures::default();
            measures.set(metric, Some(spread.median));
            one.runs.push(Run { block, outcome: Outcome::Measured(measures), ..run.clone() });
        }
    }
    Ok(one)
}

/// Compares the deciding metric of each arm that both records have. Runs of two records are not paired, because the
/// machine may have changed between them.
///
/// # Errors
/// [`Error::Asked`] if the records are not comparable, with the reason.
pub fn compare(a: &Record, b: &Record) -> Result<Vec<Difference>, Error> {
    comparable(a, b)?;
    let (one, other) = (&a.conditions, &b.conditions);
    let experiment: &Experiment = &one.experiment;
    let metric = experiment.metric.metric();
    let criteria = Criteria { matters: experiment.matters_percent / 100.0, ..Criteria::default() };
    let mut differences = Vec::new();
    for arm in &experiment.arms {
        let Some(twin) = other.experiment.arm(&arm.name) else { continue };
        if experiment.setup(arm) != other.experiment.setup(twin) {
            return Err(Error::Asked(format!("these records are not comparable: arm {} is run differently", arm.name)));
        }
        let values = |record: &Record| -> Vec<f64> {
            let own = record.runs.iter().filter(|run| run.arm == arm.name);
            own.filter_map(|run| run.value(metric.name)).collect()
        };
        let (first, second) = (values(a), values(b));
        if first.is_empty() && second.is_empty() {
            continue;
        }
        let emulated = one.emulated && !first.is_empty() && !second.is_empty();
        let compared = (!emulated).then(|| Comparison::unpaired(&first, &second, criteria));
        let sentence = match &compared {
            Some(Ok(found)) => found.sentence(Arms { a: "the first", b: "the second", metric }).to_string(),
            Some(Err(why)) => why.to_string(),
            None => EMULATED.to_owned(),
        };
        let comparison = compared.and_then(Result::ok);
        let worse_percent = comparison.as_ref().and_then(|found| worse(found, metric.better));
        let lost = !first.is_empty() && second.is_empty();
        differences.push(Difference { lost, arm: arm.name.clone(), comparison, worse_percent, sentence });
    }
    match differences.is_empty() {
        true => Err(Error::Asked("these records have no arm in common".to_owned())),
        false => Ok(differences),
    }
}

/// The facts of servers and machines in which two records differ. A fact of a server that arms name begins with its name.
pub fn surroundings(a: &Record, b: &Record) -> Vec<core::Difference> {
    let (one, other) = (&a.conditions.environments, &b.conditions.environments);
    let both = one.iter().filter_map(|(server, a)| Some((server, a, other.get(server)?)));
    both.flat_map(|(server, a, b)| {
        let found = core::difference(a, b).into_iter();
        let named = move |name: String| if server.is_empty() { name } else { format!("{server}: {name}") };
        found.map(move |one| core::Difference { name: named(one.name), ..one })
    })
    .collect()
}

/// Refuses records that answer different questions, or the same one differently.
fn comparable(a: &Record, b: &Record) -> Result<(), Error> {
    let (one, other) = (&a.conditions, &b.conditions);
    let same = [
        (one.experiment.name == other.experiment.name, "they answer different questions"),
        (one.experiment.metric == other.experiment.metric, "they decide by different metrics"),
        (one.experiment.data == other.experiment.data, "they use different data"),
        (one.files == other.files, "their scripts differ"),
        (one.seconds == other.seconds, "their runs have different lengths"),
        (one.experiment.warm_up == other.experiment.warm_up, "their warm-up differs"),
        (one.experiment.setup == other.experiment.setup, "their setup differs"),
        (one.experiment.reset == other.experiment.reset, "what they do before each run differs"),
        (one.quick == other.quick, "one of them is quick, and no evidence"),
        (one.emulated == other.emulated, "one of them was made in a guest, which says nothing about speed"),
    ];
    if let Some((_, why)) = same.iter().find(|(same, _)| !same) {
        return Err(Error::Asked(format!("these records are not comparable: {why}")));
    }
    Ok(())
}

/// How many percent worse the second record is at least: the end of the interval that is nearer to no difference.
fn worse(found: &Comparison, better: crate::core::Better) -> Option<f64> {
    if !matches!(found.verdict, Verdict::Differs { .. }) {
        return None;
    }
    let interval = found.interval?;
    match better {
        crate::core::Better::Higher => Some(100.0 * (1.0 - interval.high)),
        crate::core::Better::Lower => Some(100.0 * (interval.low - 1.0)),
        crate::core::Better::Neither => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgbench::{Conditions, Request, Source};
    use std::collections::BTreeMap;

    /// A record whose arms each have a run of these seconds, or failed.
    fn record(emulated: bool, arms: [(&str, Option<f64>); 2]) -> Record {
        let source = Source::of_commands("true", "false").unwrap();
        let conditions = Conditions { emulated, ..Conditions::planned(&source, &Request::default()) };
        let dir = tempfile::tempdir().unwrap();
        let opened = Record::open(&source, &Request::default(), conditions, Some(dir.path()), Vec::new());
        let mut record = opened.unwrap().1;
        for (arm, seconds) in arms {
            let mut measures = Measures::default();
            measures.set("wall_seconds", seconds);
            let outcome = seconds.map_or_else(|| Outcome::Error("x".to_owned()), |_| Outcome::Measured(measures));
            let (experiment, arm, factors) = ("commands".to_owned(), arm.to_owned(), BTreeMap::new());
            record.runs.push(Run { experiment, arm, factors, block: 1, turn: 1, outcome });
        }
        record
    }

    fn side(emulated: bool, seconds: f64, b: Option<f64>) -> Record {
        let boot = |n: u32| record(emulated, [("a", Some(seconds + f64::from(n) / 100.0)), ("b", b)]);
        joined((0..5).map(boot).collect()).unwrap()
    }

    #[test]
    fn guests_get_no_verdict_about_speed_and_an_arm_that_fails_in_one_is_lost() {
        let found = compare(&side(true, 1.0, Some(1.0)), &side(true, 9.0, None)).unwrap();
        assert_eq!(found[0].sentence, EMULATED);
        assert!(found[0].comparison.is_none() && found[0].worse_percent.is_none() && !found[0].lost, "{found:?}");
        assert!(found[1].lost, "{found:?}");

        let real = compare(&side(false, 1.0, Some(1.0)), &side(false, 9.0, None)).unwrap();
        assert!(real[0].worse_percent.is_some_and(|percent| percent > 100.0), "{real:?}");
        let mixed = compare(&side(false, 1.0, None), &side(true, 1.0, None)).unwrap_err();
        assert!(mixed.to_string().contains("one of them was made in a guest"), "{mixed}");
    }
}
