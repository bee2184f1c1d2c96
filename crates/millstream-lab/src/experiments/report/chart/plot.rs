//! A plot: two axes, a drawing between them, texts on top of it.

use super::super::figure::tick;
use super::scale::Scale;
use super::track::{label, short};
use maud::{Markup, html};
use std::fmt::Write;

/// Width of a drawing in its own units. It is stretched to the width of the page.
const WIDTH: f64 = 1_000.0;

/// Height of a drawing in its own units.
pub(super) const HEIGHT: f64 = 500.0;

/// Colours of lines that the page has.
pub(super) const COLOURS: usize = 8;

/// What a plot shows.
pub(super) struct Plot<'a> {
    /// The horizontal axis.
    pub(super) x: Scale,
    /// What it shows, with the unit.
    pub(super) x_unit: &'a str,
    /// The vertical axis.
    pub(super) y: Scale,
    /// What it shows, with the unit.
    pub(super) y_unit: &'a str,
    /// What a pointer on the drawing shows.
    pub(super) title: String,
    /// The drawing, in the units of [`Plot::at`].
    pub(super) drawing: Markup,
    /// Texts on top of the drawing.
    pub(super) texts: Markup,
}

impl Plot<'_> {
    /// Where a point stands in a drawing with these axes.
    pub(super) fn at(x: Scale, y: Scale, point: (f64, f64)) -> (f64, f64) {
        let (x, y) = (x.percent(point.0), y.percent(point.1));
        ((x / 100.0 * WIDTH).round(), ((100.0 - y) / 100.0 * HEIGHT).round())
    }

    /// The plot. `class` sets its height.
    pub(super) fn draw(&self, class: &str) -> Markup {
        let Self { x, x_unit, y, y_unit, title, drawing, texts } = self;
        let (columns, rows) = (x.ticks(), y.ticks());
        let left = columns.iter().map(|tick| short(x.percent(*tick) / 100.0 * WIDTH));
        let mut grid: String = left.map(|left| format!("M{left} 0v{HEIGHT}")).collect();
        for row in &rows {
            let _ = write!(grid, "M0 {}h{WIDTH}", short((100.0 - y.percent(*row)) / 100.0 * HEIGHT));
        }
        html! {
            div class={ "plot " (class) } {
                @if !y_unit.is_empty() { div class="over" { (y_unit) } }
                div class="side" {
                    @for row in &rows { span style={ "top:" (short(100.0 - y.percent(*row))) "%" } { (tick(*row)) } }
                }
                div class="area" {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
                        title { (title) }
                        path class="grid" d=(grid) {}
                        (drawing)
                    }
                    (texts)
                }
                div class="ticks" { @for column in &columns { (label(x.percent(*column), &tick(*column))) } }
                div class="under" { (x_unit) }
            }
        }
    }
}

/// A line through points of a drawing; `None` interrupts it.
pub(super) fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> String {
    let (mut text, mut last) = (String::new(), None);
    for point in points {
        // Differences of whole numbers are the shortest way to write a line.
        if let Some((x, y)) = point {
            let _ = match last {
                None => write!(text, "M{x} {y}h0"),
                Some((before, above)) => write!(text, "l{} {}", x - before, y - above),
            };
        }
        last = point;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_interrupts_a_line() {
        let points = [Some((0.0, 5.0)), Some((10.0, 4.0)), None, Some((30.0, 1.0))];
        assert_eq!(path(points), "M0 5h0l10 -1M30 1h0");
    }

    #[test]
    fn the_vertical_axis_points_up() {
        let scale = Scale::linear([0.0, 100.0]).unwrap();
        let (low, high) = (Plot::at(scale, scale, (0.0, 0.0)), Plot::at(scale, scale, (100.0, 100.0)));
        assert!(low == (0.0, HEIGHT) && high.0 > 900.0 && high.1 < 50.0, "{low:?} {high:?}");
    }
}
