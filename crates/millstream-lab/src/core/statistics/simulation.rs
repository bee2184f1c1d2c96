//! Tests of the verdicts on many synthetic pairs of arms. Their seeds are fixed.

use super::comparison::Comparison;
use super::criteria::Criteria;
use super::verdict::Verdict;
use crate::core::blocks;
use fastrand::Rng;

/// Random numbers of a normal distribution.
pub(super) struct Noise(Rng);

impl Noise {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A standard normal number: Box and Muller, Annals of Mathematical Statistics 29 (1958).
    pub(super) fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.0.f64()).ln()).sqrt() * (std::f64::consts::TAU * self.0.f64()).cos()
    }
}

/// A machine on which every run takes part in a drift and in a slow common noise.
struct Machine {
    noise: Noise,
    /// Standard deviation of the noise of a single run.
    single: f64,
}

impl Machine {
    /// Values of arms A and B in interleaved blocks. B is A times `truth`.
    fn pair(&mut self, count: u32, truth: f64) -> (Vec<f64>, Vec<f64>) {
        let drift = 0.02 * self.noise.normal();
        // Autocorrelation of 0.8 from run to run, with a standard deviation of 5 %.
        let mut common = self.noise.normal();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let order = blocks(2, count, self.noise.0.u64(..));
        for (run, arm) in order.into_iter().flatten().enumerate() {
            common = 0.8 * common + 0.6 * self.noise.normal();
            let time = f64::from(u32::try_from(run).unwrap());
            let log = drift * time + 0.05 * common + self.single * self.noise.normal();
            match arm {
                0 => a.push(1_000.0 * log.exp()),
                _ => b.push(1_000.0 * truth * log.exp()),
            }
        }
        (a, b)
    }

    fn compared(&mut self, truth: f64) -> Comparison {
        let (a, b) = self.pair(10, truth);
        Comparison::paired(&a, &b, Criteria::default()).unwrap()
    }
}

fn differs(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Differs { .. })
}

#[test]
fn equal_arms_differ_in_at_most_one_and_a_half_percent_of_ten_thousand_pairs() {
    let mut machine = Machine { noise: Noise::seeded(11), single: 0.03 };
    let differing = (0..10_000).filter(|_| differs(&machine.compared(1.0))).count();
    // 10 blocks can have p = 10 / 1024, so about 98 are expected; far fewer would mean that the test has no power.
    assert!((60..=150).contains(&differing), "{differing}");
}

#[test]
fn slower_and_faster_arms_get_no_opposite_verdict_and_the_interval_holds_the_truth() {
    for (seed, truth, least) in [(21, 1.03, 0), (22, 1.10, 500), (23, 1.30, 990)] {
        let mut machine = Machine { noise: Noise::seeded(seed), single: 0.03 };
        let found: Vec<Comparison> = (0..1_000).map(|_| machine.compared(truth)).collect();
        assert_eq!(found.iter().filter(|one| differs(one) && one.ratio < 1.0).count(), 0, "{truth}");
        let covered = found.iter().filter(|one| one.interval.is_some_and(|one| one.contains(truth))).count();
        assert!(covered >= 980, "{truth}: {covered}");
        let verdicts = found.iter().filter(|one| differs(one)).count();
        assert!(verdicts >= least, "{truth}: {verdicts}");
        let missed = found.iter().filter(|one| one.verdict == Verdict::NoDifference).count();
        assert!(truth < 1.05 || missed <= 10, "{truth}: {missed}");
    }
}

#[test]
fn as_many_more_blocks_as_the_lab_asks_for_are_mostly_enough() {
    let mut machine = Machine { noise: Noise::seeded(31), single: 0.16 };
    let (mut unsure, mut found, mut asked) = (0, 0, 0);
    for _ in 0..300 {
        let (mut a, mut b) = machine.pair(20, 1.10);
        let first = Comparison::paired(&a, &b, Criteria::default()).unwrap();
        let Verdict::CannotTell { more: Some(more) } = first.verdict else { continue };
        unsure += 1;
        asked += more;
        let (more_a, more_b) = machine.pair(more, 1.10);
        a.extend(more_a);
        b.extend(more_b);
        let second = Comparison::paired(&a, &b, Criteria::default().next()).unwrap();
        found += u32::from(differs(&second) && second.ratio > 1.0);
    }
    assert!(unsure >= 100, "{unsure}");
    assert!(10 * found >= 9 * unsure, "{found} of {unsure}, {} blocks on average", asked / unsure);
    assert!(asked / unsure < 100, "{}", asked / unsure);
}
