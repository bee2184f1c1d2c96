//! What sessions wait for, sampled several times each second.
//!
//! A sample shows what each session does at that moment. The mean number of sessions in a state is the time spent in it,
//! for each second of the clock. Sessions that are active without waiting are counted as `CPU`: they run, or wait for a
//! processor. Sessions of the lab and of the doctor do not count.

use super::reading::Values;
use crate::limits::WAIT_EVENTS_MAX;

/// The query of a sample. Its columns are those of [`Sampled`].
pub(super) const SQL: &str = include_str!("waits.sql");

/// What the checkpointer waits for while there is no checkpoint.
const CHECKPOINTER_IDLE: &str = "Activity:CheckpointerMain";

/// A row of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sampled {
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) event: String,
    pub(super) sessions: f64,
}

/// Samples since the last values were taken, and of the whole recording.
#[derive(Debug, Default)]
pub(super) struct Waits {
    now: Sums,
    all: Sums,
}

#[derive(Debug, Clone, Default)]
struct Sums {
    samples: u32,
    sums: Values,
}

impl Waits {
    /// Adds a sample.
    pub(super) fn add(&mut self, rows: &[Sampled]) {
        for row in rows {
            for name in names(row) {
                let known = self.all.sums.contains_key(&name) || self.all.sums.len() < WAIT_EVENTS_MAX;
                let name = if known { name } else { "wait.other".to_owned() };
                for sums in [&mut self.now, &mut self.all] {
                    *sums.sums.entry(name.clone()).or_default() += row.sessions;
                }
            }
        }
        self.now.samples += 1;
        self.all.samples += 1;
    }

    /// Means of the samples since the last call.
    pub(super) fn take(&mut self) -> Values {
        std::mem::take(&mut self.now).means()
    }

    /// Means of all samples.
    pub(super) fn summary(&self) -> Values {
        self.all.clone().means()
    }
}

impl Sums {
    /// Sessions and the like are always there, so that a second without any shows zero.
    fn means(mut self) -> Values {
        if self.samples == 0 {
            return Values::new();
        }
        for name in
            ["sessions.active", "sessions.idle", "sessions.in_transaction", "checkpoint.running", "autovacuum.workers"]
        {
            self.sums.entry(name.to_owned()).or_default();
        }
        let samples = f64::from(self.samples);
        self.sums.into_iter().map(|(name, sum)| (name, sum / samples)).collect()
    }
}

/// The values to which a row adds.
fn names(row: &Sampled) -> Vec<String> {
    let one = |name: &str| vec![name.to_owned()];
    match (row.kind.as_str(), row.state.as_str()) {
        ("client backend", "active" | "fastpath function call") => {
            vec!["sessions.active".to_owned(), format!("wait.{}", row.event)]
        }
        ("client backend", "idle") => one("sessions.idle"),
        ("client backend", state) if state.starts_with("idle in transaction") => one("sessions.in_transaction"),
        ("checkpointer", _) if row.event != CHECKPOINTER_IDLE => one("checkpoint.running"),
        ("autovacuum worker", _) => one("autovacuum.workers"),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, state: &str, event: &str, sessions: f64) -> Sampled {
        Sampled { kind: kind.to_owned(), state: state.to_owned(), event: event.to_owned(), sessions }
    }

    #[test]
    fn samples_become_mean_numbers_of_sessions() {
        let mut waits = Waits::default();
        let checkpointer = row("checkpointer", "", CHECKPOINTER_IDLE, 1.0);
        waits.add(&[row("client backend", "active", "CPU", 2.0), checkpointer.clone()]);
        waits.add(&[
            row("client backend", "active", "IO:WALSync", 3.0),
            row("client backend", "idle", "Client:ClientRead", 1.0),
            row("client backend", "idle in transaction (aborted)", "Client:ClientRead", 4.0),
            row("checkpointer", "", "Timeout:CheckpointWriteDelay", 1.0),
        ]);
        let found = waits.take();
        let of = |name: &str| found[name];
        assert_eq!((of("sessions.active"), of("wait.CPU"), of("wait.IO:WALSync")), (2.5, 1.0, 1.5));
        assert_eq!((of("sessions.idle"), of("sessions.in_transaction")), (0.5, 2.0));
        assert_eq!((of("checkpoint.running"), of("autovacuum.workers")), (0.5, 0.0));
        assert!(waits.take().is_empty(), "no sample since");
        waits.add(&[checkpointer]);
        assert_eq!(waits.take()["sessions.active"], 0.0);
        assert_eq!(waits.summary()["wait.CPU"], 2.0 / 3.0);
    }

    #[test]
    fn names_of_wait_events_are_limited() {
        let mut waits = Waits::default();
        let rows: Vec<_> = (0..500).map(|n| row("client backend", "active", &format!("Extension:{n}"), 1.0)).collect();
        waits.add(&rows);
        let found = waits.take();
        assert!(found.len() <= WAIT_EVENTS_MAX + 10, "{}", found.len());
        assert_eq!(found["sessions.active"], 500.0);
        assert!(found["wait.other"] > 200.0);
    }
}
