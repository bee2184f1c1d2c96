//! Number of cases and seeds of property tests.

use fastrand::Rng;

/// Scales a number of cases by `MILLSTREAM_TEST_SCALE` (default 1, may be a fraction). The result is at least 1.
///
/// # Panics
/// If the variable is not a positive number.
pub fn cases(count: usize) -> usize {
    scaled(count, scale())
}

/// Deals similar cases out to several hands in turn, such as the points of a kill test to the builds of PostgreSQL, and
/// returns those of one hand. With `MILLSTREAM_TEST_SCALE` above 1, every hand gets all of them.
///
/// # Panics
/// If the variable is not a positive number.
pub fn dealt<T>(all: impl IntoIterator<Item = T>, hand: usize, hands: usize) -> Vec<T> {
    share(all, hand, if is_night() { 1 } else { hands })
}

/// Every other one of similar cases that take long, as `MILLSTREAM_TEST_DEAL` chooses; at night, all of them.
pub fn todays<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    dealt(all, usize::from(deal() % 2 == 1), 2)
}

/// Whether this is `.ci/night`, or a run like it: `MILLSTREAM_TEST_SCALE` is above 1. Then nothing is dealt out.
pub fn is_night() -> bool {
    scale() > 1.0
}

/// A number that changes what each build gets, from `MILLSTREAM_TEST_DEAL` (default 0).
pub(crate) fn deal() -> u64 {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("MILLSTREAM_TEST_DEAL is not a number: {text}"));
    std::env::var("MILLSTREAM_TEST_DEAL").map_or(0, read)
}

fn share<T>(all: impl IntoIterator<Item = T>, hand: usize, hands: usize) -> Vec<T> {
    all.into_iter().skip(hand % hands).step_by(hands).collect()
}

fn scale() -> f64 {
    match std::env::var("MILLSTREAM_TEST_SCALE") {
        Ok(text) => text
            .parse::<f64>()
            .ok()
            .filter(|scale| scale.is_finite() && *scale > 0.0)
            .unwrap_or_else(|| panic!("MILLSTREAM_TEST_SCALE is not a positive number: {text}")),
        Err(_) => 1.0,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a number of test cases is far below 2^52")]
fn scaled(count: usize, scale: f64) -> usize {
    ((count as f64 * scale).ceil() as usize).max(1)
}

/// The cases of a property test, each with its own random numbers. If a case panics, its seed is printed;
/// `MILLSTREAM_TEST_SEED` replays that case alone.
///
/// ```
/// for mut rng in millstream_testkit::Cases::new(100) {
///     let n = rng.u32(..1000);
///     assert_eq!(n.to_string().parse(), Ok(n));
/// }
/// ```
#[derive(Debug)]
pub struct Cases {
    seeds: std::vec::IntoIter<u64>,
    current: Option<u64>,
}

impl Cases {
    /// As many cases as [`cases`] returns, or only the one to replay.
    pub fn new(count: usize) -> Self {
        let seeds = match std::env::var("MILLSTREAM_TEST_SEED") {
            Ok(text) => vec![text.parse().unwrap_or_else(|_| panic!("MILLSTREAM_TEST_SEED is not a number: {text}"))],
            Err(_) => (0..cases(count)).map(|_| fastrand::u64(..)).collect(),
        };
        Self { seeds: seeds.into_iter(), current: None }
    }
}

impl Iterator for Cases {
    type Item = Rng;

    fn next(&mut self) -> Option<Rng> {
        self.current = self.seeds.next();
        self.current.map(Rng::with_seed)
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        if let (Some(seed), true) = (self.current, std::thread::panicking()) {
            println!("replay this case with MILLSTREAM_TEST_SEED={seed}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_keeps_at_least_one_case() {
        assert_eq!(scaled(100, 1.0), 100);
        assert_eq!(scaled(100, 0.5), 50);
        assert_eq!(scaled(3, 0.001), 1);
        assert_eq!(scaled(10, 20.0), 200);
    }

    #[test]
    fn sharing_deals_every_case_once() {
        assert_eq!([share(0..5, 0, 2), share(0..5, 1, 2)], [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(share(0..3, 1, 1), [0, 1, 2]);
    }

    #[test]
    fn a_seed_gives_the_same_case_again() {
        let mut cases = Cases::new(2);
        let mut first = cases.next().unwrap();
        let mut again = Rng::with_seed(cases.current.unwrap());
        assert_eq!(first.u64(..), again.u64(..));
    }
}
