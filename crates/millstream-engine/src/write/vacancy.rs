//! When a lane looks for tables whose last row its load has deleted.
//!
//! Such a table may get another file, as by VACUUM FULL, and nothing of a load is gone: but only if it is known that no row
//! was there (`unfilled.rs` of the crate `millstream-store`). Each batch of any lane makes that uncertain again.

use crate::limits::{VACANCY_LOOK_AGAIN, VACANCY_TIMES_LOOKED};
use tokio::time::Instant;

/// What a lane knows about its last look.
#[derive(Debug)]
pub(super) struct Vacancy {
    /// Whether documents of the load delete.
    deletes: bool,
    /// Whether the lane has written since.
    stale: bool,
    /// When it may look again.
    due: Instant,
}

impl Vacancy {
    pub(super) fn new(deletes: bool) -> Self {
        Self { deletes, stale: false, due: Instant::now() }
    }

    /// A batch was committed.
    pub(super) fn wrote(&mut self) {
        self.stale = self.deletes;
    }

    /// When to look, if there may be something new to see.
    pub(super) fn due(&self) -> Option<Instant> {
        self.stale.then_some(self.due)
    }

    /// A look ended at `now`, and has `succeeded` or not.
    pub(super) fn looked(&mut self, begun: Instant, now: Instant, succeeded: bool) {
        self.stale = !succeeded;
        let pause = (now - begun) * VACANCY_TIMES_LOOKED;
        self.due = now + if succeeded { pause } else { pause.max(VACANCY_LOOK_AGAIN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_lane_looks_after_it_has_written_and_for_a_small_part_of_the_time() {
        let mut vacancy = Vacancy::new(true);
        assert_eq!(vacancy.due(), None, "the run has looked when it began");
        vacancy.wrote();
        let begun = vacancy.due().expect("there is something to see");
        let took = Duration::from_secs(2);
        vacancy.looked(begun, begun + took, true);
        assert_eq!(vacancy.due(), None);
        vacancy.wrote();
        assert_eq!(vacancy.due(), Some(begun + took + took * VACANCY_TIMES_LOOKED));
    }

    #[test]
    fn a_look_that_fails_is_repeated_after_a_pause() {
        let mut vacancy = Vacancy::new(true);
        vacancy.wrote();
        let begun = vacancy.due().expect("there is something to see");
        vacancy.looked(begun, begun, false);
        assert_eq!(vacancy.due(), Some(begun + VACANCY_LOOK_AGAIN));
    }

    #[test]
    fn a_load_that_deletes_nothing_never_looks() {
        let mut vacancy = Vacancy::new(false);
        vacancy.wrote();
        assert_eq!(vacancy.due(), None);
    }
}
