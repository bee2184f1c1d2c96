//! Tables and texts of the HTML page: arms, statements, conditions, how to read it, runs.

use super::super::analysis::{Analysis, Measured, SplitTime};
use super::super::record::Record;
use super::chart;
use super::figure::{figure, name, range, tick};
use super::with_first;
use crate::core::{METRICS, Metric, Run, Spread};
use crate::limits::{REPORT_PANELS_MAX, REPORT_RUNS_MAX, REPORT_STATEMENTS_MAX, REPORT_TEXT_MAX};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use millstream_host::shell_line;
use std::collections::BTreeMap;

/// The look of a page.
const STYLE: &str = include_str!("style.css");

/// A whole page.
pub(super) fn document(heading: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (heading) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (content) } }
        }
    };
    page.into_string()
}

/// Metrics of the runs' table, besides those of the arms' tables.
const OF_RUNS: &[&str] = &["checkpoints", "client_share"];

/// The arms of a group, with the median and the extremes of each metric.
pub(super) fn arms(arms: &[&Measured], columns: &[&Metric]) -> Markup {
    // On a narrow page, the columns on the left are seen without scrolling.
    let (first, rest) = columns.split_at(columns.len().min(1));
    let head = html! {
        th scope="col" { "arm" }
        @for metric in first { (column(metric)) }
        th scope="col" class="n" title="How many times the first arm of the group, or by how much more." { "vs first" }
        @for metric in rest { (column(metric)) }
        th scope="col" title="What limited most runs." { "limiter" }
        th scope="col" class="n" { "runs" }
    };
    table(head, html! { @for arm in arms { (arm_row(arm, columns)) } })
}

/// A table that can be wider than the page. Then its first column stays, and a shadow says that there is more.
pub(super) fn table(head: Markup, rows: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="table, to be scrolled sideways" {
            table { thead { tr { (head) } } tbody { (rows) } }
        }
    }
}

fn arm_row(arm: &Measured, columns: &[&Metric]) -> Markup {
    let (first, rest) = columns.split_at(columns.len().min(1));
    let value = |metric: &Metric| {
        html! {
            td class="n" {
                @match arm.values.get(metric.name.as_ref()) {
                    Some(spread) => { (figure(spread.median)) @if let Some(range) = range(*spread) { small { (range) } } },
                    None => "–",
                }
            }
        }
    };
    html! {
        tr {
            th scope="row" {
                (arm.name)
                @if let Some(promise) = &arm.promise { " " abbr class="mark" title=(promise) { "!" } }
            }
            @if let (Some(why), 0) = (&arm.missing, arm.runs) {
                td class="why" colspan=(columns.len() + 3) { (clipped(why)) }
            } @else {
                @for metric in first { (value(metric)) }
                td class="n" { (with_first(arm).unwrap_or_else(|| "–".to_owned())) }
                @for metric in rest { (value(metric)) }
                @match &arm.limited {
                    Some(limited) => { td title=(limited.evidence.join(", and ")) { (limited.by.name()) } },
                    None => { td { "–" } },
                }
                td class="n" { (arm.runs) }
            }
        }
    }
}

/// Mean times of statements, by arm. Nothing if none was measured.
pub(super) fn statements(statements: &BTreeMap<String, BTreeMap<String, f64>>) -> Markup {
    let all = statements.iter().flat_map(|(arm, own)| own.iter().map(move |(text, ms)| (arm, text, *ms)));
    let count = all.clone().count();
    let head = html! {
        th scope="col" { "arm" }
        th scope="col" class="n" { "mean" small { "ms" } }
        th scope="col" { "statement" }
    };
    let rows = html! {
        @for (arm, text, ms) in all.take(REPORT_STATEMENTS_MAX) {
            tr { th scope="row" { (arm) } td class="n" { (figure(ms)) } td { code { (clipped(text)) } } }
        }
    };
    html! {
        @if count > 0 {
            section {
                h2 { "Statements" }
                p class="caption" { "Mean time of each statement, from runs of their own: measuring it costs time." }
                // What all arms have on one screen need not be folded.
                details open[count <= STATEMENTS_OPEN_MAX] {
                    summary { (count) " statements of " (statements.len()) " arms, as bars" }
                    @for (arm, own) in statements.iter().take(REPORT_PANELS_MAX) {
                        h4 { (arm) }
                        (chart::times(&times(own, REPORT_STATEMENTS_MAX / statements.len()), "ms, mean time"))
                    }
                }
                details {
                    summary { "The same as a table" }
                    (table(head, rows))
                    (left_out(count, REPORT_STATEMENTS_MAX, "statements"))
                }
            }
        }
    }
}

/// Statements that are shown without being asked for.
const STATEMENTS_OPEN_MAX: usize = 24;

/// Most characters of a statement beside its bar. The table has more.
const STATEMENT_CHARACTERS_MAX: usize = 160;

/// The times of an arm's statements, at most so many.
fn times(own: &BTreeMap<String, f64>, most: usize) -> Vec<SplitTime> {
    let time = |(text, ms): (&String, &f64)| {
        let name = text.chars().take(STATEMENT_CHARACTERS_MAX).collect();
        SplitTime { name, milliseconds: Spread { median: *ms, min: *ms, max: *ms } }
    };
    own.iter().take(most.max(1)).map(time).collect()
}

/// Under which conditions the numbers hold.
pub(super) fn conditions(record: &Record) -> Markup {
    let Record { machine, conditions, .. } = record;
    let disk = record.disk();
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    html! {
        section {
            h2 { "Conditions" }
            dl class="conditions" {
                @for (name, version) in &conditions.servers {
                    dt { "Server" @if !name.is_empty() { " " (name) } }
                    dd { (version) }
                }
                @if !conditions.pgbench.is_empty() { dt { "Client" } dd { (conditions.pgbench) } }
                dt { "Machine" }
                dd {
                    (machine.cores) " cores, " (machine.processor.as_deref().unwrap_or("unknown processor")) ", "
                    (machine.architecture) ", " (figure(gib)) " GiB of memory"
                }
                dt { "System" } dd { (machine.kernel) }
                dt { "Disk" }
                dd {
                    (disk.file_system.as_deref().unwrap_or("unknown file system")) ", " @if disk.rotational { "rotating" } @else { "not rotating" }
                    @if let Some(us) = disk.flush_us { ", a flush takes " (figure(us)) " µs" }
                    @if !disk.holds_data {
                        " (the temporary directory" @if conditions.experiment.server { ", not the server's data" } ")"
                    }
                }
                @for (words, disk) in &conditions.slow_disks {
                    dt { "Disk " (words) } dd { (disk.sentence()) }
                }
                @if let Some(load) = machine.load_average { dt { "Load before" } dd { (figure(load)) } }
                @if conditions.experiment.has_pgbench() {
                    dt { "Data" } dd { "scale " (conditions.experiment.data.scale) }
                }
                @for (name, dial) in &conditions.experiment.values {
                    dt { "Value " (name) }
                    dd { (clipped(&dial.shown())) @if !dial.changes.is_empty() { ": " (dial.changes) } }
                }
                dt { "Runs" }
                dd {
                    (conditions.blocks) " blocks planned, "
                    @if conditions.experiment.has_pgbench() { (conditions.seconds) " s a run, " }
                    "seed " (conditions.seed)
                    @if conditions.voids + conditions.saturated > 0 { ", " (conditions.voids + conditions.saturated) " void runs repeated" }
                }
                dt { "Began" } dd { (record.date) }
                dt { "Command" } dd { code { (shell_line(&record.argv)) } }
                dt { "Millstream" }
                dd {
                    (record.version)
                    @if let Some(commit) = conditions.build.as_ref().and_then(|build| build.commit.as_ref()) {
                        ", commit " code { (commit.get(..12).unwrap_or(commit)) }
                    }
                }
            }
            @for (name, text) in &conditions.files {
                details { summary { code { (name) } } pre { (clipped(text)) } }
            }
        }
    }
}

/// What the author expected, how to read the result, and what the words mean.
pub(super) fn reading(record: &Record, analysis: &Analysis) -> Markup {
    let experiment = &record.conditions.experiment;
    let percent = tick(experiment.matters_percent);
    html! {
        section {
            h2 { "How to read it" }
            @if !experiment.expected.is_empty() { p { b { "Expected: " } (experiment.expected) } }
            @if !experiment.read.is_empty() { p { (experiment.read) } }
            ul {
                li {
                    "In a block every arm runs once, in random order. A run gives one sample; its seconds are not samples of "
                    "their own."
                }
                li {
                    "A difference is reported if the interval of the ratio, from the exact signed-rank test at "
                    (figure(100.0 * analysis.look.level)) " %, "
                    "excludes 1."
                }
                li {
                    "“No difference beyond " (percent) " %” means that the whole interval lies within what matters. "
                    "“Cannot tell” means that the blocks are too few or scatter too much."
                }
                @if analysis.noise.is_some() {
                    li {
                        "The noise floor compares an arm with itself. Do not trust an effect that is not clearly "
                        "larger."
                    }
                }
                @if analysis.arms.iter().any(|arm| arm.promise.is_some()) {
                    li { "An arm marked “not the same promise” may lose data in a crash that the others survive." }
                }
            }
        }
    }
}

/// Every run, in chronological order.
pub(super) fn runs(record: &Record, analysis: &Analysis) -> Markup {
    let has = |metric: &&Metric| record.runs.iter().any(|run| run.value(&metric.name).is_some());
    let mut columns = super::columns(analysis);
    columns.extend(METRICS.iter().filter(|metric| OF_RUNS.contains(&metric.name.as_ref())).filter(has));
    let head = html! {
        th scope="col" { "arm" }
        th scope="col" class="n" { "block" }
        th scope="col" class="n" { "turn" }
        @for metric in &columns { (column(metric)) }
    };
    let rows = html! { @for run in record.runs.iter().take(REPORT_RUNS_MAX) { (run_row(run, &columns)) } };
    html! {
        section {
            h2 { "Runs" }
            details {
                summary { (record.runs.len()) " runs" }
                (table(head, rows))
                (left_out(record.runs.len(), REPORT_RUNS_MAX, "runs"))
            }
        }
    }
}

fn run_row(run: &Run, columns: &[&Metric]) -> Markup {
    html! {
        tr {
            th scope="row" { (run.arm) }
            td class="n" { (run.block) }
            td class="n" { (run.turn) }
            @if let Some((word, why)) = run.outcome.reason() {
                td class="why" colspan=(columns.len()) { (word) ": " (clipped(why)) }
            } @else {
                @for metric in columns { td class="n" { (run.value(&metric.name).map_or_else(|| "–".to_owned(), figure)) } }
            }
        }
    }
}

/// A server's version without its build.
pub(super) fn brief(version: &str) -> &str {
    version.split(" on ").next().unwrap_or(version)
}

fn column(metric: &Metric) -> Markup {
    html! { th scope="col" class="n" title=(metric.about) { (name(metric)) @if !metric.unit.is_empty() { small { (metric.unit) } } } }
}

pub(super) fn left_out(count: usize, most: usize, what: &str) -> Markup {
    html! { @if count > most { p class="caption" { "The first " (most) " of " (count) " " (what) "; the record holds all." } } }
}

/// The beginning of a long text.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(REPORT_TEXT_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(clipped("short"), "short");
        let long = clipped(&"ü".repeat(REPORT_TEXT_MAX + 1));
        assert!(long.ends_with("ü…") && long.chars().count() == REPORT_TEXT_MAX + 1);
    }

    #[test]
    fn a_version_is_shown_without_its_build() {
        assert_eq!(brief("PostgreSQL 18.1 on x86_64-pc-linux-gnu, compiled by gcc"), "PostgreSQL 18.1");
    }
}
