//! Throughput and latency: a point for each arm, a line through those that differ only in their load.

use super::super::figure::{figure, name};
use super::plot::{Plot, path};
use super::scale::Scale;
use super::track::short;
use crate::core::{Factors, Metric, groups};
use crate::experiments::analysis::Measured;
use crate::experiments::experiment::Experiment;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Factors that set the load, the most telling one first.
const LOAD: &[&str] = &["clients", "rate", "threads"];

/// From this ratio of the largest to the smallest value on, a scale is logarithmic.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Colours that the page has.
const COLOURS: usize = 6;

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
}

/// The plots of tps against these metrics of latency; only against the first if no arms differ just in their load, since
/// the rate then says all about the mean. Nothing if fewer than two arms have the numbers.
pub(in super::super) fn curves(experiment: &Experiment, arms: &[Measured], metrics: &[&Metric]) -> Markup {
    let found: Vec<(&Metric, Vec<Curve<'_>>)> =
        metrics.iter().map(|metric| (*metric, found(experiment, arms, metric))).collect();
    let with_load = found.iter().any(|(_, curves)| curves.iter().any(|curve| curve.load.is_some()));
    html! {
        div class=(if with_load { "pair" } else { "alone" }) {
            @for (metric, curves) in found.iter().take(if with_load { metrics.len() } else { 1 }) { (plot(curves, metric)) }
        }
    }
}

fn plot(curves: &[Curve<'_>], metric: &Metric) -> Markup {
    let points: Vec<&Point<'_>> = curves.iter().flat_map(|curve| &curve.points).collect();
    let axes = fitting(points.iter().map(|point| point.tps)).zip(fitting(points.iter().map(|point| point.latency)));
    let Some((x, y)) = axes.filter(|_| points.len() > 1) else { return html! {} };
    let at = |point: &Point<'_>| Plot::at(x, y, (point.tps, point.latency));
    let drawing = html! {
        @for (n, curve) in curves.iter().enumerate() {
            g class={ "c" (n % COLOURS) } {
                @if curve.load.is_some() { path class="line" d=(path(curve.points.iter().map(|point| Some(at(point))))) {} }
                @for point in &curve.points {
                    @let (x, y) = at(point);
                    path class="point" d={ "M" (x) " " (y) "h0" } {
                        title { (point.arm.name) ": " (figure(point.tps)) " tx/s, " (figure(point.latency)) " ms" }
                    }
                }
            }
        }
    };
    // On a wide page there is room for more names.
    let (narrow, left_out) = texts("narrow", &points, x, y, NARROW);
    let (wide, _) = texts("wide", &points, x, y, WIDE);
    let y_unit = format!("{}, ms", name(metric));
    let title = format!("transactions per second and {}", name(metric));
    let load: Vec<&str> =
        LOAD.iter().copied().filter(|load| curves.iter().any(|curve| curve.load == Some(load))).collect();
    html! {
        figure {
            (Plot { x, x_unit: "tps, tx/s", y, y_unit: &y_unit, title, drawing, texts: html! { (narrow) (wide) } }.draw("large"))
            figcaption {
                @if curves.len() > 1 {
                    @for (n, curve) in curves.iter().enumerate() {
                        span class="legend" { span class={ "swatch c" (n % COLOURS) } {} (curve.about) }
                    }
                }
                @if !load.is_empty() { "The numbers are " (load.join(", ")) ". " }
                "Right is more throughput, low is less latency."
                @if left_out > 0 { " Where points are close, some have no name; the tables have all numbers." }
            }
        }
    }
}

/// The arms that have both numbers, by group and by the factors that are not their load.
fn found<'a>(experiment: &Experiment, arms: &'a [Measured], metric: &Metric) -> Vec<Curve<'a>> {
    let has = |arm: &&Measured| ["tps", &metric.name].iter().all(|name| arm.values.contains_key(*name));
    // By the group and the factors but for the load: each arm with all of its factors.
    let kinds = groups(arms.iter().filter(has).filter_map(|arm| {
        let factors = experiment.factors(experiment.arm(&arm.name)?);
        let other: Factors = factors.iter().filter(|(name, _)| !LOAD.contains(&name.as_str())).map(owned).collect();
        Some(((arm.group.as_str(), other), (arm, factors)))
    }));
    let varies =
        |load: &str, arms: &[(&Measured, Factors)]| arms.iter().any(|(_, one)| one.get(load) != arms[0].1.get(load));
    let keys: Vec<(&str, Factors)> = kinds.iter().map(|(key, _)| key.clone()).collect();
    let mut scattered: BTreeMap<&str, Vec<Point<'_>>> = BTreeMap::new();
    let mut curves = Vec::new();
    for ((group, other), arms) in &kinds {
        let load = LOAD.iter().copied().find(|load| varies(load, arms));
        let mut points: Vec<Point<'_>> = arms.iter().map(|(arm, factors)| point(arm, factors, load, metric)).collect();
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        match load {
            None => scattered.entry(group).or_default().extend(points),
            Some(_) => curves.push(Curve { about: about(group, other, &keys), load, points }),
        }
    }
    let about = |group: &str| if group.is_empty() { "arms".to_owned() } else { group.to_owned() };
    curves.extend(scattered.into_iter().map(|(group, points)| Curve { about: about(group), load: None, points }));
    curves
}

fn point<'a>(arm: &'a Measured, factors: &Factors, load: Option<&str>, metric: &Metric) -> Point<'a> {
    let median = |name: &str| arm.values.get(name).map_or(0.0, |spread| spread.median);
    let value = load.and_then(|load| factors.get(load));
    Point {
        arm,
        text: value.unwrap_or(&arm.name).clone(),
        on_line: load.is_some(),
        load: value.and_then(|value| value.parse().ok()).unwrap_or(0.0),
        tps: median("tps"),
        latency: median(&metric.name),
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
                placed.push((side, x / pixels.0 * 100.0, y / pixels.1 * 100.0, &point.text));
            }
            None => left_out += 1,
        }
    }
    let texts = html! {
        @for (side, x, y, text) in placed {
            span class={ "at " (class) " " (side) } style={ "left:" (short(x)) "%;top:" (short(y)) "%" } { (text) }
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
        };
        let (far, near) =
            ([point(10.0, 10.0), point(50.0, 50.0)], (0..9).map(|_| point(50.0, 50.0)).collect::<Vec<_>>());
        let scale = Scale::linear([0.0, 100.0]).unwrap();
        assert_eq!(texts("", &far.iter().collect::<Vec<_>>(), scale, scale, NARROW).1, 0);
        let (texts, left_out) = texts("", &near.iter().collect::<Vec<_>>(), scale, scale, NARROW);
        assert_eq!((texts.into_string().matches("some name").count(), left_out), (4, 5));
    }
}
