//! Whether the lanes of a load write one at a time, because they deadlock with each other.
//!
//! Lanes write different keys, in key order. But a second unique index, or a trigger that updates shared rows, lets them
//! lock the same rows in other orders. Each deadlock costs the time until the server finds it, and one batch. So after
//! some, each batch takes its turn, by an advisory lock of the table that ends with the transaction. Lanes of other loads
//! share that lock, and take turns as long as somebody does. After a while, the lanes try again together. Each try that
//! fails doubles that while.

use crate::limits::{
    TURNS_BATCHES, TURNS_BATCHES_MAX, TURNS_DEADLOCKS_OF_BATCH, TURNS_DEADLOCKS_OF_LOAD, TURNS_TIMES_LOST,
};
use millstream_pg::advisory::WRITE;
use millstream_pg::fill;
use millstream_pg::limits::LOCK_TIMEOUT_S;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// The statements with which a transaction begins to write into a table, before it locks anything there: alone, or together
/// with others that do not want to be alone. A turn may take any time to come. While others write, nothing is wrong.
pub(crate) fn turn(table_oid: u32, alone: bool) -> String {
    let lock = WRITE.of_table(table_oid);
    let exclusive = lock.sql("pg_advisory_xact_lock");
    let timeout_s = LOCK_TIMEOUT_S;
    if alone {
        return format!("set local lock_timeout = 0; select {exclusive}; set local lock_timeout = '{timeout_s}s'");
    }
    let shared = lock.sql("pg_try_advisory_xact_lock_shared");
    fill!(include_str!("turns_together.sql"), exclusive, shared, timeout_s)
}

/// What the lanes of a load know together, or those of all loads that a process has opened for one table.
#[derive(Debug)]
pub(crate) struct Turns {
    /// What lets them lock the same rows, as a phrase; empty if the table has nothing like it.
    cause: String,
    /// Whether the server needs its whole `deadlock_timeout` to find a deadlock.
    found_late: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Batches still to be written one at a time.
    left: u32,
    /// When they have been written so for long enough.
    until: Option<Instant>,
    /// How many batches follow the next deadlocks.
    penalty: u32,
    /// Deadlocks of batches written together, less the batches that were written without one.
    deadlocks: u32,
    /// Batches that were written together without a deadlock since lanes took turns.
    clean: u32,
    /// Whether the user knows.
    told: bool,
}

impl Turns {
    /// Lanes write together. `shared_locks`: what lets them lock the same rows. `found_late`: whether the role may not let
    /// the server look for deadlocks soon.
    pub(crate) fn new(shared_locks: &[String], found_late: bool) -> Self {
        let state = State { left: 0, until: None, penalty: TURNS_BATCHES, deadlocks: 0, clean: 0, told: false };
        Self { cause: shared_locks.join(", "), found_late, state: Mutex::new(state) }
    }

    /// Whether lanes may well deadlock with each other.
    pub(crate) fn may_be_needed(&self) -> bool {
        !self.cause.is_empty()
    }

    /// Whether the next batch waits for its turn.
    pub(crate) fn taken(&self) -> bool {
        self.state().taken(Instant::now())
    }

    /// A batch ended in a deadlock, its `of_batch`th, and has cost `lost` so far. Returns what to tell the user.
    pub(crate) fn deadlocked(&self, of_batch: u32, lost: Duration) -> Option<String> {
        let mut state = self.state();
        let enough = of_batch >= TURNS_DEADLOCKS_OF_BATCH || self.found_late && self.may_be_needed();
        if !state.deadlocked(enough, lost, Instant::now()) || std::mem::replace(&mut state.told, true) {
            return None;
        }
        let why = match self.cause.as_str() {
            "" => ": another session writes the same rows in another order".to_owned(),
            cause => format!(", because of {cause}: batches lock the same rows in different orders"),
        };
        Some(format!("after deadlocks, lanes write one at a time for a while{why}"))
    }

    /// A batch was committed. `clean`: without a deadlock.
    pub(crate) fn wrote(&self, clean: bool) {
        self.state().wrote(clean, Instant::now());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn taken(&self, now: Instant) -> bool {
        self.left > 0 || self.until.is_some_and(|until| now < until)
    }

    /// Whether lanes take turns from now on that wrote together until now. `enough`: whether this deadlock alone is a reason.
    fn deadlocked(&mut self, enough: bool, lost: Duration, now: Instant) -> bool {
        if self.taken(now) {
            // It began before, or somebody else is to blame.
            return false;
        }
        self.deadlocks += 1;
        if !enough && self.deadlocks < TURNS_DEADLOCKS_OF_LOAD {
            return false;
        }
        let times = TURNS_TIMES_LOST * (self.penalty / TURNS_BATCHES);
        (self.left, self.until) = (self.penalty, Some(now + lost * times));
        self.penalty = (self.penalty * 2).min(TURNS_BATCHES_MAX);
        (self.deadlocks, self.clean) = (0, 0);
        true
    }

    fn wrote(&mut self, clean: bool, now: Instant) {
        if self.taken(now) {
            self.left = self.left.saturating_sub(1);
        } else if clean {
            self.deadlocks = self.deadlocks.saturating_sub(1);
            self.clean = self.clean.saturating_add(1);
            if self.clean >= self.penalty {
                self.penalty = TURNS_BATCHES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Duration = Duration::from_secs(2);

    fn state() -> State {
        *Turns::new(&[], false).state()
    }

    #[test]
    fn lanes_take_turns_after_the_second_deadlock_of_a_batch() {
        let (mut state, now) = (state(), Instant::now());
        assert!(!state.deadlocked(false, LOST, now) && !state.taken(now));
        assert!(state.deadlocked(true, LOST, now) && state.taken(now));
        assert!(!state.deadlocked(true, LOST, now), "lanes that were at work say nothing new");
        let later = now + LOST * TURNS_TIMES_LOST;
        for _ in 0..TURNS_BATCHES {
            assert!(state.taken(later));
            state.wrote(true, later);
        }
        assert!(state.taken(now) && !state.taken(later), "for some batches, and some times as long as was lost");
    }

    #[test]
    fn lanes_whose_batches_deadlock_once_each_take_turns_too() {
        let (mut state, now) = (state(), Instant::now());
        let begun = (0..100).position(|_| {
            let begun = state.deadlocked(false, LOST, now);
            state.wrote(false, now);
            begun
        });
        assert_eq!(begun, Some(TURNS_DEADLOCKS_OF_LOAD as usize - 1));
    }

    #[test]
    fn rare_deadlocks_change_nothing() {
        let (mut state, now) = (state(), Instant::now());
        for _ in 0..100 {
            assert!(!state.deadlocked(false, LOST, now));
            state.wrote(false, now);
            state.wrote(true, now);
        }
    }

    #[test]
    fn turns_last_longer_each_time_until_lanes_get_on() {
        let (mut state, mut now) = (state(), Instant::now());
        let mut turns = |state: &mut State, clean: u32| {
            (0..clean).for_each(|_| state.wrote(true, now));
            assert!(state.deadlocked(true, LOST, now));
            now = state.until.expect("it takes some time");
            let mut batches = 0;
            while state.taken(now) {
                state.wrote(true, now);
                batches += 1;
            }
            batches
        };
        let first = TURNS_BATCHES;
        assert_eq!([turns(&mut state, 0), turns(&mut state, 1), turns(&mut state, 2)], [first, 2 * first, 4 * first]);
        assert_eq!(turns(&mut state, 8 * first), first);
        for _ in 0..20 {
            turns(&mut state, 0);
        }
        assert_eq!(turns(&mut state, 0), TURNS_BATCHES_MAX);
    }

    #[test]
    fn trying_again_takes_an_ever_smaller_part_of_the_time() {
        let (mut state, begun) = (state(), Instant::now());
        let (mut now, mut tries) = (begun, 0);
        while now - begun < LOST * 1_000 {
            assert!(state.deadlocked(true, LOST, now));
            while state.left > 0 {
                state.wrote(true, now);
            }
            now = state.until.expect("it takes some time");
            tries += 1;
        }
        assert!(tries < 10, "{tries}");
    }

    #[test]
    fn one_deadlock_is_enough_if_the_server_finds_it_late() {
        let turns = |cause: &[String], found_late| Turns::new(cause, found_late).deadlocked(1, LOST).is_some();
        let cause = ["index a".to_owned()];
        assert!(turns(&cause, true));
        assert!(!turns(&cause, false));
        assert!(!turns(&[], true), "lanes are not to blame");
    }

    #[test]
    fn the_user_is_told_once_and_why() {
        let turns = Turns::new(&["index a".into(), "trigger b".into()], false);
        assert!(turns.may_be_needed() && !turns.taken());
        assert_eq!(turns.deadlocked(1, LOST), None);
        let said = turns.deadlocked(2, LOST).expect("it says so");
        assert!(said.contains("because of index a, trigger b: batches lock"), "{said}");
        assert!(turns.taken());
        assert_eq!(turns.deadlocked(2, LOST), None);
        let other = Turns::new(&[], false);
        assert!(!other.may_be_needed());
        assert!(other.deadlocked(2, LOST).expect("it says so").contains("another session"));
    }
}
