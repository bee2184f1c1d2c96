//! The report of a record: medians, spreads and ratios, computed anew from the raw samples each time.

use crate::doubt::doubts;
use crate::record::Record;
use crate::sample::{Measures, Outcome, Sample, number};
use crate::spread::Spread;
use crate::subject::SUBJECTS;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result, Write};

/// Columns that the text fits.
const WIDTH: usize = 98;

const MEBIBYTE: f64 = 1_048_576.0;

/// Headings of the table.
const HEADINGS: [&str; 8] = ["SUBJECT", "ROWS/S", "RECEIPT", "OF COPY", "CPU", "MIB", "WAL", "SIZE"];

const LEGEND: &[&str] = &[
    "rows/s: documents by wall clock, median (min-max). copy: connections open and data encoded before the clock \
     starts. millstream: the whole process, from start to exit.",
    "receipt: the rate that the process itself states, without its start.",
    "of copy: the rate divided by copy's in the same round, median (min-max) over the rounds.",
    "cpu: processor seconds of the client per million documents. mib: its largest resident memory. wal: bytes a row \
     that the whole server logged meanwhile. size: bytes a row of table, indexes and TOAST after the phase.",
    "Every result was verified: rows, the sum of the numbers in all documents, each under its own key.",
];

/// What a record says.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The conditions, one a line.
    pub conditions: Vec<String>,
    /// A table for each data set.
    pub sections: Vec<Section>,
    /// Reasons not to believe the numbers, or to read them with care.
    pub doubts: Vec<String>,
}

/// The results on one data set.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// Name of the data set.
    pub data_set: String,
    /// Documents of a wave.
    pub documents: u64,
    /// Bytes of a wave.
    pub source_bytes: u64,
    /// One for each phase of each subject that has a good sample.
    pub lines: Vec<Line>,
    /// Samples that failed.
    pub errors: Vec<String>,
}

/// The results of one phase of one subject.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Name of the subject.
    pub subject: String,
    /// Name of the phase.
    pub phase: String,
    /// Good samples.
    pub samples: usize,
    /// By the wall clock of the whole subject.
    pub rows_per_second: Spread,
    /// By the subject's own account.
    pub receipt_rows_per_second: Option<Spread>,
    /// Of the rate of the first subject in the same round.
    pub ratio: Option<Spread>,
    /// Seconds of the client's processors per million documents.
    pub cpu_seconds_per_million: Option<Spread>,
    /// Largest resident memory of the client's process in bytes.
    pub peak_bytes: Option<Spread>,
    /// Bytes of WAL a row.
    pub wal_bytes_per_row: Spread,
    /// Bytes of table, indexes and TOAST a row.
    pub table_bytes_per_row: Spread,
}

impl Report {
    /// Computes the report of a record.
    pub fn of(record: &Record) -> Self {
        let sections = record.data_sets.iter().map(|data_set| {
            let samples: Vec<&Sample> = record.samples.iter().filter(|one| one.data_set == data_set.name).collect();
            Section {
                data_set: data_set.name.clone(),
                documents: data_set.documents,
                source_bytes: data_set.source_bytes(),
                lines: phases(&samples)
                    .iter()
                    .filter_map(|(subject, phase)| Line::of(&samples, subject, phase))
                    .collect(),
                errors: samples.iter().filter_map(|sample| failure(sample)).collect(),
            }
        });
        Self { conditions: conditions(record), sections: sections.collect(), doubts: doubts(record) }
    }

    /// Whether a sample failed.
    pub fn has_errors(&self) -> bool {
        self.sections.iter().any(|section| !section.errors.is_empty())
    }
}

/// Subjects and phases in the order in which they are listed in the program, then those it does not know.
fn phases<'a>(samples: &[&'a Sample]) -> Vec<(&'a str, &'a str)> {
    let rank = |name: &str| SUBJECTS.iter().position(|one| one.name == name).unwrap_or(SUBJECTS.len());
    let mut found: Vec<(&str, &str)> = Vec::new();
    for sample in samples {
        let pair = (sample.subject.as_str(), sample.phase.as_str());
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    found.sort_by_key(|(subject, _)| rank(subject));
    found
}

fn failure(sample: &Sample) -> Option<String> {
    match &sample.outcome {
        Outcome::Measured(_) => None,
        Outcome::Error(error) => Some(format!("{} {}, round {}: {error}", sample.subject, sample.phase, sample.round)),
    }
}

impl Line {
    /// `None` without a good sample.
    fn of(samples: &[&Sample], subject: &str, phase: &str) -> Option<Self> {
        let own = || samples.iter().copied().filter(move |one| one.subject == subject && one.phase == phase);
        let per_row = |value: fn(&Measures) -> u64| {
            Spread::of(own().filter_map(|one| Some(number(value(one.measures()?)) / number(one.rows))))
        };
        let some = |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(own().filter_map(value));
        Some(Self {
            subject: subject.to_owned(),
            phase: phase.to_owned(),
            samples: own().filter(|one| one.measures().is_some()).count(),
            rows_per_second: some(&Sample::rows_per_second)?,
            receipt_rows_per_second: some(&|one| one.measures()?.timing.receipt_number("rows_per_second")),
            ratio: some(&|one| Some(one.rows_per_second()? / yardstick(samples, one.round)?)),
            cpu_seconds_per_million: some(&|one| {
                Some(one.measures()?.timing.client_cpu_seconds? / number(one.rows) * 1e6)
            }),
            peak_bytes: some(&|one| one.measures()?.timing.client_peak_bytes.map(number)),
            wal_bytes_per_row: per_row(|measures| measures.wal_bytes)?,
            table_bytes_per_row: per_row(|measures| measures.size.total_bytes())?,
        })
    }

    fn cells(&self) -> [String; HEADINGS.len()] {
        let name = match self.subject == SUBJECTS[0].name {
            true => self.subject.clone(),
            false => format!("{} {}", self.subject, self.phase),
        };
        let dash = || "-".to_owned();
        [
            name,
            between(&self.rows_per_second, rate),
            self.receipt_rows_per_second.map_or_else(dash, |spread| rate(spread.median)),
            self.ratio.map_or_else(dash, |spread| between(&spread, |ratio| format!("{ratio:.2}"))),
            self.cpu_seconds_per_million.map_or_else(dash, |spread| seconds(spread.median)),
            self.peak_bytes.map_or_else(dash, |spread| format!("{:.0}", spread.median / MEBIBYTE)),
            format!("{:.0}", self.wal_bytes_per_row.median),
            format!("{:.0}", self.table_bytes_per_row.median),
        ]
    }
}

/// The rate of the first subject in a round.
fn yardstick(samples: &[&Sample], round: u32) -> Option<f64> {
    samples.iter().find(|one| one.round == round && one.subject == SUBJECTS[0].name)?.rows_per_second()
}

fn conditions(record: &Record) -> Vec<String> {
    let (build, machine, server) = (&record.build, &record.machine, &record.server);
    let commit = match (&build.commit, build.dirty) {
        (Some(commit), Some(true)) => format!("commit {} and changes", &commit[..commit.floor_char_boundary(12)]),
        (Some(commit), _) => format!("commit {}", &commit[..commit.floor_char_boundary(12)]),
        (None, _) => "commit unknown".to_owned(),
    };
    let debug = if build.debug == Some(true) { ", debug build" } else { "" };
    let flush = machine.disk.flush_us.map_or_else(|| "unknown".to_owned(), |us| format!("{us:.0} us"));
    let durability: Vec<String> = server.durability.iter().map(|(name, value)| format!("{name} {value}")).collect();
    vec![
        format!(
            "{} on {}: {}, {commit}{debug}; rounds: {}, connections of each subject: {}",
            record.experiment, record.date, build.version, record.rounds, record.lanes
        ),
        format!(
            "{} cores{}, {:.1} GiB, {}; disk {}, fdatasync {flush}",
            machine.cores,
            machine.processor.as_ref().map(|name| format!(" ({name})")).unwrap_or_default(),
            number(machine.memory_bytes) / MEBIBYTE / 1024.0,
            machine.kernel,
            machine.disk.file_system.as_deref().unwrap_or("unknown"),
        ),
        format!("{}; {}", server.version, durability.join(", ")),
    ]
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for condition in &self.conditions {
            wrap(f, "", condition)?;
        }
        for section in &self.sections {
            let megabytes = number(section.source_bytes) / 1e6;
            writeln!(f, "\n{}: {} documents a wave, {megabytes:.1} MB", section.data_set, section.documents)?;
            table(f, &section.lines)?;
            for error in &section.errors {
                wrap(f, "error: ", error)?;
            }
        }
        writeln!(f)?;
        for doubt in &self.doubts {
            wrap(f, "doubt: ", doubt)?;
        }
        for line in LEGEND {
            wrap(f, "", line)?;
        }
        Ok(())
    }
}

fn table(f: &mut Formatter<'_>, lines: &[Line]) -> Result {
    let rows: Vec<_> = std::iter::once(HEADINGS.map(str::to_owned)).chain(lines.iter().map(Line::cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            write!(line, "  {cell:>width$}", width = width(column))?;
        }
        writeln!(f, "{line}")?;
    }
    Ok(())
}

/// Writes a text in lines of at most [`WIDTH`] characters, all but the first indented.
fn wrap(f: &mut Formatter<'_>, mark: &str, text: &str) -> Result {
    let mut line = mark.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(f, "{line}")?;
            line = "  ".to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(f, "{line}")
}

/// `MEDIAN (MIN-MAX)`.
fn between(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({}-{})", show(spread.median), show(spread.min), show(spread.max))
}

/// Seconds with as many decimals as fit four characters.
fn seconds(seconds: f64) -> String {
    match seconds {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

/// A rate with three digits: `812`, `43.2k`, `213k`.
fn rate(rows_per_second: f64) -> String {
    match rows_per_second {
        small if small < 999.5 => format!("{small:.0}"),
        middle if middle < 99_950.0 => format!("{:.1}k", middle / 1e3),
        large => format!("{:.0}k", large / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::fixture;

    #[test]
    fn ratios_are_of_pairs_within_a_round() {
        let report = Report::of(&fixture());
        let lines = &report.sections[0].lines;
        let names: Vec<&str> = lines.iter().map(|line| line.phase.as_str()).collect();
        assert_eq!(names, ["fresh", "fresh", "changed", "changed again"]);
        // COPY makes 200k and 100k rows a second, Millstream 160k and 90k on new keys. The ratio of the medians
        // would be 0.83.
        assert_eq!(lines[0].ratio, Some(Spread { median: 1.0, min: 1.0, max: 1.0 }));
        let ratio = lines[1].ratio.unwrap();
        assert!((ratio.min - 0.8).abs() < 1e-9 && (ratio.max - 0.9).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.median - 0.85).abs() < 1e-9, "{ratio:?}");
        assert!((lines[1].cpu_seconds_per_million.unwrap().median - 0.8).abs() < 1e-9);
        assert_eq!(lines[1].receipt_rows_per_second.unwrap().max, 170_000.0);
    }

    #[test]
    fn a_failed_sample_is_an_error_and_no_number() {
        let report = Report::of(&fixture());
        assert_eq!(report.sections[0].lines[3].samples, 1);
        assert!(report.has_errors());
        let errors = &report.sections[0].errors;
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0], "millstream changed again, round 2: wrong result: 99999 rows instead of 100000");
        assert!(report.sections[1].lines[0].ratio.is_none(), "no COPY in that round");
    }

    #[test]
    fn the_text_is_a_plain_table_that_fits_a_terminal() {
        let text = Report::of(&fixture()).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let line = text.lines().find(|line| line.starts_with("millstream fresh")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        let expected =
            ["millstream", "fresh", "125k", "(90.0k-160k)", "132k", "0.85", "(0.80-0.90)", "0.80", "40", "400", "250"];
        assert_eq!(cells, expected);
        assert!(text.contains("error: millstream changed again, round 2"), "{text}");
        assert!(text.contains("doubt: "), "{text}");
        assert!(text.contains("fdatasync 46 us") && text.contains("commit 0123456789ab and changes"), "{text}");
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.4, 812.0, 999.4, 999.6, 43_210.0, 99_960.0, 213_400.0, 1_500_000.0].map(rate);
        assert_eq!(rates, ["0", "812", "999", "1.0k", "43.2k", "100k", "213k", "1500k"]);
    }
}
