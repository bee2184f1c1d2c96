//! The schedule: when each request is to begin, whatever the server does.

use super::pace::{Cursor, Pace};
use super::seed::{Stream, derived};
use fastrand::Rng;

/// A request as the schedule has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When it is to begin, in nanoseconds from the start of the run.
    pub(super) at_ns: u64,
    /// Its class, by position in the file.
    pub(super) class: usize,
    /// Its number in its class, from 0.
    pub(super) number: u64,
}

/// The arrivals of all classes in the order of their times.
///
/// They depend on the seed and the rates alone, so the schedule is absolute: it is the same for every run with that
/// seed, and a slow server cannot stretch it. Each class is a Poisson process of its own. It is drawn while it is
/// needed, so a long run needs no more memory than a short one.
#[derive(Debug)]
pub(super) struct Schedule {
    classes: Vec<Arrivals>,
}

/// The arrivals of one class.
#[derive(Debug)]
struct Arrivals {
    class: usize,
    rng: Rng,
    cursor: Cursor,
    /// Expected requests until the next arrival: a sum of exponential gaps of mean 1.
    expected: f64,
    number: u64,
    next: Option<Arrival>,
}

impl Schedule {
    /// The schedule of classes with these paces.
    pub(super) fn new(paces: &[Pace], seed: u64) -> Self {
        let arrivals = |(class, pace): (usize, &Pace)| {
            let rng = Rng::with_seed(derived(seed, class, Stream::Arrivals));
            let mut one = Arrivals { class, rng, cursor: pace.cursor(), expected: 0.0, number: 0, next: None };
            one.draw();
            one
        };
        Self { classes: paces.iter().enumerate().map(arrivals).collect() }
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = |one: &Arrivals| one.next.map(|arrival| arrival.at_ns);
        let first = self.classes.iter_mut().filter(|one| one.next.is_some()).min_by_key(|one| at(one))?;
        let arrival = first.next;
        first.draw();
        arrival
    }
}

impl Arrivals {
    /// Draws the next arrival. A Poisson process of any rate is one of rate 1 whose time is stretched by the inverse of
    /// the expected count: Çinlar, "Introduction to stochastic processes", 1975, chapter 4.
    fn draw(&mut self) {
        self.expected -= (1.0 - self.rng.f64()).ln();
        self.next = self.cursor.seconds_until(self.expected).map(|seconds| Arrival {
            at_ns: nanoseconds(seconds),
            class: self.class,
            number: self.number,
        });
        self.number += 1;
    }
}

/// Seconds as whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run lasts at most a day")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::super::pace::Step;
    use super::*;

    /// Gaps between arrivals in expected requests, as the rate of the time has it.
    fn times(paces: &[Pace], seed: u64, class: usize) -> Vec<f64> {
        let all = Schedule::new(paces, seed);
        all.filter(|one| one.class == class).map(|one| one.at_ns as f64 / 1e9).collect()
    }

    /// Largest distance between the distribution of the samples and the exponential one of mean 1, times the root of
    /// their number: Kolmogorov and Smirnov's statistic.
    fn distance_from_exponential(mut gaps: Vec<f64>) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let apart = gaps.iter().enumerate().map(|(at, gap)| {
            let expected = 1.0 - (-gap).exp();
            (expected - at as f64 / n).max((at + 1) as f64 / n - expected)
        });
        apart.fold(0.0, f64::max) * n.sqrt()
    }

    fn gaps(times: &[f64], expected: impl Fn(f64) -> f64) -> Vec<f64> {
        let from = std::iter::once(0.0).chain(times.iter().copied());
        from.zip(times).map(|(from, to)| expected(*to) - expected(from)).collect()
    }

    #[test]
    fn the_seed_decides_and_the_order_is_that_of_time() {
        let paces = [Pace::constant(100.0, 10.0), Pace::constant(300.0, 10.0)];
        let all: Vec<Arrival> = Schedule::new(&paces, 1).collect();
        assert_eq!(all, Schedule::new(&paces, 1).collect::<Vec<_>>());
        assert_ne!(all, Schedule::new(&paces, 2).collect::<Vec<_>>());
        assert!(all.is_sorted_by_key(|one| one.at_ns) && all.iter().all(|one| one.at_ns < 10_000_000_000));
        for class in [0, 1] {
            let numbers: Vec<u64> = all.iter().filter(|one| one.class == class).map(|one| one.number).collect();
            assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        }
        // Another class changes nothing for the first.
        assert_eq!(times(&paces, 1, 0), times(&paces[..1], 1, 0));
    }

    #[test]
    fn the_rate_is_right() {
        let count = times(&[Pace::constant(1_000.0, 100.0)], 3, 0).len();
        // Four standard deviations of a Poisson number of mean 100,000.
        assert!(count.abs_diff(100_000) < 1_265, "{count}");
    }

    #[test]
    fn gaps_are_exponential() {
        let times = times(&[Pace::constant(1_000.0, 20.0)], 4, 0);
        let distance = distance_from_exponential(gaps(&times, |at| at * 1_000.0));
        // 1.63 is exceeded by 1 % of the true samples; the seed is fixed.
        assert!(distance < 1.63, "{distance}");
        let even = vec![1.0; 1_000];
        assert!(distance_from_exponential(even) > 10.0, "the check can fail");
    }

    #[test]
    fn gaps_in_a_ramp_are_exponential_in_expected_requests() {
        let steps = [Step { at_seconds: 0.0, rate: 0.0 }, Step { at_seconds: 20.0, rate: 2_000.0 }];
        let times = times(&[Pace::steps(&steps, true, 20.0 + 1e-9)], 5, 0);
        let distance = distance_from_exponential(gaps(&times, |at| 50.0 * at * at));
        assert!(distance < 1.63, "{distance}");
        let early = times.iter().filter(|at| **at < 10.0).count();
        // A quarter of 20,000 is expected in the first half; four standard deviations.
        assert!(early.abs_diff(5_000) < 283, "{early}");
    }

    #[test]
    fn a_burst_arrives_in_its_time() {
        let steps = [(0.0, 0.0), (2.0, 5_000.0), (3.0, 0.0)].map(|(at_seconds, rate)| Step { at_seconds, rate });
        let times = times(&[Pace::steps(&steps, false, 10.0)], 6, 0);
        assert!(times.iter().all(|at| (2.0..3.0).contains(at)));
        assert!(times.len().abs_diff(5_000) < 283, "{}", times.len());
    }
}
