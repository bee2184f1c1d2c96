//! Presets: which checks answer which question.

use crate::check::{Check, Look};
use crate::checks::CHECKS;

/// Checks that see what is happening now, or what stops a server: for one that is slow or in danger now.
pub const TRIAGE: &[&str] = &[
    "accept-queue-full",
    "archiver-failing",
    "autovacuum-off",
    "blocked-session",
    "checkpoint-forced",
    "checksum-failure",
    "commit-delay",
    "connection-churn",
    "connection-slots",
    "conntrack-full",
    "cpu-taken",
    "dead-tuples",
    "device-saturated",
    "disk-full",
    "durability-off",
    "long-transaction",
    "memory-pressure",
    "memory-promised",
    "missing-index",
    "open-files-near-limit",
    "out-of-memory-kill",
    "planner-cost",
    "replica-behind",
    "replication-slot",
    "sequence-end",
    "standby-conflict",
    "temporary-files",
    "top-statement",
    "wal-buffers-full",
    "wraparound",
];

/// Checks of what a schema and its statements are like: for when a new version of a program, or of its schema, is about to go
/// live, or just did.
pub const DEPLOY: &[&str] = &[
    "blocked-session",
    "constraint-not-validated",
    "deadlock",
    "distinct-prefix",
    "duplicate-index",
    "foreign-key-without-index",
    "hot-row",
    "invalid-index",
    "json-member-missing",
    "missed-index",
    "missing-index",
    "narrow-key",
    "never-analyzed",
    "no-room-for-update",
    "prefix-index",
    "rollback",
    "sequence-end",
    "setting-not-in-effect",
    "sort-index",
    "table-without-key",
    "top-statement",
    "trigger-disabled",
    "unlogged-table",
];

/// Checks that speak of a moment: a week later it is over.
const MOMENTS: &[&str] = &["blocked-session", "commit-delay", "long-transaction"];

/// Names of the checks of what grows slowly: for once a week.
pub fn weekly() -> Vec<&'static str> {
    CHECKS.iter().filter(|check| is_weekly(check)).map(|check| check.id).collect()
}

/// Whether what a check finds lasts.
fn is_weekly(check: &Check) -> bool {
    !MOMENTS.contains(&check.id) && !check.looks.iter().all(|look| matches!(look, Look::Later(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_name_checks_and_each_check_is_in_one() {
        let presets = [TRIAGE.to_vec(), DEPLOY.to_vec(), weekly()];
        for names in &presets {
            assert!(names.is_sorted() && names.len() < CHECKS.len(), "{names:?}");
            assert_eq!(names.iter().find(|name| !CHECKS.iter().any(|check| check.id == **name)), None);
        }
        let missing = CHECKS.iter().find(|check| presets.iter().all(|names| !names.contains(&check.id)));
        assert_eq!(missing.map(|check| check.id), None);
    }
}
