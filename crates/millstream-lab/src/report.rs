//! The report of a record: medians, spreads and ratios, computed from the raw samples each time.

use crate::data_set::DataSet;
use crate::doubt::doubts;
use crate::durability::{Durability, mark};
use crate::experiment::Experiment;
use crate::goal::{self, Reached};
use crate::limits::MEBIBYTE;
use crate::line::Line;
use crate::record::Record;
use crate::sample::{Measures, Outcome, Sample, number};
use crate::spread::Spread;
use serde::Serialize;

/// The contents of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The conditions, one per line.
    pub conditions: Vec<String>,
    /// A table for each data set of each experiment.
    pub sections: Vec<Section>,
    /// The project's goals that this record measured, and what was reached.
    pub goals: Vec<Reached>,
    /// Subjects that could not be measured, each with the reason.
    pub absent: Vec<String>,
    /// Reasons to mistrust the numbers.
    pub doubts: Vec<String>,
}

/// The results of one experiment on one data set.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// Name of the experiment.
    pub experiment: String,
    /// The experiment, if this version knows it.
    #[serde(skip)]
    pub(crate) asked: Option<&'static Experiment>,
    /// Name of the data set.
    pub data_set: String,
    /// Documents of a wave.
    pub documents: u64,
    /// Bytes of a wave.
    pub source_bytes: u64,
    /// One line for each phase of each subject that has a good sample, with each durability and network.
    pub lines: Vec<Line>,
    /// Samples that failed.
    pub errors: Vec<String>,
}

impl Report {
    /// Computes the report of a record.
    pub fn of(record: &Record) -> Self {
        Self {
            conditions: conditions(record),
            sections: record.data_sets.iter().map(|data_set| Section::of(record, data_set)).collect(),
            goals: goal::reached(record),
            absent: record.absent.clone(),
            doubts: doubts(record),
        }
    }

    /// Whether a sample failed.
    pub fn has_errors(&self) -> bool {
        self.sections.iter().any(|section| !section.errors.is_empty())
    }
}

impl Section {
    fn of(record: &Record, data_set: &DataSet) -> Self {
        let of_set = |one: &&Sample| (&one.experiment, &one.data_set) == (&data_set.experiment, &data_set.name);
        let samples: Vec<&Sample> = record.samples.iter().filter(of_set).collect();
        let asked = Experiment::by_name(&data_set.experiment);
        let line = |series| Line::of(&samples, series, asked, data_set.document_bytes);
        Self {
            experiment: data_set.experiment.clone(),
            asked,
            data_set: data_set.name.clone(),
            documents: data_set.documents,
            source_bytes: data_set.source_bytes(),
            lines: series(&samples, asked).into_iter().filter_map(line).collect(),
            errors: samples.iter().filter_map(|sample| failure(sample)).collect(),
        }
    }
}

/// What the samples of a line share: durability, round trip, phase and subject.
type Series<'a> = (Durability, Option<u32>, &'a str, &'a str);

/// The lines of a table. The phases of a subject stand together; if one subject leads the others, the subjects of a
/// phase do. Subjects stand in the experiment's order; those that it does not have come last.
fn series<'a>(samples: &[&'a Sample], experiment: Option<&Experiment>) -> Vec<Series<'a>> {
    let subjects = experiment.map_or(&[][..], |one| one.subjects);
    let rank = |name: &str| subjects.iter().position(|one| *one == name).unwrap_or(subjects.len());
    let mut found: Vec<Series<'_>> = Vec::new();
    let mut phases: Vec<&str> = Vec::new();
    for sample in samples {
        let series = (sample.durability, sample.round_trip_ms, sample.phase.as_str(), sample.subject.as_str());
        if !found.contains(&series) {
            found.push(series);
        }
        if !phases.contains(&series.2) {
            phases.push(series.2);
        }
    }
    let together = experiment.is_some_and(Experiment::has_leader);
    let turn = |phase: &str| phases.iter().position(|one| *one == phase).filter(|_| together);
    found.sort_by_key(|(durability, round_trip_ms, phase, subject)| {
        (*durability, *round_trip_ms, turn(phase), rank(subject))
    });
    found
}

fn failure(sample: &Sample) -> Option<String> {
    match &sample.outcome {
        Outcome::Measured(_) => None,
        Outcome::Error(error) => {
            let Sample { subject, phase, round, .. } = sample;
            let mark = mark(sample.durability, sample.round_trip_ms);
            Some(format!("{subject} {phase}{mark}, round {round}: {error}"))
        }
    }
}

impl Line {
    /// `None` if there is no good sample.
    fn of(
        samples: &[&Sample],
        series: Series<'_>,
        experiment: Option<&Experiment>,
        document_bytes: usize,
    ) -> Option<Self> {
        let own = || samples.iter().copied().filter(move |one| same(one, series));
        let some = |value: &dyn Fn(&Sample) -> Option<f64>| Spread::of(own().filter_map(value));
        let per = |rows: fn(&Sample) -> u64, value: fn(&Measures) -> Option<u64>| {
            some(&|one| Some(number(value(one.measures()?)?) / number(rows(one))))
        };
        let documents: fn(&Sample) -> u64 = |one| one.rows;
        let comparison = experiment.and_then(|one| one.comparison);
        let (durability, round_trip_ms, phase, subject) = series;
        let wal_bytes_per_row = per(documents, |measures| measures.wal_bytes);
        Some(Self {
            subject: subject.to_owned(),
            phase: phase.to_owned(),
            durability,
            round_trip_ms,
            rows: own().map(|one| one.rows).next()?,
            samples: own().filter(|one| one.measures().is_some()).count(),
            rows_per_second: some(&Sample::rows_per_second)?,
            first_seconds: some(&|one| one.measures()?.timing.first_seconds),
            receipt_rows_per_second: some(&|one| one.measures()?.timing.receipt_number("rows_per_second")),
            ratio: some(&|one| comparison?.ratio(one, samples)),
            cpu_seconds_per_million: some(&|one| {
                Some(one.measures()?.timing.client_cpu_seconds? / number(one.rows) * 1e6)
            }),
            peak_bytes: some(&|one| one.measures()?.timing.client_peak_bytes.map(number)),
            wal_bytes_per_row,
            wal_bytes_per_byte: wal_bytes_per_row.map(|spread| spread.over(number(document_bytes as u64))),
            page_image_bytes_per_row: per(documents, |measures| measures.page_image_bytes),
            table_bytes_per_row: per(Sample::stored, |measures| Some(measures.size?.total_bytes())),
            autovacuums: some(&|one| one.measures()?.autovacuums.map(number)),
            checkpoint_seconds: some(&|one| one.measures()?.checkpoint_seconds),
        })
    }
}

fn same(sample: &Sample, (durability, round_trip_ms, phase, subject): Series<'_>) -> bool {
    (sample.durability, sample.round_trip_ms) == (durability, round_trip_ms)
        && (sample.phase.as_str(), sample.subject.as_str()) == (phase, subject)
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
            record.experiments.join(", "),
            record.date,
            build.version,
            record.rounds,
            record.lanes
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::tests::fixture;

    #[test]
    fn ratios_are_of_pairs_within_a_round() {
        let report = Report::of(&fixture());
        let lines = &report.sections[0].lines;
        let names: Vec<&str> = lines.iter().map(|line| line.phase.as_str()).collect();
        assert_eq!(names, ["fresh", "fresh", "changed", "changed 3"]);
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
    fn a_failed_sample_is_reported_as_an_error() {
        let report = Report::of(&fixture());
        assert_eq!(report.sections[0].lines[3].samples, 1);
        assert!(report.has_errors());
        let errors = &report.sections[0].errors;
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0], "millstream changed 3, round 2: wrong result: 99999 rows instead of 100000");
        assert!(report.sections[1].lines[0].ratio.is_none(), "no COPY in that round");
    }

    /// The fixture as a record of `rivals`: merge in the place of copy, and everything again with async commits, in
    /// which merge is ten times as fast.
    pub(crate) fn rivals() -> Record {
        let mut record = fixture();
        record.experiments = vec!["rivals".to_owned()];
        for set in &mut record.data_sets {
            set.experiment = "rivals".to_owned();
        }
        for one in &mut record.samples {
            one.experiment = "rivals".to_owned();
        }
        record.absent.push("mongoimport: it is not in PATH".to_owned());
        record.samples.retain(|one| one.phase != "changed 3");
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
}
