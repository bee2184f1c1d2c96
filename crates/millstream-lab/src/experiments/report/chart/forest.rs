//! Comparisons as a forest plot: each verdict, with its estimate and its interval on a common scale of ratios.

use super::super::figure::{change, name, tick};
use super::scale::Scale;
use super::track::{self, HEIGHT, Row};
use crate::core::Metric;
use crate::core::statistics::{Arm, Comparison, Verdict};
use crate::experiments::analysis::Compared;
use maud::{Markup, html};

/// Ratios between these are shown as percentages, others as factors.
const PERCENTAGES: std::ops::RangeInclusive<f64> = 0.4..=2.2;

/// The comparisons, and the scale that they share.
pub(in super::super) struct Forest<'a> {
    metric: &'a Metric,
    matters: f64,
    scale: Option<Scale>,
    factors: bool,
}

impl<'a> Forest<'a> {
    /// A plot that has room for all of these. `matters` is the relative difference that matters.
    pub(in super::super) fn new(all: impl IntoIterator<Item = &'a Compared>, metric: &'a Metric, matters: f64) -> Self {
        let comparisons = all.into_iter().filter_map(|one| one.comparison.as_ref());
        let ends = comparisons.flat_map(|one| {
            let interval = one.interval.or(one.every).map_or([one.ratio; 2], |interval| [interval.low, interval.high]);
            [one.ratio, interval[0], interval[1]]
        });
        let ends: Vec<f64> = ends.chain([1.0 / (1.0 + matters), 1.0 + matters]).collect();
        let factors = !ends.iter().all(|end| PERCENTAGES.contains(end));
        Self { metric, matters, scale: Scale::logarithmic(ends), factors }
    }

    /// The rows of these comparisons; `say` writes what stands beside each.
    pub(in super::super) fn plot<'b>(
        &self,
        shown: impl IntoIterator<Item = &'b Compared>,
        say: impl Fn(&Compared) -> Markup,
    ) -> Markup {
        let Some(scale) = self.scale else { return html! {} };
        let rows = shown.into_iter().map(|one| self.row(one, scale, say(one))).collect();
        let tick = |value: f64| match self.factors {
            true => format!("{}×", tick(value)),
            false if (value - 1.0).abs() < 1e-9 => "0".to_owned(),
            false => format!("{:+.0} %", (value - 1.0) * 100.0).replace('-', "−"),
        };
        let unit = format!("{} compared with the other arm; logarithmic scale", name(self.metric));
        track::rows("forest", rows, scale, tick, &unit)
    }

    fn row(&self, one: &Compared, scale: Scale, name: Markup) -> Row {
        let title = format!("{} / {}: {}", one.arm, one.with, one.sentence);
        let Some(comparison) = &one.comparison else {
            return Row { name, title, marks: html! {}, value: html! {} };
        };
        let class = class(comparison, self.metric);
        let band = [1.0 / (1.0 + self.matters), 1.0 + self.matters].map(|end| scale.percent(end));
        let marks = html! {
            rect class="band" x=(track::short(band[0])) y="0" width=(track::short(band[1] - band[0])) height=(HEIGHT) {}
            path class="equal" d={ "M" (track::short(scale.percent(1.0))) " 0v" (HEIGHT) } {}
            @if let Some(interval) = comparison.interval {
                (track::line(&format!("interval {class}"), scale.percent(interval.low), scale.percent(interval.high)))
            }
            @if let Some(every) = comparison.every {
                (track::line("whisker", scale.percent(every.low), scale.percent(every.high)))
            }
            path class={ "estimate " (class) } d=(track::dots([(scale.percent(comparison.ratio), HEIGHT / 2.0)])) {}
        };
        let value = html! {
            span class=(class) { (change(comparison.ratio)) }
            @if let Some(interval) = comparison.interval {
                small { (change(interval.low)) " to " (change(interval.high)) }
            } @else if let Some(every) = comparison.every {
                small { "blocks: " (change(every.low)) " to " (change(every.high)) }
            } @else { small { "no interval" } }
        };
        Row { name, title, marks, value }
    }
}

/// How a verdict is coloured: the compared arm is better, worse, or nothing of the kind is known.
fn class(comparison: &Comparison, metric: &Metric) -> &'static str {
    match (comparison.verdict, comparison.winner(metric.better)) {
        (Verdict::Differs { negligible: true }, _) | (_, None) => "even",
        (_, Some(Arm::B)) => "better",
        (_, Some(Arm::A)) => "worse",
    }
}
