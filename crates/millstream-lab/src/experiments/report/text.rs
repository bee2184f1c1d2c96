//! A report as text for a terminal.

use super::super::analysis::{Analysis, Look, Measured};
use super::super::record::Record;
use super::article::Repeated;
use super::figure::figure;
use super::undecided::Sorted;
use super::{
    cell, client_counts, columns, dials, groups, in_common, length, limiters, noise, nothing_compared, plain_name,
    planted, promises, shown_verdicts, spread, standing, verdicts, with_first,
};
use crate::core::Metric;

/// Width of the text in characters.
const WIDTH: usize = 80;

/// The report of a record, at most 80 characters wide.
pub fn text(record: &Record, analysis: &Analysis) -> String {
    let mut text = Text::default();
    let conditions = &record.conditions;
    text.line("", &format!("{}: {}", analysis.experiment, analysis.question));
    text.line("", &format!("{}{}, seed {}", standing(analysis), length(record), conditions.seed));
    for (name, version) in &conditions.servers {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        text.line("", &format!("{name}{version}"));
    }
    let machine = &record.machine;
    let processor = machine.processor.as_deref().unwrap_or("unknown processor");
    let pgbench = if conditions.pgbench.is_empty() { String::new() } else { format!("{}; ", conditions.pgbench) };
    text.line("", &format!("{pgbench}{} cores ({processor}), {}", machine.cores, machine.kernel));
    for (words, disk) in &conditions.slow_disks {
        text.line("", &format!("disk {words}: {}", disk.sentence()));
    }
    for (label, said) in [("all arms", in_common(&analysis.common)), ("values", dials(analysis))] {
        said.into_iter().for_each(|said| text.line("", &format!("{label}: {said}")));
    }
    for (group, arms) in groups(analysis) {
        text.raw("");
        if !group.is_empty() {
            text.raw(group);
        }
        text.table(&rows(analysis, &arms));
    }
    text.section("", analysis.missing());
    let limiters = limiters(analysis)
        .into_iter()
        .map(|(by, arms, evidence)| format!("{}: {}; {}: {evidence}", by.name(), arms.join(", "), arms[0]));
    text.section("What limits, by two signs that agree:", limiters);
    text.section("Planted limiters, and whether they were named:", planted(analysis));
    let promises = promises(analysis).into_iter().map(|(promise, arms)| format!("! {}: {promise}", arms.join(", ")));
    text.section("Not the same promise:", promises);
    text.section("", analysis.no_verdicts.iter().map(|why| format!("No verdicts: {why}.")));
    text.section("", nothing_compared(record, analysis).map(|why| format!("Nothing is compared: {why}.")));
    if let Some(repeated) = Repeated::of(record, analysis) {
        text.section("What the article concluded, and today's figures:", repeated.conclusions());
        text.section("The table of the article:", repeated.lines());
    }
    text.section("Verdicts:", Sorted::of(verdicts(analysis)).lines());
    text.section("Verdicts by the other metrics that are shown:", shown_verdicts(analysis, plain_name));
    let noise = noise(analysis).map(|one| format!("{} against itself: {}", one.with, one.sentence));
    text.section("Noise:", noise);
    text.section("How many clients:", client_counts(analysis).iter().map(ToString::to_string));
    let splits = analysis.splits.iter().map(|one| format!("{}: {} ms", one.name, spread(one.milliseconds)));
    text.section("Where the time goes:", splits);
    if let (Look { number: number @ 2.., level }, None) = (analysis.look, &analysis.no_verdicts) {
        text.section("", [format!("look {number} at this result: verdicts are at {} %", figure(100.0 * level))]);
    }
    if analysis.multiplicity.comparisons > 1 {
        text.section("", [analysis.multiplicity.to_string()]);
    }
    text.section("", analysis.notes.iter().map(|note| format!("note: {note}")));
    let said = [("expected", &conditions.experiment.expected), ("how to read it", &conditions.experiment.read)];
    let said = said.into_iter().filter(|(_, text)| !text.is_empty());
    text.section("", said.map(|(label, text)| format!("{label}: {text}")));
    text.0
}

fn rows(analysis: &Analysis, arms: &[&Measured]) -> Vec<Vec<String>> {
    let columns = columns(analysis);
    let of_first = |count: usize| rows_of(&columns[..count], arms);
    let fits = |rows: &Vec<Vec<String>>| widths(rows).iter().map(|width| width + 2).sum::<usize>() <= WIDTH + 2;
    (1..=columns.len()).rev().map(of_first).find(fits).unwrap_or_else(|| of_first(columns.len()))
}

/// Width of each column of a table in characters.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    (0..count).map(|column| width(column).unwrap_or(0)).collect()
}

fn rows_of(shown: &[&Metric], arms: &[&Measured]) -> Vec<Vec<String>> {
    let heading = |metric: &&Metric| metric.name.replace('_', " ").to_uppercase();
    let mut rows =
        vec![[vec!["ARM".to_owned()], shown.iter().map(heading).collect(), vec!["VS FIRST".to_owned()]].concat()];
    for arm in arms {
        let mark = if arm.promise.is_some() { " !" } else { "" };
        let mut row = vec![format!("{}{mark}", arm.name)];
        row.extend(shown.iter().enumerate().map(|column| cell(arm, column)));
        row.push(with_first(arm).unwrap_or_else(|| "-".to_owned()));
        rows.push(row);
    }
    rows
}

/// Text that grows line by line.
#[derive(Default)]
struct Text(String);

impl Text {
    fn raw(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    /// A line, broken between words; what follows the first is indented.
    fn line(&mut self, indent: &str, line: &str) {
        let mut current = indent.to_owned();
        for word in line.split_whitespace() {
            if current.chars().count() + 1 + word.chars().count() > WIDTH && !current.trim().is_empty() {
                self.raw(&current);
                current = format!("{indent}  ");
            }
            if !current.ends_with(' ') && !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        self.raw(&current);
    }

    fn section(&mut self, title: &str, lines: impl IntoIterator<Item = String>) {
        let lines: Vec<String> = lines.into_iter().collect();
        if lines.is_empty() {
            return;
        }
        self.raw("");
        if !title.is_empty() {
            self.raw(title);
        }
        for line in lines {
            self.line(if title.is_empty() { "" } else { "  " }, &line);
        }
    }

    fn table(&mut self, rows: &[Vec<String>]) {
        let widths = widths(rows);
        for row in rows {
            let cell = |(column, cell): (usize, &String)| match column {
                0 => format!("{cell:<0$}", widths[0]),
                _ => format!("  {cell:>0$}", widths[column]),
            };
            self.raw(&row.iter().enumerate().map(cell).collect::<String>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::super::{csv, html, markdown};
    use super::*;
    use crate::core::record_file::file_of;
    use crate::experiments::MeasuredDisk;
    use std::path::Path;

    #[test]
    fn every_form_says_what_made_a_disk_slow_and_how_slow_it_was() {
        let mut record = record(2, 8, 5);
        let disk = MeasuredDisk {
            way: "a device over a file".to_owned(),
            file_system: "ext4".to_owned(),
            asked_flush_ms: 8.0,
            flush_ms: Some(8.4),
        };
        record.conditions.slow_disks.insert("hdd".to_owned(), disk);
        let analysis = Analysis::of(&record);
        let said = "hdd: a device over a file, with ext4; a flush took 8.40 ms, 5 % more than the 8.00 ms asked for";
        let text = text(&record, &analysis);
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{text}");
        let marked = markdown(&record, &analysis);
        assert!(marked.contains("asked for"), "{marked}");
        assert!(html(&record, &analysis).contains("5 % more than the 8.00 ms asked for"));
        let kept: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(kept.conditions.slow_disks, record.conditions.slow_disks);
    }

    #[test]
    fn every_kept_record_can_be_reported_in_every_form() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/records");
        let mut count = 0;
        for entry in std::fs::read_dir(home).unwrap() {
            let path = file_of(&entry.unwrap().path());
            let Some(record) = path.exists().then(|| Record::read(&path).unwrap()) else { continue };
            let values = record.runs.iter().filter_map(|run| run.measures()).flat_map(|one| one.values.keys());
            for name in values {
                let known = record.conditions.experiment.metrics().any(|metric| metric.name == name.as_str());
                assert!(known, "{}: {name}", path.display());
            }
            let analysis = Analysis::of(&record);
            let text = text(&record, &analysis);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{}", path.display());
            assert!(!markdown(&record, &analysis).is_empty() && !csv(&record).is_empty());
            assert!(html(&record, &analysis).len() < 2_000_000);
            count += 1;
        }
        assert!(count > 0);
    }
}
