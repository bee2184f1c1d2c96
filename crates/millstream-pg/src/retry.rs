//! The retry policy: which failures are retried, how often and after which wait.

use crate::Explained;
use std::time::Duration;

use crate::error::Error;
use crate::kind::ErrorKind;

/// Whether another try may help.
pub fn may_pass(kind: ErrorKind) -> bool {
    POLICIES.iter().any(|policy| policy.kind == kind)
}

/// Failures in a row, and the wait after each. They may be of several kinds: a server that restarts is unreachable for
/// a while, and then read-only until it is promoted. Each kind is counted on its own.
///
/// Waits double from the first to the longest. Each is shortened by up to half at random, so that lanes that failed
/// together do not come back together. Progress (a commit) restarts the count. After a lost connection, each try begins
/// with a new connection; if that fails, it is the next failure.
#[derive(Debug, Default)]
pub struct Failures {
    counts: Vec<(ErrorKind, u32)>,
}

impl Failures {
    /// Counts one more failure and returns how long to wait before the next try. `None` if there were too many failures
    /// of this kind, or if another try cannot help.
    pub fn next(&mut self, kind: ErrorKind) -> Option<Duration> {
        let known = self.counts.iter().position(|(counted, _)| *counted == kind);
        let n = known.unwrap_or_else(|| {
            self.counts.push((kind, 0));
            self.counts.len() - 1
        });
        self.counts[n].1 += 1;
        delay(self.counts[n].1, kind, fastrand::f64())
    }

    /// Counts one more failure and waits before the next try. False, without waiting, if there shall be none.
    pub async fn wait(&mut self, kind: ErrorKind) -> bool {
        let Some(after) = self.next(kind) else { return false };
        tokio::time::sleep(after).await;
        true
    }

    /// As [`Failures::wait`], for work that begins again on a new connection because the server ended its session. A
    /// server that is gone is for the caller to report.
    pub async fn wait_for_session(&mut self, error: &Error) -> bool {
        let had_session = !matches!(error, Error::Connect { .. }) || self.count() > 0;
        had_session && error.kind() == ErrorKind::Transient && self.wait(ErrorKind::Transient).await
    }

    /// How many failures there were, of all kinds.
    pub fn count(&self) -> u32 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// How one kind of failure is retried.
struct Policy {
    kind: ErrorKind,
    attempts_max: u32,
    first_ms: u64,
    longest_ms: u64,
}

/// The kinds that are retried. A kind that is not listed is final.
///
/// A restart with crash recovery or a failover takes minutes on a large server, so we try for about five minutes.
/// A server that stays read-only for a minute is a standby. A statement that is cancelled again after two retries is
/// cancelled on purpose.
const POLICIES: &[Policy] = &[
    Policy { kind: ErrorKind::Unreachable, attempts_max: 70, first_ms: 100, longest_ms: 5_000 },
    Policy { kind: ErrorKind::Transient, attempts_max: 70, first_ms: 100, longest_ms: 5_000 },
    Policy { kind: ErrorKind::Deadlock, attempts_max: 20, first_ms: 10, longest_ms: 1_000 },
    Policy { kind: ErrorKind::Serialization, attempts_max: 20, first_ms: 10, longest_ms: 1_000 },
    Policy { kind: ErrorKind::Busy, attempts_max: 10, first_ms: 100, longest_ms: 5_000 },
    Policy { kind: ErrorKind::TooManyConnections, attempts_max: 30, first_ms: 250, longest_ms: 5_000 },
    Policy { kind: ErrorKind::OutOfMemory, attempts_max: 5, first_ms: 500, longest_ms: 5_000 },
    Policy { kind: ErrorKind::ReadOnly, attempts_max: 20, first_ms: 500, longest_ms: 5_000 },
    Policy { kind: ErrorKind::Cancelled, attempts_max: 2, first_ms: 500, longest_ms: 1_000 },
];

fn delay(attempt: u32, kind: ErrorKind, random: f64) -> Option<Duration> {
    let policy = POLICIES.iter().find(|p| p.kind == kind)?;
    if attempt > policy.attempts_max {
        return None;
    }
    let doublings = attempt.saturating_sub(1).min(32);
    let full = policy.first_ms.saturating_mul(1 << doublings).min(policy.longest_ms);
    Some(Duration::from_millis(full).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::ERROR_KINDS;

    /// The longest a run may wait in all, whatever the dice say.
    const PATIENCE_MAX: Duration = Duration::from_secs(400);

    #[test]
    fn retries_of_every_kind_end() {
        for &kind in ERROR_KINDS {
            let waits: Vec<Duration> = (1..).map_while(|attempt| delay(attempt, kind, 1.0)).collect();
            assert!(waits.is_sorted(), "{kind:?}");
            assert!(waits.iter().sum::<Duration>() < PATIENCE_MAX, "{kind:?} waits too long");
        }
    }

    #[test]
    fn each_kind_counts_its_own_attempts() {
        let mut failures = Failures::default();
        for n in 1..=40 {
            assert!(failures.next(ErrorKind::Unreachable).is_some());
            assert_eq!(failures.count(), n);
        }
        for _ in 0..2 {
            assert!(failures.next(ErrorKind::Cancelled).is_some());
        }
        assert!(failures.next(ErrorKind::Cancelled).is_none(), "who cancels three times means it");
        assert!(failures.next(ErrorKind::Unreachable).is_some());
    }

    #[test]
    fn only_transient_kinds_are_retried() {
        for &kind in ERROR_KINDS {
            let tried = matches!(
                kind,
                ErrorKind::Unreachable
                    | ErrorKind::Transient
                    | ErrorKind::Deadlock
                    | ErrorKind::Serialization
                    | ErrorKind::Busy
                    | ErrorKind::TooManyConnections
                    | ErrorKind::OutOfMemory
                    | ErrorKind::ReadOnly
                    | ErrorKind::Cancelled
            );
            assert_eq!(may_pass(kind), tried, "{kind:?}");
            assert_eq!(Failures::default().next(kind).is_some(), tried, "{kind:?}");
        }
    }

    #[test]
    fn a_delay_lies_between_half_and_full() {
        for attempt in 1..=70 {
            let low = delay(attempt, ErrorKind::Transient, 0.0).expect("within the attempts");
            let high = delay(attempt, ErrorKind::Transient, 1.0).expect("within the attempts");
            assert_eq!(high, low * 2);
            let drawn = delay(attempt, ErrorKind::Transient, fastrand::f64()).expect("within the attempts");
            assert!((low..=high).contains(&drawn));
        }
        assert_eq!(delay(71, ErrorKind::Transient, 0.0), None);
    }
}
