//! The search for the highest rate at which a goal is kept.

use super::file::known_script;
use super::goal::{LatencyGoal, Objective, transactions_needed, transactions_wanted};
use super::result::{Counts, RunResult, ScriptResult};
use super::run::{Drive, Turn};
use super::workload::Script;
use crate::core::latency::Durations;
use crate::error::Error;
use crate::limits::{DRIVEN_MAX, RATE_MAX, SEARCH_STEP_SECONDS, SEARCH_STEPS_MAX};
use serde::{Deserialize, Serialize};

/// A search ends when the lowest rate that misses the goal is at most this much above the highest that keeps it.
const NEAR_ENOUGH: f64 = 1.05;

/// What a search has found so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// What is to be kept.
    pub goal: String,
    /// Its steps, in order.
    pub steps: Vec<SearchStep>,
    /// The highest rate that kept the goal, in transactions per second; `None` if none did.
    pub highest_rate: Option<f64>,
    /// The lowest rate that missed it; `None` if none did.
    pub missed_rate: Option<f64>,
}

/// A step of a search: one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Scheduled transactions per second of all scripts.
    pub rate: f64,
    /// The percentile of the goal, over the transactions that were done.
    pub latency_ms: Option<f64>,
    /// Transactions that took too long for the goal, failed or were skipped, of all that were scheduled.
    pub miss_percent: f64,
    /// The goal was kept.
    pub kept: bool,
    /// What to know when reading these numbers.
    pub remarks: Vec<String>,
}

impl Search {
    /// A search that has not begun.
    pub fn new(goal: &LatencyGoal) -> Self {
        Self { goal: goal.to_string(), steps: Vec::new(), highest_rate: None, missed_rate: None }
    }

    /// The rate to try next; `None` if the limit is known well enough. Without a limit on one side it doubles or halves,
    /// and between two it takes the geometric mean, because rates compare as ratios.
    fn next(&self, first: f64) -> Option<f64> {
        match (self.highest_rate, self.missed_rate) {
            (None, None) => Some(first),
            (Some(good), None) => Some(good * 2.0),
            (None, Some(bad)) => Some(bad / 2.0),
            (Some(good), Some(bad)) if bad > good * NEAR_ENOUGH => Some((good * bad).sqrt()),
            (Some(_), Some(_)) => None,
        }
    }

    fn tried(&mut self, rate: f64, kept: bool) {
        *if kept { &mut self.highest_rate } else { &mut self.missed_rate } = Some(rate);
    }
}

impl Drive<'_> {
    /// Searches the highest rate at which the goal is kept, from the workload's first rate on. Each step is a run; `found`
    /// has each when it has ended, and `progress` is called with it.
    ///
    /// A goal is kept if that share of all scheduled transactions was fast enough, whatever became of the others. A step
    /// that was overloaded or limited by the client, or had too few transactions for the percentile, does not keep it.
    ///
    /// # Errors
    /// As for [`Drive::run`]; a script that the workload does not have; a workload with several rates.
    pub async fn search(
        &self,
        goal: &LatencyGoal,
        found: &mut Search,
        progress: &mut (dyn FnMut(&SearchStep) + Send),
    ) -> Result<(), Error> {
        let Self { workload, seed, .. } = *self;
        let names: Vec<&str> = workload.scripts.iter().map(|script| script.name.as_str()).collect();
        known_script(goal.clone(), &names).map_err(Error::Asked)?;
        let [first] = workload.rates[..] else {
            return Err(Error::Asked("a search begins at one rate, and the file has several".to_owned()));
        };
        let objective = Objective { latency_ms: goal.below_ms, percentile: goal.percentile };
        let share = workload.share(|script| goal.is_about(&script.name));
        while let Some(rate) =
            found.next(first).filter(|rate| found.steps.len() < SEARCH_STEPS_MAX && *rate <= RATE_MAX)
        {
            let Some(seconds) = step_seconds(goal.percentile, rate * share, workload.seconds) else { break };
            if rate * f64::from(seconds) > DRIVEN_MAX {
                break;
            }
            let turn = Turn { rate, seconds, seed };
            let of = |script: &Script| goal.is_about(&script.name).then_some(objective);
            let step = SearchStep::new(&Box::pin(self.turn(turn, &of)).await?, goal);
            found.tried(rate, step.kept);
            progress(&step);
            found.steps.push(step);
        }
        Ok(())
    }
}

/// Length of a step: short, but long enough for the percentile, and never longer than the file says. `None` if so few
/// transactions are expected that their percentile means nothing.
fn step_seconds(percentile: f64, rate: f64, most: u32) -> Option<u32> {
    let enough = |count: f64| (1..=most).find(|seconds| rate * f64::from(*seconds) >= count);
    enough(transactions_needed(percentile))?;
    Some(enough(transactions_wanted(percentile)).unwrap_or(most).max(SEARCH_STEP_SECONDS.min(most)))
}

impl SearchStep {
    fn new(result: &RunResult, goal: &LatencyGoal) -> Self {
        let scripts: Vec<&ScriptResult> = result.scripts.iter().filter(|script| goal.is_about(&script.name)).collect();
        let counts = scripts.iter().map(|script| script.counts).fold(Counts::default(), Counts::plus);
        let mut durations = Durations::new();
        let responses = scripts.iter().filter_map(|script| script.response.as_ref());
        responses.filter_map(Durations::of).for_each(|one| durations.add(&one));
        let few = (counts.scheduled as f64) < transactions_needed(goal.percentile);
        let spoilt = few || result.is_overloaded() || result.is_client_limited();
        Self {
            rate: result.rate,
            latency_ms: (durations.count() > 0).then(|| durations.percentile_ms(goal.percentile)),
            miss_percent: counts.miss_percent(),
            kept: counts.meets(goal.percentile) && !spoilt,
            remarks: result.remarks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried if all up to a limit are good, and what is known at the end.
    fn tried(limit: f64) -> (Vec<f64>, Search) {
        let (mut search, mut rates) = (Search::new(&"p99 < 1ms".parse().unwrap()), Vec::new());
        while let Some(rate) = search.next(1.0).filter(|_| rates.len() < SEARCH_STEPS_MAX) {
            search.tried(rate, rate <= limit);
            rates.push(rate);
        }
        (rates, search)
    }

    #[test]
    fn the_limit_is_between_the_last_good_and_the_last_bad_rate() {
        for limit in [0.3, 0.99, 1.0, 1.7, 9.0, 30.0] {
            let (rates, Search { highest_rate, missed_rate, .. }) = tried(limit);
            let (good, bad) = (highest_rate.unwrap(), missed_rate.unwrap());
            assert!(good <= limit && limit < bad && bad <= good * NEAR_ENOUGH, "{limit}: {rates:?}");
        }
        assert_eq!(tried(1.7).0[..3], [1.0, 2.0, 2.0_f64.sqrt()]);
    }

    #[test]
    fn a_search_without_a_limit_ends() {
        let (rates, Search { highest_rate, missed_rate, .. }) = tried(f64::INFINITY);
        assert_eq!((rates.len(), missed_rate), (SEARCH_STEPS_MAX, None));
        assert_eq!(highest_rate, Some(2.0_f64.powi(11)));
        assert_eq!(tried(0.0).1.highest_rate, None);
    }

    #[test]
    fn a_step_is_as_short_as_its_percentile_allows() {
        // p90 wants 100 transactions and needs 10.
        let seconds = [100.0, 10.0, 5.0, 1.0, 0.2, 0.1].map(|rate| step_seconds(90.0, rate, 60));
        assert_eq!(seconds, [Some(5), Some(10), Some(20), Some(60), Some(60), None]);
        assert_eq!(step_seconds(50.0, 100.0, 2), Some(2));
    }
}
