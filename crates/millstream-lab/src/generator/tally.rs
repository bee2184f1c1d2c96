//! The tally: what became of each request, counted while it happens.

use super::goal::Objective;
use super::result::{ClassResult, Counts, DropReason, Second, StepResult};
use super::workload::Class;
use crate::core::latency::Durations;
use crate::limits::FAILURE_CODES_MAX;
use std::collections::BTreeMap;

/// The moments of a request, in nanoseconds from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moments {
    /// When the schedule wanted it to begin.
    pub(super) intended_ns: u64,
    /// When its session became free for it.
    pub(super) free_ns: u64,
    /// When its session sent it.
    pub(super) sent_ns: u64,
    /// When its answer was there, or its error.
    pub(super) done_ns: u64,
}

impl Moments {
    /// What its user waits: from the intended start, with the wait for a free session.
    pub(super) fn response_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.intended_ns)
    }

    /// What the server takes, with the way to it.
    pub(super) fn service_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.sent_ns)
    }

    /// From the intended start until it was sent, for whatever reason.
    pub(super) fn lag_ns(&self) -> u64 {
        self.sent_ns.saturating_sub(self.intended_ns)
    }

    /// By how much the generator itself was late: the lag while a session was free. The wait for a free session is the
    /// server's.
    pub(super) fn lateness_ns(&self) -> u64 {
        self.sent_ns.saturating_sub(self.intended_ns.max(self.free_ns))
    }
}

/// The tally of a run.
#[derive(Debug)]
pub(super) struct Tally {
    classes: Vec<ClassTally>,
    lateness: Durations,
    lag: Durations,
}

#[derive(Debug)]
struct ClassTally {
    objective_ns: Option<u64>,
    counts: Counts,
    failures: BTreeMap<String, u64>,
    drops: BTreeMap<String, u64>,
    response: Durations,
    service: Durations,
    steps: Vec<Durations>,
    seconds: Vec<Second>,
    /// The second that runs, and the response times that ended in it.
    second: Second,
    in_second: Durations,
}

impl Tally {
    /// An empty tally of these classes.
    pub(super) fn new(classes: &[Class]) -> Self {
        let classes = classes.iter().map(|class| ClassTally {
            objective_ns: class.objective.map(|objective| nanoseconds(objective.latency_ms)),
            counts: Counts::default(),
            failures: BTreeMap::new(),
            drops: BTreeMap::new(),
            response: Durations::new(),
            service: Durations::new(),
            steps: class.steps().iter().map(|_| Durations::new()).collect(),
            seconds: Vec::new(),
            second: Second::default(),
            in_second: Durations::new(),
        });
        Self { classes: classes.collect(), lateness: Durations::new(), lag: Durations::new() }
    }

    /// A request is due.
    pub(super) fn scheduled(&mut self, class: usize) {
        self.classes[class].counts.scheduled += 1;
    }

    /// A request was not served.
    pub(super) fn dropped(&mut self, class: usize, why: DropReason, at_ns: u64) {
        let one = &mut self.classes[class];
        one.at(at_ns);
        one.counts.dropped += 1;
        one.second.missed += 1;
        *one.drops.entry(why.name().to_owned()).or_default() += 1;
    }

    /// A request ended: well, or with an SQLSTATE or another word for its failure. `steps_ns` has the times of the
    /// steps that it finished.
    pub(super) fn ended(&mut self, class: usize, moments: &Moments, steps_ns: &[u64], failure: Option<&str>) {
        self.lateness.record_ns(moments.lateness_ns());
        self.lag.record_ns(moments.lag_ns());
        let one = &mut self.classes[class];
        one.at(moments.done_ns);
        for (step, nanoseconds) in one.steps.iter_mut().zip(steps_ns) {
            step.record_ns(*nanoseconds);
        }
        match failure {
            Some(code) => one.failed(code),
            None => one.done(moments),
        }
    }

    /// Requests that are neither done nor failed nor dropped, by class.
    pub(super) fn open(&self) -> Vec<u64> {
        self.classes.iter().map(|class| class.counts.scheduled - class.counts.ended()).collect()
    }

    /// What the tally says, and the lateness and the lag of all classes.
    pub(super) fn results(mut self, classes: &[Class]) -> (Vec<ClassResult>, Durations, Durations) {
        for one in &mut self.classes {
            one.finish_second();
            let counts = one.counts;
            assert!(counts.scheduled == counts.ended(), "a request is lost: {counts:?}");
        }
        let results = self.classes.into_iter().zip(classes).map(|(tally, class)| tally.result(class)).collect();
        (results, self.lateness, self.lag)
    }
}

impl ClassTally {
    fn done(&mut self, moments: &Moments) {
        let response_ns = moments.response_ns();
        self.counts.done += 1;
        self.second.done += 1;
        if self.objective_ns.is_some_and(|objective_ns| response_ns > objective_ns) {
            self.counts.late += 1;
            self.second.missed += 1;
        }
        self.response.record_ns(response_ns);
        self.in_second.record_ns(response_ns);
        self.service.record_ns(moments.service_ns());
    }

    fn failed(&mut self, code: &str) {
        self.counts.failed += 1;
        self.second.missed += 1;
        if let Some(count) = self.failures.get_mut(code) {
            *count += 1;
            return;
        }
        let code = if self.failures.len() < FAILURE_CODES_MAX { code } else { "others" };
        *self.failures.entry(code.to_owned()).or_default() += 1;
    }

    /// Goes on to the second of this moment.
    fn at(&mut self, at_ns: u64) {
        while (self.seconds.len() as u64) < at_ns / 1_000_000_000 {
            self.finish_second();
        }
    }

    fn finish_second(&mut self) {
        let mut second = std::mem::take(&mut self.second);
        if self.in_second.count() > 0 {
            second.p50_ms = Some(self.in_second.percentile_ms(50.0));
            second.p99_ms = Some(self.in_second.percentile_ms(99.0));
            self.in_second.clear();
        }
        self.seconds.push(second);
    }

    fn result(self, class: &Class) -> ClassResult {
        let steps = class.steps().into_iter().zip(&self.steps);
        let met = class.objective.map(|Objective { percentile, .. }| self.counts.meets(percentile));
        ClassResult {
            name: class.name.clone(),
            objective_ms: class.objective.map(|objective| objective.latency_ms),
            percentile: class.objective.map(|objective| objective.percentile),
            objective_met: met,
            counts: self.counts,
            miss_percent: self.counts.miss_percent(),
            failures: self.failures,
            drops: self.drops,
            response: self.response.summary(),
            service: self.service.summary(),
            steps: steps.map(|(sql, durations)| StepResult { sql, service: durations.summary() }).collect(),
            seconds: self.seconds,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an objective is positive; more saturates")]
fn nanoseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    fn classes() -> Vec<Class> {
        let text = "connections = 1\nseconds = 1\n[[class]]\nname = \"a\"\nrate = 1\nobjective_ms = 10\n\
                    percentile = 50\nstatements = [\"select 1\", \"select 2\"]\n";
        Workload::parse(text).unwrap().classes
    }

    fn moments(intended: u64, free: u64, sent: u64, done: u64) -> Moments {
        let ns = |milliseconds: u64| milliseconds * 1_000_000;
        Moments { intended_ns: ns(intended), free_ns: ns(free), sent_ns: ns(sent), done_ns: ns(done) }
    }

    #[test]
    fn the_wait_for_a_free_session_is_not_the_generators_lateness() {
        for (moments, response, service, lag, lateness) in [
            // A session was free all the time, and the generator woke 1 ms late.
            (moments(10, 4, 11, 15), 5, 4, 1, 1),
            // The session became free 20 ms after the intended start, and took the request at once.
            (moments(10, 30, 30, 33), 23, 3, 20, 0),
            // As before, but it took the request 2 ms after it became free.
            (moments(10, 30, 32, 33), 23, 1, 22, 2),
            (moments(10, 10, 10, 10), 0, 0, 0, 0),
        ] {
            let ms = |nanoseconds: u64| nanoseconds / 1_000_000;
            assert_eq!(
                (ms(moments.response_ns()), ms(moments.service_ns()), ms(moments.lag_ns()), ms(moments.lateness_ns())),
                (response, service, lag, lateness),
                "{moments:?}"
            );
        }
    }

    #[test]
    fn every_scheduled_request_is_counted_once() {
        let classes = classes();
        let mut tally = Tally::new(&classes);
        for _ in 0..10 {
            tally.scheduled(0);
        }
        let in_time = moments(0, 0, 1, 10);
        let late = moments(0, 0, 1, 2_011);
        for _ in 0..4 {
            tally.ended(0, &in_time, &[1, 2, 3, 4], None);
        }
        tally.dropped(0, DropReason::Backlog, 1_500_000_000);
        tally.ended(0, &late, &[1, 2, 3, 4], None);
        tally.ended(0, &late, &[1], Some("40001"));
        tally.ended(0, &late, &[1], Some("40001"));
        assert_eq!(tally.open(), [2]);
        tally.dropped(0, DropReason::NotBegun, 2_500_000_000);
        tally.dropped(0, DropReason::NotFinished, 2_500_000_000);
        let (results, lateness, _) = tally.results(&classes);
        let one = &results[0];
        assert_eq!(one.counts, Counts { scheduled: 10, done: 5, late: 1, failed: 2, dropped: 3 });
        assert_eq!((one.miss_percent, one.objective_met), (60.0, Some(false)));
        assert_eq!(one.failures, BTreeMap::from([("40001".to_owned(), 2)]));
        assert_eq!(one.drops.values().sum::<u64>(), 3);
        let counts: Vec<u64> = one.steps.iter().map(|step| step.service.as_ref().unwrap().count).collect();
        assert_eq!(counts, [7, 5, 5, 5]);
        let seconds: Vec<_> = one.seconds.iter().map(|second| (second.done, second.missed)).collect();
        assert_eq!(seconds, [(4, 0), (0, 1), (1, 5)]);
        assert!(one.seconds[1].p99_ms.is_none() && one.seconds[2].p99_ms.is_some());
        assert_eq!(lateness.count(), 7);
    }

    #[test]
    fn failures_of_too_many_kinds_are_counted_together() {
        let classes = classes();
        let mut tally = Tally::new(&classes);
        for code in 0..FAILURE_CODES_MAX + 5 {
            tally.scheduled(0);
            tally.ended(0, &moments(0, 0, 0, 0), &[], Some(&code.to_string()));
        }
        let (results, ..) = tally.results(&classes);
        assert_eq!((results[0].failures.len(), results[0].failures["others"]), (FAILURE_CODES_MAX + 1, 5));
    }
}
