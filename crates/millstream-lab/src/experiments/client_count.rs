//! How many clients are best: of a group that varies the number of clients, the arms to choose from.

use super::block_values::{block_values, pairs};
use super::record::Record;
use crate::core::statistics::{Comparison, Criteria, Verdict};
use crate::core::{Better, Spread, groups};
use serde::Serialize;
use std::fmt;

/// The compromise has at least this share of the best throughput.
const THROUGHPUT_SHARE: f64 = 0.9;

/// Fewest numbers of clients of a group to choose from.
const COUNTS_MIN: usize = 3;

/// Arms of a group to choose from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientCount {
    /// The group.
    pub group: String,
    /// By the throughput.
    pub throughput: Best,
    /// By the mean latency.
    pub latency: Best,
    /// The arm with the fewest clients whose throughput is certainly within 10 % of the highest; `None` if the blocks cannot
    /// tell which that is.
    pub compromise: Option<Choice>,
    /// How many comparisons this took.
    #[serde(skip)]
    pub(super) comparisons: usize,
}

/// The arm of a group that is best by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// The arm with the best median.
    pub first: Choice,
    /// Others that cannot be told from it. If there are any, none is the best.
    pub alike: Vec<Choice>,
}

/// An arm to choose.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// Its name.
    pub arm: String,
    /// Sessions.
    pub clients: u32,
    /// Transactions per second: the median.
    pub tps: f64,
    /// Mean latency in milliseconds: the median.
    pub latency_ms: f64,
}

/// Compares a metric of two arms, the second with the first.
type Compare<'a> = dyn Fn(&Choice, &Choice, &str) -> Option<Comparison> + 'a;

impl ClientCount {
    /// The choice of each group that varies the number of clients.
    pub(super) fn of(record: &Record, criteria: Criteria) -> Vec<Self> {
        let experiment = &record.conditions.experiment;
        let choices = experiment.arms.iter().filter_map(|arm| {
            let median = |metric: &str| {
                let own = record.runs.iter().filter(|run| run.arm == arm.name);
                Spread::of(own.filter_map(|run| run.value(metric))).map(|spread| spread.median)
            };
            let (tps, latency_ms) = (median("tps")?, median("latency_ms")?);
            let clients = experiment.setup(arm).clients();
            Some((arm.group.as_str(), Choice { arm: arm.name.clone(), clients, tps, latency_ms }))
        });
        let compare = |a: &Choice, b: &Choice, metric: &str| {
            let values = |arm: &Choice| block_values(&record.runs, &arm.arm, metric);
            let (a, b): (Vec<f64>, Vec<f64>) = pairs(&values(a), &values(b)).into_iter().unzip();
            Comparison::paired(&a, &b, criteria).ok()
        };
        groups(choices).into_iter().filter_map(|(group, choices)| Self::choose(group, choices, &compare)).collect()
    }

    fn choose(group: &str, mut choices: Vec<Choice>, compare: &Compare<'_>) -> Option<Self> {
        choices.sort_by(|a, b| a.clients.cmp(&b.clients).then(b.tps.total_cmp(&a.tps)));
        let mut counts: Vec<u32> = choices.iter().map(|one| one.clients).collect();
        counts.dedup();
        if counts.len() < COUNTS_MIN {
            return None;
        }
        let throughput = choices.iter().max_by(|a, b| a.tps.total_cmp(&b.tps))?;
        let latency = choices.iter().min_by(|a, b| a.latency_ms.total_cmp(&b.latency_ms))?;
        Some(Self {
            group: group.to_owned(),
            compromise: compromise(throughput, &choices, compare),
            throughput: Best::of(throughput, &choices, ("tps", Better::Higher), compare),
            latency: Best::of(latency, &choices, ("latency_ms", Better::Lower), compare),
            comparisons: 2 * (choices.len() - 1),
        })
    }
}

impl Best {
    fn of(first: &Choice, all: &[Choice], (metric, better): (&str, Better), compare: &Compare<'_>) -> Self {
        let others = all.iter().filter(|one| one.arm != first.arm);
        let is_worse = |other: &Choice| compare(other, first, metric).is_some_and(|one| one.winner(better).is_some());
        Self { first: first.clone(), alike: others.filter(|other| !is_worse(other)).cloned().collect() }
    }
}

/// The arm with the fewest clients whose throughput is certainly within a share of the highest.
fn compromise(highest: &Choice, all: &[Choice], compare: &Compare<'_>) -> Option<Choice> {
    for one in all {
        if one.arm == highest.arm {
            return Some(one.clone());
        }
        let found = compare(highest, one, "tps")?;
        if found.verdict == Verdict::Identical {
            return Some(one.clone());
        }
        let interval = found.interval?;
        if interval.low >= THROUGHPUT_SHARE {
            return Some(one.clone());
        }
        if interval.high >= THROUGHPUT_SHARE {
            return None;
        }
    }
    None
}

impl fmt::Display for ClientCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}: ", self.group)?;
        }
        let Self { throughput, latency, compromise, .. } = self;
        throughput.say(f, "throughput")?;
        write!(f, "; ")?;
        latency.say(f, "latency")?;
        let within = 100.0 * (1.0 - THROUGHPUT_SHARE);
        match compromise {
            Some(one) => {
                write!(f, "; compromise {one}, the fewest clients within {within:.0} % of the highest throughput")
            }
            None => write!(
                f,
                "; no compromise: cannot tell which counts are within {within:.0} % of the highest throughput"
            ),
        }
    }
}

impl Best {
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        if self.alike.is_empty() {
            return write!(f, "best {what} {}", self.first);
        }
        let alike: Vec<&str> = self.alike.iter().map(|one| one.arm.as_str()).collect();
        write!(f, "no best {what}: cannot tell {} from {}", self.first, alike.join(", "))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, tps, latency_ms, .. } = self;
        write!(f, "{arm} ({tps:.0} tx/s, {latency_ms:.3} ms)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice((clients, tps, latency_ms): (u32, f64, f64)) -> Choice {
        Choice { arm: format!("c{clients}"), clients, tps, latency_ms }
    }

    /// Compares arms over ten blocks, in which each value scatters by so much around its median.
    fn chosen(all: &[(u32, f64, f64)], scatter: f64) -> Option<ClientCount> {
        let values = |one: &Choice, metric: &str| {
            let mut rng = fastrand::Rng::with_seed(u64::from(one.clients));
            let median = if metric == "tps" { one.tps } else { one.latency_ms };
            (0..10).map(|_| median * (1.0 + scatter * (rng.f64() - 0.5))).collect::<Vec<f64>>()
        };
        let compare = |a: &Choice, b: &Choice, metric: &str| {
            Comparison::paired(&values(a, metric), &values(b, metric), Criteria::default()).ok()
        };
        ClientCount::choose("g", all.iter().copied().map(choice).collect(), &compare)
    }

    const ALL: [(u32, f64, f64); 5] =
        [(1, 100.0, 1.2), (2, 300.0, 0.9), (4, 940.0, 1.5), (8, 1_000.0, 3.0), (16, 950.0, 9.0)];

    #[test]
    fn the_compromise_has_the_fewest_clients_near_the_best_throughput() {
        assert_eq!(
            chosen(&ALL, 0.01).unwrap().to_string(),
            "g: best throughput c8 (1000 tx/s, 3.000 ms); best latency c2 (300 tx/s, 0.900 ms); compromise c4 \
             (940 tx/s, 1.500 ms), the fewest clients within 10 % of the highest throughput"
        );
        assert_eq!(chosen(&ALL[..2], 0.01), None, "two numbers are not a choice");
    }

    #[test]
    fn no_count_is_the_best_that_cannot_be_told_from_another() {
        assert_eq!(
            chosen(&ALL, 0.4).unwrap().to_string(),
            "g: no best throughput: cannot tell c8 (1000 tx/s, 3.000 ms) from c4, c16; best latency c2 (300 tx/s, 0.900 \
             ms); no compromise: cannot tell which counts are within 10 % of the highest throughput"
        );
    }
}
