//! `docs/reference/metrics.md`: what the lab can measure.

use super::commands::fill;
use super::{Page, table};
use millstream_lab::core::{Better, METRICS, Metric};

pub(super) const PAGE: Page = Page { file: "metrics.md", heading: "Metrics of the lab", text };

fn text() -> String {
    let mut page = String::new();
    fill(
        &mut page,
        "",
        "What the lab knows how to measure. An experiment names these in `metric` and `show`, and a command that is measured \
         prints them as JSON; [experiments.md](experiments.md) says how. An experiment may have metrics of its own.",
    );
    page.push('\n');
    let rows: Vec<Vec<String>> = METRICS.iter().map(row).collect();
    page + &table(&["metric", "unit", "better", "what it is"], &rows)
}

fn row(metric: &Metric) -> Vec<String> {
    let better = match metric.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    };
    let about = metric.about.trim_end_matches('.').to_owned();
    vec![format!("`{}`", metric.name), metric.unit.to_string(), better.to_owned(), about]
}
