//! Bars: one for each arm, from 0, with the extremes and every block. Where values are too far apart for bars, dots.

use super::super::figure::{change, figure, name, range, tick, with_unit};
use super::super::with_first;
use super::plot::COLOURS;
use super::scale::{LOGARITHMIC_FROM, Scale};
use super::track::{self, HEIGHT, Row};
use crate::core::{Metric, Run, Spread};
use crate::experiments::analysis::{Measured, SplitTime};
use maud::{Markup, html};

/// A scale for values, and how they stand on it: a bar has a length only from 0, which no logarithmic scale has.
#[derive(Clone, Copy)]
struct Ground {
    scale: Scale,
    with_bars: bool,
}

impl Ground {
    /// `None` if there are no values.
    fn of<'a>(spreads: impl Iterator<Item = &'a Spread>) -> Option<Self> {
        let ends: Vec<f64> = spreads.flat_map(|spread| [spread.min, spread.max]).collect();
        let (low, high) = ends.iter().fold((f64::INFINITY, 0.0), |(low, high), one| (one.min(low), one.max(high)));
        let with_bars = low <= 0.0 || high / low < LOGARITHMIC_FROM;
        let scale = if with_bars { Scale::linear(ends) } else { Scale::logarithmic(ends) };
        Some(Self { scale: scale?, with_bars })
    }

    /// The marks of a value with its extremes.
    fn marks(self, spread: Spread, class: &str) -> Markup {
        let at = |value: f64| self.scale.percent(value);
        html! {
            @if self.with_bars { (bar(class, at(0.0), at(spread.median))) }
            (whisker(spread, self.scale))
            @if !self.with_bars {
                path class={ "median " (class) } d=(track::dots([(at(spread.median), HEIGHT / 2.0)])) {}
            }
        }
    }

    /// What stands below the axis.
    fn unit(self, metric: &str, unit: &str) -> String {
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        format!("{metric}{unit}{}", if self.with_bars { "" } else { "; logarithmic scale" })
    }

    fn caption(self) -> &'static str {
        if self.with_bars { "Bar: median." } else { "Large dot: median." }
    }
}

/// The bars of a group's arms. Nothing if no arm has the metric.
pub(in super::super) fn bars(arms: &[&Measured], runs: &[Run], metric: &Metric) -> Markup {
    let Some(ground) = Ground::of(arms.iter().filter_map(|arm| arm.values.get(metric.name.as_ref()))) else {
        return html! {};
    };
    let rows = arms.iter().map(|arm| row(arm, runs, metric, ground)).collect();
    html! {
        figure {
            (track::rows("bars", rows, ground.scale, tick, &ground.unit(&name(metric), &metric.unit)))
            figcaption {
                (ground.caption()) " Line: smallest to largest block. Small dots: the blocks, the first one on top. "
                "The smaller number compares with the first arm."
            }
        }
    }
}

/// A bar for each of several records or their sides, by their names. Nothing if none has a value.
pub(in super::super) fn sides(names: &[&str], values: &[Option<Spread>], metric: &str, unit: &str) -> Markup {
    let Some(ground) = Ground::of(values.iter().flatten()) else { return html! {} };
    let row = |(n, (name, value)): (usize, (&&str, &Option<Spread>))| {
        let said = value.map_or_else(|| "not measured".to_owned(), |spread| with_unit(spread.median, unit));
        Row {
            name: html! { span class={ "swatch c" (n % COLOURS) } {} (name) },
            title: format!("{name}: {said}"),
            marks: html! { @if let Some(spread) = value { (ground.marks(*spread, &format!("c{}", n % COLOURS))) } },
            value: html! {
                @match value {
                    Some(spread) => { (figure(spread.median)) @if let Some(range) = range(*spread) { small { (range) } } },
                    None => { small class="missing" { "not measured" } },
                }
            },
        }
    };
    let rows = names.iter().zip(values).enumerate().map(row).collect();
    html! { figure { (track::rows("bars inline coloured", rows, ground.scale, tick, &ground.unit(metric, unit))) } }
}

/// Times that are linear in length: a bar for each. `unit` stands below the axis.
pub(in super::super) fn times(times: &[SplitTime], unit: &str) -> Markup {
    let ends = times.iter().flat_map(|one| [one.milliseconds.min, one.milliseconds.max]);
    let Some(scale) = Scale::linear(ends) else { return html! {} };
    let row = |SplitTime { name, milliseconds: spread }: &SplitTime| Row {
        name: html! { (name) },
        title: format!("{name}: {}", with_unit(spread.median, "ms")),
        marks: html! { (bar("", scale.percent(0.0), scale.percent(spread.median))) (whisker(*spread, scale)) },
        value: html! { (with_unit(spread.median, "ms")) @if let Some(range) = range(*spread) { small { (range) } } },
    };
    html! { figure { (track::rows("bars inline", times.iter().map(row).collect(), scale, tick, unit)) } }
}

fn row(arm: &Measured, runs: &[Run], metric: &Metric, ground: Ground) -> Row {
    let name = html! {
        b { (arm.name) }
        @if let Some(promise) = &arm.promise { " " abbr class="mark" title=(promise) { "not the same promise" } }
        small { (arm.about) }
    };
    let Some(spread) = arm.values.get(metric.name.as_ref()) else {
        let why = arm.missing.as_deref().unwrap_or("not measured");
        let value = html! { small class="missing" { (why.split(':').next().unwrap_or(why)) } };
        return Row { name, title: format!("{}: {why}", arm.name), marks: html! {}, value };
    };
    let blocks: Vec<f64> =
        runs.iter().filter(|run| run.arm == arm.name).filter_map(|run| run.value(&metric.name)).collect();
    let down = |n: usize| 4.0 + (HEIGHT - 8.0) * (n as f64 + 0.5) / blocks.len() as f64;
    let points = blocks.iter().enumerate().map(|(n, value)| (ground.scale.percent(*value), down(n)));
    let marks = html! {
        (ground.marks(*spread, ""))
        @if blocks.len() > 1 { path class="dots" d=(track::dots(points)) {} }
    };
    let said = range(*spread).map(|range| format!(" ({range}), {} blocks", blocks.len())).unwrap_or_default();
    let title = format!("{}: {}{said}", arm.name, with_unit(spread.median, &metric.unit));
    let first = match arm.from_first {
        Some(_) => with_first(arm),
        None => arm.of_first.filter(|ratio| *ratio != 1.0).map(change),
    };
    let value = html! { (figure(spread.median)) @if let Some(first) = first { small { (first) } } };
    Row { name, title, marks, value }
}

fn bar(class: &str, from: f64, to: f64) -> Markup {
    let (left, width) = (track::short(from.min(to)), track::short((to - from).abs()));
    html! { rect class={ "bar " (class) } x=(left) y="4" width=(width) height=(HEIGHT - 8.0) {} }
}

fn whisker(spread: Spread, scale: Scale) -> Markup {
    html! { @if spread.min < spread.max { (track::line("whisker", scale.percent(spread.min), scale.percent(spread.max))) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_0_and_values_that_are_far_apart_are_dots() {
        let spread = |median: f64| Some(Spread { median, min: median * 0.9, max: median * 1.1 });
        let drawn = |values: &[Option<Spread>]| sides(&["a", "b"], values, "rows", "rows/s").into_string();
        let near = drawn(&[spread(24_000.0), spread(71_000.0)]);
        assert!(near.contains("<rect class=\"bar c0\" x=\"0\"") && near.contains(">0</span>"), "{near}");
        assert!(near.contains("rows, rows/s<") && !near.contains("median"), "{near}");
        let far = drawn(&[spread(100.0), spread(4_000.0)]);
        assert!(far.contains("median c1") && !far.contains("<rect"), "{far}");
        assert!(far.contains("rows, rows/s; logarithmic scale"), "{far}");
        let alone = drawn(&[spread(160_000.0), None]);
        assert!(alone.contains(">0</span>") && alone.contains("not measured"), "{alone}");
        assert_eq!(drawn(&[None, None]), "");
    }
}
