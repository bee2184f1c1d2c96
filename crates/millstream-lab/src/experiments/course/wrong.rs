//! How the reasons of failures begin whose cause is a wrong result, and not a broken program.

use crate::experiments::command::CHECK_FAILED;

/// After a run, the arm's check is not true.
pub(super) const NOT_TRUE: &str = "after the run this is not true";

/// The result of an arm is not that of its group.
pub(super) const DIFFERS: &str = "its result differs from";

/// Whether the reason of a failure is a wrong result.
pub(in crate::experiments) fn is_wrong(why: &str) -> bool {
    [NOT_TRUE, DIFFERS, CHECK_FAILED].iter().any(|beginning| why.contains(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_wrong_result_is_told_from_other_failures() {
        assert!(is_wrong(&Error::Wrong(format!("{NOT_TRUE}: select false")).chain()));
        assert!(is_wrong(&format!("{DIFFERS} that of a: 1 instead of 2")));
        assert!(!is_wrong("pgbench failed: it ended with exit status: 2"));
    }
}
