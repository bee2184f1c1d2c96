//! The result of a run of a workload.

use crate::core::latency::{Durations, Latency};
use crate::core::{Measures, Series};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run of a workload measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// What the workload asks.
    pub about: String,
    /// The seed of its arrivals and values.
    pub seed: u64,
    /// All rates of the file were multiplied by this.
    pub rate_factor: f64,
    /// Sessions.
    pub connections: usize,
    /// Length of the schedule, or until it was stopped.
    pub seconds: f64,
    /// It was stopped before the end of its schedule.
    pub stopped: bool,
    /// Mean time to open a session.
    pub connect_ms: f64,
    /// Requests that waited for a session at the end of the schedule.
    pub overdue_at_end: u64,
    /// Processor time of this program during the run.
    pub cpu_seconds: f64,
    /// By how much the generator itself was late, while a session was free.
    pub lateness: Option<Latency>,
    /// From the intended start of each request until it was sent.
    pub lag: Option<Latency>,
    /// Its classes.
    pub classes: Vec<ClassResult>,
    /// What to know when reading these numbers.
    pub remarks: Vec<String>,
}

/// What a run measured of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// The latency of its objective.
    pub objective_ms: Option<f64>,
    /// The percentile of its objective.
    pub percentile: Option<f64>,
    /// That share of all scheduled requests was done in time; one that failed or was dropped was not.
    pub objective_met: Option<bool>,
    /// What became of its requests.
    #[serde(flatten)]
    pub counts: Counts,
    /// Late, failed and dropped requests, of all that were scheduled.
    pub miss_percent: f64,
    /// Failures by SQLSTATE; `connection lost` where there was none.
    pub failures: BTreeMap<String, u64>,
    /// Dropped requests by reason.
    pub drops: BTreeMap<String, u64>,
    /// Response time: from the intended start, of the requests that were done.
    pub response: Option<Latency>,
    /// Service time: from when the request was sent, of the requests that were done.
    pub service: Option<Latency>,
    /// What a request does, in order.
    pub steps: Vec<StepResult>,
    /// The run second by second.
    pub seconds: Vec<Second>,
}

/// What became of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that became due. All of them are done, failed or dropped.
    pub scheduled: u64,
    /// They were answered.
    pub done: u64,
    /// They were answered later than the objective allows. They are among the done ones.
    pub late: u64,
    /// They ended with an error.
    pub failed: u64,
    /// They were never answered, because too many waited or the time was over.
    pub dropped: u64,
}

/// Why a request was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    /// Too many requests waited when it was due.
    Backlog,
    /// It still waited when the time to finish was over.
    NotBegun,
    /// It was not finished when the time to finish was over.
    NotFinished,
}

impl DropReason {
    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog full",
            Self::NotBegun => "not begun in time",
            Self::NotFinished => "not finished in time",
        }
    }
}

/// What a run measured of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The statement as the file has it, or `begin` and `commit` of a transaction.
    pub sql: String,
    /// From sending it to its answer.
    pub service: Option<Latency>,
}

/// A second of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Requests that were answered in it.
    pub done: u64,
    /// Requests that were found late, failed or dropped in it.
    pub missed: u64,
    /// Median response time of those that were answered.
    pub p50_ms: Option<f64>,
    /// 99th percentile of their response time.
    pub p99_ms: Option<f64>,
}

/// 100 - 99.9 is a little less than 0.1.
const ROUNDING: f64 = 1e-9;

impl Counts {
    /// Requests whose end is known.
    pub(super) fn ended(&self) -> u64 {
        self.done + self.failed + self.dropped
    }

    /// The sum of both.
    fn plus(self, other: Self) -> Self {
        Self {
            scheduled: self.scheduled + other.scheduled,
            done: self.done + other.done,
            late: self.late + other.late,
            failed: self.failed + other.failed,
            dropped: self.dropped + other.dropped,
        }
    }

    /// Late, failed and dropped requests, of all that were scheduled; 0 without any.
    pub fn miss_percent(&self) -> f64 {
        share(self.late + self.failed + self.dropped, self.scheduled)
    }

    /// Whether that share of all scheduled requests, in percent, was done in time.
    pub fn meets(&self, percentile: f64) -> bool {
        self.miss_percent() <= 100.0 - percentile + ROUNDING
    }
}

impl WorkloadResult {
    /// What became of the requests of all classes.
    pub fn counts(&self) -> Counts {
        self.classes.iter().map(|class| class.counts).fold(Counts::default(), Counts::plus)
    }

    /// The counts and the response times of some classes; no times if no request was done.
    pub(super) fn of_classes(&self, belongs: impl Fn(&ClassResult) -> bool) -> (Counts, Option<Durations>) {
        let classes = || self.classes.iter().filter(|class| belongs(class));
        let counts = classes().map(|class| class.counts).fold(Counts::default(), Counts::plus);
        let response = merged(classes().filter_map(|class| class.response.as_ref()));
        (counts, response.filter(|durations| durations.count() > 0))
    }

    /// Requests that were scheduled, per second.
    pub fn target_rate(&self) -> f64 {
        number(self.counts().scheduled) / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Scheduled requests for which there was no session before the end of the schedule: dropped or overdue.
    pub fn unserved(&self) -> u64 {
        let dropped = self.classes.iter().filter_map(|class| class.drops.get(DropReason::Backlog.name()));
        dropped.sum::<u64>() + self.overdue_at_end
    }

    /// The other scheduled requests, in percent.
    pub fn served_percent(&self) -> f64 {
        100.0 - share(self.unserved(), self.counts().scheduled)
    }

    /// Processor time of this program for each request that was done or failed, in microseconds.
    pub fn cpu_microseconds(&self) -> f64 {
        let counts = self.counts();
        self.cpu_seconds * 1e6 / number((counts.done + counts.failed).max(1))
    }

    /// Response times of all classes together.
    pub fn response(&self) -> Option<Latency> {
        merged(self.classes.iter().filter_map(|class| class.response.as_ref()))?.summary()
    }

    /// Service times of all classes together.
    pub fn service(&self) -> Option<Latency> {
        merged(self.classes.iter().filter_map(|class| class.service.as_ref()))?.summary()
    }

    /// The numbers of all classes together, by the names of [`crate::core::METRICS`].
    pub fn measures(&self) -> Measures {
        let mut measures = Measures { notes: self.remarks.clone(), ..Measures::default() };
        let counts = self.counts();
        put_latency(&mut measures, self.response().as_ref(), self.service().as_ref());
        let cores = self.cpu_seconds / self.seconds.max(f64::MIN_POSITIVE);
        let lateness = |of: fn(&Latency) -> f64| self.lateness.as_ref().map(of);
        for (name, value) in [
            ("tps", Some(number(counts.done) / self.seconds.max(f64::MIN_POSITIVE))),
            ("miss_percent", Some(counts.miss_percent())),
            ("connect_ms", Some(self.connect_ms)),
            ("lag_ms", self.lag.as_ref().map(|lag| lag.mean_ms)),
            ("lateness_ms", lateness(|lateness| lateness.mean_ms)),
            ("lateness_p99_ms", lateness(|lateness| lateness.p99_ms)),
            ("client_cpu_seconds", Some(self.cpu_seconds)),
            ("client_cpu_microseconds", Some(self.cpu_microseconds())),
            ("client_share", Some(cores)),
            ("transactions", Some(number(counts.done))),
            ("seconds", Some(self.seconds)),
        ] {
            measures.values.extend(value.map(|value| (name.to_owned(), value)));
        }
        let length = self.classes.iter().map(|class| class.seconds.len()).max().unwrap_or(0);
        let done_in = |second: usize| {
            let there = self.classes.iter().filter_map(|class| class.seconds.get(second));
            Some(number(there.map(|one| one.done).sum()))
        };
        let tps = Series::each_second((0..length).map(done_in));
        measures.values.extend(tps.deviation().map(|deviation| ("tps_sd".to_owned(), deviation)));
        measures.series.insert("tps".to_owned(), tps);
        measures
    }
}

impl ClassResult {
    /// The numbers of the class, by the names of [`crate::core::METRICS`].
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        put_latency(&mut measures, self.response.as_ref(), self.service.as_ref());
        measures.values.insert("miss_percent".to_owned(), self.miss_percent);
        measures.values.insert("transactions".to_owned(), number(self.counts.done));
        let each = |of: fn(&Second) -> Option<f64>| Series::each_second(self.seconds.iter().map(of));
        measures.series.insert("tps".to_owned(), each(|second| Some(number(second.done))));
        measures.series.insert("p50_ms".to_owned(), each(|second| second.p50_ms));
        measures.series.insert("p99_ms".to_owned(), each(|second| second.p99_ms));
        measures
    }
}

fn put_latency(measures: &mut Measures, response: Option<&Latency>, service: Option<&Latency>) {
    if let Some(response) = response {
        for (name, value) in [
            ("latency_ms", response.mean_ms),
            ("latency_sd_ms", response.sd_ms),
            ("p50_ms", response.p50_ms),
            ("p90_ms", response.p90_ms),
            ("p95_ms", response.p95_ms),
            ("p99_ms", response.p99_ms),
            ("p999_ms", response.p999_ms),
            ("max_ms", response.max_ms),
        ] {
            measures.values.insert(name.to_owned(), value);
        }
    }
    if let Some(service) = service {
        measures.values.insert("service_ms".to_owned(), service.mean_ms);
        measures.values.insert("service_p99_ms".to_owned(), service.p99_ms);
    }
}

/// The durations of all; `None` if buckets cannot be read.
fn merged<'a>(all: impl Iterator<Item = &'a Latency>) -> Option<Durations> {
    let mut sum = Durations::new();
    for one in all {
        sum.add(&Durations::of(one)?);
    }
    Some(sum)
}

/// A part of a whole in percent; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { number(part) * 100.0 / number(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Metric;

    #[test]
    fn an_objective_counts_all_scheduled_requests() {
        let counts = Counts { scheduled: 1_000, done: 995, late: 5, failed: 3, dropped: 2 };
        assert_eq!(counts.ended(), counts.scheduled);
        assert_eq!(counts.miss_percent(), 1.0);
        assert!(counts.meets(99.0) && !counts.meets(99.5));
        let one_of_a_thousand = Counts { scheduled: 1_000, done: 1_000, late: 1, ..Counts::default() };
        assert!(one_of_a_thousand.meets(99.9) && !one_of_a_thousand.meets(99.95));
        assert_eq!(Counts::default().miss_percent(), 0.0);
    }

    #[test]
    fn numbers_have_the_names_of_the_metrics() {
        let result = super::super::remark::tests::result();
        let (measures, class) = (result.measures(), result.classes[0].measures());
        assert!(measures.values.len() > 15 && class.values.len() > 8);
        for name in measures.values.keys().chain(class.values.keys()) {
            assert!(Metric::by_name(name).is_some(), "{name}");
        }
        assert_eq!(measures.values["transactions"], 150.0);
        assert_eq!(measures.series["tps"].values, [Some(75.0), Some(75.0)]);
        assert_eq!(class.series["tps"].values.len(), 2);
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<WorkloadResult>(&text).unwrap(), result);
    }
}
