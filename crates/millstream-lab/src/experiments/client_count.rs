//! How many clients are best: of a group that varies the number of clients, three arms to choose from.

use super::analysis::Measured;
use super::experiment::Experiment;
use serde::Serialize;
use std::fmt;

/// The compromise has at least this share of the best throughput.
const THROUGHPUT_SHARE: f64 = 0.9;

/// Fewest numbers of clients of a group to choose from.
const COUNTS_MIN: usize = 3;

/// Three arms of a group, by medians.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientCount {
    /// The group.
    pub group: String,
    /// The arm with the highest throughput.
    pub throughput: Choice,
    /// The arm with the lowest mean latency.
    pub latency: Choice,
    /// The arm with the fewest clients whose throughput is within 10 % of the best.
    pub compromise: Choice,
}

/// An arm to choose.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// Its name.
    pub arm: String,
    /// Sessions.
    pub clients: u32,
    /// Transactions per second.
    pub tps: f64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
}

impl ClientCount {
    /// The choice of each group that varies the number of clients.
    pub(super) fn of(experiment: &Experiment, arms: &[Measured]) -> Vec<Self> {
        let mut groups: Vec<(&str, Vec<Choice>)> = Vec::new();
        for measured in arms {
            let Some(arm) = experiment.arm(&measured.name) else { continue };
            let median = |metric: &str| measured.values.get(metric).map(|spread| spread.median);
            let (Some(tps), Some(latency_ms)) = (median("tps"), median("latency_ms")) else { continue };
            let choice = Choice { arm: arm.name.clone(), clients: experiment.setup(arm).clients(), tps, latency_ms };
            match groups.iter_mut().find(|(name, _)| *name == measured.group) {
                Some((_, choices)) => choices.push(choice),
                None => groups.push((&measured.group, vec![choice])),
            }
        }
        groups.into_iter().filter_map(|(group, choices)| Self::choose(group, &choices)).collect()
    }

    fn choose(group: &str, choices: &[Choice]) -> Option<Self> {
        let mut counts: Vec<u32> = choices.iter().map(|one| one.clients).collect();
        counts.sort_unstable();
        counts.dedup();
        let throughput = choices.iter().max_by(|a, b| a.tps.total_cmp(&b.tps))?;
        let latency = choices.iter().min_by(|a, b| a.latency_ms.total_cmp(&b.latency_ms))?;
        let near = choices.iter().filter(|one| one.tps >= THROUGHPUT_SHARE * throughput.tps);
        let compromise = near.min_by(|a, b| a.clients.cmp(&b.clients).then(b.tps.total_cmp(&a.tps)))?;
        let [throughput, latency, compromise] = [throughput, latency, compromise].map(Clone::clone);
        (counts.len() >= COUNTS_MIN).then(|| Self { group: group.to_owned(), throughput, latency, compromise })
    }
}

impl fmt::Display for ClientCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}: ", self.group)?;
        }
        let Self { throughput, latency, compromise, .. } = self;
        write!(
            f,
            "best throughput {throughput}; best latency {latency}; compromise {compromise}, the fewest clients within \
             {:.0} % of the best throughput",
            100.0 * (1.0 - THROUGHPUT_SHARE)
        )
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

    #[test]
    fn the_compromise_has_the_fewest_clients_near_the_best_throughput() {
        let all = [(1, 100.0, 1.2), (2, 300.0, 0.9), (4, 920.0, 1.5), (8, 1_000.0, 3.0), (16, 950.0, 9.0)].map(choice);
        let found = ClientCount::choose("g", &all).unwrap();
        assert_eq!(
            found.to_string(),
            "g: best throughput c8 (1000 tx/s, 3.000 ms); best latency c2 (300 tx/s, 0.900 ms); compromise c4 \
             (920 tx/s, 1.500 ms), the fewest clients within 10 % of the best throughput"
        );
        assert_eq!(ClientCount::choose("g", &all[..2]), None, "two numbers are not a choice");
    }
}
