//! What a record says: each arm with its spread, each comparison with its verdict.

use super::arm::Arm;
use super::block_values::{block_values, pairs};
use super::client_count::ClientCount;
use super::conditions::Conditions;
use super::course::is_wrong;
use super::dial::Dial;
use super::experiment::{AGAIN, Experiment};
use super::planted::Planted;
use super::record::Record;
use crate::core::statistics::{Arms, Comparison, Criteria, Multiplicity, estimate};
use crate::core::{Environment, Factors, Limited, Limiter, Metric, Outcome, Run, Spread, difference, groups};
use crate::limits::{REPORT_EFFECTS_MAX, STEAL_PERCENT_MAX};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a record says.
#[derive(Debug, Serialize)]
pub struct Analysis {
    /// Name of the experiment.
    pub experiment: String,
    /// The question.
    pub question: String,
    /// The metric that decides.
    pub metric: Metric,
    /// Metrics that the experiment wants shown besides the usual ones, by name.
    pub show: Vec<String>,
    /// The same, each with its unit and the direction that is better.
    pub shown_metrics: Vec<Metric>,
    /// One block of short runs, no evidence.
    pub quick: bool,
    /// The processor was emulated: nothing about speed.
    pub emulated: bool,
    /// What all arms have in common, by the words of a file.
    pub common: Factors,
    /// Values that a user may choose.
    pub dials: Vec<NamedDial>,
    /// How many blocks there are.
    pub blocks: Blocks,
    /// Why there are no verdicts, if so: the runs are not evidence, or the planned blocks are not finished.
    pub no_verdicts: Option<String>,
    /// The arms, in the order of the experiment, with the one that repeats the first.
    pub arms: Vec<Measured>,
    /// What was compared by the metric that decides, in the order of the arms.
    pub comparisons: Vec<Compared>,
    /// The same arms compared by the metrics of `show`.
    pub shown: Vec<Compared>,
    /// The arm with two turns compared with itself: what noise alone does.
    pub noise: Option<Compared>,
    /// Times that are differences of two arms, in milliseconds.
    pub splits: Vec<SplitTime>,
    /// How many clients are best, of each group that varies them.
    pub clients: Vec<ClientCount>,
    /// Which look at the result this is.
    pub look: Look,
    /// Number of comparisons, and how many false verdicts to expect of them.
    pub multiplicity: Multiplicity,
    /// What to know when reading the numbers.
    pub notes: Vec<String>,
}

/// A value that a user may choose, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedDial {
    /// Its name.
    pub name: String,
    /// The value that counted.
    pub value: String,
    /// What it changes; empty if that is not said.
    pub changes: String,
    /// The usual value, if another one counted.
    pub usual: Option<String>,
}

impl NamedDial {
    fn of((name, Dial { value, changes, usual, .. }): (&String, &Dial)) -> Self {
        let (name, value, changes, usual) = (name.clone(), value.clone(), changes.clone(), usual.clone());
        Self { name, value, changes, usual }
    }
}

/// Blocks of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// Those in which every arm had its turn.
    pub finished: u32,
    /// Those that were asked for.
    pub planned: u32,
}

/// A look at a result. Each further one halves the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Look {
    /// Which it is, from 1.
    pub number: u32,
    /// The level of its verdicts: 0.01 is 1 %.
    pub level: f64,
}

/// A time that is the difference of two arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SplitTime {
    /// What takes the time.
    pub name: String,
    /// Milliseconds, block by block.
    pub milliseconds: Spread,
}

/// An arm.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its group.
    pub group: String,
    /// Good runs.
    pub runs: usize,
    /// Median, smallest and largest value of each metric, by name.
    pub values: BTreeMap<String, Spread>,
    /// How many times the first measured arm of its group it is; the estimate that verdicts use.
    pub of_first: Option<f64>,
    /// By how much it differs from that arm, where values add up: the median over the blocks, in the metric's unit.
    pub from_first: Option<f64>,
    /// What limited its runs.
    pub limited: Option<LimitedRuns>,
    /// Whether the limiter that it was made to have was named.
    pub planted: Option<Planted>,
    /// It promises less than the others after a crash: how.
    pub promise: Option<String>,
    /// Why there are no numbers, or fewer: how many runs have none.
    pub missing: Option<String>,
    /// It failed: it was run and has no good run, or a run had a wrong result.
    pub failed: bool,
}

/// What limited the runs of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitedRuns {
    /// The limiter of more than half of the runs, else unknown.
    pub by: Limiter,
    /// How many runs it limited, and of how many.
    pub runs: (usize, usize),
    /// The reasons in the first of these runs.
    pub evidence: Vec<String>,
}

impl LimitedRuns {
    /// `None` if nothing was recorded beside the runs.
    fn of(found: &[Limited]) -> Option<Self> {
        let count = |by: Limiter| found.iter().filter(|one| one.by == by).count();
        let by = found.iter().map(|one| one.by).find(|by| 2 * count(*by) > found.len()).unwrap_or(Limiter::Unknown);
        let first = found.iter().find(|one| one.by == by).or(found.first())?;
        Some(Self { by, runs: (count(by), found.len()), evidence: first.evidence.clone() })
    }
}

/// A comparison of two arms.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// The arm that is compared.
    pub arm: String,
    /// The arm it is compared with.
    pub with: String,
    /// Name of the metric.
    pub metric: String,
    /// The numbers, unless the arms cannot be compared.
    pub comparison: Option<Comparison>,
    /// The verdict, as a sentence.
    pub sentence: String,
}

impl Analysis {
    /// Analyses a record.
    pub fn of(record: &Record) -> Self {
        let Conditions { experiment, blocks, quick, emulated, .. } = &record.conditions;
        let metric = experiment.metric.metric();
        let finished = record.finished_blocks();
        let (matters, look) = (experiment.matters_percent / 100.0, record.conditions.look(finished));
        let criteria = Criteria { matters, look, ..Criteria::default() };
        let values = |arm: &str| block_values(&record.runs, arm, &metric.name);
        let no_verdicts = no_verdicts(&record.conditions, finished);
        let compare = |with: &str, arm: &str, metric: &Metric| {
            let values = |arm: &str| block_values(&record.runs, arm, &metric.name);
            let (a, b): (Vec<f64>, Vec<f64>) = pairs(&values(with), &values(arm)).into_iter().unzip();
            let (comparison, sentence) = match &no_verdicts {
                Some(why) => (None, format!("no verdict: {why}")),
                None => match Comparison::paired(&a, &b, criteria) {
                    Ok(one) => (Some(one), one.sentence(Arms { a: with, b: arm, metric }).to_string()),
                    Err(why) => (None, why.to_string()),
                },
            };
            let (arm, with, metric) = (arm.to_owned(), with.to_owned(), metric.name.to_string());
            Compared { arm, with, metric, comparison, sentence }
        };
        let measured = |arm: &&Arm| !values(&arm.name).is_empty();
        let both = |arm| experiment.against(arm).into_iter().filter(measured).map(move |with| (with, arm));
        let all: Vec<(&Arm, &Arm)> = experiment.arms.iter().filter(measured).flat_map(both).collect();
        let comparisons: Vec<Compared> = all.iter().map(|(with, arm)| compare(&with.name, &arm.name, metric)).collect();
        let shown_metrics: Vec<Metric> = experiment.show.iter().map(|one| one.metric().clone()).collect();
        let has = |arm: &Arm, metric: &Metric| !block_values(&record.runs, &arm.name, &metric.name).is_empty();
        let by_shown = |(with, arm): &(&Arm, &Arm)| {
            let others = shown_metrics.iter().filter(|one| one.name != metric.name && has(with, one) && has(arm, one));
            others.map(|one| compare(&with.name, &arm.name, one)).collect::<Vec<_>>()
        };
        let decides = no_verdicts.is_none();
        let shown: Vec<Compared> = if decides { all.iter().flat_map(by_shown).collect() } else { Vec::new() };
        let noise = (!values(AGAIN).is_empty()).then(|| compare(&experiment.twice().name, AGAIN, metric));
        let clients = if decides { ClientCount::of(record, criteria) } else { Vec::new() };
        let of_arms = comparisons.iter().chain(&shown).filter_map(|one| Some(one.comparison.as_ref()?.criteria));
        let of_clients = clients.iter().map(|one| one.comparisons).sum();
        let multiplicity =
            Multiplicity::of(&of_arms.chain(std::iter::repeat_n(criteria, of_clients)).collect::<Vec<_>>());
        let mut arms: Vec<Measured> = experiment.arms.iter().map(|arm| Measured::of(arm, record)).collect();
        let twice = experiment.twice();
        let about = format!("{} again, to see the noise", twice.name);
        let at = experiment.arms.iter().rposition(|arm| arm.group == twice.group).map_or(arms.len(), |at| at + 1);
        let again = Arm { name: AGAIN.to_owned(), about, limiter: None, ..twice.clone() };
        if record.has_noise() {
            arms.insert(at, Measured::of(&again, record));
        }
        Self {
            experiment: experiment.name.clone(),
            question: experiment.question.clone(),
            metric: metric.clone(),
            show: shown_metrics.iter().map(|one| one.name.to_string()).collect(),
            shown_metrics,
            quick: *quick,
            emulated: *emulated,
            common: experiment.common(),
            dials: experiment.values.iter().map(NamedDial::of).collect(),
            blocks: Blocks { finished, planned: *blocks },
            clients,
            notes: notes(record, &comparisons, &arms, matters),
            arms,
            no_verdicts,
            comparisons,
            shown,
            noise,
            splits: splits(experiment, &record.runs),
            look: Look { number: look, level: criteria.level_now() },
            multiplicity,
        }
    }

    /// The arms that have no numbers, or fewer, and why.
    pub fn missing(&self) -> Vec<String> {
        self.arms.iter().filter_map(|arm| Some(format!("{}: {}", arm.name, arm.missing.as_ref()?))).collect()
    }
}

impl Compared {
    /// The ratio of the medians of all runs, if it is another than that of the pairs: in its direction, or by more than
    /// what matters. With it, how far they are apart.
    fn disagreement(&self, arms: &[Measured], matters: f64) -> Option<(f64, f64)> {
        let median = |name: &str| {
            let arm = arms.iter().find(|arm| arm.name == name)?;
            arm.values.get(&self.metric).map(|spread| spread.median).filter(|median| *median > 0.0)
        };
        let (by_pairs, by_medians) = (self.comparison?.ratio, median(&self.arm)? / median(&self.with)?);
        let apart = (by_pairs / by_medians).ln().abs();
        let opposite = (by_pairs - 1.0) * (by_medians - 1.0) < 0.0;
        let most = if opposite { DIRECTION_MIN.min(matters) } else { matters };
        (apart > most.ln_1p()).then_some((by_medians, apart))
    }
}

/// Why ratios of medians are others than those of pairs, if some are: the arms that are furthest apart first.
fn disagreements(comparisons: &[Compared], arms: &[Measured], matters: f64) -> Option<String> {
    let found = comparisons.iter().filter_map(|one| Some((one, one.disagreement(arms, matters)?)));
    let mut found: Vec<(&Compared, (f64, f64))> = found.collect();
    found.sort_by(|(_, (_, a)), (_, (_, b))| b.total_cmp(a));
    let said = found.iter().take(REPORT_EFFECTS_MAX).filter_map(|(one, (by_medians, _))| {
        let Compared { arm, with, comparison, .. } = one;
        Some(format!("{arm} / {with} ({:.3} by pairs, {by_medians:.3} by medians)", comparison.as_ref()?.ratio))
    });
    let said = said.collect::<Vec<_>>().join(", ");
    let more = match found.len().saturating_sub(REPORT_EFFECTS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!found.is_empty()).then(|| {
        format!(
            "pairs are formed in each block and medians are over all runs, so their ratios differ for {said}{more}; \
             verdicts are those of the pairs"
        )
    })
}

/// From this relative difference on, a ratio of medians in the other direction is explained. Smaller ones are noise.
const DIRECTION_MIN: f64 = 0.01;

impl Measured {
    pub(super) fn of(arm: &Arm, record: &Record) -> Self {
        let experiment = &record.conditions.experiment;
        let own = || record.runs.iter().filter(|run| run.arm == arm.name);
        let spread = |name: &str| Some((name.to_owned(), Spread::of(own().filter_map(|run| run.value(name)))?));
        let metric = experiment.metric.as_str();
        let has_values = |one: &&Arm| !block_values(&record.runs, &one.name, metric).is_empty();
        let first = experiment.arms.iter().filter(|one| one.group == arm.group).find(has_values);
        let values = |arm: &Arm| block_values(&record.runs, &arm.name, metric);
        let with_first = first.map_or_else(Vec::new, |first| pairs(&values(first), &values(arm)));
        let difference = Spread::of(with_first.iter().map(|(first, own)| own - first)).map(|spread| spread.median);
        let (a, b): (Vec<f64>, Vec<f64>) = with_first.into_iter().unzip();
        let limited: Vec<Limited> = own().filter_map(|run| run.measures()?.limited()).collect();
        let good = own().filter(|run| run.measures().is_some()).count();
        let was_run = own().any(|run| !matches!(run.outcome, Outcome::Skipped(_)));
        let wrong = own().any(|run| matches!(&run.outcome, Outcome::Error(why) if is_wrong(why)));
        Self {
            name: arm.name.clone(),
            about: arm.about.clone(),
            group: arm.group.clone(),
            runs: good,
            values: experiment.metrics().filter_map(|one| spread(&one.name)).collect(),
            of_first: estimate(&a, &b),
            from_first: difference.filter(|_| experiment.adds_up),
            limited: LimitedRuns::of(&limited),
            planted: arm.limiter.map(|limiter| Planted::of(limiter, &limited, record.disk().flush_us)),
            promise: arm.promise.clone().or_else(|| experiment.setup(arm).promise()),
            missing: missing(&own().map(|run| &run.outcome).collect::<Vec<_>>()),
            failed: wrong || was_run && good == 0,
        }
    }
}

/// Why a record has no verdicts. Looks before the planned end would find differences by chance.
fn no_verdicts(conditions: &Conditions, finished: u32) -> Option<String> {
    let Conditions { blocks, quick, emulated, .. } = conditions;
    if *emulated {
        return Some("an emulated run only shows what works".to_owned());
    }
    if *quick {
        return Some("a quick run only shows what works".to_owned());
    }
    let how = "finish them with the same command, --out and the record's directory";
    (finished < *blocks).then(|| format!("{finished} of {blocks} blocks are finished; {how}"))
}

/// How many of an arm's runs have no numbers, and why the first of each kind has none.
fn missing(outcomes: &[&Outcome]) -> Option<String> {
    let (kinds, all) = (groups(outcomes.iter().filter_map(|outcome| outcome.reason())), outcomes.len());
    let said = kinds.into_iter().map(|(kind, reasons)| match reasons.len() {
        count if count == all => format!("{kind}: {}", reasons[0]),
        count => format!("{kind}, {count} of {all} runs: {}", reasons[0]),
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("; "))
}

impl super::arm::Setup {
    /// How this setup keeps less than durable commits after a crash, if it does.
    pub(crate) fn promise(&self) -> Option<String> {
        let off = |name: &str| self.settings.get(name).is_some_and(|value| value == "off");
        let weaker = [
            (self.unlogged == Some(true), "a crash of the server empties its tables"),
            (off("fsync"), "a crash of the machine destroys its data"),
            (off("full_page_writes"), "a crash of the machine may destroy pages"),
            (off("synchronous_commit"), "a crash of the server loses its last commits"),
        ];
        let said: Vec<&str> = weaker.iter().filter(|(is, _)| *is).map(|(_, said)| *said).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Mean latencies that only one of two arms has, block by block.
fn splits(experiment: &Experiment, runs: &[Run]) -> Vec<SplitTime> {
    // A run with a session per transaction counts the time to connect apart.
    let latency = |arm: &str| {
        let rate = block_values(runs, arm, "tps");
        let clients = experiment.arm(arm).map_or(1, |arm| experiment.setup(arm).clients());
        rate.into_iter().map(|(block, tps)| (block, 1e3 * f64::from(clients) / tps)).collect::<BTreeMap<u32, f64>>()
    };
    let split = |split: &super::experiment::Split| {
        let of = latency(&split.of);
        let spread = match &split.without {
            None => Spread::of(of.into_values()),
            Some(without) => Spread::of(pairs(&of, &latency(without)).into_iter().map(|(of, without)| of - without)),
        };
        Some(SplitTime { name: split.name.clone(), milliseconds: spread? })
    };
    experiment.splits.iter().filter_map(split).collect()
}

fn notes(record: &Record, comparisons: &[Compared], arms: &[Measured], matters: f64) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut notes: Vec<String> = disagreements(comparisons, arms, matters).into_iter().collect();
    for run in &record.runs {
        for note in run.measures().map(|measures| &measures.notes).into_iter().flatten() {
            if seen.insert((run.arm.clone(), note.clone())) {
                notes.push(format!("{}: {note}", run.arm));
            }
        }
    }
    let Conditions { voids, saturated, log_ratios, build, .. } = &record.conditions;
    if build.as_ref().is_some_and(|build| build.debug == Some(true)) {
        notes.push("this program was built without optimisation: its own times are too long".to_owned());
    }
    if *voids > 0 {
        notes.push(format!("runs made again because the machine was disturbed: {voids}"));
    }
    if *saturated > 0 {
        notes.push(format!("runs made again because pgbench had no time left or fell behind its rate: {saturated}"));
    }
    notes.extend(accepted_steal(record));
    let cost = |name: &str| {
        let recorded = record.runs.iter().filter_map(|run| run.measures()?.recorded.get(name).copied());
        Spread::of(recorded).map(|spread| spread.median)
    };
    if let (Some(own), server) = (cost("recorder.cpu_percent"), cost("recorder.server_cpu_percent")) {
        let server = server.map(|percent| format!(", and {percent:.1} % for its session at the server"));
        notes.push(format!("the recorder takes {own:.1} % of a processor{}", server.unwrap_or_default()));
    }
    notes.extend(log_cost(log_ratios));
    notes.extend(unequal_settings(record));
    notes
}

/// What the hypervisor took, if the user accepted more than usual.
fn accepted_steal(record: &Record) -> Option<String> {
    let Conditions { steal_percent_max: most, quick, .. } = record.conditions;
    let steal = |run: &Run| Some((*run.measures()?.recorded.get("processor.steal_percent")?, run.arm.clone()));
    let (worst, arm) = record.runs.iter().filter_map(steal).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let above = record.runs.iter().filter_map(steal).filter(|(steal, _)| *steal > STEAL_PERCENT_MAX).count();
    (!quick && most > STEAL_PERCENT_MAX).then(|| {
        format!(
            "runs count in which the hypervisor took up to {most} % of the processor's time (usually \
             {STEAL_PERCENT_MAX} %): {above} of them lost more than usual, the worst of {arm} {worst:.1} %"
        )
    })
}

/// Settings in which servers differ, and which the arms do not set: a difference of the arms may come from them.
fn unequal_settings(record: &Record) -> Vec<String> {
    let experiment = &record.conditions.experiment;
    let set: Vec<_> = experiment.arms.iter().map(|arm| experiment.setup(arm).settings).collect();
    let by_arms = |name: &str| set.iter().all(|settings| settings.contains_key(name));
    let varying = record.conditions.varying_facts();
    let mut servers = record.conditions.environments.iter();
    let Some((first, base)) = servers.next() else { return Vec::new() };
    let note = |(server, other): (&String, &Environment)| {
        let value = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
        let of_all = difference(base, other).into_iter().filter(|one| !varying.contains(&one.name));
        let settings = of_all.filter_map(|one| {
            let name = one.name.strip_prefix("settings.").filter(|name| !by_arms(name))?;
            Some(format!("{name} is {} and {}", value(one.a), value(one.b)))
        });
        let settings = settings.collect::<Vec<_>>().join(", ");
        (!settings.is_empty()).then(|| format!("besides what the arms set, {first} and {server} differ: {settings}"))
    };
    servers.filter_map(note).collect()
}

/// What pgbench's log takes, from the rate with it, divided by that without it, of pairs of runs.
fn log_cost(ratios: &[f64]) -> Option<String> {
    let found = Comparison::paired(&vec![1.0; ratios.len()], ratios, Criteria::default()).ok()?;
    let percent = |ratio: f64| 100.0 * (1.0 - ratio);
    Some(match found.interval.filter(|interval| !interval.contains(1.0)) {
        Some(interval) => format!(
            "the log of pgbench, which every run writes, takes about {:.1} % of the rate ({:.1} to {:.1} %)",
            percent(found.ratio),
            percent(interval.high),
            percent(interval.low)
        ),
        None => format!("the log of pgbench, which every run writes, has no cost that {} pairs can show", ratios.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(by: Limiter) -> Limited {
        Limited { by, evidence: vec![format!("evidence of {by:?}")] }
    }

    #[test]
    fn the_cost_of_the_log_is_told_only_if_it_is_sure() {
        assert_eq!(log_cost(&[]), None);
        let cost = log_cost(&[0.90, 0.91, 0.89, 0.90, 0.92, 0.90, 0.88, 0.90]).unwrap();
        assert!(cost.ends_with("takes about 10.0 % of the rate (8.0 to 12.0 %)"), "{cost}");
        let none = log_cost(&[0.90, 1.1, 0.89, 1.0, 0.92, 1.2, 0.88, 0.90]).unwrap();
        assert!(none.ends_with("has no cost that 8 pairs can show"), "{none}");
    }

    #[test]
    fn medians_that_disagree_with_the_pairs_are_explained() {
        let median = |name: &str, median: f64| {
            let record = crate::experiments::report::fixture::record(1, 0, 5);
            let mut one = Measured::of(&record.conditions.experiment.arms[0], &record);
            name.clone_into(&mut one.name);
            one.values = BTreeMap::from([("tps".to_owned(), Spread { median, min: median, max: median })]);
            one
        };
        let said = |by_pairs: f64, by_medians: f64| {
            let comparison = Comparison::paired(&[1.0; 8], &[by_pairs; 8], Criteria::default()).ok();
            let [arm, with, metric] = ["b", "a", "tps"].map(str::to_owned);
            let one = Compared { arm, with, metric, comparison, sentence: String::new() };
            disagreements(&[one], &[median("a", 100.0), median("b", 100.0 * by_medians)], 0.05)
        };
        assert_eq!(said(1.2, 1.2), None);
        assert_eq!(said(1.002, 0.998), None, "noise");
        assert_eq!(said(1.2, 1.17), None, "less than matters");
        assert_eq!(
            said(1.01, 0.99).unwrap(),
            "pairs are formed in each block and medians are over all runs, so their ratios differ for b / a (1.010 by \
             pairs, 0.990 by medians); verdicts are those of the pairs"
        );
        assert!(said(1.2, 1.1).unwrap().contains("(1.200 by pairs, 1.100 by medians)"));
    }

    #[test]
    fn runs_without_numbers_are_counted() {
        let good = Outcome::Measured(crate::core::Measures::default());
        let [void, error] = [Outcome::Void("v".to_owned()), Outcome::Error("e".to_owned())];
        assert_eq!(missing(&[&good, &good]), None);
        assert_eq!(missing(&[&error, &error]).unwrap(), "failed: e");
        assert_eq!(missing(&[&good, &error, &void, &error]).unwrap(), "failed, 2 of 4 runs: e; void, 1 of 4 runs: v");
    }

    #[test]
    fn the_limiter_of_most_runs_is_that_of_the_arm() {
        let found = [Limiter::Disk, Limiter::Lock, Limiter::Disk].map(limited);
        let expected = LimitedRuns { by: Limiter::Disk, runs: (2, 3), evidence: vec!["evidence of Disk".to_owned()] };
        assert_eq!(LimitedRuns::of(&found), Some(expected));
        let split = LimitedRuns::of(&[Limiter::Disk, Limiter::Lock].map(limited)).unwrap();
        assert_eq!((split.by, split.runs), (Limiter::Unknown, (0, 2)));
        assert_eq!(LimitedRuns::of(&[]), None);
    }
}
