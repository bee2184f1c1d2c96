//! Cells of experiments with pgbench.
//!
//! ```text
//! all :: record=2026-01-31-2x-example-ladder
//! columns
//! it is :: value=about
//! transactions per second :: value=tps range=yes
//! of the first :: value=tps /arm=connect
//! limiter :: value=limiter
//! rows arm
//! connect :: arm=connect
//! ```
//!
//! A value is a metric by its name. With `/arm` it is the estimate of the ratio with the interval of the test, and with
//! `-arm` the median of the differences in each block. In the name of an arm, `{row}`, `{by}` and `{than}` stand for these
//! words, so that a row of the table can name a part of it. With `optional=yes`, a cell of an arm without values is empty.

use super::{Words, rate, short};
use crate::core::Spread;
use crate::core::statistics::{Comparison, Criteria, Verdict};
use crate::pgbench::{AGAIN, Analysis, Arm, Record, block_values, pairs};

type Fact = fn(&Record) -> String;

/// Words that stand for a part of an arm's name.
const PARTS: &[&str] = &["row", "by", "than"];

/// Facts of a record, which are the same for all of its arms.
const FACTS: &[(&str, Fact)] = &[
    ("blocks", |record| record.finished_blocks().to_string()),
    ("seconds", |record| record.conditions.seconds.to_string()),
    ("voids", |record| record.conditions.voids.to_string()),
    ("postgresql", |record| {
        let versions = record.conditions.servers.values();
        versions.map(|version| version.split(' ').nth(1).unwrap_or("?")).collect::<Vec<_>>().join(", ")
    }),
    ("fdatasync", |record| record.disk().flush_us.map_or_else(|| "?".to_owned(), |us| format!("{us:.0} us"))),
    ("load", |record| record.machine.load_average.map_or_else(|| "?".to_owned(), |load| format!("{load:.1}"))),
    ("commit", |record| {
        let build = record.conditions.build.as_ref();
        let changes = if build.is_some_and(|build| build.dirty == Some(true)) { " and changes" } else { "" };
        let commit = build.and_then(|build| build.commit.as_ref());
        commit.map_or_else(|| "?".to_owned(), |commit| format!("{}{changes}", &commit[..12]))
    }),
    ("pairs", |record| comparisons(record, 1.0).len().to_string()),
    ("found-1.00", |record| found(record, 1.0)),
    ("found-1.03", |record| found(record, 1.03)),
    ("found-1.10", |record| found(record, 1.1)),
    ("found-1.30", |record| found(record, 1.3)),
    ("opposite", |record| opposite(record).to_string()),
    ("covered-1.03", |record| covered(record, 1.03)),
    ("covered-1.10", |record| covered(record, 1.1)),
    ("covered-1.30", |record| covered(record, 1.3)),
    ("found-later-1.10", |record| {
        let looks = second_looks(record, 1.1);
        let right = |second: &&Comparison| differs(second) && second.ratio > 1.0;
        let found = looks.iter().filter_map(|(_, second)| second.as_ref()).filter(right).count();
        format!("{found} of {}", looks.len())
    }),
    ("asked-too-many-1.10", |record| {
        second_looks(record, 1.1).iter().filter(|(more, _)| more.is_none()).count().to_string()
    }),
    ("asked-1.10", |record| {
        let asked = second_looks(record, 1.1).into_iter().filter_map(|(more, _)| more.map(f64::from));
        Spread::of(asked).map_or_else(|| "?".to_owned(), |asked| asked.median.to_string())
    }),
    ("tens-found", |record| {
        let (tens, _) = tens(record);
        let found = tens.iter().filter(|one| differs(one)).count();
        format!("{found} of {}", tens.len())
    }),
    ("tens-covering", |record| {
        let (tens, all) = tens(record);
        let holds = |one: &&Comparison| one.interval.is_some_and(|interval| interval.contains(all));
        format!("{} of {}", tens.iter().filter(holds).count(), tens.len())
    }),
    ("noise", |record| {
        let noise = Analysis::of(record).noise.and_then(|noise| noise.comparison);
        noise.map_or_else(|| "?".to_owned(), |noise| ratio(&noise))
    }),
];

/// The values of each pair of a record of equal arms, block by block, as if the second arm were faster by a factor.
fn equal_pairs(record: &Record, factor: f64) -> Vec<Vec<(f64, f64)>> {
    let experiment = &record.conditions.experiment;
    let values = |arm: &str| block_values(&record.runs, arm, experiment.metric.as_str());
    let arms = experiment.arms.iter().filter_map(|arm| Some((*experiment.against(arm).first()?, arm)));
    let both = |(with, arm): (&Arm, &Arm)| {
        let both = pairs(&values(&with.name), &values(&arm.name));
        both.into_iter().map(|(a, b)| (a, b * factor)).collect()
    };
    arms.map(both).collect()
}

fn compared(both: &[(f64, f64)], criteria: Criteria) -> Option<Comparison> {
    let (a, b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    Comparison::paired(&a, &b, criteria).ok()
}

/// The comparisons of a record of equal arms, as if the second arm of each pair were faster by a factor.
fn comparisons(record: &Record, factor: f64) -> Vec<Comparison> {
    equal_pairs(record, factor).iter().filter_map(|both| compared(both, Criteria::default())).collect()
}

/// The pairs that cannot tell, each with as many more blocks as its verdict asks for. The further blocks are those of
/// the next pairs: every arm is the same, but these looks share blocks and depend on each other. Returns the number of
/// further blocks, `None` if it is too large, and the second look if the record has that many.
fn second_looks(record: &Record, factor: f64) -> Vec<(Option<u32>, Option<Comparison>)> {
    let all = equal_pairs(record, factor);
    let look = |(place, first): (usize, &Vec<(f64, f64)>)| {
        let Verdict::CannotTell { more } = compared(first, Criteria::default())?.verdict else { return None };
        let second = |more: u32| {
            let next = all[place + 1..].iter().chain(&all[..place]).flatten();
            let both: Vec<(f64, f64)> = first.iter().chain(next.take(more as usize)).copied().collect();
            (both.len() == first.len() + more as usize).then(|| compared(&both, Criteria::default().next()))?
        };
        Some((more, more.and_then(second)))
    };
    all.iter().enumerate().filter_map(look).collect()
}

/// The comparison of the second arm with the first in each ten blocks, and the ratio of all blocks.
fn tens(record: &Record) -> (Vec<Comparison>, f64) {
    let experiment = &record.conditions.experiment;
    let values = |place: usize| {
        let arm = experiment.arms.get(place).map_or("", |arm| arm.name.as_str());
        block_values(&record.runs, arm, experiment.metric.as_str())
    };
    let both = pairs(&values(0), &values(1));
    let compare = |both: &[(f64, f64)]| compared(both, Criteria::default());
    let all = compare(&both).map_or(f64::NAN, |all| all.ratio);
    (both.chunks_exact(10).filter_map(compare).collect(), all)
}

fn differs(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Differs { .. })
}

/// How many of them find a difference.
fn found(record: &Record, factor: f64) -> String {
    let all = comparisons(record, factor);
    let found = all.iter().filter(|one| differs(one)).count();
    format!("{found} of {}", all.len())
}

/// How many of them say the opposite of the truth, with any of the factors.
fn opposite(record: &Record) -> usize {
    let wrong = |one: &Comparison| differs(one) && one.ratio < 1.0;
    [1.03, 1.1, 1.3].iter().flat_map(|factor| comparisons(record, *factor)).filter(wrong).count()
}

/// Of how many the interval holds the factor.
fn covered(record: &Record, factor: f64) -> String {
    let all = comparisons(record, factor);
    let holds = |one: &&Comparison| one.interval.is_some_and(|interval| interval.contains(factor));
    format!("{} of {}", all.iter().filter(holds).count(), all.len())
}

/// The text of a cell.
pub(super) fn cell(record: &Record, words: &Words) -> Result<String, String> {
    let filled = |text: &str| {
        let word = |text: String, name: &&str| {
            text.replace(&format!("{{{name}}}"), words.get(*name).map_or("", String::as_str))
        };
        PARTS.iter().fold(text.to_owned(), word)
    };
    let words: Words = words.iter().map(|(name, value)| (name.clone(), filled(value))).collect();
    let word = |name: &str| words.get(name).map(String::as_str);
    let known = ["record", "arm", "value", "range", "optional", "/arm", "-arm"];
    if let Some(other) = words.keys().find(|name| !known.iter().chain(PARTS).any(|one| *one == name.as_str())) {
        return Err(format!("nothing of an experiment with pgbench is called {other}"));
    }
    let wanted = word("value").ok_or("no value")?;
    if let Some((_, fact)) = FACTS.iter().find(|(name, _)| *name == wanted) {
        return Ok(fact(record));
    }
    let experiment = &record.conditions.experiment;
    let name = word("arm").ok_or("no arm")?;
    let arm = if name == AGAIN { Some(experiment.twice()) } else { experiment.arm(name) };
    let arm = arm.ok_or("the record has no such arm")?;
    let values = |arm: &str| block_values(&record.runs, arm, wanted);
    if word("optional") == Some("yes") && wanted != "about" && values(name).is_empty() {
        return Ok(String::new());
    }
    match (wanted, word("/arm")) {
        ("about", _) => Ok(arm.about.clone()),
        ("limiter", _) => {
            let analysis = Analysis::of(record);
            let limited = analysis.arms.iter().find(|one| one.name == name).and_then(|one| one.limited.as_ref());
            Ok(limited.map_or("unknown", |limited| limited.by.name()).to_owned())
        }
        (_, Some(base)) => {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs(&values(base), &values(name)).into_iter().unzip();
            let compared = Comparison::paired(&a, &b, Criteria::default()).map_err(|error| error.to_string())?;
            Ok(ratio(&compared))
        }
        (_, None) if word("-arm").is_some() => {
            let base = values(word("-arm").unwrap_or_default());
            let all = pairs(&base, &values(name));
            let difference = Spread::of(all.iter().map(|(base, own)| own - base));
            Ok(rounded(difference.ok_or("the arms have no block in common")?.median))
        }
        (_, None) => {
            let spread = Spread::of(values(name).into_values()).ok_or("the arm has no such value")?;
            let Spread { median, min, max } = spread;
            let show = if median >= 1_000.0 { rate } else { short };
            let range =
                if word("range") == Some("yes") { format!(" ({}-{})", show(min), show(max)) } else { String::new() };
            Ok(show(median) + &range)
        }
    }
}

fn rounded(difference: f64) -> String {
    let size = if difference.abs() >= 1_000.0 { rate(difference.abs()) } else { short(difference.abs()) };
    if difference < 0.0 { format!("-{size}") } else { size }
}

/// The estimate of a ratio, with the interval if there is one.
fn ratio(compared: &Comparison) -> String {
    let interval = compared.interval.map(|one| format!(" ({}-{})", short(one.low), short(one.high)));
    short(compared.ratio) + &interval.unwrap_or_default()
}
