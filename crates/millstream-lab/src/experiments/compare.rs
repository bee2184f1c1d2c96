//! Compares records of the same experiment, arm by arm. A record is one sample: whatever changes between two records,
//! such as the machine's drift, is the same for all runs of one.

use super::chosen_metric::ChosenMetric;
use super::experiment::Experiment;
use super::record::Record;
use crate::core::statistics::{Arms, Comparison, Criteria, Multiplicity, Verdict};
use crate::core::{self, Measures, Metric, Outcome, Run, Spread};
use crate::error::Error;
use serde::Serialize;
use std::collections::BTreeSet;

/// What two sides of records say.
#[derive(Debug, Serialize)]
pub struct Differences {
    /// Every arm of which a side has numbers, by the metric that decides.
    pub arms: Vec<Difference>,
    /// The arms of which both sides have numbers, by the metrics that the experiment shows besides.
    pub shown: Vec<Difference>,
    /// Number of comparisons, and how many false verdicts to expect of them.
    pub multiplicity: Multiplicity,
    /// The facts of servers and machines in which the first records of the sides differ: those that held in the runs. A fact of
    /// a server that arms name begins with its name, and one in which arms differ with the arm.
    pub surroundings: Vec<core::Difference>,
    /// Why no verdict of a difference is possible, if so.
    pub no_verdicts: Option<String>,
}

/// What two sides say of an arm.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Name of the arm.
    pub arm: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// What the records of the first side have as their medians; `None` without numbers.
    pub first: Option<Spread>,
    /// The same of the second side.
    pub second: Option<Spread>,
    /// The ratio of the second to the first, unless they cannot be compared.
    pub comparison: Option<Comparison>,
    /// The first side has numbers of this arm and the second has none.
    pub lost: bool,
    /// Both sides have numbers of this arm, and no test can compare them.
    pub incomparable: bool,
    /// The second side is worse by at least this many percent with certainty; negative if it may be better.
    pub worse_percent: Option<f64>,
    /// The verdict, as a sentence.
    pub sentence: String,
}

impl Difference {
    /// What two sides, each joined into one record, say of an arm by a metric; `None` if neither has numbers.
    fn of(arm: &str, metric: &Metric, [a, b]: [&Record; 2], criteria: Criteria) -> Option<Self> {
        let values = |record: &Record| -> Vec<f64> {
            let own = record.runs.iter().filter(|run| run.arm == arm);
            own.filter_map(|run| run.value(&metric.name)).collect()
        };
        let (first, second) = (values(a), values(b));
        let is_emulated = a.conditions.emulated;
        let compared = match (first.is_empty(), second.is_empty()) {
            (true, true) => return None,
            (false, true) => Err("only the first side has numbers of it".to_owned()),
            (true, false) => Err("only the second side has numbers of it".to_owned()),
            (false, false) if is_emulated => Err(EMULATED.to_owned()),
            (false, false) => {
                let found = Comparison::unpaired(&first, &second, criteria);
                found.map_err(|why| format!("it cannot be compared: {why}"))
            }
        };
        let sentence = match &compared {
            Ok(found) => found.sentence(Arms { a: "the first", b: "the second", metric }).to_string(),
            Err(why) => why.clone(),
        };
        let (lost, both) = (second.is_empty(), !first.is_empty() && !second.is_empty());
        let incomparable = both && !is_emulated && compared.is_err();
        let comparison = compared.ok();
        let worse_percent = comparison.as_ref().and_then(|found| worse(found, metric.better));
        // Numbers of an emulated processor would be read as those of a real one.
        let spread = |values: Vec<f64>| if is_emulated { None } else { Spread::of(values) };
        Some(Self {
            arm: arm.to_owned(),
            metric: metric.name.to_string(),
            unit: metric.unit.to_string(),
            first: spread(first),
            second: spread(second),
            comparison,
            lost,
            incomparable,
            worse_percent,
            sentence,
        })
    }

    /// Why the second side must not replace the first, if it may be worse by at most so many percent.
    pub fn failure(&self, most: f64) -> Option<String> {
        if self.lost || self.incomparable {
            return Some(self.sentence.clone());
        }
        let worse = self.worse_percent.filter(|worse| *worse > most)?;
        Some(format!("certainly worse by at least {worse:.1} %"))
    }
}

/// Fewest records a side with which a verdict at 1 % is possible.
pub const RECORDS_MIN: usize = 5;

/// Instead of a verdict about an arm that was run in guests on both sides.
const EMULATED: &str = "works in both; emulated, so no verdict about speed";

/// Joins the records of a side into one that holds, for each arm, the median of each record as a run.
///
/// # Errors
/// [`Error::Asked`] if they are not comparable among themselves, are too few, or are not all different.
fn joined(records: &[Record]) -> Result<Record, Error> {
    if records.len() > 1 && records.len() < RECORDS_MIN {
        let why = format!("name one record a side, or at least {RECORDS_MIN}: with fewer, no verdict is possible");
        return Err(Error::Asked(why));
    }
    let Some((first, rest)) = records.split_first() else {
        return Err(Error::Asked("there is no record to compare".to_owned()));
    };
    for (n, other) in (0..).zip(rest) {
        comparable(first, other)?;
        let (one, its) = (&first.machine, &other.machine);
        let same = (&one.kernel, &one.processor, one.cores) == (&its.kernel, &its.processor, its.cores);
        if !same {
            let why = "the records of a side differ in kernel or machine; name records of one kernel on one machine";
            return Err(Error::Asked(why.to_owned()));
        }
        if records[..=n].contains(other) {
            let why = "a side names a record twice; name records of different boots";
            return Err(Error::Asked(why.to_owned()));
        }
    }
    let experiment = &first.conditions.experiment;
    let metrics: Vec<&str> =
        std::iter::once(&experiment.metric).chain(&experiment.show).map(ChosenMetric::as_str).collect();
    let mut one = first.clone();
    one.runs.clear();
    for (block, record) in (1..).zip(records) {
        for arm in &record.conditions.experiment.arms {
            let own = record.runs.iter().filter(|run| run.arm == arm.name);
            let Some(run) = own.clone().next() else { continue };
            let mut measures = Measures::default();
            for metric in &metrics {
                let spread = Spread::of(own.clone().filter_map(|run| run.value(metric)));
                measures.set(metric, spread.map(|spread| spread.median));
            }
            if measures.values.is_empty() {
                continue;
            }
            one.runs.push(Run { block, outcome: Outcome::Measured(measures), ..run.clone() });
        }
    }
    Ok(one)
}

/// Compares each arm of two sides of records, one or at least five a side, by the metric that decides and by those of
/// `show`. A record is one sample.
///
/// # Errors
/// [`Error::Asked`] if the records are not comparable, with the reason.
pub fn compare(first: &[Record], second: &[Record]) -> Result<Differences, Error> {
    let (a, b) = (&joined(first)?, &joined(second)?);
    comparable(a, b)?;
    let (one, other) = (&a.conditions, &b.conditions);
    let experiment: &Experiment = &one.experiment;
    let criteria = Criteria { matters: experiment.matters_percent / 100.0, ..Criteria::default() };
    let metric = experiment.metric.metric();
    let show = experiment.show.iter().filter(|one| other.experiment.show.contains(one)).map(ChosenMetric::metric);
    let show: Vec<&Metric> = show.filter(|one| one.name != metric.name).collect();
    let (mut arms, mut shown) = (Vec::new(), Vec::new());
    let new = other.experiment.arms.iter().filter(|arm| experiment.arm(&arm.name).is_none());
    for arm in experiment.arms.iter().chain(new) {
        let both = experiment.arm(&arm.name).zip(other.experiment.arm(&arm.name));
        if both.is_some_and(|(arm, twin)| experiment.setup(arm) != other.experiment.setup(twin)) {
            return Err(Error::Asked(format!("these records are not comparable: arm {} is run differently", arm.name)));
        }
        arms.extend(Difference::of(&arm.name, metric, [a, b], criteria));
        let others = show.iter().filter_map(|metric| Difference::of(&arm.name, metric, [a, b], criteria));
        shown.extend(others.filter(|one| one.first.is_some() && one.second.is_some()));
    }
    if arms.is_empty() {
        return Err(Error::Asked("neither side has numbers of any arm".to_owned()));
    }
    let all = arms.iter().chain(&shown);
    let multiplicity = Multiplicity::of(all.filter_map(|one| Some(&one.comparison.as_ref()?.criteria)));
    let few = first.len().min(second.len()) < RECORDS_MIN && !one.emulated;
    let no_verdicts = few.then(|| {
        format!(
            "a record is one sample, whatever runs it holds, because the machine drifts between records; for a verdict, \
             name at least {RECORDS_MIN} records a side"
        )
    });
    Ok(Differences { arms, shown, multiplicity, surroundings: surroundings(a, b), no_verdicts })
}

/// See [`Differences::surroundings`].
fn surroundings(record_a: &Record, record_b: &Record) -> Vec<core::Difference> {
    let (one, other) = (&record_a.conditions, &record_b.conditions);
    let is_earlier = one.arm_facts.is_empty() || other.arm_facts.is_empty();
    let varying = &one.varying_facts() | &other.varying_facts();
    let servers = one.environments.iter().filter_map(|(server, a)| Some((server, a, other.environments.get(server)?)));
    let of_servers = servers.flat_map(|(server, a, b)| {
        // Earlier versions read them before the experiment set any. They give way to what it sets on both sides.
        let own = if is_earlier { &record_a.own_facts(server) & &record_b.own_facts(server) } else { BTreeSet::new() };
        let is_of_all = |one: &core::Difference| !own.contains(&one.name) && !varying.contains(&one.name);
        let found: Vec<core::Difference> = core::difference(a, b).into_iter().filter(is_of_all).collect();
        let named = move |name: String| if server.is_empty() { name } else { format!("{server}: {name}") };
        found.into_iter().map(move |one| core::Difference { name: named(one.name), ..one })
    });
    let arms = one.arm_facts.keys().filter_map(|arm| Some((arm, one.facts_of(arm)?, other.facts_of(arm)?)));
    let of_arms = arms.flat_map(|(arm, a, b)| {
        let found = core::difference(&a, &b).into_iter().filter(|one| varying.contains(&one.name));
        let named = found.map(|one| core::Difference { name: format!("arm {arm}: {}", one.name), ..one });
        named.collect::<Vec<_>>()
    });
    of_servers.chain(of_arms).collect()
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

/// How many percent worse the second side is at least: the end of the interval that is nearer to no difference.
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
    use crate::core::Environment;
    use crate::experiments::{Commands, Conditions, Request, Source};
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    /// A record without runs. To make one measures the disk.
    static EMPTY: LazyLock<Record> = LazyLock::new(|| {
        let source = Source::of_commands(&Commands::new("true", "false")).unwrap();
        let conditions = Conditions::planned(&source, &Request::default());
        let dir = tempfile::tempdir().unwrap();
        Record::open(&source, &Request::default(), conditions, Some(dir.path()), Vec::new()).unwrap().1
    });

    /// A record whose arms each have a run of these seconds, or failed.
    fn record(emulated: bool, arms: [(&str, Option<f64>); 2]) -> Record {
        let mut record = EMPTY.clone();
        record.conditions.emulated = emulated;
        for (arm, seconds) in arms {
            let mut measures = Measures::default();
            measures.set("wall_seconds", seconds);
            let outcome = seconds.map_or_else(|| Outcome::Error("x".to_owned()), |_| Outcome::Measured(measures));
            let (experiment, arm, factors) = ("commands".to_owned(), arm.to_owned(), BTreeMap::new());
            record.runs.push(Run { experiment, arm, factors, block: 1, turn: 1, outcome });
        }
        record
    }

    fn side(emulated: bool, seconds: f64, b: Option<f64>) -> Vec<Record> {
        let boot = |n: u32| record(emulated, [("a", Some(seconds + f64::from(n) / 100.0)), ("b", b)]);
        (0..5).map(boot).collect()
    }

    #[test]
    fn guests_get_no_verdict_about_speed_and_an_arm_that_fails_in_one_is_lost() {
        let found = compare(&side(true, 1.0, Some(1.0)), &side(true, 9.0, None)).unwrap().arms;
        assert_eq!(found[0].sentence, EMULATED);
        assert!(found[0].comparison.is_none() && found[0].worse_percent.is_none() && !found[0].lost, "{found:?}");
        assert!(found[1].lost, "{found:?}");
        assert_eq!(found[0].failure(0.0), None);
        let one = compare(&side(true, 1.0, Some(1.0))[..1], &side(true, 9.0, None)[..1]).unwrap();
        assert!(one.arms[1].lost && one.no_verdicts.is_none(), "{one:?}");

        let real = compare(&side(false, 1.0, Some(1.0)), &side(false, 9.0, None)).unwrap().arms;
        assert!(real[0].worse_percent.is_some_and(|percent| percent > 100.0), "{real:?}");
        let mixed = compare(&side(false, 1.0, None), &side(true, 1.0, None)).unwrap_err();
        assert!(mixed.to_string().contains("one of them was made in a guest"), "{mixed}");
    }

    /// A record whose arm `a` has these runs.
    fn runs(values: &[f64]) -> Record {
        let mut one = record(false, [("a", Some(1.0)), ("b", None)]);
        let run = one.runs[0].clone();
        one.runs = values
            .iter()
            .map(|value| {
                let mut measures = Measures::default();
                measures.set("wall_seconds", Some(*value));
                Run { outcome: Outcome::Measured(measures), ..run.clone() }
            })
            .collect();
        one
    }

    #[test]
    fn a_record_is_one_sample_however_many_runs_it_has() {
        let values = |from: u32| (from..from + 20).map(f64::from).collect::<Vec<_>>();
        let [one, other] = [100, 200].map(|from| runs(&values(from)));
        let found = compare(std::slice::from_ref(&one), &[other]).unwrap();
        let why = found.no_verdicts.unwrap();
        assert!(why.starts_with("a record is one sample") && why.ends_with("at least 5 records a side"), "{why}");
        let expected = "cannot tell: the second / the first is 1.913 in 1 and 1 records; about 5 more records a side";
        assert_eq!((found.arms[0].sentence.as_str(), found.arms[0].worse_percent), (expected, None));
        let five = |from: u32| (from..from + 5).map(|n| runs(&values(n))).collect::<Vec<_>>();
        let found = compare(&[one], &five(200)).unwrap();
        assert!(found.no_verdicts.is_some() && found.arms[0].worse_percent.is_none(), "{found:?}");
        let found = compare(&five(100), &five(200)).unwrap();
        assert!(found.no_verdicts.is_none() && found.arms[0].worse_percent.unwrap() > 50.0, "{found:?}");
    }

    #[test]
    fn both_sides_have_their_medians_and_shown_metrics_have_verdicts_that_do_not_fail() {
        let side = |from: u32, memory: f64| {
            let one = |n: u32| {
                let mut one = runs(&[f64::from(from + n), f64::from(from + n + 2)]);
                one.conditions.experiment.show = vec![ChosenMetric::known("client_peak_bytes").unwrap()];
                for run in &mut one.runs {
                    let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
                    measures.set("client_peak_bytes", Some(memory + f64::from(n)));
                }
                one
            };
            (0..5).map(one).collect::<Vec<_>>()
        };
        let found = compare(&side(100, 5_000.0), &side(100, 9_000.0)).unwrap();
        let time = &found.arms[0];
        assert_eq!((time.first, time.unit.as_str()), (Some(Spread { median: 103.0, min: 101.0, max: 105.0 }), "s"));
        assert_eq!((time.first, time.failure(5.0)), (time.second, None));
        let memory = &found.shown[0];
        assert_eq!((memory.metric.as_str(), memory.second.unwrap().median), ("client_peak_bytes", 9_002.0));
        assert!(memory.sentence.contains("has higher client_peak_bytes than the first by 80 %"), "{memory:?}");
        assert_eq!((found.shown.len(), found.multiplicity.comparisons), (1, 2));
    }

    #[test]
    fn an_arm_that_cannot_be_compared_or_is_lost_fails_and_a_new_one_does_not() {
        let failure = |a: &[Record], b: &[Record]| {
            let found = compare(a, b).unwrap();
            assert_eq!(found.arms.len(), 1, "{found:?}");
            (found.arms[0].failure(5.0), found.multiplicity.comparisons)
        };
        let side = |from: u32, count: u32| (from..from + count).map(|n| runs(&[f64::from(n)])).collect::<Vec<_>>();
        let many = side(1, 101);
        assert_eq!(failure(&many, &many), (None, 1), "a side never differs from itself");
        let (why, _) = failure(&many, &side(2, 101));
        assert_eq!(why.unwrap(), "it cannot be compared: an arm has 101 values; at most 100 are compared");
        let (why, _) = failure(&side(1, 5), &side(0, 5));
        assert!(why.unwrap().ends_with("a value is not a positive number, so there is no ratio"));
        let (why, _) = failure(&side(1_000, 20), &side(2_000, 20));
        assert!(why.unwrap().starts_with("certainly worse by at least 9"));

        let mut other = runs(&[1.0]);
        other.conditions.experiment.arms[0].name = "c".to_owned();
        other.runs[0].arm = "c".to_owned();
        let found = compare(&[runs(&[1.0])], &[other]).unwrap().arms;
        assert_eq!(
            (found[0].failure(5.0), found[0].lost),
            (Some("only the first side has numbers of it".to_owned()), true)
        );
        assert_eq!((found[1].failure(5.0), found[1].arm.as_str()), (None, "c"));
        assert_eq!(found[1].sentence, "only the second side has numbers of it");
    }

    #[test]
    fn a_fact_that_every_measured_arm_sets_is_no_difference() {
        let [fact, other] = ["sched_autogroup_enabled", "sched_rr_timeslice_ms"];
        let record = |value: &str| {
            let mut one = record(false, [("a", Some(1.0)), ("b", Some(1.0))]);
            for arm in &mut one.conditions.experiment.arms {
                arm.run.host = BTreeMap::from([(format!("kernel.{fact}"), "1".to_owned())]);
            }
            let facts = BTreeMap::from([fact, other].map(|name| (name.to_owned(), value.to_owned())));
            let sections = BTreeMap::from([("scheduler".to_owned(), facts)]);
            one.conditions.environments = BTreeMap::from([(String::new(), Environment { sections })]);
            one
        };
        let differ = |a: &Record, b: &Record| -> Vec<String> {
            let found = compare(std::slice::from_ref(a), std::slice::from_ref(b)).unwrap().surroundings;
            found.into_iter().map(|one| one.name).collect()
        };
        let [mut a, mut b] = ["0", "1"].map(record);
        assert_eq!(differ(&a, &b), [format!("scheduler.{other}")]);
        // An arm that ran on the machine as it was.
        for one in [&mut a, &mut b] {
            one.conditions.experiment.arms[1].run.host.clear();
        }
        assert_eq!(differ(&a, &b), [fact, other].map(|name| format!("scheduler.{name}")));
        // The same, but it did not run.
        for one in [&mut a, &mut b] {
            one.runs[1].outcome = Outcome::Skipped("not here".to_owned());
        }
        assert_eq!(differ(&a, &b), [format!("scheduler.{other}")]);
    }

    #[test]
    fn a_fact_in_which_arms_differ_is_compared_arm_by_arm() {
        let record = |ssl: &str, of_a: &str| {
            let mut one = record(false, [("a", Some(1.0)), ("b", Some(1.0))]);
            for (arm, work_mem) in [("a", of_a), ("b", "1MB")] {
                let facts = [("ssl", ssl), ("work_mem", work_mem)];
                let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
                let sections = BTreeMap::from([("settings".to_owned(), facts)]);
                one.conditions.hold("", arm, &Environment { sections });
            }
            // What was set is compared, too: it held in the runs.
            for arm in &mut one.conditions.experiment.arms {
                arm.run.settings = BTreeMap::from([("ssl".to_owned(), ssl.to_owned())]);
            }
            one
        };
        let found = surroundings(&record("on", "4MB"), &record("off", "8MB"));
        let said: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.a.as_deref(), one.b.as_deref())).collect();
        let ssl = ("settings.ssl", Some("on"), Some("off"));
        assert_eq!(said, [ssl, ("arm a: settings.work_mem", Some("4MB"), Some("8MB"))]);
        assert!(surroundings(&record("on", "4MB"), &record("on", "4MB")).is_empty());
        // Where an arm is like the others on one side alone, too.
        let found = surroundings(&record("on", "1MB"), &record("on", "8MB"));
        let said: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.a.as_deref(), one.b.as_deref())).collect();
        assert_eq!(said, [("arm a: settings.work_mem", Some("1MB"), Some("8MB"))]);
    }

    #[test]
    fn a_side_is_made_of_different_records_of_one_machine() {
        let one = |n: u32| record(false, [("a", Some(f64::from(n))), ("b", None)]);
        let five = || (1..=5).map(one).collect::<Vec<_>>();
        assert_eq!(joined(&five()).unwrap().runs.len(), 5);
        let why = |records: Vec<Record>| joined(&records).unwrap_err().to_string();
        let mut twice = five();
        twice[4] = twice[2].clone();
        assert!(why(twice).contains("names a record twice"));
        let mut kernels = five();
        kernels[3].machine.kernel = "linux 2.6".to_owned();
        assert!(why(kernels).contains("differ in kernel or machine"));
    }
}
