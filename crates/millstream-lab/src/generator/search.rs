//! The search for the highest rate at which a goal is kept.

use super::file::known_class;
use super::goal::{LatencyGoal, requests_needed, requests_wanted};
use super::pace::Pace;
use super::result::WorkloadResult;
use super::run::{RunOptions, run_workload};
use super::workload::{Class, Workload};
use crate::error::Error;
use crate::limits::{SEARCH_STEP_SECONDS, SEARCH_STEPS_MAX};
use millstream_pg::ConnInfo;
use serde::{Deserialize, Serialize};

/// A search ends when the lowest rate that misses the goal is at most this much above the highest that keeps it.
const NEAR_ENOUGH: f64 = 1.05;

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// What was to be kept.
    pub goal: String,
    /// Its steps, in order.
    pub steps: Vec<SearchStep>,
    /// The highest rate that kept the goal, in requests per second; `None` if none did.
    pub highest_rate: Option<f64>,
    /// The lowest rate that missed it; `None` if none did.
    pub missed_rate: Option<f64>,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// A step of a search: one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// All rates of the file were multiplied by this.
    pub rate_factor: f64,
    /// Requests per second by the schedule.
    pub rate: f64,
    /// The percentile of the goal, over the requests that were done.
    pub latency_ms: Option<f64>,
    /// Requests that took too long for the goal, failed or were dropped, of all that were scheduled.
    pub miss_percent: f64,
    /// The goal was kept.
    pub kept: bool,
    /// What to know when reading these numbers.
    pub remarks: Vec<String>,
}

/// The state of a bisection over a factor: the highest that is known to be good, the lowest that is known to be bad.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bisection {
    good: Option<f64>,
    bad: Option<f64>,
}

impl Bisection {
    /// The factor to try next; `None` if the limit is known well enough. Without a limit on one side it doubles or
    /// halves, and between two it takes the geometric mean, because rates compare as ratios.
    fn next(&self) -> Option<f64> {
        match (self.good, self.bad) {
            (None, None) => Some(1.0),
            (Some(good), None) => Some(good * 2.0),
            (None, Some(bad)) => Some(bad / 2.0),
            (Some(good), Some(bad)) if bad > good * NEAR_ENOUGH => Some((good * bad).sqrt()),
            (Some(_), Some(_)) => None,
        }
    }

    fn tried(&mut self, factor: f64, kept: bool) {
        if kept {
            self.good = Some(factor);
        } else {
            self.bad = Some(factor);
        }
    }
}

/// Searches the highest rate at which the goal is kept, by multiplying all rates with one factor. Each step is a run;
/// `progress` gets each when it has ended.
///
/// A goal is kept if that share of all scheduled requests was fast enough, whatever became of the others. A step that
/// was overloaded or limited by the client, or had too few requests for the percentile, does not keep it.
///
/// # Errors
/// As for [`run_workload`]; a class that the workload does not have.
pub async fn search(
    workload: &Workload,
    goal: &LatencyGoal,
    db: &ConnInfo,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&SearchStep) + Send),
) -> Result<SearchResult, Error> {
    let names: Vec<&str> = workload.classes.iter().map(|class| class.name.as_str()).collect();
    known_class(goal.clone(), &names).map_err(Error::Asked)?;
    let mut bisection = Bisection::default();
    let mut found = SearchResult {
        goal: goal.to_string(),
        steps: Vec::new(),
        highest_rate: None,
        missed_rate: None,
        stopped: false,
    };
    while let Some(rate_factor) = bisection.next().filter(|_| found.steps.len() < SEARCH_STEPS_MAX as usize) {
        let options = RunOptions { rate_factor, ..options.clone() };
        let Some(aiming) = workload.aiming(goal, rate_factor) else { break };
        let result = Box::pin(run_workload(&aiming, db, &options)).await?;
        if result.stopped {
            found.stopped = true;
            break;
        }
        let step = SearchStep::new(&result, goal, workload.rate() * rate_factor);
        bisection.tried(rate_factor, step.kept);
        progress(&step);
        found.steps.push(step);
    }
    let rate = |factor: Option<f64>| factor.map(|factor| factor * workload.rate());
    (found.highest_rate, found.missed_rate) = (rate(bisection.good), rate(bisection.bad));
    Ok(found)
}

impl Workload {
    /// The workload of a step at this factor: the goal is the objective of its classes. If the rates do not change with
    /// time, the step is short, but long enough for the percentile, and never longer than the file says. `None` if so
    /// few requests are expected that their percentile means nothing.
    fn aiming(&self, goal: &LatencyGoal, factor: f64) -> Option<Self> {
        let mut aiming = self.clone();
        let belongs = |class: &&Class| goal.is_about(&class.name);
        let expected: f64 =
            self.classes.iter().filter(belongs).map(|class| class.pace.requests()).sum::<f64>() * factor;
        if expected < requests_needed(goal.percentile) {
            return None;
        }
        if self.classes.iter().all(|class| class.pace.is_constant()) {
            let share = requests_wanted(goal.percentile) / expected;
            let wanted = (share.min(1.0) * f64::from(self.seconds)).ceil();
            let least = SEARCH_STEP_SECONDS.min(self.seconds);
            aiming.seconds =
                (least..self.seconds).find(|seconds| f64::from(*seconds) >= wanted).unwrap_or(self.seconds);
            for class in &mut aiming.classes {
                let rate = class.pace.requests() / f64::from(self.seconds);
                class.pace = Pace::constant(rate, f64::from(aiming.seconds));
            }
        }
        for class in &mut aiming.classes {
            class.objective = goal.is_about(&class.name).then_some(goal.objective());
        }
        Some(aiming)
    }
}

impl SearchStep {
    #[expect(clippy::cast_precision_loss, reason = "it is compared with a small number")]
    fn new(result: &WorkloadResult, goal: &LatencyGoal, rate: f64) -> Self {
        let (counts, response) = result.of_classes(|class| goal.is_about(&class.name));
        let few = (counts.scheduled as f64) < requests_needed(goal.percentile);
        let spoilt = few || result.is_overloaded() || result.is_client_limited();
        Self {
            rate_factor: result.rate_factor,
            rate,
            latency_ms: response.map(|durations| durations.percentile_ms(goal.percentile)),
            miss_percent: counts.miss_percent(),
            kept: counts.meets(goal.percentile) && !spoilt,
            remarks: result.remarks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The factors that are tried if all up to a limit are good, and what is known at the end.
    fn tried(limit: f64) -> (Vec<f64>, Bisection) {
        let (mut bisection, mut factors) = (Bisection::default(), Vec::new());
        while let Some(factor) = bisection.next().filter(|_| factors.len() < SEARCH_STEPS_MAX as usize) {
            bisection.tried(factor, factor <= limit);
            factors.push(factor);
        }
        (factors, bisection)
    }

    #[test]
    fn the_limit_is_between_the_last_good_and_the_last_bad_factor() {
        for limit in [0.3, 0.99, 1.0, 1.7, 9.0, 30.0] {
            let (factors, Bisection { good, bad }) = tried(limit);
            let (good, bad) = (good.unwrap(), bad.unwrap());
            assert!(good <= limit && limit < bad && bad <= good * NEAR_ENOUGH, "{limit}: {factors:?}");
        }
        assert_eq!(tried(1.7).0[..3], [1.0, 2.0, 2.0_f64.sqrt()]);
    }

    #[test]
    fn a_search_without_a_limit_ends() {
        let (factors, Bisection { good, bad }) = tried(f64::INFINITY);
        assert_eq!((factors.len(), bad), (SEARCH_STEPS_MAX as usize, None));
        assert_eq!(good, Some(2.0_f64.powi(11)));
        assert_eq!(tried(0.0).1.good, None);
    }

    #[test]
    fn a_step_aims_at_the_goal_and_is_as_short_as_its_percentile_allows() {
        let text = "connections = 1\nseconds = 60\n[[class]]\nname = \"a\"\nrate = 10\nobjective_ms = 9\n\
                    statements = [\"select 1\"]\n[[class]]\nname = \"b\"\nrate = 5\nobjective_ms = 9\n\
                    statements = [\"select 1\"]\n";
        let workload = Workload::parse(text).unwrap();
        let goal: LatencyGoal = "a.p90 < 3ms".parse().unwrap();
        let aiming = |factor: f64| workload.aiming(&goal, factor);
        let step = aiming(10.0).unwrap();
        assert_eq!(step.classes[0].objective.unwrap().latency_ms, 3.0);
        assert_eq!(step.classes[1].objective, None);
        assert_eq!((step.seconds, step.rate()), (SEARCH_STEP_SECONDS, 15.0));
        // p90 wants 100 requests and needs 10.
        let seconds = |factor: f64| aiming(factor).map(|step| step.seconds);
        assert_eq!([1.0, 0.5, 0.1, 0.02, 0.01].map(seconds), [Some(10), Some(20), Some(60), Some(60), None]);
        let ramp =
            text.replacen("rate = 10", "steps = [{ at_seconds = 0, rate = 1 }, { at_seconds = 1, rate = 2 }]", 1);
        let step = Workload::parse(&ramp).unwrap().aiming(&goal, 100.0).unwrap();
        assert_eq!(step.seconds, 60);
    }
}
