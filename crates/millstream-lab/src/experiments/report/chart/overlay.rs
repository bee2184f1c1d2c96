//! What several records do over time: a plot for each arm, a line for each record. The plots of a kind have one scale.

use super::plot::{COLOURS, Plot};
use super::scale::Scale;
use super::series::{length, line, named};
use crate::core::Series;
use crate::experiments::lineup::{Lineup, Side};
use crate::limits::{REPORT_PANELS_MAX, REPORT_POINTS_ALL_MAX, REPORT_POINTS_MAX, REPORT_POINTS_MIN};
use maud::{Markup, html};

/// What is drawn: a series, and what it is with its unit.
const DRAWN: &[(&str, &str)] = &[
    ("tps", "Transactions per second"),
    ("late", "Late transactions per second"),
    ("skipped", "Skipped transactions per second"),
    ("p99_ms", "Latency that 99 % of the transactions of a second do not exceed, in ms"),
    ("disk.data.read_mb_per_second", "Read from the disk of the data, in MB per second"),
    ("disk.data.write_mb_per_second", "Written to the disk of the data, in MB per second"),
    ("disk.wal.read_mb_per_second", "Read from the disk of the WAL, in MB per second"),
    ("disk.wal.write_mb_per_second", "Written to the disk of the WAL, in MB per second"),
    ("wal.mb_per_second", "WAL, in MB per second"),
    ("processor.busy_percent", "Time of all processors that was used, in percent"),
];

/// Fewest values of a line.
const VALUES_MIN: usize = 3;

/// The colour of the side at this place.
pub(in super::super) fn swatch(place: usize) -> Markup {
    html! { span class={ "swatch c" (place % COLOURS) } {} }
}

/// Who has which colour.
fn legend(sides: &[Side]) -> Markup {
    html! {
        p class="caption" {
            @for (n, side) in sides.iter().enumerate() { span class="legend" { (swatch(n)) (side.name) } }
        }
    }
}

/// The plots of everything that sides have recorded. Nothing if there is nothing.
pub(in super::super) fn overlays(lineup: &Lineup) -> Markup {
    let metric = lineup.first().conditions.experiment.metric.as_str();
    let arms = lineup.arms();
    // The points of a page are limited.
    let lines = DRAWN.len() * arms.len().min(REPORT_PANELS_MAX) * lineup.sides.len();
    let most = (REPORT_POINTS_ALL_MAX / lines.max(1)).clamp(REPORT_POINTS_MIN, REPORT_POINTS_MAX);
    html! {
        @for (name, about) in DRAWN {
            (kind(name, about, &panels(lineup, &arms, metric, name), &lineup.sides, most))
        }
    }
}

/// The lines of an arm, each with the place of its side.
type Panel<'a> = (&'a str, Vec<(usize, &'a Series)>);

/// The arms of which a side has such a series.
fn panels<'a>(lineup: &'a Lineup, arms: &[&'a str], metric: &str, name: &str) -> Vec<Panel<'a>> {
    let of = |arm: &&'a str| {
        let line = |(n, side): (usize, &'a Side)| {
            let series = named(side.typical(arm, metric, name)?, name)?;
            (series.values.iter().flatten().count() >= VALUES_MIN).then_some((n, series))
        };
        let lines: Vec<(usize, &Series)> = lineup.sides.iter().enumerate().filter_map(line).collect();
        (!lines.is_empty()).then_some((*arm, lines))
    };
    arms.iter().filter_map(of).take(REPORT_PANELS_MAX).collect()
}

fn kind(name: &str, about: &str, panels: &[Panel<'_>], sides: &[Side], most: usize) -> Markup {
    let all = || panels.iter().flat_map(|(_, lines)| lines).map(|(_, series)| *series);
    let axes =
        Scale::linear(all().map(length)).zip(Scale::linear(all().flat_map(|one| one.values.iter().copied().flatten())));
    let Some((x, y)) = axes else { return html! {} };
    html! {
        h3 data-series=(name) { (about) }
        (legend(sides))
        div class="panels wide" {
            @for (arm, lines) in panels {
                @let drawing = html! {
                    @for (n, series) in lines { path class={ "line c" (n % COLOURS) } d=(line(series, x, y, most)) {} }
                };
                @let title = format!("{arm}: {}", about.to_lowercase());
                figure {
                    figcaption { b { (arm) } }
                    (Plot { x, x_unit: "s", y, y_unit: "", title, drawing, texts: html! {} }.draw("small"))
                }
            }
        }
    }
}
