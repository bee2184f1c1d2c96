//! Percentiles of the latency: a line for each arm from the median to the 99.9th.

use super::super::figure::{figure, tick};
use super::scale::Scale;
use super::track::{self, HEIGHT, Row};
use crate::experiments::analysis::Measured;
use maud::{Markup, html};

/// The percentiles that are drawn, and how each is marked.
const DRAWN: &[(&str, &str, &str)] = &[
    ("p50_ms", "p50", "p50"),
    ("p90_ms", "p90", "p9x"),
    ("p95_ms", "p95", "p9x"),
    ("p99_ms", "p99", "p99"),
    ("p999_ms", "p99.9", "p999"),
];

/// The percentiles of a group's arms, each the median of its blocks. Nothing if there are none.
pub(in super::super) fn percentiles(arms: &[&Measured]) -> Markup {
    let of = |arm: &Measured, name: &str| arm.values.get(name).map(|spread| spread.median).filter(|ms| *ms > 0.0);
    let has: Vec<&Measured> = arms.iter().copied().filter(|arm| of(arm, "p50_ms").is_some()).collect();
    let all = has.iter().flat_map(|arm| DRAWN.iter().filter_map(|(name, ..)| of(arm, name)));
    let Some(scale) = Scale::logarithmic(all) else { return html! {} };
    let row = |arm: &&Measured| {
        let found: Vec<(&str, &str, f64)> =
            DRAWN.iter().filter_map(|(name, shown, class)| Some((*shown, *class, of(arm, name)?))).collect();
        let ends = found.first().zip(found.last()).map(|(from, to)| (scale.percent(from.2), scale.percent(to.2)));
        let said: Vec<String> = found.iter().map(|(shown, _, ms)| format!("{shown} {}", figure(*ms))).collect();
        Row {
            name: html! { b { (arm.name) } },
            title: format!("{}: {} ms", arm.name, said.join(", ")),
            marks: html! {
                @if let Some((from, to)) = ends { (track::line("reach", from, to)) }
                @for (_, class, ms) in &found { path class=(class) d=(track::dots([(scale.percent(*ms), HEIGHT / 2.0)])) {} }
            },
            value: html! { (of(arm, "p50_ms").map(figure).unwrap_or_default()) small { (of(arm, "p99_ms").map(figure).unwrap_or_default()) } },
        }
    };
    html! {
        figure {
            (track::rows("percentiles inline", has.iter().map(row).collect(), scale, tick, "latency, ms; logarithmic scale"))
            figcaption {
                "From left to right: " span class="key p50" {} " p50, " span class="key p9x" {} " p90 and p95, "
                span class="key p99" {} " p99, " span class="key p999" {} " p99.9. Each is the median of the blocks. "
                "The numbers are p50 and, smaller, p99."
            }
        }
    }
}
