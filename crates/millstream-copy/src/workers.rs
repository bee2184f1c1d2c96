//! How many workers are at work: a fixed number, or the one that turns out to be fastest.

use crate::bottleneck::{Bottleneck, Counters};
use crate::counts::Counts;
use crate::crew::{Queue, crew};
use crate::error::Error;
use crate::limits::{GAIN_MIN, LOOK_EVERY, TRIAL, TRIALS_MIN, WORKERS_MAX, WORKERS_TRIED_PER_CPU_MAX};
use crate::request::Workers;
use crate::tally::Tally;
use serde::Serialize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many workers are there, and how many of them work.
#[derive(Debug)]
pub(crate) struct Gate {
    open: Mutex<Open>,
    changed: Condvar,
    /// Workers, those that wait included.
    pub(crate) all: usize,
}

#[derive(Debug)]
struct Open {
    /// Workers with a lower number work.
    workers: usize,
    is_over: bool,
}

/// What trying several numbers of workers has shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// The number that was kept.
    pub workers: usize,
    /// Its rate.
    pub rate: Rate,
    /// The number that it was compared with: one, or on the way to another machine the first number.
    pub than_workers: usize,
    /// The rate of that number.
    pub than: Rate,
    /// What limited the last number that was tried.
    pub limit: Bottleneck,
}

/// What workers share while they are at work.
pub(crate) struct Shift<'a> {
    pub(crate) gate: &'a Gate,
    /// Whether numbers of workers are tried.
    pub(crate) search: Option<Trials>,
    /// Pieces of work that wait for a worker.
    pub(crate) waiting_max: usize,
    pub(crate) tally: &'a Tally,
}

/// How a search for the best number begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trials {
    /// One worker alone is tried, too. It needs workers that finish their work soon.
    WithOne,
    /// More and more workers are tried.
    Upwards,
}

/// A rate in both units that matter: of small files the first, of large ones the second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rate {
    /// Entries per second.
    pub entries_per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

impl Rate {
    /// How many times as fast as another, in the unit in which it gains more.
    pub fn over(self, other: Self) -> f64 {
        let entries = self.entries_per_second / other.entries_per_second.max(f64::MIN_POSITIVE);
        let bytes = self.bytes_per_second / other.bytes_per_second.max(f64::MIN_POSITIVE);
        entries.max(bytes)
    }
}

impl Gate {
    /// `crosses_network`: a worker waits for the network most of the time, so more of them begin.
    pub(crate) fn new(workers: Workers, cpus: usize, crosses_network: bool) -> Self {
        let (workers, all) = match workers {
            Workers::Fixed(workers) => (workers, workers),
            Workers::Auto => (
                first(if crosses_network { 2 * cpus } else { cpus }),
                (cpus * WORKERS_TRIED_PER_CPU_MAX).min(WORKERS_MAX),
            ),
        };
        Self { open: Mutex::new(Open { workers, is_over: false }), changed: Condvar::new(), all }
    }

    /// Waits until this worker may work.
    pub(crate) fn pass(&self, worker: usize) {
        let mut open = self.open();
        while worker >= open.workers && !open.is_over {
            open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all workers pass: nothing is left to do.
    pub(crate) fn finish(&self) {
        self.open().is_over = true;
        self.changed.notify_all();
    }

    /// How many work now.
    pub(crate) fn workers(&self) -> usize {
        self.open().workers
    }

    fn set(&self, workers: usize) {
        self.open().workers = workers;
        self.changed.notify_all();
    }

    /// Tries numbers of workers while the copy goes on. `None` if the copy is over before one could be chosen.
    pub(crate) fn search(&self, tally: &Tally, trials: Trials) -> Option<Found> {
        self.wait_for_first(tally)?;
        let usual = self.trial(tally)?;
        let begun_with = self.workers();
        let (than_workers, than) = match trials {
            Trials::Upwards => (begun_with, usual),
            Trials::WithOne => {
                let (seen, done) = (tally.seen.load(Relaxed), tally.done.load(Relaxed));
                let (bytes, done_bytes) = (tally.seen_bytes.load(Relaxed), tally.done_bytes.load(Relaxed));
                let left = seconds_left(seen.saturating_sub(done), bytes.saturating_sub(done_bytes), usual);
                if left < TRIAL.as_secs_f64() * f64::from(TRIALS_MIN) {
                    return None;
                }
                self.set(1);
                (1, self.trial(tally)?)
            }
        };
        let mut climb = Climb { workers: begun_with, rate: usual, most: self.all };
        let crosses_network = trials == Trials::Upwards;
        let mut limit = Bottleneck::Unknown;
        while let Some(next) = climb.next() {
            self.set(next);
            let before = Counters::now();
            let rate = self.trial(tally)?;
            limit = before.bottleneck_since(crosses_network);
            if !climb.keeps(next, rate) {
                break;
            }
        }
        let was_best = than.over(climb.rate) > 1.0;
        let (workers, rate) = if was_best { (than_workers, than) } else { (climb.workers, climb.rate) };
        self.set(workers);
        Some(Found { workers, rate, than_workers, than, limit })
    }

    /// Waits until something is done: before that, connections are made. `None` if the copy ends meanwhile.
    fn wait_for_first(&self, tally: &Tally) -> Option<()> {
        let mut open = self.open();
        while !open.is_over && tally.done.load(Relaxed) == 0 && tally.done_bytes.load(Relaxed) == 0 {
            open = self.changed.wait_timeout(open, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        (!open.is_over).then_some(())
    }

    /// The rate of the number of workers that is set. `None` if the copy ends meanwhile.
    fn trial(&self, tally: &Tally) -> Option<Rate> {
        let counts = || (tally.done.load(Relaxed), tally.done_bytes.load(Relaxed));
        let (begun, before) = (Instant::now(), counts());
        let mut open = self.open();
        while !open.is_over && begun.elapsed() < TRIAL {
            let wait = TRIAL.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            open = self.changed.wait_timeout(open, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        if open.is_over {
            return None;
        }
        drop(open);
        let after = counts();
        let seconds = begun.elapsed().as_secs_f64();
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        Some(Rate { entries_per_second: rate(before.0, after.0), bytes_per_second: rate(before.1, after.1) })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs workers on what `feed` sends, as many as the gate lets pass. `begin` makes a worker, `work` is what it does, and
/// `counted` is what it has done in the end. Returns all counts, and which number of workers was found to be best.
///
/// # Errors
/// The first error of a worker, else that of `feed`. The copy is stopped then.
pub(crate) fn run<W: Send, S>(
    shift: &Shift<'_>,
    begin: impl Fn(usize) -> Result<S, Error> + Sync,
    work: impl Fn(&mut S, W) -> Result<(), Error> + Sync,
    counted: impl Fn(S) -> Counts + Sync,
    feed: impl FnOnce(&SyncSender<W>) -> Result<(), Error>,
) -> Result<(Counts, Option<Found>), Error> {
    let Shift { gate, search, waiting_max, tally } = *shift;
    let work_all = |number, queue: &Queue<W>| -> Result<Counts, Error> {
        let mut worker = None;
        loop {
            gate.pass(number);
            if tally.is_stopped() {
                break;
            }
            let Some(next) = queue.next() else { break };
            // Most workers never begin if the copy is short.
            let worker = match &mut worker {
                Some(worker) => worker,
                none => none.insert(begin(number)?),
            };
            work(worker, next)?;
        }
        Ok(worker.map(&counted).unwrap_or_default())
    };
    let (made, found) = std::thread::scope(|scope| {
        let search = search.map(|trials| scope.spawn(move || gate.search(tally, trials)));
        let made = crew(
            gate.all,
            waiting_max,
            |number, queue| {
                let worked = work_all(number, &queue);
                if worked.is_err() || tally.is_stopped() {
                    // The others have nothing to do either.
                    tally.stop();
                    gate.finish();
                }
                worked
            },
            |sender| {
                let fed = feed(sender);
                gate.finish();
                fed
            },
        );
        gate.finish();
        (made, search.map(|search| search.join().map_err(|_| Error::Bug)))
    });
    let counts = made?.into_iter().fold(Counts::default(), Counts::plus);
    Ok((counts, found.transpose()?.flatten()))
}

/// Where a search begins: one and a half workers per processor.
fn first(cpus: usize) -> usize {
    (cpus * 3).div_ceil(2).clamp(1, WORKERS_MAX)
}

/// How long the rest takes: files of many bytes by their bytes, others by their number.
fn seconds_left(entries: u64, bytes: u64, rate: Rate) -> f64 {
    let seconds = |left: u64, rate: f64| if rate > 0.0 { left as f64 / rate } else { f64::INFINITY };
    if entries == 0 || bytes == 0 {
        return if entries == 0 { 0.0 } else { seconds(entries, rate.entries_per_second) };
    }
    seconds(entries, rate.entries_per_second).min(seconds(bytes, rate.bytes_per_second))
}

/// The way up: half as many more, while it is worth it.
struct Climb {
    workers: usize,
    rate: Rate,
    most: usize,
}

impl Climb {
    fn next(&self) -> Option<usize> {
        let next = (self.workers + self.workers.div_ceil(2)).min(self.most);
        (next > self.workers).then_some(next)
    }

    fn keeps(&mut self, workers: usize, rate: Rate) -> bool {
        let gains = rate.over(self.rate) > GAIN_MIN;
        if gains {
            (self.workers, self.rate) = (workers, rate);
        }
        gains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(rate: f64) -> Rate {
        Rate { entries_per_second: rate, bytes_per_second: rate * 100.0 }
    }

    #[test]
    fn the_climb_ends_where_more_workers_gain_little() {
        let mut climb = Climb { workers: 3, rate: rate(100.0), most: 16 };
        assert_eq!(climb.next(), Some(5));
        assert!(climb.keeps(5, rate(150.0)));
        assert_eq!(climb.next(), Some(8));
        assert!(!climb.keeps(8, rate(157.0)));
        assert_eq!(climb.workers, 5);
        let top = Climb { workers: 16, rate: rate(1.0), most: 16 };
        assert_eq!(top.next(), None);
    }

    #[test]
    fn the_rest_is_estimated_by_what_is_left() {
        assert_eq!(seconds_left(0, 0, rate(1.0)), 0.0);
        assert_eq!(seconds_left(100, 0, rate(10.0)), 10.0);
        assert_eq!(seconds_left(100, 2_000_000, rate(10.0)), 10.0);
        assert_eq!(seconds_left(1, 1, rate(0.0)), f64::INFINITY);
    }

    #[test]
    fn workers_above_the_gate_wait_and_leave_at_the_end() {
        let gate = Gate::new(Workers::Auto, 2, false);
        assert_eq!((gate.workers(), gate.all), (3, 16));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass(7));
            gate.pass(2);
            gate.finish();
            waiting.join().unwrap();
        });
        assert_eq!(gate.search(&Tally::default(), Trials::WithOne), None);
    }
}
