//! Planted limiters: whether the limiter that an arm was made to have was named.

use crate::core::{Limited, Limiter, groups};
use crate::limits::FLUSH_SLOW_MS;
use serde::Serialize;

/// The limiter that an arm was made to have, and whether it was named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planted {
    /// The limiter.
    pub limiter: Limiter,
    /// More than half of the runs were said to have it. `None` if that says nothing: no good run was recorded, or this
    /// machine cannot have it.
    pub right: Option<bool>,
    /// What was named, as a sentence.
    pub sentence: String,
}

impl Planted {
    /// Compares the limiter with what was found of each run, on a disk that takes so many microseconds to flush a page.
    pub(super) fn of(limiter: Limiter, found: &[Limited], flush_us: Option<f64>) -> Self {
        let count = |by: Limiter| found.iter().filter(|one| one.by == by).count();
        let name = limiter.name();
        let all = found.len();
        let others = groups(found.iter().map(|one| (one.by, one))).into_iter().filter(|(by, _)| *by != limiter);
        let said = others.map(|(by, runs)| format!("{} in {} of {all} runs", by.name(), runs.len()));
        let others = said.collect::<Vec<_>>().join(", ");
        let fast = flush_us.filter(|us| limiter == Limiter::Disk && *us < FLUSH_SLOW_MS * 1e3);
        let (right, sentence) = match (2 * count(limiter) > all, fast) {
            _ if found.is_empty() => (None, format!("{name}: not seen, because no good run was recorded")),
            (true, _) => (Some(true), format!("{name}: right, in {} of {all} runs", count(limiter))),
            (false, Some(us)) if 2 * count(Limiter::Unknown) > all => {
                (None, format!("{name}: not possible here, because a flush takes only {us:.0} µs; {others}"))
            }
            (false, _) => (Some(false), format!("{name}: wrong, do not trust this name here; {others}")),
        };
        Self { limiter, right, sentence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(limiter: Limiter, found: &[Limiter], flush_us: Option<f64>) -> (Option<bool>, String) {
        let found: Vec<Limited> = found.iter().map(|by| Limited { by: *by, evidence: Vec::new() }).collect();
        let Planted { right, sentence, .. } = Planted::of(limiter, &found, flush_us);
        (right, sentence)
    }

    #[test]
    fn a_planted_limiter_is_right_wrong_or_not_to_be_seen() {
        use Limiter::{Disk, Lock, Processor, Unknown};
        let right = planted(Lock, &[Lock, Unknown, Lock], None);
        assert_eq!(right, (Some(true), "row locks: right, in 2 of 3 runs".to_owned()));
        let wrong = planted(Lock, &[Lock, Unknown, Processor, Unknown], None);
        let said = "row locks: wrong, do not trust this name here; unknown in 2 of 4 runs, processor in 1 of 4 runs";
        assert_eq!(wrong, (Some(false), said.to_owned()));
        let named = planted(Unknown, &[Processor], None);
        assert_eq!(named.1, "unknown: wrong, do not trust this name here; processor in 1 of 1 runs");
        let none = planted(Processor, &[], None);
        assert_eq!(none, (None, "processor: not seen, because no good run was recorded".to_owned()));
        // A disk that flushes at once limits nobody.
        let fast = planted(Disk, &[Unknown, Unknown], Some(46.0));
        let said = "disk: not possible here, because a flush takes only 46 µs; unknown in 2 of 2 runs";
        assert_eq!(fast, (None, said.to_owned()));
        assert_eq!(planted(Disk, &[Unknown], Some(4_000.0)).0, Some(false));
        assert_eq!(planted(Disk, &[Processor], Some(46.0)).0, Some(false), "another name is wrong on any disk");
        assert_eq!(planted(Lock, &[Unknown], Some(46.0)).0, Some(false));
    }
}
