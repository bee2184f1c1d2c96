//! Bars: one for each arm on a logarithmic scale, with the extremes and every block.

use super::super::figure::{change, figure, name, range, tick, with_unit};
use super::super::with_first;
use super::scale::Scale;
use super::track::{self, HEIGHT, Row};
use crate::core::{Metric, Run, Spread};
use crate::experiments::analysis::{Measured, SplitTime};
use maud::{Markup, html};

/// The bars of a group's arms. Nothing if no arm has the metric.
pub(in super::super) fn bars(arms: &[&Measured], runs: &[Run], metric: &Metric) -> Markup {
    let ends =
        arms.iter().filter_map(|arm| arm.values.get(metric.name.as_ref())).flat_map(|spread| [spread.min, spread.max]);
    let Some(scale) = Scale::logarithmic(ends) else { return html! {} };
    let rows = arms.iter().map(|arm| row(arm, runs, metric, scale)).collect();
    let unit = format!("{}, {}; logarithmic scale", name(metric), metric.unit);
    html! {
        figure {
            (track::rows("bars", rows, scale, tick, &unit))
            figcaption {
                "Bar: median. Line: smallest to largest block. Dots: the blocks, the first one on top. "
                "The smaller number compares with the first arm."
            }
        }
    }
}

/// Times that are linear in length: a bar for each.
pub(in super::super) fn times(times: &[SplitTime]) -> Markup {
    let ends = times.iter().flat_map(|one| [one.milliseconds.min, one.milliseconds.max]);
    let Some(scale) = Scale::linear(ends) else { return html! {} };
    let row = |SplitTime { name, milliseconds: spread }: &SplitTime| Row {
        name: html! { (name) },
        title: format!("{name}: {}", with_unit(spread.median, "ms")),
        marks: html! { (bar(scale.percent(0.0), scale.percent(spread.median))) (whisker(*spread, scale)) },
        value: html! { (with_unit(spread.median, "ms")) @if let Some(range) = range(*spread) { small { (range) } } },
    };
    html! { figure { (track::rows("bars inline", times.iter().map(row).collect(), scale, tick, "ms per transaction")) } }
}

fn row(arm: &Measured, runs: &[Run], metric: &Metric, scale: Scale) -> Row {
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
    let points = blocks.iter().enumerate().map(|(n, value)| (scale.percent(*value), down(n)));
    let marks = html! {
        (bar(0.0, scale.percent(spread.median)))
        (whisker(*spread, scale))
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

fn bar(from: f64, to: f64) -> Markup {
    let (left, width) = (track::short(from.min(to)), track::short((to - from).abs()));
    html! { rect class="bar" x=(left) y="4" width=(width) height=(HEIGHT - 8.0) {} }
}

fn whisker(spread: Spread, scale: Scale) -> Markup {
    html! { @if spread.min < spread.max { (track::line("whisker", scale.percent(spread.min), scale.percent(spread.max))) } }
}
