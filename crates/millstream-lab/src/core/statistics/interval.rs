//! A confidence interval: the shifts that an exact test does not reject.

use super::tails::Tails;
use serde::Serialize;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval holds the value. Its ends belong to it.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The closure of all shifts whose p-value is above `level`; `None` if it has no end on one side, because there are
    /// too few samples to reject any shift at this level.
    ///
    /// `candidates` are the shifts at which the test's statistic changes, sorted. Between two of them it is constant.
    /// `tails` is the test. Its upper tail must not fall and its lower tail must not rise when the shift rises. Then
    /// the shifts that are not rejected form an interval, and bisection finds its ends. For the method see Bauer,
    /// "Constructing confidence sets using rank statistics", JASA 67 (1972).
    pub(super) fn invert(candidates: &[f64], level: f64, tails: impl Fn(f64) -> Tails) -> Option<Self> {
        let (first, last) = (*candidates.first()?, *candidates.last()?);
        // Pieces lie before, between and after the candidates. Those between equal candidates are empty.
        let inside = |piece: usize| match piece {
            0 => first - 1.0,
            piece if piece == candidates.len() => last + 1.0,
            piece => f64::midpoint(candidates[piece - 1], candidates[piece]),
        };
        let too_low = |piece: usize| 2.0 * tails(inside(piece)).upper <= level;
        let too_high = |piece: usize| 2.0 * tails(inside(piece)).lower <= level;
        // The test decides about pieces, so ask it about one of each run of equal candidates.
        let mut pieces: Vec<usize> = (1..candidates.len()).filter(|&at| candidates[at - 1] < candidates[at]).collect();
        pieces.insert(0, 0);
        pieces.push(candidates.len());
        let begin = *pieces.get(pieces.partition_point(|&piece| too_low(piece)))?;
        let end = pieces.partition_point(|&piece| !too_high(piece));
        let beyond = *pieces.get(end)?;
        if begin == 0 || beyond == 0 {
            return None;
        }
        Some(Self { low: candidates[begin - 1], high: candidates[beyond - 1] })
    }
}
