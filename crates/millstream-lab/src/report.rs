//! The report of a record: medians, spreads and ratios, computed anew from the raw samples each time.

use crate::doubt::doubts;
use crate::durability::Durability;
use crate::experiment::{Comparison, Experiment};
use crate::record::Record;
use crate::sample::{Measures, Outcome, Sample, number};
use crate::spread::Spread;
use crate::subject::Subject;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result, Write};

/// Columns that the text fits.
const WIDTH: usize = 98;

const MEBIBYTE: f64 = 1_048_576.0;

/// Headings of the table; what the ratio is called depends on the experiment.
const HEADINGS: [&str; 8] = ["SUBJECT", "ROWS/S", "RECEIPT", "RATIO", "CPU", "MIB", "WAL", "SIZE"];

/// Which of them that is.
const RATIO: usize = 3;

/// What the columns mean in every experiment.
const LEGEND: &[&str] = &[
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
    /// Subjects that could not be measured, each with the reason.
    pub absent: Vec<String>,
    /// Reasons not to believe the numbers, or to read them with care.
    pub doubts: Vec<String>,
    /// What the lines are compared with.
    #[serde(skip)]
    experiment: Option<&'static Experiment>,
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
    /// One for each phase of each subject that has a good sample, with each durability.
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
    /// What commits promised.
    pub durability: Durability,
    /// Documents given.
    pub rows: u64,
    /// Good samples.
    pub samples: usize,
    /// By the wall clock of the whole subject.
    pub rows_per_second: Spread,
    /// By the subject's own account.
    pub receipt_rows_per_second: Option<Spread>,
    /// The experiment's ratio, of two samples of the same round.
    pub ratio: Option<Spread>,
    /// Seconds of the client's processors per million documents.
    pub cpu_seconds_per_million: Option<Spread>,
    /// Largest resident memory of the client's process in bytes.
    pub peak_bytes: Option<Spread>,
    /// Bytes of WAL a row, where it is PostgreSQL.
    pub wal_bytes_per_row: Option<Spread>,
    /// Bytes of table, indexes and TOAST a row, where it is PostgreSQL.
    pub table_bytes_per_row: Option<Spread>,
}

impl Report {
    /// Computes the report of a record.
    pub fn of(record: &Record) -> Self {
        let experiment = Experiment::by_name(&record.experiment);
        let sections = record.data_sets.iter().map(|data_set| {
            let samples: Vec<&Sample> = record.samples.iter().filter(|one| one.data_set == data_set.name).collect();
            Section {
                data_set: data_set.name.clone(),
                documents: data_set.documents,
                source_bytes: data_set.source_bytes(),
                lines: series(&samples, experiment)
                    .into_iter()
                    .filter_map(|series| Line::of(&samples, series, experiment))
                    .collect(),
                errors: samples.iter().filter_map(|sample| failure(sample)).collect(),
            }
        });
        Self {
            conditions: conditions(record),
            sections: sections.collect(),
            absent: record.absent.clone(),
            doubts: doubts(record),
            experiment,
        }
    }

    /// Whether a sample failed.
    pub fn has_errors(&self) -> bool {
        self.sections.iter().any(|section| !section.errors.is_empty())
    }
}

/// What the samples of a line have in common: durability, phase and subject.
type Series<'a> = (Durability, &'a str, &'a str);

/// The lines of a table. Under a yardstick a subject's phases stand together; under a leader those do that are
/// compared. Subjects stand in the order of the experiment, those that it does not have at the end.
fn series<'a>(samples: &[&'a Sample], experiment: Option<&Experiment>) -> Vec<Series<'a>> {
    let subjects = experiment.map_or(&[][..], |one| one.subjects);
    let rank = |name: &str| subjects.iter().position(|one| *one == name).unwrap_or(subjects.len());
    let mut found: Vec<Series<'_>> = Vec::new();
    let mut phases: Vec<&str> = Vec::new();
    for sample in samples {
        let series = (sample.durability, sample.phase.as_str(), sample.subject.as_str());
        if !found.contains(&series) {
            found.push(series);
        }
        if !phases.contains(&series.1) {
            phases.push(series.1);
        }
    }
    let together = matches!(experiment.map(|one| one.comparison), Some(Comparison::Leader(_)));
    let turn = |phase: &str| phases.iter().position(|one| *one == phase).filter(|_| together);
    found.sort_by_key(|(durability, phase, subject)| (*durability, turn(phase), rank(subject)));
    found
}

fn failure(sample: &Sample) -> Option<String> {
    match &sample.outcome {
        Outcome::Measured(_) => None,
        Outcome::Error(error) => {
            let Sample { subject, phase, round, .. } = sample;
            Some(format!("{subject} {phase}{}, round {round}: {error}", mark(sample.durability)))
        }
    }
}

/// What tells durabilities apart; the usual one goes without saying.
fn mark(durability: Durability) -> &'static str {
    match durability {
        Durability::Durable => "",
        Durability::Async => ", async",
    }
}

impl Line {
    /// `None` without a good sample.
    fn of(samples: &[&Sample], series: Series<'_>, experiment: Option<&Experiment>) -> Option<Self> {
        let own = || samples.iter().copied().filter(move |one| same(one, series));
        let per_row = |value: fn(&Measures) -> Option<u64>| {
            Spread::of(own().filter_map(|one| Some(number(value(one.measures()?)?) / number(one.rows))))
        };
        let some = |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(own().filter_map(value));
        let (durability, phase, subject) = series;
        Some(Self {
            subject: subject.to_owned(),
            phase: phase.to_owned(),
            durability,
            rows: own().map(|one| one.rows).next()?,
            samples: own().filter(|one| one.measures().is_some()).count(),
            rows_per_second: some(&Sample::rows_per_second)?,
            receipt_rows_per_second: some(&|one| one.measures()?.timing.receipt_number("rows_per_second")),
            ratio: some(&|one| experiment?.comparison.ratio(one, samples)),
            cpu_seconds_per_million: some(&|one| {
                Some(one.measures()?.timing.client_cpu_seconds? / number(one.rows) * 1e6)
            }),
            peak_bytes: some(&|one| one.measures()?.timing.client_peak_bytes.map(number)),
            wal_bytes_per_row: per_row(|measures| measures.wal_bytes),
            table_bytes_per_row: per_row(|measures| Some(measures.size?.total_bytes())),
        })
    }

    fn cells(&self, comparison: Option<Comparison>) -> [String; HEADINGS.len()] {
        let name = match comparison {
            Some(Comparison::Yardstick(subject)) if self.subject == subject => self.subject.clone(),
            _ => format!("{} {}{}", self.subject, self.phase, mark(self.durability)),
        };
        let cell = |spread: Option<Spread>, show: &dyn Fn(&Spread) -> String| {
            spread.map_or_else(|| "-".to_owned(), |spread| show(&spread))
        };
        [
            name,
            between(&self.rows_per_second, rate),
            cell(self.receipt_rows_per_second, &|spread| rate(spread.median)),
            cell(self.ratio, &|spread| between(spread, short)),
            cell(self.cpu_seconds_per_million, &|spread| short(spread.median)),
            cell(self.peak_bytes, &|spread| format!("{:.0}", spread.median / MEBIBYTE)),
            cell(self.wal_bytes_per_row, &|spread| format!("{:.0}", spread.median)),
            cell(self.table_bytes_per_row, &|spread| format!("{:.0}", spread.median)),
        ]
    }
}

fn same(sample: &Sample, (durability, phase, subject): Series<'_>) -> bool {
    (sample.durability, sample.phase.as_str(), sample.subject.as_str()) == (durability, phase, subject)
}

impl Comparison {
    /// Compares a sample with that of the same round and durability which its experiment compares with.
    fn ratio(self, one: &Sample, samples: &[&Sample]) -> Option<f64> {
        let rate = |subject: &str, phase: Option<&str>| {
            let alike = |other: &&&Sample| {
                (other.round, other.durability, other.subject.as_str()) == (one.round, one.durability, subject)
                    && phase.is_none_or(|phase| other.phase == phase)
            };
            samples.iter().find(alike)?.rows_per_second()
        };
        match self {
            Self::Yardstick(subject) => Some(one.rows_per_second()? / rate(subject, None)?),
            Self::Leader(subject) => Some(rate(subject, Some(&one.phase))? / one.rows_per_second()?),
        }
    }

    /// The heading of its column.
    fn heading(self) -> String {
        match self {
            Self::Yardstick(subject) => format!("OF {}", subject.to_uppercase()),
            Self::Leader(_) => "LEAD".to_owned(),
        }
    }
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
    let mut lines = vec![
        format!(
            "{} on {}: {}, {commit}{debug}; rounds: {}, connections of millstream and copy: {}",
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
    ];
    lines.extend(record.tools.values().cloned());
    lines
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for condition in &self.conditions {
            wrap(f, "", condition)?;
        }
        for section in &self.sections {
            let megabytes = number(section.source_bytes) / 1e6;
            writeln!(f, "\n{}: {} documents a wave, {megabytes:.1} MB", section.data_set, section.documents)?;
            table(f, section, self.experiment.map(|one| one.comparison))?;
            for error in &section.errors {
                wrap(f, "error: ", error)?;
            }
        }
        writeln!(f)?;
        for absent in &self.absent {
            wrap(f, "not measured: ", absent)?;
        }
        for doubt in &self.doubts {
            wrap(f, "doubt: ", doubt)?;
        }
        self.legend(f)
    }
}

impl Report {
    /// What stands in the tables: the columns, and under a leader who the others are.
    fn legend(&self, f: &mut Formatter<'_>) -> Result {
        for line in self.experiment.map_or(&[][..], |one| one.legend) {
            wrap(f, "", line)?;
        }
        for line in LEGEND {
            wrap(f, "", line)?;
        }
        let rivals = self.experiment.filter(|one| matches!(one.comparison, Comparison::Leader(_)));
        let measured = |name: &str| self.sections.iter().flat_map(|section| &section.lines).any(|l| l.subject == name);
        for subject in rivals.iter().flat_map(|one| one.subjects).filter_map(|name| Subject::by_name(name)) {
            if measured(subject.name) {
                wrap(f, &format!("{}: ", subject.name), subject.about)?;
            }
        }
        Ok(())
    }
}

fn table(f: &mut Formatter<'_>, section: &Section, comparison: Option<Comparison>) -> Result {
    let mut headings = HEADINGS.map(str::to_owned);
    if let Some(comparison) = comparison {
        headings[RATIO] = comparison.heading();
    }
    let cells = section.lines.iter().map(|line| line.cells(comparison));
    let rows: Vec<_> = std::iter::once(headings).chain(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let leader = matches!(comparison, Some(Comparison::Leader(_)));
    // Where a row of the table begins another group of what is compared.
    let begins = |at: usize| {
        let group = |line: &Line| (line.durability, line.phase.clone());
        leader && at > 1 && group(&section.lines[at - 1]) != group(&section.lines[at - 2])
    };
    for (at, row) in rows.iter().enumerate() {
        if begins(at) {
            writeln!(f)?;
        }
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

/// A number with as many decimals as fit four characters.
fn short(number: f64) -> String {
    match number {
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

    /// The fixture as a record of `rivals`: merge in the place of copy, and everything again with async commits, in
    /// which merge is ten times as fast.
    fn rivals() -> Record {
        let mut record = fixture();
        record.experiment = "rivals".to_owned();
        record.absent.push("mongoimport: it is not in PATH".to_owned());
        record.samples.retain(|one| one.phase != "changed again");
        for one in record.samples.iter_mut().filter(|one| one.subject == "copy") {
            one.subject = "merge".to_owned();
        }
        let mut more = record.samples.clone();
        for one in &mut more {
            one.durability = Durability::Async;
            if let (Outcome::Measured(measures), "merge") = (&mut one.outcome, one.subject.as_str()) {
                measures.timing.wall_seconds /= 10.0;
                measures.wal_bytes = None;
                measures.size = None;
            }
        }
        record.samples.extend(more);
        record
    }

    #[test]
    fn a_leader_is_compared_within_round_phase_and_durability() {
        let report = Report::of(&rivals());
        let lines = &report.sections[0].lines;
        let names: Vec<(&str, &str)> = lines.iter().map(|line| (line.subject.as_str(), line.phase.as_str())).collect();
        let durable = [("millstream", "fresh"), ("merge", "fresh"), ("millstream", "changed")];
        assert_eq!(names, [durable, durable].concat());
        let asynchronous: Vec<bool> = lines.iter().map(|line| line.durability == Durability::Async).collect();
        assert_eq!(asynchronous, [false, false, false, true, true, true]);
        let lead = lines[1].ratio.unwrap();
        assert!((lead.min - 0.8).abs() < 1e-9 && (lead.max - 0.9).abs() < 1e-9, "{lead:?}");
        assert!((lines[4].ratio.unwrap().median - 0.085).abs() < 1e-9, "{lines:?}");
        assert_eq!((lines[4].wal_bytes_per_row, lines[4].table_bytes_per_row), (None, None));
    }

    #[test]
    fn the_text_sets_groups_apart_and_says_who_takes_part_and_who_not() {
        let record = rivals();
        let text = Report::of(&record).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let heads = text.lines().skip_while(|line| !line.starts_with("SUBJECT")).take(9);
        let heads: Vec<&str> = heads.map(|line| line.split("  ").next().unwrap()).collect();
        let durable = ["SUBJECT", "millstream fresh", "merge fresh", "", "millstream changed", ""];
        let rest = ["millstream fresh, async", "merge fresh, async", ""];
        assert_eq!(heads, [&durable[..], &rest[..]].concat(), "{text}");
        assert!(text.contains("LEAD") && !text.contains("OF COPY"), "{text}");
        assert!(text.contains("not measured: mongoimport: it is not in PATH"), "{text}");
        assert!(text.contains("\nmerge: psql: ") && !text.contains("\nbulkwrite: "), "{text}");
        let written = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&written).unwrap(), record);
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.4, 812.0, 999.4, 999.6, 43_210.0, 99_960.0, 213_400.0, 1_500_000.0].map(rate);
        assert_eq!(rates, ["0", "812", "999", "1.0k", "43.2k", "100k", "213k", "1500k"]);
    }
}
