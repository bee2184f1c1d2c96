//! Rows of a chart: a name, marks on a common scale, a value; and the axis below them.

use super::scale::Scale;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// Height of a row in units of its drawing. The width is 100 units, stretched to the width of the page.
pub(super) const HEIGHT: f64 = 24.0;

/// One row.
pub(super) struct Row {
    /// What it is about.
    pub(super) name: Markup,
    /// What a pointer on the marks shows.
    pub(super) title: String,
    /// The drawing.
    pub(super) marks: Markup,
    /// The number behind it.
    pub(super) value: Markup,
}

/// Rows on a common scale. `class` says how wide the names are. `tick` writes a value on the axis, `unit` stands below.
pub(super) fn rows(class: &str, rows: Vec<Row>, scale: Scale, tick: impl Fn(f64) -> String, unit: &str) -> Markup {
    let ticks = scale.ticks();
    let grid: String = ticks.iter().map(|tick| format!("M{} 0v{HEIGHT}", short(scale.percent(*tick)))).collect();
    html! {
        div class={ "rows " (class) } {
            @for Row { name, title, marks, value } in rows {
                div class="row" {
                    div class="name" { (name) }
                    div class="track" {
                        svg viewBox={ "0 0 100 " (HEIGHT) } preserveAspectRatio="none" role="img" {
                            title { (title) }
                            path class="grid" d=(grid) {}
                            (marks)
                        }
                    }
                    div class="value" { (value) }
                }
            }
            div class="row axis" {
                div class="name" {}
                div class="ticks" {
                    @for one in &ticks { (label(scale.percent(*one), &tick(*one))) }
                }
                div class="value" {}
            }
            div class="row unit" { div class="name" {} div { (unit) } div class="value" {} }
        }
    }
}

/// A text below an axis. At the ends it stands inside.
pub(super) fn label(percent: f64, text: &str) -> Markup {
    let class = match percent {
        at if at < 4.0 => "start",
        at if at > 96.0 => "end",
        _ => "middle",
    };
    html! { span class=(class) style={ "left:" (short(percent)) "%" } { (text) } }
}

/// Points as a path: pieces without length, which round ends make into dots.
pub(super) fn dots(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    points.into_iter().fold(String::new(), |mut path, (x, y)| {
        let _ = write!(path, "M{} {}h0", short(x), short(y));
        path
    })
}

/// A line from one place to another, at the middle of a row.
pub(super) fn line(class: &str, from: f64, to: f64) -> Markup {
    let (from, length) = (short(from), short(to - from));
    PreEscaped(format!("<path class=\"{class}\" d=\"M{from} {}h{length}\"></path>", HEIGHT / 2.0))
}

/// A coordinate with at most two decimals.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!([1.0, 0.126, -0.001, 50.5].map(short), ["1", "0.13", "0", "50.5"]);
        assert_eq!(dots([(1.0, 2.0), (3.456, 4.0)]), "M1 2h0M3.46 4h0");
    }

    #[test]
    fn a_row_is_escaped_and_stands_on_the_scale() {
        let scale = Scale::linear([0.0, 10.0]).unwrap();
        let row = Row { name: html! { "<a>" }, title: "a & b".to_owned(), marks: html! {}, value: html! {} };
        let text = rows("", vec![row], scale, |tick| tick.to_string(), "ms").into_string();
        assert!(text.contains("&lt;a&gt;") && text.contains("a &amp; b") && text.contains(">10</span>"), "{text}");
    }
}
