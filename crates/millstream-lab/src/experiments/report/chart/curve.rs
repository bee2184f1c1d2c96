//! Throughput and latency, or what else it takes: a point for each arm, a line through those that differ only in their load.

use super::super::figure::{name, with_unit};
use super::plot::{COLOURS, Plot, path};
use super::scale::{LOGARITHMIC_FROM, Scale};
use super::track::short;
use crate::core::{Factors, Metric, groups};
use crate::experiments::analysis::Measured;
use crate::experiments::client_count::ClientCount;
use crate::experiments::experiment::Experiment;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Factors that set the load, the most telling one first. One of them makes a line, and each value of the others a line of its
/// own.
const LOAD: &[&str] = &["clients", "rate", "threads"];

/// A size for which texts are placed, in pixels: a plot on a narrow page, or one of two on a wide one.
const NARROW: (f64, f64) = (280.0, 300.0);

/// The size of the only plot on a wide page.
const WIDE: (f64, f64) = (800.0, 300.0);

/// About the size of a character, in pixels.
const CHARACTER: (f64, f64) = (6.4, 14.0);

/// A line, or points without one.
struct Curve<'a> {
    about: String,
    /// The factor that makes it a line.
    load: Option<&'static str>,
    points: Vec<Point<'a>>,
}

struct Point<'a> {
    arm: &'a Measured,
    text: String,
    on_line: bool,
    load: f64,
    tps: f64,
    latency: f64,
    /// What it is best at.
    marks: Vec<&'static str>,
}

/// What arms are best at, by their names.
type Marks<'a> = BTreeMap<&'a str, Vec<&'static str>>;

/// The arms to choose from where the number of clients varies.
fn marks(clients: &[ClientCount]) -> Marks<'_> {
    let mut marks = Marks::new();
    for ClientCount { throughput, latency, compromise, .. } in clients {
        // Where others cannot be told from it, it is not the best.
        let throughputs = if throughput.alike.is_empty() { "best throughput" } else { "highest throughput" };
        let latencies = if latency.alike.is_empty() { "best latency" } else { "lowest latency" };
        let best = [(&throughput.first, throughputs), (&latency.first, latencies)];
        for (choice, mark) in best.into_iter().chain(compromise.iter().map(|one| (one, "compromise"))) {
            marks.entry(choice.arm.as_str()).or_default().push(mark);
        }
    }
    marks
}

/// The plots of a throughput against these metrics; only against the first if no arms differ just in their load, since the
/// rate then says all about the mean. Nothing if fewer than two arms have the numbers. The arms to choose from by the number
/// of their `clients` are marked.
pub(in super::super) fn curves(
    experiment: &Experiment,
    arms: &[Measured],
    throughput: &Metric,
    metrics: &[&Metric],
    clients: &[ClientCount],
) -> Markup {
    let marks = marks(clients);
    let found: Vec<(&Metric, Vec<Curve<'_>>)> =
        metrics.iter().map(|metric| (*metric, found(experiment, arms, [throughput, *metric], &marks))).collect();
    let with_load = found.iter().any(|(_, curves)| curves.iter().any(|curve| curve.load.is_some()));
    let plots = found.iter().take(if with_load { metrics.len() } else { 1 });
    let plots: Vec<Markup> = plots.filter_map(|(metric, curves)| plot(curves, throughput, metric)).collect();
    html! {
        @if !plots.is_empty() {
            div class=(if with_load { "pair" } else { "alone" }) { @for plot in plots { (plot) } }
        }
    }
}

/// `None` if fewer than two points are there.
fn plot(curves: &[Curve<'_>], throughput: &Metric, metric: &Metric) -> Option<Markup> {
    let points: Vec<&Point<'_>> = curves.iter().flat_map(|curve| &curve.points).collect();
    let axes = fitting(points.iter().map(|point| point.tps)).zip(fitting(points.iter().map(|point| point.latency)));
    let (x, y) = axes.filter(|_| points.len() > 1)?;
    let at = |point: &Point<'_>| Plot::at(x, y, (point.tps, point.latency));
    let drawing = html! {
        @for (n, curve) in curves.iter().enumerate() {
            g class={ "c" (n % COLOURS) } {
                @if curve.load.is_some() { path class="line" d=(path(curve.points.iter().map(|point| Some(at(point))))) {} }
                @for point in &curve.points {
                    @let (x, y) = at(point);
                    @if !point.marks.is_empty() {
                        path class="ring" d={ "M" (x) " " (y) "h0" } {}
                        path class="ring inner" d={ "M" (x) " " (y) "h0" } {}
                    }
                    path class="point" d={ "M" (x) " " (y) "h0" } {
                        title {
                            (point.arm.name) ": " (with_unit(point.tps, &throughput.unit)) ", "
                            (with_unit(point.latency, &metric.unit))
                        }
                    }
                }
            }
        }
    };
    let ringed = points.iter().filter(|point| !point.marks.is_empty());
    let ringed: Vec<String> = ringed.map(|point| format!("{}: {}", point.marks.join(", "), point.arm.name)).collect();
    // On a wide page there is room for more names.
    let (narrow, left_out) = texts("narrow", &points, x, y, NARROW);
    let (wide, _) = texts("wide", &points, x, y, WIDE);
    let [x_unit, y_unit] = [throughput, metric].map(|one| format!("{}, {}", name(one), one.unit));
    let title = format!("{} and {}", name(throughput), name(metric));
    let load: Vec<&str> =
        LOAD.iter().copied().filter(|load| curves.iter().any(|curve| curve.load == Some(load))).collect();
    let plot = html! {
        figure {
            (Plot { x, x_unit: &x_unit, y, y_unit: &y_unit, title, drawing, texts: html! { (narrow) (wide) } }.draw("large"))
            figcaption {
                @if curves.len() > 1 {
                    @for (n, curve) in curves.iter().enumerate() {
                        span class="legend" { span class={ "swatch c" (n % COLOURS) } {} (curve.about) }
                    }
                }
                @if !load.is_empty() { "The numbers are " (load.join(", ")) ". " }
                @if !ringed.is_empty() { "Ringed: " (ringed.join("; ")) ". " }
                "Right is more throughput, low is " @if metric.unit == "ms" { "less latency." } @else { "fewer " (metric.unit) "." }
                @if left_out > 0 { " Where points are close, some have no name; the tables have all numbers." }
            }
        }
    };
    Some(plot)
}

/// The arms that have both numbers, by group and by the factors that are not their load.
fn found<'a>(
    experiment: &Experiment,
    arms: &'a [Measured],
    metrics: [&Metric; 2],
    marks: &Marks<'_>,
) -> Vec<Curve<'a>> {
    let has = |arm: &&Measured| metrics.iter().all(|metric| arm.values.contains_key(metric.name.as_ref()));
    // By the group and the factors but for the load: each arm with all of its factors.
    let kinds = groups(arms.iter().filter(has).filter_map(|arm| {
        let factors = experiment.factors(experiment.arm(&arm.name)?);
        let other: Factors = factors.iter().filter(|(name, _)| !LOAD.contains(&name.as_str())).map(owned).collect();
        Some(((arm.group.as_str(), other), (arm, factors)))
    }));
    let varies = |load: &str, arms: &[(&Measured, Factors)]| {
        arms.iter().any(|(_, one)| value(one, load) != value(&arms[0].1, load))
    };
    let keys: Vec<(&str, Factors)> = kinds.iter().map(|(key, _)| key.clone()).collect();
    let mut scattered: BTreeMap<&str, Vec<Point<'_>>> = BTreeMap::new();
    let mut curves = Vec::new();
    for ((group, other), arms) in &kinds {
        let load = LOAD.iter().copied().find(|load| varies(load, arms));
        let points = |arms: &[&(&'a Measured, Factors)]| {
            let mut points: Vec<Point<'a>> =
                arms.iter().map(|(arm, factors)| point(arm, factors, load, metrics, marks)).collect();
            points.sort_by(|a, b| a.load.total_cmp(&b.load));
            points
        };
        let lines = groups(arms.iter().map(|one| (rest(&one.1, load), one)));
        if load.is_none() {
            scattered.entry(group).or_default().extend(lines.iter().flat_map(|(_, arms)| points(arms)));
            continue;
        }
        for (rest, arms) in &lines {
            let several = Some(rest.join(", ")).filter(|_| lines.len() > 1);
            let said: Vec<String> = several.into_iter().chain([about(group, other, &keys)]).rev().collect();
            curves.push(Curve { about: said.join(", "), load, points: points(arms) });
        }
    }
    let about = |group: &str| if group.is_empty() { "arms".to_owned() } else { group.to_owned() };
    curves.extend(scattered.into_iter().map(|(group, points)| Curve { about: about(group), load: None, points }));
    curves
}

/// The value of a factor that sets the load. Without options, pgbench has one client and one thread.
fn value<'f>(factors: &'f Factors, load: &str) -> Option<&'f str> {
    factors.get(load).map(String::as_str).or_else(|| (load != "rate").then_some("1"))
}

/// The factors that set the load, but for that of a line.
fn rest(factors: &Factors, line: Option<&str>) -> Vec<String> {
    let others = LOAD.iter().filter(|load| line.is_some_and(|line| line != **load));
    others.filter_map(|load| Some(format!("{load} {}", value(factors, load)?))).collect()
}

fn point<'a>(
    arm: &'a Measured,
    factors: &Factors,
    load: Option<&str>,
    metrics: [&Metric; 2],
    marks: &Marks<'_>,
) -> Point<'a> {
    let median = |name: &str| arm.values.get(name).map_or(0.0, |spread| spread.median);
    let value = load.and_then(|load| value(factors, load));
    let marks = marks.get(arm.name.as_str()).cloned().unwrap_or_default();
    let text: Vec<&str> = std::iter::once(value.unwrap_or(&arm.name)).chain(marks.iter().copied()).collect();
    Point {
        arm,
        text: text.join(", "),
        on_line: load.is_some(),
        load: value.and_then(|value| value.parse().ok()).unwrap_or(0.0),
        tps: median(&metrics[0].name),
        latency: median(&metrics[1].name),
        marks,
    }
}

/// What distinguishes a line from the others.
fn about(group: &str, own: &Factors, all: &[(&str, Factors)]) -> String {
    let differs = |name: &str| all.iter().any(|(_, other)| other.get(name) != own.get(name));
    let words = own.iter().filter(|(name, _)| differs(name)).map(|(name, value)| format!("{name} {value}"));
    let group = Some(group.to_owned()).filter(|group| !group.is_empty());
    let said: Vec<String> = group.into_iter().chain(words).collect();
    if said.is_empty() { "plain".to_owned() } else { said.join(", ") }
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

fn fitting(values: impl Iterator<Item = f64>) -> Option<Scale> {
    let values: Vec<f64> = values.collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if low > 0.0 && high / low >= LOGARITHMIC_FROM { Scale::logarithmic(values) } else { Scale::linear(values) }
}

/// A rectangle in pixels: left, top, right, bottom.
type Place = [f64; 4];

/// The names of points where they cover neither a point nor each other, and how many found no place.
fn texts(class: &str, points: &[&Point<'_>], x: Scale, y: Scale, pixels: (f64, f64)) -> (Markup, usize) {
    let centre = |point: &Point<'_>| {
        let (left, up) = (x.percent(point.tps), y.percent(point.latency));
        (left / 100.0 * pixels.0, (100.0 - up) / 100.0 * pixels.1)
    };
    let mut taken: Vec<Place> =
        points.iter().map(|point| centre(point)).map(|(x, y)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0]).collect();
    let (mut placed, mut left_out) = (Vec::new(), 0);
    let mut points = points.to_vec();
    points.sort_by_key(|point| point.marks.is_empty());
    for point in points {
        let (x, y) = centre(point);
        let (width, height) = (point.text.chars().count() as f64 * CHARACTER.0, CHARACTER.1);
        // A curve rises to the right, so what is left of it and above it is free.
        let places = [
            ("upper", [x - 5.0 - width, y - 3.0 - height, x - 5.0, y - 3.0]),
            ("right", [x + 7.0, y - height / 2.0, x + 7.0 + width, y + height / 2.0]),
            ("left", [x - 7.0 - width, y - height / 2.0, x - 7.0, y + height / 2.0]),
            ("above", [x - width / 2.0, y - 7.0 - height, x + width / 2.0, y - 7.0]),
            ("below", [x - width / 2.0, y + 7.0, x + width / 2.0, y + 7.0 + height]),
        ];
        let inside = |place: &Place| place[0] >= 0.0 && place[1] >= 0.0 && place[2] <= pixels.0 && place[3] <= pixels.1;
        let free = |place: &Place| inside(place) && !taken.iter().any(|other| overlap(place, other));
        match places.into_iter().skip(usize::from(!point.on_line)).find(|(_, place)| free(place)) {
            Some((side, place)) => {
                taken.push(place);
                let marked = if point.marks.is_empty() { "" } else { " marked" };
                placed.push((side, marked, x / pixels.0 * 100.0, y / pixels.1 * 100.0, &point.text));
            }
            None => left_out += 1,
        }
    }
    let texts = html! {
        @for (side, marked, x, y, text) in placed {
            span class={ "at " (class) " " (side) (marked) } style={ "left:" (short(x)) "%;top:" (short(y)) "%" } { (text) }
        }
    };
    (texts, left_out)
}

fn overlap(a: &Place, b: &Place) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Spread;
    use crate::experiments::client_count::{Best, Choice};
    use crate::experiments::values::Selection;

    /// Curves of arms that have one pgbench each, with these clients and threads, and marks for what they are best at.
    fn drawn(arms: &[(&str, Option<u32>)], clients: &[ClientCount]) -> (Vec<(String, Vec<String>)>, String) {
        let text: String = arms
            .iter()
            .enumerate()
            .map(|(n, (count, threads))| {
                let threads = threads.map(|threads| format!(", threads = {threads}")).unwrap_or_default();
                format!("[[arm]]\nname = 'a{n}'\nrun = {{ clients = {count}{threads} }}\n")
            })
            .collect();
        let text = format!("question = 'q?'\nseconds = 1\nrun = {{ scripts = ['builtin:select-only'] }}\n{text}");
        let mut record = crate::experiments::report::fixture::record(1, 1, 1);
        let mut measured = Vec::new();
        record.conditions.experiment = Experiment::parse("x", &text, &Selection::default()).unwrap();
        for (n, arm) in record.conditions.experiment.arms.iter().enumerate() {
            let mut one = Measured::of(arm, &record);
            let values = [("tps", 100.0 + n as f64), ("latency_ms", 1.0 + n as f64)];
            let spread = |value: f64| Spread { median: value, min: value, max: value };
            one.values = values.map(|(name, value)| (name.to_owned(), spread(value))).into();
            measured.push(one);
        }
        let [tps, latency] = ["tps", "latency_ms"].map(|name| Metric::by_name(name).unwrap());
        let experiment = &record.conditions.experiment;
        let lines = found(experiment, &measured, [tps, latency], &marks(clients));
        let texts = |line: &Curve<'_>| line.points.iter().map(|point| point.text.clone()).collect();
        let lines = lines.iter().map(|line| (line.about.clone(), texts(line))).collect();
        (lines, curves(experiment, &measured, tps, &[latency], clients).into_string())
    }

    #[test]
    fn numbers_of_threads_are_lines_of_their_own() {
        let arms = [("1", None), ("2", Some(2)), ("8", Some(2)), ("8", Some(1)), ("4", Some(2))];
        let line = |about: &str, counts: &[&str]| {
            (about.to_owned(), counts.iter().map(|count| (*count).to_owned()).collect::<Vec<_>>())
        };
        let (lines, _) = drawn(&arms, &[]);
        assert_eq!(lines, [line("plain, threads 1", &["1", "8"]), line("plain, threads 2", &["2", "4", "8"])]);
        let (lines, _) = drawn(&arms[1..3], &[]);
        assert_eq!(lines, [line("plain", &["2", "8"])]);
    }

    #[test]
    fn the_arms_to_choose_from_are_marked() {
        let choice = |arm: &str| Choice { arm: arm.to_owned(), clients: 1, tps: 1.0, latency_ms: 1.0 };
        let best = |arm: &str, alike: &[&str]| Best {
            first: choice(arm),
            alike: alike.iter().map(|one| choice(one)).collect(),
        };
        let count = ClientCount {
            group: String::new(),
            throughput: best("a2", &["a1"]),
            latency: best("a0", &[]),
            compromise: Some(choice("a2")),
            comparisons: 0,
        };
        let arms = [("1", None), ("2", None), ("4", None)];
        let (lines, page) = drawn(&arms, &[count]);
        assert_eq!(lines[0].1, ["1, best latency", "2", "4, highest throughput, compromise"]);
        assert_eq!(page.matches("class=\"ring\"").count(), 2, "{page}");
        assert!(page.contains("Ringed: best latency: a0; highest throughput, compromise: a2. "), "{page}");
        assert!(!drawn(&arms, &[]).1.contains("Ringed"));
    }

    #[test]
    fn names_of_points_do_not_cover_each_other() {
        let arm = Measured {
            name: String::new(),
            about: String::new(),
            group: String::new(),
            runs: 1,
            values: BTreeMap::new(),
            of_first: None,
            from_first: None,
            limited: None,
            planted: None,
            promise: None,
            missing: None,
            failed: false,
        };
        let point = |tps: f64, latency: f64| Point {
            arm: &arm,
            text: "some name".to_owned(),
            on_line: false,
            load: 0.0,
            tps,
            latency,
            marks: Vec::new(),
        };
        let (far, near) =
            ([point(10.0, 10.0), point(50.0, 50.0)], (0..9).map(|_| point(50.0, 50.0)).collect::<Vec<_>>());
        let scale = Scale::linear([0.0, 100.0]).unwrap();
        assert_eq!(texts("", &far.iter().collect::<Vec<_>>(), scale, scale, NARROW).1, 0);
        let (texts, left_out) = texts("", &near.iter().collect::<Vec<_>>(), scale, scale, NARROW);
        assert_eq!((texts.into_string().matches("some name").count(), left_out), (4, 5));
    }
}
