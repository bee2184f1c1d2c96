//! What runs do over time: a small plot for each arm, a line for each block.

use super::plot::{HEIGHT, Plot, path};
use super::scale::Scale;
use super::track::short;
use crate::core::{Run, Series};
use crate::experiments::analysis::Measured;
use crate::experiments::experiment::Experiment;
use crate::limits::{REPORT_LINES_MAX, REPORT_PANELS_MAX, REPORT_POINTS_ALL_MAX, REPORT_POINTS_MAX, REPORT_POINTS_MIN};
use maud::{Markup, html};

/// What a plot shows.
struct Kind {
    /// It, as the beginning of a sentence.
    about: &'static str,
    /// The series that it draws, each with the class of its lines and its name.
    lines: &'static [(&'static str, &'static str, &'static str)],
}

/// Of arms that run as fast as they can.
const THROUGHPUT: Kind = Kind { about: "Transactions per second", lines: &[("tps", "line", "")] };

/// Of arms with a rate, which says their throughput beforehand.
const MISSED: Kind = Kind {
    about: "Late and skipped transactions per second",
    lines: &[("late", "line c1", "late"), ("skipped", "line c3", "skipped")],
};

/// Of arms with a rate.
const LATENCY: Kind = Kind {
    about: "Latency that 99 % of the transactions of a second do not exceed, in ms",
    lines: &[("p99_ms", "line", "")],
};

/// The plots of all arms whose runs have at least two values. Nothing if there are none.
pub(in super::super) fn series(experiment: &Experiment, arms: &[Measured], runs: &[Run]) -> Markup {
    let has_rate = |arm: &&Measured| {
        let arm = experiment.arm(&arm.name).unwrap_or_else(|| experiment.twice());
        experiment.setup(arm).rate().is_some()
    };
    let (paced, free): (Vec<&Measured>, Vec<&Measured>) = arms.iter().partition(has_rate);
    // The points of a page are limited, and arms with a rate have three lines each.
    let points = if paced.is_empty() { REPORT_POINTS_ALL_MAX } else { REPORT_POINTS_ALL_MAX / 4 };
    html! {
        (panels(&free, runs, &THROUGHPUT, points))
        (panels(&paced, runs, &MISSED, points))
        (panels(&paced, runs, &LATENCY, points))
    }
}

fn panels(arms: &[&Measured], runs: &[Run], kind: &Kind, points: usize) -> Markup {
    let panels = arms.iter().map(|arm| (*arm, lines(arm, runs, kind)));
    let panels: Vec<(&Measured, Vec<&Run>)> = panels.filter(|(_, lines)| !lines.is_empty()).collect();
    let count: usize = panels.iter().take(REPORT_PANELS_MAX).map(|(_, lines)| lines.len().min(REPORT_LINES_MAX)).sum();
    let most = (points / count.max(1)).clamp(REPORT_POINTS_MIN, REPORT_POINTS_MAX);
    let all = || panels.iter().flat_map(|(_, lines)| lines).flat_map(|run| drawn(run, kind)).map(|(_, one)| one);
    let Some(time) = Scale::linear(all().map(length)) else { return html! {} };
    let marked = panels.iter().flat_map(|(_, lines)| lines).any(|run| !checkpoints(run, most).is_empty());
    let reduced = all().any(|one| one.values.len() > most);
    html! {
        @if kind.about != THROUGHPUT.about { h3 { (kind.about) } }
        div class="panels" {
            @for (arm, lines) in panels.iter().take(REPORT_PANELS_MAX) { (panel(arm, lines, kind, time, most)) }
        }
        p class="caption" {
            @for (_, class, name) in kind.lines.iter().filter(|(.., name)| !name.is_empty()) {
                span class="legend" { span class={ "swatch " (class) } {} (name) }
            }
            (kind.about) ", from the start of the run, with the warm-up; a line for each block. Each plot has a scale of its own, from 0."
            @if marked { " Vertical marks: checkpoints begin; each block has a row of its own, the first one on top." }
            @if reduced { " Of long runs, the lowest and the highest second of each interval are drawn." }
            @if panels.len() > REPORT_PANELS_MAX {
                " The first " (REPORT_PANELS_MAX) " of " (panels.len()) " arms are drawn; the record holds all."
            }
        }
    }
}

fn panel(arm: &Measured, lines: &[&Run], kind: &Kind, x: Scale, most: usize) -> Markup {
    let shown: Vec<&Run> = lines.iter().copied().step_by(lines.len().div_ceil(REPORT_LINES_MAX)).collect();
    let all = || shown.iter().flat_map(|run| drawn(run, kind));
    let Some(y) = Scale::linear(all().flat_map(|(_, one)| one.values.iter().copied().flatten())) else {
        return html! {};
    };
    let begun: Vec<Vec<f64>> = shown.iter().map(|run| checkpoints(run, most)).collect();
    let marks = marks(&begun, x, y);
    let line = |one: &Series| path(points(one, most).into_iter().map(|point| point.map(|point| Plot::at(x, y, point))));
    let drawing = html! {
        @if !marks.is_empty() { path class="checkpoint" d=(marks) {} }
        @for (class, one) in all() { path class=(class) d=(line(one)) {} }
    };
    let title = format!("{}: {}, of {} blocks", arm.name, kind.about.to_lowercase(), lines.len());
    let plot = Plot { x, x_unit: "s", y, y_unit: "", title, drawing, texts: html! {} };
    html! {
        figure {
            figcaption {
                b { (arm.name) }
                @if shown.len() < lines.len() { small { (shown.len()) " of " (lines.len()) " blocks" } }
                @if let Some(said) = in_numbers(&begun) { small { (said) } }
            }
            (plot.draw("small"))
        }
    }
}

/// The good runs of an arm that have a line.
fn lines<'a>(arm: &Measured, runs: &'a [Run], kind: &Kind) -> Vec<&'a Run> {
    let own = runs.iter().filter(|run| run.arm == arm.name);
    own.filter(|run| drawn(run, kind).any(|(_, one)| one.values.iter().flatten().count() > 1)).collect()
}

/// The series of a run that a plot draws, each with the class of its line.
fn drawn<'a>(run: &'a Run, kind: &Kind) -> impl Iterator<Item = (&'static str, &'a Series)> + use<'a> {
    kind.lines.iter().filter_map(move |(name, class, _)| Some((*class, named(run, name)?)))
}

fn named<'a>(run: &'a Run, name: &str) -> Option<&'a Series> {
    run.measures()?.series.get(name).filter(|one| one.step_seconds > 0.0 && !one.values.is_empty())
}

fn length(series: &Series) -> f64 {
    series.values.len() as f64 * series.step_seconds
}

/// The times at which checkpoints began, at most so many. The server counts them; where that is not recorded, one is seen
/// only if none ran before it.
fn checkpoints(run: &Run, most: usize) -> Vec<f64> {
    let counts: Vec<&Series> = COUNTED.iter().filter_map(|name| named(run, name)).collect();
    let mut times: Vec<f64> = match counts.is_empty() {
        false => counts.into_iter().flat_map(|one| counted(one, most)).collect(),
        true => named(run, "checkpoint.running").into_iter().flat_map(begun).collect(),
    };
    times.sort_unstable_by(f64::total_cmp);
    times.truncate(most);
    times
}

/// The series in which the server counts checkpoints.
const COUNTED: [&str; 2] = ["checkpoint.timed", "checkpoint.requested"];

/// A time for each one that a series counts: those of an interval stand at equal distances in it.
fn counted(series: &Series, most: usize) -> impl Iterator<Item = f64> {
    let some = series.values.iter().enumerate().filter_map(|(n, value)| Some((n, value.filter(|count| *count > 0.0)?)));
    some.flat_map(move |(n, count)| {
        let each = (0_u32..).map(f64::from).take_while(move |one| *one < count.round()).take(most);
        each.map(move |one| (n as f64 + one / count.round()) * series.step_seconds)
    })
}

/// The times at which something begins that was not there before.
fn begun(series: &Series) -> impl Iterator<Item = f64> {
    let runs = |value: Option<f64>| value.is_some_and(|share| share > 0.0);
    let begins = move |n: &usize| runs(series.values[*n]) && (*n == 0 || !runs(series.values[n - 1]));
    (0..series.values.len()).filter(begins).map(move |n| n as f64 * series.step_seconds)
}

/// A mark for each checkpoint, in a row for each run.
fn marks(begun: &[Vec<f64>], x: Scale, y: Scale) -> String {
    let row = HEIGHT / begun.len().max(1) as f64;
    let of_run = |(n, times): (usize, &Vec<f64>)| {
        let (top, height) = (short(n as f64 * row), short(row * if begun.len() > 1 { 0.85 } else { 1.0 }));
        times.iter().map(|at| format!("M{} {top}v{height}", Plot::at(x, y, (*at, 0.0)).0)).collect::<String>()
    };
    begun.iter().enumerate().map(of_run).collect()
}

/// How many checkpoints the runs had, if any had one.
fn in_numbers(begun: &[Vec<f64>]) -> Option<String> {
    let counts = || begun.iter().map(Vec::len);
    let (low, high) = (counts().min()?, counts().max().filter(|high| *high > 0)?);
    let count = if low == high { high.to_string() } else { format!("{low}–{high}") };
    Some(format!("{count} checkpoint{} a run", if high == 1 { "" } else { "s" }))
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
    use crate::experiments::{Analysis, Record};

    /// A record of three arms, after a change to the series of each run.
    fn changed(change: impl Fn(&mut std::collections::BTreeMap<String, Series>)) -> Record {
        let mut record = record(3, 2, 10);
        for run in &mut record.runs {
            if let Outcome::Measured(measures) = &mut run.outcome {
                change(&mut measures.series);
            }
        }
        record
    }

    fn page(record: &Record) -> String {
        let analysis = Analysis::of(record);
        series(&record.conditions.experiment, &analysis.arms, &record.runs).into_string()
    }

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
    fn every_checkpoint_is_marked_where_it_begins() {
        let of = |names: &[(&str, &[f64])]| {
            let mut run = record(1, 1, 1).runs.remove(0);
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            let each = |(name, values): &(&str, &[f64])| {
                ((*name).to_owned(), Series::each_second(values.iter().copied().map(Some)))
            };
            measures.series.extend(names.iter().map(each));
            checkpoints(&run, 60)
        };
        let running: (&str, &[f64]) = ("checkpoint.running", &[0.0, 0.3, 1.0, 0.0, 0.1]);
        assert_eq!(of(&[running]), [1.0, 4.0], "what an earlier record has");
        // One follows the other, so that one always runs.
        let (timed, requested): (&[f64], &[f64]) = (&[0.0, 1.0, 0.0, 0.0, 0.0], &[0.0, 0.0, 2.0, 0.0, 1.0]);
        let counted = of(&[running, ("checkpoint.timed", timed), ("checkpoint.requested", requested)]);
        assert_eq!(counted, [1.0, 2.0, 2.5, 4.0]);
        assert_eq!(in_numbers(&[vec![0.0; 37], vec![0.0; 45]]).unwrap(), "37–45 checkpoints a run");
        assert_eq!((in_numbers(&[Vec::new()]), in_numbers(&[vec![0.0]]).unwrap()), (None, "1 checkpoint a run".into()));
    }

    #[test]
    fn marks_of_each_block_have_a_row_of_their_own() {
        let ten = || Series::each_second([1.0; 10].map(Some));
        let text = page(&changed(|series| _ = series.insert("checkpoint.requested".to_owned(), ten())));
        let marks = text.split("class=\"checkpoint\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(marks.matches('M').count(), 2 * 10, "{marks}");
        assert_eq!((marks.matches(" 0v").count(), marks.matches(" 250v").count()), (10, 10), "{marks}");
        assert!(text.contains("10 checkpoints a run") && text.contains("the first one on top"), "{text}");
    }

    #[test]
    fn arms_with_a_rate_show_what_was_late_or_skipped_and_the_latency_instead_of_their_rate() {
        let mut record = changed(|series| {
            let values = |value: f64| Series::each_second([value; 10].map(Some));
            series.extend(
                [("late", 3.0), ("skipped", 1.0), ("p99_ms", 9.0)].map(|(name, v)| (name.to_owned(), values(v))),
            );
        });
        assert!(page(&record).contains("Transactions per second, from the start"));
        for arm in &mut record.conditions.experiment.arms {
            arm.run.rate = Some(crate::experiments::Number::Plain(100.0));
        }
        let text = page(&record);
        for said in ["<h3>Late and skipped transactions per second</h3>", "<h3>Latency that 99 %", "line c3"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(!text.contains("Transactions per second, from the start"), "{text}");
    }

    #[test]
    fn a_missing_second_stays_missing() {
        let series = Series::each_second([Some(1.0), None, Some(3.0)]);
        assert_eq!(points(&series, 200), [Some((0.5, 1.0)), None, Some((2.5, 3.0))]);
    }
}
