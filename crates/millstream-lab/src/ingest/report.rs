//! The report of a record: medians, spreads and ratios, computed from the raw samples each time.

use crate::core::{DataSet, Outcome, Record, Run, Spread, count, number};
use crate::ingest::doubt::doubts;
use crate::ingest::durability::{Durability, mark};
use crate::ingest::experiment::Experiment;
use crate::ingest::goal::{self, Reached};
use crate::ingest::line::Line;
use crate::limits::MEBIBYTE;
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
    pub(crate) definition: Option<&'static Experiment>,
    /// Name of the data set.
    pub data_set: String,
    /// Documents of a wave.
    pub documents: u64,
    /// Bytes of a wave.
    pub source_bytes: u64,
    /// One line for each phase of each subject that has a good run, with each durability and network.
    pub lines: Vec<Line>,
    /// Runs that failed.
    pub errors: Vec<String>,
}

impl Report {
    /// Computes the report of a record.
    pub fn of(record: &Record) -> Self {
        Self {
            conditions: conditions(record),
            sections: record.data_sets().iter().map(|data_set| Section::of(record, data_set)).collect(),
            goals: goal::reached(record),
            absent: record.absent.clone(),
            doubts: doubts(record),
        }
    }

    /// Whether a run failed.
    pub fn has_errors(&self) -> bool {
        self.sections.iter().any(|section| !section.errors.is_empty())
    }
}

impl Section {
    fn of(record: &Record, data_set: &DataSet) -> Self {
        let of_set = |one: &&Run| (&*one.experiment, one.data_set()) == (&*data_set.experiment, &*data_set.name);
        let runs: Vec<&Run> = record.runs.iter().filter(of_set).collect();
        let definition = Experiment::by_name(&data_set.experiment);
        let line = |series| Line::of(&runs, series, definition, data_set.document_bytes);
        Self {
            experiment: data_set.experiment.clone(),
            definition,
            data_set: data_set.name.clone(),
            documents: data_set.documents,
            source_bytes: data_set.source_bytes(),
            lines: series(&runs, definition).into_iter().filter_map(line).collect(),
            errors: runs.iter().filter_map(|run| failure(run)).collect(),
        }
    }
}

/// What the runs of a line share: durability, round trip, phase and subject.
type Series<'a> = (Durability, Option<u32>, &'a str, &'a str);

/// The lines of a table. The phases of a subject stand together; if one subject leads the others, the subjects of a
/// phase do. Subjects stand in the experiment's order; those that it does not have come last.
fn series<'a>(runs: &[&'a Run], experiment: Option<&Experiment>) -> Vec<Series<'a>> {
    let subjects = experiment.map_or(&[][..], |one| one.subjects);
    let rank = |name: &str| subjects.iter().position(|one| *one == name).unwrap_or(subjects.len());
    let mut found: Vec<Series<'_>> = Vec::new();
    let mut phases: Vec<&str> = Vec::new();
    for run in runs {
        let series = (run.durability(), run.round_trip_ms(), run.phase(), run.arm.as_str());
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

fn failure(run: &Run) -> Option<String> {
    match &run.outcome {
        Outcome::Measured(_) => None,
        Outcome::Void(why) | Outcome::Skipped(why) | Outcome::Error(why) => {
            let mark = mark(run.durability(), run.round_trip_ms());
            Some(format!("{} {}{mark}, round {}: {why}", run.arm, run.phase(), run.block))
        }
    }
}

impl Line {
    /// `None` if there is no good run.
    fn of(runs: &[&Run], series: Series<'_>, experiment: Option<&Experiment>, document_bytes: usize) -> Option<Self> {
        let own = || runs.iter().copied().filter(move |one| same(one, series));
        let some = |value: &dyn Fn(&Run) -> Option<f64>| Spread::of(own().filter_map(value));
        let metric = |name: &str| some(&|one| one.value(name));
        let per_row = |name: &str| some(&|one| one.per_row(name));
        let comparison = experiment.and_then(|one| one.comparison);
        let (durability, round_trip_ms, phase, subject) = series;
        let wal_bytes_per_row = per_row("wal_bytes");
        Some(Self {
            subject: subject.to_owned(),
            phase: phase.to_owned(),
            durability,
            round_trip_ms,
            rows: count(own().find_map(Run::rows)?),
            samples: own().filter(|one| one.measures().is_some()).count(),
            rows_per_second: some(&Run::rows_per_second)?,
            first_seconds: metric("first_seconds"),
            receipt_rows_per_second: some(&|one| one.receipt_number("rows_per_second")),
            ratio: some(&|one| comparison?.ratio(one, runs)),
            cpu_seconds_per_million: some(&|one| Some(one.per_row("client_cpu_seconds")? * 1e6)),
            server_cpu_seconds_per_million: some(&|one| Some(one.per_row("server_cpu_seconds")? * 1e6)),
            peak_bytes: metric("client_peak_bytes"),
            wal_bytes_per_row,
            wal_bytes_per_byte: wal_bytes_per_row.map(|spread| spread.over(number(document_bytes as u64))),
            page_image_bytes_per_row: per_row("page_image_bytes"),
            table_bytes_per_row: some(&Run::stored_bytes_per_row),
            autovacuums: metric("autovacuums"),
            checkpoint_seconds: metric("checkpoint_seconds"),
        })
    }
}

fn same(run: &Run, (durability, round_trip_ms, phase, subject): Series<'_>) -> bool {
    (run.durability(), run.round_trip_ms()) == (durability, round_trip_ms)
        && (run.phase(), run.arm.as_str()) == (phase, subject)
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
    let ingest = record.ingest.as_ref().map_or_else(String::new, |ingest| {
        format!("; rounds: {}, connections of millstream and copy: {}", ingest.rounds, ingest.lanes)
    });
    let mut lines = vec![
        format!("{} on {}: {}, {commit}{debug}{ingest}", record.experiments.join(", "), record.date, build.version,),
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
    use crate::core::Metric;
    use crate::core::record::tests::fixture;
    use crate::core::record_file::file_of;
    use crate::pgbench;
    use std::path::Path;

    #[test]
    fn every_kept_record_can_be_reported() {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut lines = 0;
        for home in ["fixtures", "../../lab/records"] {
            for entry in std::fs::read_dir(crate_dir.join(home)).unwrap() {
                let path = file_of(&entry.unwrap().path());
                if path.exists() && pgbench::Record::read(&path).unwrap().is_none() {
                    let record = Record::read(&path).unwrap();
                    let values = record.runs.iter().filter_map(Run::measures).flat_map(|one| one.values.keys());
                    for name in values {
                        assert!(Metric::by_name(name).is_some(), "{}: {name}", path.display());
                    }
                    let report = Report::of(&record);
                    lines += report.sections.iter().map(|section| section.lines.len()).sum::<usize>();
                    assert!(!report.to_string().is_empty() && lines > 0, "{}", path.display());
                }
            }
        }
    }

    #[test]
    fn a_record_without_such_experiments_has_only_conditions() {
        let mut record = fixture();
        (record.ingest, record.runs) = (None, Vec::new());
        let report = Report::of(&record);
        assert!(report.sections.is_empty() && report.goals.is_empty() && !report.has_errors());
        assert!(!report.conditions[0].contains("rounds"), "{report:?}");
    }

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
    fn a_failed_run_is_reported_as_an_error() {
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
        for set in &mut record.ingest.as_mut().unwrap().data_sets {
            set.experiment = "rivals".to_owned();
        }
        for one in &mut record.runs {
            one.experiment = "rivals".to_owned();
        }
        record.absent.push("mongoimport: it is not in PATH".to_owned());
        record.runs.retain(|one| one.phase() != "changed 3");
        for one in record.runs.iter_mut().filter(|one| one.arm == "copy") {
            one.arm = "merge".to_owned();
        }
        let mut more = record.runs.clone();
        for one in &mut more {
            one.factors.insert("durability".to_owned(), "async".to_owned());
            if let (Outcome::Measured(measures), "merge") = (&mut one.outcome, one.arm.as_str()) {
                *measures.values.get_mut("wall_seconds").unwrap() /= 10.0;
                measures.values.retain(|name, _| !name.ends_with("_bytes"));
            }
        }
        record.runs.extend(more);
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
