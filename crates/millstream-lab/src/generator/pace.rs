//! Pace: the rate of a class over the time of a run.

/// The rate of a class over the time of a run: constant, in steps, or in ramps.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    pieces: Vec<Piece>,
}

/// A stretch of time in which the rate changes linearly, or not at all.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    start_seconds: f64,
    seconds: f64,
    /// Requests per second at its start and at its end.
    from: f64,
    to: f64,
}

impl Piece {
    /// Expected requests in the piece.
    fn requests(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// Seconds from its start until that many requests are expected. It solves the integral of the rate for the time,
    /// in the form that does not subtract nearly equal numbers.
    fn seconds_until(&self, requests: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        let root = (self.from * self.from + 2.0 * slope * requests).max(0.0).sqrt();
        if requests > 0.0 { 2.0 * requests / (self.from + root) } else { 0.0 }
    }
}

/// A step: from this second on, this rate. In a ramp, the rate at this second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Seconds from the start of the run.
    pub at_seconds: f64,
    /// Requests per second.
    pub rate: f64,
}

impl Pace {
    /// The same rate all the time.
    pub fn constant(rate: f64, seconds: f64) -> Self {
        Self { pieces: vec![Piece { start_seconds: 0.0, seconds, from: rate, to: rate }] }
    }

    /// Steps in ascending order, from second 0 on, all before the end. With `ramp`, the rate changes linearly from each
    /// step to the next. It keeps the rate of the last step until the end.
    pub fn steps(steps: &[Step], ramp: bool, seconds: f64) -> Self {
        let next = |n: usize| steps.get(n + 1);
        let piece = |(n, step): (usize, &Step)| Piece {
            start_seconds: step.at_seconds,
            seconds: next(n).map_or(seconds, |next| next.at_seconds) - step.at_seconds,
            from: step.rate,
            to: next(n).filter(|_| ramp).map_or(step.rate, |next| next.rate),
        };
        Self { pieces: steps.iter().enumerate().map(piece).collect() }
    }

    /// The same course of time with all rates multiplied.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scaled = |piece: &Piece| Piece { from: piece.from * factor, to: piece.to * factor, ..*piece };
        Self { pieces: self.pieces.iter().map(scaled).collect() }
    }

    /// Whether the rate is the same all the time.
    pub fn is_constant(&self) -> bool {
        self.pieces.len() == 1
    }

    /// Expected requests of the whole run.
    pub fn requests(&self) -> f64 {
        self.pieces.iter().map(Piece::requests).sum()
    }

    /// A cursor at the start.
    pub(super) fn cursor(&self) -> Cursor {
        Cursor { pieces: self.pieces.clone(), at: 0, before: 0.0 }
    }
}

/// Converts expected requests into time, in ascending order.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    pieces: Vec<Piece>,
    at: usize,
    /// Expected requests before the piece.
    before: f64,
}

impl Cursor {
    /// The second at which that many requests are expected since the start; `None` after the end. Each call must ask for
    /// at least as many as the call before.
    pub(super) fn seconds_until(&mut self, requests: f64) -> Option<f64> {
        loop {
            let piece = self.pieces.get(self.at)?;
            let rest = requests - self.before;
            if rest < piece.requests() {
                return Some(piece.start_seconds + piece.seconds_until(rest).min(piece.seconds));
            }
            self.before += piece.requests();
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at_seconds: f64, rate: f64) -> Step {
        Step { at_seconds, rate }
    }

    fn times(pace: &Pace, requests: &[f64]) -> Vec<Option<f64>> {
        let mut cursor = pace.cursor();
        requests.iter().map(|count| cursor.seconds_until(*count)).collect()
    }

    #[test]
    fn a_constant_rate_spreads_requests_evenly() {
        let pace = Pace::constant(4.0, 2.0);
        assert_eq!(pace.requests(), 8.0);
        assert_eq!(times(&pace, &[0.0, 1.0, 7.0, 8.0]), [Some(0.0), Some(0.25), Some(1.75), None]);
    }

    #[test]
    fn a_burst_holds_the_requests_of_its_rate() {
        let pace = Pace::steps(&[step(0.0, 1.0), step(2.0, 100.0), step(3.0, 0.0), step(5.0, 1.0)], false, 6.0);
        assert_eq!(pace.requests(), 103.0);
        assert_eq!(times(&pace, &[1.0, 2.0, 52.0, 102.5, 103.0]), [Some(1.0), Some(2.0), Some(2.5), Some(5.5), None]);
    }

    #[test]
    fn a_ramp_reaches_its_rates_in_between() {
        let pace = Pace::steps(&[step(0.0, 0.0), step(10.0, 20.0), step(20.0, 0.0)], true, 30.0);
        assert_eq!(pace.requests(), 200.0);
        // The first ramp is t^2: 25 requests after 5 s.
        assert_eq!(times(&pace, &[0.0, 25.0, 100.0, 175.0]), [Some(0.0), Some(5.0), Some(10.0), Some(15.0)]);
        assert_eq!(pace.scaled(0.5).requests(), 100.0);
    }
}
