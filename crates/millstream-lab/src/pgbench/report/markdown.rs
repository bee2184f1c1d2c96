//! A report as Markdown, for an issue or a document.

use super::super::analysis::Analysis;
use super::super::record::Record;
use super::figure::figure;
use super::{columns, groups, limiters, spread, standing};
use std::fmt::Write;

/// The report of a record as Markdown.
pub fn markdown(record: &Record, analysis: &Analysis) -> String {
    let mut text = format!("## {}: {}\n\n{}", analysis.experiment, analysis.question, standing(analysis));
    let servers: Vec<&str> = record.conditions.servers.values().map(String::as_str).collect();
    let _ = writeln!(text, " of {} s; {}\n", record.conditions.seconds, servers.join("; "));
    let columns = columns(analysis);
    for (group, arms) in groups(analysis) {
        if !group.is_empty() {
            let _ = writeln!(text, "### {group}\n");
        }
        let headings: Vec<String> = columns.iter().map(|metric| metric.name.replace('_', " ")).collect();
        let _ = writeln!(text, "| arm | {} | x first |", headings.join(" | "));
        let _ = writeln!(text, "|---|{}---:|", "---:|".repeat(columns.len()));
        for arm in arms {
            let cells = columns.iter().enumerate().map(|(n, metric)| {
                let value = arm.values.get(metric.name);
                value.map_or_else(|| "-".to_owned(), |value| if n == 0 { spread(*value) } else { figure(value.median) })
            });
            let cells: Vec<String> = cells.collect();
            let first = arm.of_first.map_or_else(|| "-".to_owned(), figure);
            let mark = arm.promise.as_ref().map(|promise| format!(" ({promise})")).unwrap_or_default();
            let _ = writeln!(text, "| {}: {}{mark} | {} | {first} |", arm.name, arm.about, cells.join(" | "));
        }
        text.push('\n');
    }
    for arm in analysis.arms.iter().filter(|arm| arm.missing.is_some()) {
        let _ = writeln!(text, "- {}: {}", arm.name, arm.missing.as_deref().unwrap_or_default());
    }
    for one in &analysis.comparisons {
        let _ = writeln!(text, "- {} / {}: {}", one.arm, one.with, one.sentence);
    }
    if let Some(noise) = &analysis.noise {
        let _ = writeln!(text, "- noise, {} against itself: {}", noise.with, noise.sentence);
    }
    for (by, arms, evidence) in limiters(analysis) {
        let _ = writeln!(text, "- limiter {}: {} ({}: {evidence})", by.name(), arms.join(", "), arms[0]);
    }
    for one in &analysis.splits {
        let _ = writeln!(text, "- {}: {} ms", one.name, spread(one.milliseconds));
    }
    if analysis.multiplicity.comparisons > 1 {
        let _ = writeln!(text, "- {}", analysis.multiplicity);
    }
    for note in &analysis.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}
