//! Transactions per second over the time of each run: a small plot for each arm, a line for each block.

use super::plot::{Plot, path};
use super::scale::Scale;
use crate::core::{Run, Series};
use crate::experiments::analysis::Measured;
use crate::limits::{REPORT_LINES_MAX, REPORT_PANELS_MAX, REPORT_POINTS_ALL_MAX, REPORT_POINTS_MAX, REPORT_POINTS_MIN};
use maud::{Markup, html};

/// The plots of all arms whose runs have at least two values. Nothing if there are none.
pub(in super::super) fn series(arms: &[Measured], runs: &[Run]) -> Markup {
    let panels: Vec<(&Measured, Vec<&Run>)> = arms.iter().map(|arm| (arm, lines(arm, runs))).collect();
    let panels: Vec<(&Measured, Vec<&Run>)> = panels.into_iter().filter(|(_, lines)| !lines.is_empty()).collect();
    let count: usize = panels.iter().take(REPORT_PANELS_MAX).map(|(_, lines)| lines.len().min(REPORT_LINES_MAX)).sum();
    let most = (REPORT_POINTS_ALL_MAX / count.max(1)).clamp(REPORT_POINTS_MIN, REPORT_POINTS_MAX);
    let seconds = panels.iter().flat_map(|(_, lines)| lines).filter_map(|run| named(run, "tps")).map(length);
    let Some(time) = Scale::linear(seconds) else { return html! {} };
    let all = || panels.iter().flat_map(|(_, lines)| lines);
    let marked = all().any(|run| named(run, "checkpoint.running").is_some());
    let reduced = all().filter_map(|run| named(run, "tps")).any(|one| one.values.len() > most);
    html! {
        div class="panels" {
            @for (arm, lines) in panels.iter().take(REPORT_PANELS_MAX) { (panel(arm, lines, time, most)) }
        }
        p class="caption" {
            "Transactions per second from the start of the run, with the warm-up; a line for each block. Each plot has a scale of its own, from 0."
            @if marked { " Vertical lines: a checkpoint begins." }
            @if reduced { " Of long runs, the lowest and the highest second of each interval are drawn." }
            @if panels.len() > REPORT_PANELS_MAX {
                " The first " (REPORT_PANELS_MAX) " of " (panels.len()) " arms are drawn; the record holds all."
            }
        }
    }
}

fn panel(arm: &Measured, lines: &[&Run], x: Scale, most: usize) -> Markup {
    let shown: Vec<&Run> = lines.iter().copied().step_by(lines.len().div_ceil(REPORT_LINES_MAX)).collect();
    let values = shown.iter().filter_map(|run| named(run, "tps")).flat_map(|one| one.values.iter().copied().flatten());
    let Some(y) = Scale::linear(values) else { return html! {} };
    let begun = shown.iter().flat_map(|run| checkpoints(run));
    let ticks: String = begun.map(|at| format!("M{} 0v500", Plot::at(x, y, (at, 0.0)).0)).collect();
    let line = |one: &Series| path(points(one, most).into_iter().map(|point| point.map(|point| Plot::at(x, y, point))));
    let drawing = html! {
        @if !ticks.is_empty() { path class="checkpoint" d=(ticks) {} }
        @for one in shown.iter().filter_map(|run| named(run, "tps")) {
            path class="line" d=(line(one)) {}
        }
    };
    let title = format!("{}: transactions per second of {} blocks", arm.name, lines.len());
    let plot = Plot { x, x_unit: "s", y, y_unit: "", title, drawing, texts: html! {} };
    html! {
        figure {
            figcaption {
                b { (arm.name) }
                @if shown.len() < lines.len() { small { (shown.len()) " of " (lines.len()) " blocks" } }
            }
            (plot.draw("small"))
        }
    }
}

/// The good runs of an arm that have a line.
fn lines<'a>(arm: &Measured, runs: &'a [Run]) -> Vec<&'a Run> {
    let own = runs.iter().filter(|run| run.arm == arm.name);
    own.filter(|run| named(run, "tps").is_some_and(|one| one.values.iter().flatten().count() > 1)).collect()
}

fn named<'a>(run: &'a Run, name: &str) -> Option<&'a Series> {
    run.measures()?.series.get(name).filter(|one| one.step_seconds > 0.0 && !one.values.is_empty())
}

fn length(series: &Series) -> f64 {
    series.values.len() as f64 * series.step_seconds
}

/// The times at which checkpoints began.
fn checkpoints(run: &Run) -> Vec<f64> {
    let Some(series) = named(run, "checkpoint.running") else { return Vec::new() };
    let runs = |value: Option<f64>| value.is_some_and(|share| share > 0.0);
    let begins = |n: &usize| runs(series.values[*n]) && (*n == 0 || !runs(series.values[n - 1]));
    let begun = (0..series.values.len()).filter(begins);
    begun.take(REPORT_POINTS_MIN).map(|n| n as f64 * series.step_seconds).collect()
}

/// The points of a line, at most `most`. Of a longer series, the lowest and the highest value of each interval, so that
/// a stall of one second is still seen.
fn points(series: &Series, most: usize) -> Vec<Option<(f64, f64)>> {
    let Series { step_seconds, values } = series;
    let point = |(n, value): (usize, &Option<f64>)| value.map(|value| ((n as f64 + 0.5) * step_seconds, value));
    let all = values.iter().enumerate().map(point);
    if values.len() <= most {
        return all.collect();
    }
    let all: Vec<Option<(f64, f64)>> = all.collect();
    let interval = values.len().div_ceil((most / 2).max(1));
    let ends = |points: &[Option<(f64, f64)>]| {
        let there = || points.iter().copied().flatten();
        let low = there().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = there().max_by(|a, b| a.1.total_cmp(&b.1));
        let swap = low.zip(high).is_some_and(|(low, high)| high.0 < low.0);
        if swap { [high, low] } else { [low, high] }
    };
    all.chunks(interval).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::record;
    use super::*;
    use crate::core::Outcome;

    #[test]
    fn a_long_series_keeps_its_stalls() {
        let stall = |n: u32| if n == 777 { Some(1.0) } else { Some(100.0 + f64::from(n % 7)) };
        let series = Series::each_second((0..10_000).map(stall));
        let drawn = points(&series, 200);
        assert!(drawn.len() <= 200, "{}", drawn.len());
        assert!(drawn.contains(&Some((777.5, 1.0))));
        let times: Vec<f64> = drawn.iter().flatten().map(|(time, _)| *time).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn a_checkpoint_is_marked_where_it_begins() {
        let mut run = record(1, 1, 1).runs.remove(0);
        let running = Series::each_second([0.0, 0.3, 1.0, 0.0, 0.1].map(Some));
        let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
        measures.series.insert("checkpoint.running".to_owned(), running);
        assert_eq!(checkpoints(&run), [1.0, 4.0]);
    }

    #[test]
    fn a_missing_second_stays_missing() {
        let series = Series::each_second([Some(1.0), None, Some(3.0)]);
        assert_eq!(points(&series, 200), [Some((0.5, 1.0)), None, Some((2.5, 3.0))]);
    }
}
