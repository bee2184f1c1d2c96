//! A comparison in one plain sentence.

use super::comparison::Comparison;
use super::interval::Interval;
use super::samples::Samples;
use super::verdict::{Arm, Verdict};
use crate::core::{Better, Metric};
use std::fmt;

/// What a sentence calls the arms and what was measured.
#[derive(Debug, Clone, Copy)]
pub struct Arms<'a> {
    /// The name of A, the base.
    pub a: &'a str,
    /// The name of B.
    pub b: &'a str,
    /// What was measured.
    pub metric: &'a Metric,
}

/// A comparison as a sentence. Its subject is B and its base is A: every percentage is B / A - 1.
#[derive(Debug, Clone, Copy)]
pub struct Sentence<'a> {
    comparison: &'a Comparison,
    arms: Arms<'a>,
}

impl Comparison {
    /// The verdict in one sentence, for example "prepared is faster than simple by 28 % (21-35 %; p 0.002, 10 blocks)".
    pub fn sentence<'a>(&'a self, arms: Arms<'a>) -> Sentence<'a> {
        Sentence { comparison: self, arms }
    }
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { samples, interval, criteria, ratio, .. } = *self.comparison;
        if let Some(every) = self.comparison.every {
            return self.in_every_block(f, every);
        }
        match (self.comparison.verdict, interval) {
            (Verdict::Identical, _) => write!(f, "no difference (identical samples)"),
            (Verdict::Differs { negligible }, Some(interval)) => {
                self.difference(f, interval)?;
                if negligible {
                    write!(f, ", less than the {} that matters", percent_of(criteria.matters))?;
                }
                Ok(())
            }
            (Verdict::NoDifference, Some(Interval { low, high })) => {
                let (low, high) = (percent(low), percent(high));
                let digits = decimals(low.abs().max(high.abs()));
                let beyond = percent_of(criteria.matters);
                write!(f, "no difference beyond {beyond} ({low:+.digits$} % to {high:+.digits$} %; {samples})")
            }
            (Verdict::CannotTell { more: Some(more) }, _) => {
                write!(f, "cannot tell: ")?;
                // Beside blocks stands a table of the arms. Of records the sentence is all there is.
                if let Samples::Records(..) = samples {
                    let Arms { a, b, .. } = self.arms;
                    write!(f, "{b} / {a} is {ratio:.3} in {samples}; ")?;
                }
                write!(f, "about {more} more {}", samples.of_count(more).unit())
            }
            (Verdict::CannotTell { more: None }, interval) if samples.are_too_few_to_estimate() => {
                match self.comparison.fewest().filter(|_| interval.is_none()) {
                    Some(fewest) => write!(f, "cannot tell: needs at least {fewest} blocks"),
                    None => write!(f, "cannot tell: needs more blocks"),
                }
            }
            // The other verdicts have an interval.
            _ => {
                let most = samples.most();
                write!(f, "cannot tell: more than {} {} would be needed", most.count(), most.unit())
            }
        }
    }
}

impl Comparison {
    /// Whether the verdict says something, or at least every block does.
    pub fn is_decided(&self) -> bool {
        !matches!(self.verdict, Verdict::CannotTell { .. }) || self.every.is_some()
    }

    /// Fewest samples that can have a verdict of a difference at the next look.
    fn fewest(&self) -> Option<u32> {
        let Self { samples, criteria, .. } = self;
        let level = criteria.next().level_now();
        (1..=samples.most().count()).find(|count| samples.of_count(*count).least_p() <= level)
    }

    /// The verdict in a few words, for a list of metrics: for example "lower by 28 % (better)".
    pub fn in_short(&self, metric: &Metric) -> String {
        if let Some(every) = self.every {
            return format!("{} in every block", range_of(every));
        }
        match self.verdict {
            Verdict::Identical | Verdict::NoDifference => "no difference".to_owned(),
            Verdict::CannotTell { .. } => "cannot tell".to_owned(),
            Verdict::Differs { negligible } => {
                let higher = self.ratio > 1.0;
                let by = match self.ratio >= TIMES_MIN {
                    true => format!("{} times", factor(self.ratio)),
                    false => {
                        let by = percent(self.ratio).abs();
                        format!("{} by {by:.*} %", if higher { "higher" } else { "lower" }, decimals(by).min(1))
                    }
                };
                let small = if negligible { ", less than matters" } else { "" };
                let worth = match self.winner(metric.better) {
                    Some(Arm::B) => "better",
                    Some(Arm::A) => "worse",
                    None if negligible => return format!("{by} (less than matters)"),
                    None => return by,
                };
                format!("{by} ({worth}{small})")
            }
        }
    }
}

impl Sentence<'_> {
    fn difference(&self, f: &mut fmt::Formatter<'_>, interval: Interval) -> fmt::Result {
        let Comparison { samples, ratio, p, .. } = *self.comparison;
        let Arms { a, b, metric } = self.arms;
        if matches!(samples, Samples::Records(..)) {
            write!(f, "these records differ: ")?;
        }
        if interval.low >= TIMES_MIN {
            return self.times(f, interval);
        }
        let higher = ratio > 1.0;
        if metric.better == Better::Higher && metric.unit.ends_with("/s") {
            write!(f, "{b} is {} than {a}", if higher { "faster" } else { "slower" })?;
        } else {
            write!(f, "{b} has {} {} than {a}", if higher { "higher" } else { "lower" }, metric.name)?;
        }
        let by = percent(ratio).abs();
        let ends = [percent(interval.low).abs(), percent(interval.high).abs()];
        let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let digits = decimals(least);
        write!(f, " by {by:.digits$} % ({least:.digits$}-{most:.digits$} %; {}, {samples})", Probability(p))
    }

    /// What every block shows, where they are too few for a verdict.
    fn in_every_block(&self, f: &mut fmt::Formatter<'_>, every: Interval) -> fmt::Result {
        let Comparison { samples, .. } = *self.comparison;
        let Arms { a, b, metric } = self.arms;
        let (is_rate, higher) = (metric.better == Better::Higher && metric.unit.ends_with("/s"), every.low > 1.0);
        write!(f, "in each of {samples}, {b} ")?;
        match (every.low >= TIMES_MIN, is_rate) {
            (true, true) => write!(f, "is {} as fast as {a}", range_of(every))?,
            (true, false) => write!(f, "has {} the {} of {a}", range_of(every), metric.name)?,
            (false, true) => write!(f, "is {} than {a}", if higher { "faster" } else { "slower" })?,
            (false, false) => {
                write!(f, "has {} {} than {a}", if higher { "higher" } else { "lower" }, metric.name)?;
            }
        }
        if every.low < TIMES_MIN {
            write!(f, " by {}", percentages(every))?;
        }
        write!(f, "; these are too few for an error rate")?;
        self.comparison.fewest().map_or(Ok(()), |fewest| write!(f, ", which needs at least {fewest}"))
    }

    /// A large difference, as a factor.
    fn times(&self, f: &mut fmt::Formatter<'_>, interval: Interval) -> fmt::Result {
        let Comparison { samples, ratio, p, .. } = *self.comparison;
        let Arms { a, b, metric } = self.arms;
        let (by, low, high) = (factor(ratio), factor(interval.low), factor(interval.high));
        if metric.better == Better::Higher && metric.unit.ends_with("/s") {
            write!(f, "{b} is {by} times as fast as {a}")?;
        } else {
            write!(f, "{b} has {by} times the {} of {a}", metric.name)?;
        }
        write!(f, " ({low}-{high}; {}, {samples})", Probability(p))
    }
}

/// A range of ratios in a few words: "higher by 21-35 %", or "3.00-5.00 times" if it is large.
fn range_of(range: Interval) -> String {
    match range.low >= TIMES_MIN {
        true => format!("{}-{} times", factor(range.low), factor(range.high)),
        false => format!("{} by {}", if range.low > 1.0 { "higher" } else { "lower" }, percentages(range)),
    }
}

/// The ends of a range of ratios as percentages, the smaller difference first.
fn percentages(range: Interval) -> String {
    let ends = [percent(range.low).abs(), percent(range.high).abs()];
    let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let digits = decimals(least);
    format!("{least:.digits$}-{most:.digits$} %")
}

/// From this ratio on a difference is said as a factor: percentages above hundreds read badly.
const TIMES_MIN: f64 = 3.0;

/// A factor with three digits.
fn factor(ratio: f64) -> String {
    let digits = if ratio >= 100.0 {
        0
    } else if ratio >= 10.0 {
        1
    } else {
        2
    };
    format!("{ratio:.digits$}")
}

/// A p-value.
struct Probability(f64);

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            p if p < 0.000_1 => write!(f, "p < 0.0001"),
            p if p < 0.001 => write!(f, "p {p:.4}"),
            p => write!(f, "p {p:.3}"),
        }
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// A share as a percentage, without needless zeros.
fn percent_of(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}

/// How many decimals show two digits of a percentage, but at most 4.
fn decimals(percent: f64) -> usize {
    (0..4).find(|digits| [10.0, 1.0, 0.1, 0.01][*digits] <= percent).unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use super::super::criteria::Criteria;
    use super::*;

    const TEN: Samples = Samples::Blocks(10);

    fn compared(samples: Samples, verdict: Verdict, ratio: f64, ends: (f64, f64), p: f64) -> Comparison {
        let interval = Some(Interval { low: ends.0, high: ends.1 });
        Comparison { samples, ratio, interval, every: None, p, criteria: Criteria::default(), verdict }
    }

    fn text(comparison: &Comparison, metric: &str) -> String {
        let metric = Metric::by_name(metric).unwrap();
        comparison.sentence(Arms { a: "simple", b: "prepared", metric }).to_string()
    }

    #[test]
    fn a_difference_names_subject_base_interval_and_evidence() {
        let large = Verdict::Differs { negligible: false };
        let faster = compared(TEN, large, 1.28, (1.21, 1.35), 2.0 / 1_024.0);
        assert_eq!(text(&faster, "tps"), "prepared is faster than simple by 28 % (21-35 %; p 0.002, 10 blocks)");
        assert_eq!(
            text(&faster, "latency_ms"),
            "prepared has higher latency_ms than simple by 28 % (21-35 %; p 0.002, 10 blocks)"
        );
        let slower = compared(TEN, large, 0.78, (0.65, 0.85), 2.0 / 1_024.0);
        assert_eq!(text(&slower, "tps"), "prepared is slower than simple by 22 % (15-35 %; p 0.002, 10 blocks)");
        assert_eq!(
            text(&slower, "latency_ms"),
            "prepared has lower latency_ms than simple by 22 % (15-35 %; p 0.002, 10 blocks)"
        );
        let records = compared(Samples::Records(5, 6), large, 0.88, (0.85, 0.91), 0.000_31);
        assert_eq!(
            text(&records, "tps"),
            "these records differ: prepared is slower than simple by 12.0 % (9.0-15.0 %; p 0.0003, 5 and 6 records)"
        );
    }

    #[test]
    fn a_large_difference_is_a_factor() {
        let large = Verdict::Differs { negligible: false };
        let faster = compared(TEN, large, 65.2, (61.04, 70.0), 2.0 / 1_024.0);
        assert_eq!(text(&faster, "tps"), "prepared is 65.2 times as fast as simple (61.0-70.0; p 0.002, 10 blocks)");
        let slower = compared(TEN, large, 4.0, (3.0, 5.0), 2.0 / 1_024.0);
        assert_eq!(
            text(&slower, "p99_ms"),
            "prepared has 4.00 times the p99_ms of simple (3.00-5.00; p 0.002, 10 blocks)"
        );
        let near = compared(TEN, large, 3.5, (2.5, 4.5), 2.0 / 1_024.0);
        assert_eq!(text(&near, "tps"), "prepared is faster than simple by 250 % (150-350 %; p 0.002, 10 blocks)");
    }

    #[test]
    fn a_verdict_in_short_says_the_direction_and_what_it_is_worth() {
        let short = |verdict, ratio, metric: &str| {
            let one = compared(TEN, verdict, ratio, (ratio, ratio), 0.002);
            one.in_short(Metric::by_name(metric).unwrap())
        };
        let large = Verdict::Differs { negligible: false };
        assert_eq!(short(large, 1.28, "p99_ms"), "higher by 28 % (worse)");
        assert_eq!(short(large, 0.78, "p99_ms"), "lower by 22 % (better)");
        assert_eq!(short(large, 4.0, "tps"), "4.00 times (better)");
        assert_eq!(short(large, 1.28, "wal_bytes"), "higher by 28 %");
        assert_eq!(
            short(Verdict::Differs { negligible: true }, 1.012, "tps"),
            "higher by 1.2 % (better, less than matters)"
        );
        assert_eq!(short(Verdict::NoDifference, 1.0, "tps"), "no difference");
        assert_eq!(short(Verdict::CannotTell { more: None }, 1.0, "tps"), "cannot tell");
    }

    #[test]
    fn what_every_block_shows_is_said_with_the_remark_that_it_is_no_error_rate() {
        let every = |low: f64, high: f64, count: u32| {
            let found = compared(Samples::Blocks(count), Verdict::CannotTell { more: None }, low, (low, high), 0.1);
            Comparison { interval: None, every: Some(Interval { low, high }), ..found }
        };
        let rest = "these are too few for an error rate, which needs at least 9";
        assert_eq!(
            text(&every(28.1, 33.0, 5), "tps"),
            format!("in each of 5 blocks, prepared is 28.1-33.0 times as fast as simple; {rest}")
        );
        assert_eq!(
            text(&every(0.03, 0.04, 3), "tps"),
            format!("in each of 3 blocks, prepared is slower than simple by 96-97 %; {rest}")
        );
        assert_eq!(
            text(&every(1.2, 1.3, 3), "p99_ms"),
            format!("in each of 3 blocks, prepared has higher p99_ms than simple by 20-30 %; {rest}")
        );
        assert_eq!(
            text(&every(3.0, 4.0, 3), "p99_ms"),
            format!("in each of 3 blocks, prepared has 3.00-4.00 times the p99_ms of simple; {rest}")
        );
        assert_eq!(every(1.2, 1.3, 3).in_short(Metric::by_name("tps").unwrap()), "higher by 20-30 % in every block");
        assert!(every(1.2, 1.3, 3).is_decided());
    }

    #[test]
    fn a_small_difference_is_said_not_to_matter() {
        let small = compared(TEN, Verdict::Differs { negligible: true }, 1.012, (1.008, 1.016), 0.000_01);
        assert_eq!(
            text(&small, "tps"),
            "prepared is faster than simple by 1.20 % (0.80-1.60 %; p < 0.0001, 10 blocks), \
             less than the 5 % that matters"
        );
    }

    #[test]
    fn no_difference_says_beyond_what_and_cannot_tell_says_what_to_do() {
        let none = compared(TEN, Verdict::NoDifference, 0.999, (0.988, 1.008), 0.4);
        assert_eq!(text(&none, "tps"), "no difference beyond 5 % (-1.2 % to +0.8 %; 10 blocks)");
        let verdict = |samples, verdict| text(&compared(samples, verdict, 1.0, (0.8, 1.2), 0.4), "tps");
        assert_eq!(verdict(TEN, Verdict::Identical), "no difference (identical samples)");
        let more = |more| Verdict::CannotTell { more };
        let thirty = Samples::Blocks(30);
        assert_eq!(verdict(thirty, more(Some(14))), "cannot tell: about 14 more blocks");
        assert_eq!(verdict(thirty, more(Some(1))), "cannot tell: about 1 more block");
        assert_eq!(verdict(thirty, more(None)), "cannot tell: more than 200 blocks would be needed");
        assert_eq!(verdict(TEN, more(None)), "cannot tell: needs more blocks");
        let few = Comparison { interval: None, ..compared(Samples::Blocks(7), more(None), 1.0, (1.0, 1.0), 0.4) };
        assert_eq!(text(&few, "tps"), "cannot tell: needs at least 9 blocks");
        assert_eq!(
            verdict(Samples::Records(1, 1), more(Some(5))),
            "cannot tell: prepared / simple is 1.000 in 1 and 1 records; about 5 more records a side"
        );
    }
}
