//! The course of a run, the same for every experiment: conditions, data, and rounds in which subjects take turns.

use super::{Experiment, Finished, Plan, Progress};
use crate::core::{
    Build, DataSet, FORMAT, IngestConditions, Machine, Outcome, Proxy, Record, Run, Server, ServerCpu, data_directory,
    record_file,
};
use crate::error::Error;
use crate::ingest::bench::Bench;
use crate::ingest::bench::TABLE;
use crate::ingest::durability::Durability;
use crate::ingest::durability::mark;
use crate::ingest::shared_table;
use crate::ingest::stream::{Expected, Ledger, Stream};
use crate::ingest::subject::{Prepared, Subject, Trait, Trial};
use crate::ingest::tool::Tools;
use crate::limits::{DOCUMENTS_SLOW_MAX, SAMPLE_DOCUMENTS};
use millstream_host::disk_free_bytes;
use millstream_model::words::{option, set};
use millstream_pg::{Connection, quote_identifier};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An experiment and its subjects.
type Part = (&'static Experiment, Vec<&'static Subject>);

/// What is measured, and the programs that it needs.
struct Selection {
    parts: Vec<Part>,
    tools: Tools,
    /// Subjects that are not measured, each with the reason.
    absent: Vec<String>,
}

/// A turn of a round: a subject, a durability, and a round trip in milliseconds.
type Turn = (&'static Subject, Durability, Option<u32>);

pub(super) async fn run(
    experiments: &[&'static Experiment],
    plan: &Plan,
    bench: &Bench,
    progress: &mut Progress<'_>,
) -> Result<Finished, Error> {
    let selection = select(experiments, plan, bench, progress).await?;
    let control = bench.connect().await?;
    control.require_writable()?;
    let schema = quote_identifier(&bench.schema);
    control.client.batch_execute(&format!("create schema {schema}")).await?;
    let mut record = begin(plan, bench, &selection, &control).await?;
    let dir = record_file::new_dir(plan.out.as_deref(), &record.date, &record.machine.slug())?;
    let definition = record.ingest.as_ref().map(|ingest| ingest.table.clone()).unwrap_or_default();
    let server_cpu = if record.server.local { ServerCpu::find(&control.client).await } else { None };
    for (experiment, subjects) in &selection.parts {
        let rounds = experiment.rounds(plan.rounds);
        for data_set in plan.data_sets(experiment) {
            let shared = subjects.iter().all(|subject| subject.only_reads());
            let task = if shared { "making a table" } else { "writing documents" };
            progress(&format!("{} {}: {task} of {} keys", experiment.name, data_set.name, data_set.documents));
            let prepared = match shared {
                true => make_tables(data_set, experiment, bench, &control).await?,
                false => prepare(data_set, experiment, subjects, plan.lanes, bench.dir.path())?,
            };
            for round in 1..=rounds {
                let trial = Trial {
                    experiment: experiment.name,
                    phases: experiment.phases,
                    page_images: experiment.page_images,
                    bench,
                    control: &control,
                    prepared: &prepared,
                    tools: &selection.tools,
                    durability: Durability::default(),
                    proxy: None,
                    round_trip_ms: None,
                    lanes: plan.lanes,
                    round,
                    checkpoints: record.server.checkpoints,
                    definition: &definition,
                    server_cpu: server_cpu.as_ref(),
                };
                let runs = one_round(trial, experiment, subjects, rounds, progress).await?;
                record.runs.extend(runs);
                // Write after every round, so that an abandoned or killed run keeps what it has measured.
                record.write(&dir)?;
            }
            if shared {
                shared_table::remove(bench, &control, experiment.phases).await?;
            } else {
                remove(&prepared)?;
            }
        }
    }
    control.close().await;
    let path = record.write(&dir)?;
    Ok(Finished { record, path })
}

/// Decides what is measured, before the run begins. A subject that cannot be measured is an error, except for those
/// that need a rare installation.
async fn select(
    experiments: &[&'static Experiment],
    plan: &Plan,
    bench: &Bench,
    progress: &mut Progress<'_>,
) -> Result<Selection, Error> {
    check_subjects(experiments, &plan.subjects)?;
    let mut selection = Selection { parts: Vec::new(), tools: Tools::default(), absent: Vec::new() };
    for experiment in experiments {
        let mut subjects = Vec::new();
        for subject in experiment.chosen(&plan.subjects) {
            if subject.is_mongo() && bench.ground.mongo_uri.is_none() {
                if plan.subjects.is_empty() {
                    continue;
                }
                let by = option("mongo-uri");
                return Err(Error::Asked(format!("{} needs a MongoDB, named by {by}", subject.name)));
            }
            match tools(subject, &mut selection.tools, bench, progress).await {
                Ok(()) => subjects.push(subject),
                Err(error @ Error::Missing { .. }) if subject.is(Trait::Optional) => {
                    let line = format!("{}: {}", subject.name, error.chain());
                    progress(&line);
                    selection.absent.push(line);
                }
                Err(error) => return Err(error),
            }
        }
        selection.parts.push((experiment, subjects));
    }
    Ok(selection)
}

/// Checks that each name is a subject of an experiment, and that each experiment has a subject to measure.
fn check_subjects(experiments: &[&'static Experiment], names: &[String]) -> Result<(), Error> {
    let known = || experiments.iter().flat_map(|one| one.subjects.iter().copied());
    let all = experiments.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    if let Some(other) = names.iter().find(|name| !known().any(|one| one == name.as_str())) {
        let mut known: Vec<&str> = known().collect();
        let mut seen = std::collections::BTreeSet::new();
        known.retain(|name| seen.insert(*name));
        return Err(Error::Asked(format!("{all} has no subject {other}, only {}", known.join(", "))));
    }
    match experiments.iter().find(|one| one.chosen(names).is_empty()) {
        None => Ok(()),
        Some(one) => {
            let (name, without) = (one.name, set("without", one.name));
            Err(Error::Asked(format!("{name} has none of the subjects {}; {without}", names.join(", "))))
        }
    }
}

async fn tools(subject: &Subject, tools: &mut Tools, bench: &Bench, progress: &mut Progress<'_>) -> Result<(), Error> {
    for tool in subject.tools {
        tools.add(tool, bench, progress).await?;
    }
    Ok(())
}

/// The conditions of the run, as a record without runs.
async fn begin(plan: &Plan, bench: &Bench, selection: &Selection, control: &Connection) -> Result<Record, Error> {
    let local = bench.ground.db.is_local();
    let data = if local { data_directory(&control.client).await } else { None };
    let mut tools = selection.tools.versions();
    tools.extend(bench.mongo_server(TABLE).await?.map(|server| ("mongodb".to_owned(), server.to_string())));
    let data_sets: Vec<DataSet> = selection.parts.iter().flat_map(|(one, _)| plan.data_sets(one)).collect();
    Ok(Record {
        format: FORMAT,
        experiments: selection.parts.iter().map(|(one, _)| one.name.to_owned()).collect(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: plan.argv.clone(),
        seed: plan.seed,
        build: Build::ask(&bench.ground.binary, bench.ground.debug).await?,
        machine: Machine::look(data.as_deref(), bench.dir.path()),
        server: Server::ask(&control.client, local).await?,
        tools,
        absent: selection.absent.clone(),
        ingest: Some(IngestConditions {
            rounds: plan.rounds,
            lanes: plan.lanes,
            table: definition(bench, &data_sets[0]).await?,
            data_sets,
        }),
        runs: Vec::new(),
    })
}

/// The statement with which the measured binary makes a collection, so that all tables are alike.
async fn definition(bench: &Bench, data_set: &DataSet) -> Result<String, Error> {
    let file = bench.file("sample.ndjson");
    let sample = DataSet { documents: SAMPLE_DOCUMENTS.min(data_set.documents), ..data_set.clone() };
    Stream::wave(1).write(&sample, &mut Ledger::default(), &file)?;
    let dry = bench.load(&file, TABLE, &["--dry-run"], None).await?;
    let ddl = dry.receipt.as_ref().and_then(|dry| dry.get("ddl")?.as_str());
    // Quote as the binary does, so that the name is found in the statement.
    let name = bench.quoted(TABLE);
    ddl.filter(|ddl| ddl.contains(&name)).map(|ddl| ddl.replacen(&name, TABLE, 1)).ok_or_else(|| Error::Subject {
        subject: "millstream",
        why: format!("load {} printed no definition of the table {name}", option("dry-run")),
    })
}

fn prepare(
    data_set: DataSet,
    experiment: &Experiment,
    subjects: &[&Subject],
    lanes: u16,
    dir: &Path,
) -> Result<Prepared, Error> {
    let encoded = subjects.iter().any(|subject| subject.is(Trait::Encoded));
    check_room(&data_set, experiment, encoded, dir)?;
    let streams = if encoded { data_set.write_copy_streams(lanes, dir)? } else { Vec::new() };
    let (phases, refused) = write_phases(&data_set, experiment, &dir.join("phase"))?;
    let small = match subjects.iter().any(|subject| subject.is(Trait::Slow)) {
        true => {
            let small = DataSet { documents: data_set.documents.min(DOCUMENTS_SLOW_MAX), ..data_set.clone() };
            write_phases(&small, experiment, &dir.join("small"))?.0
        }
        false => Vec::new(),
    };
    Ok(Prepared { data_set, phases, small, refused, streams })
}

/// Makes the tables of an experiment whose subjects only read.
async fn make_tables(
    data_set: DataSet,
    experiment: &Experiment,
    bench: &Bench,
    control: &Connection,
) -> Result<Prepared, Error> {
    let mut phases = Vec::new();
    for phase in experiment.phases {
        shared_table::make(bench, control, &data_set, phase).await?;
        let rows = phase.stream.documents(&data_set);
        phases.push((PathBuf::new(), Expected { documents: rows, rows, sum: 0 }));
    }
    Ok(Prepared { data_set, phases, small: Vec::new(), refused: Vec::new(), streams: Vec::new() })
}

/// Refuses a data set that does not fit the disk, before the disk is full. Slow subjects need a little more than this
/// counts.
fn check_room(data_set: &DataSet, experiment: &Experiment, encoded: bool, dir: &Path) -> Result<(), Error> {
    let documents: u64 = experiment.phases.iter().map(|phase| phase.stream.documents(data_set)).sum();
    let streams = if encoded { data_set.documents } else { 0 };
    let needed_bytes = (documents + streams).saturating_mul(data_set.document_bytes as u64 + 1);
    match disk_free_bytes(dir) {
        Some(free_bytes) if needed_bytes > free_bytes => {
            Err(Error::Full { dir: dir.to_owned(), needed_bytes, free_bytes })
        }
        _ => Ok(()),
    }
}

/// The file of each phase and what a table holds after it.
type Inputs = Vec<(PathBuf, Expected)>;

/// Writes the file of each phase. Returns the inputs, and the same for tables that refuse documents.
fn write_phases(data_set: &DataSet, experiment: &Experiment, name: &Path) -> Result<(Inputs, Inputs), Error> {
    let mut ledger = Ledger::default();
    let (mut inputs, mut refused) = (Vec::new(), Vec::new());
    for (n, phase) in experiment.phases.iter().enumerate() {
        if phase.new_table {
            ledger = Ledger::default();
        }
        let path = name.with_added_extension(format!("{n}.ndjson"));
        let expected = phase.stream.write(data_set, &mut ledger, &path)?;
        refused.push((path.clone(), ledger.accepted(expected.documents)));
        inputs.push((path, expected));
    }
    Ok((inputs, refused))
}

fn remove(prepared: &Prepared) -> Result<(), Error> {
    let inputs = prepared.phases.iter().chain(&prepared.small).map(|(path, _)| path);
    for path in inputs.chain(&prepared.streams) {
        std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(())
}

/// Runs every subject once with each durability and over each network. Each round begins with another one.
async fn one_round(
    trial: Trial<'_>,
    experiment: &Experiment,
    subjects: &[&'static Subject],
    rounds: u32,
    progress: &mut Progress<'_>,
) -> Result<Vec<Run>, Error> {
    let turns = turns(experiment, subjects, trial.round);
    let mut runs = Vec::new();
    for (turn, (subject, durability, round_trip_ms)) in (1..).zip(turns) {
        let delay = round_trip_ms.map(|ms| Duration::from_millis(ms.into()));
        let proxy = delay.map(|delay| Proxy::start(&trial.bench.ground.db, delay)).transpose()?;
        let taken = Trial { durability, round_trip_ms, proxy: proxy.as_ref(), ..trial }.run(subject, turn).await?;
        for run in &taken {
            progress(&line(run, rounds));
        }
        runs.extend(taken);
    }
    Ok(runs)
}

fn turns(experiment: &Experiment, subjects: &[&'static Subject], round: u32) -> Vec<Turn> {
    let mut turns = Vec::new();
    for durability in experiment.durabilities {
        for round_trip_ms in experiment.round_trips_ms {
            turns.extend(subjects.iter().map(|subject| (*subject, *durability, *round_trip_ms)));
        }
    }
    let first = (round as usize - 1) % turns.len().max(1);
    turns.rotate_left(first);
    turns
}

/// The line that reports a run.
fn line(run: &Run, rounds: u32) -> String {
    let result = match &run.outcome {
        Outcome::Measured(_) => format!("{:.0} rows/s", run.rows_per_second().unwrap_or(0.0)),
        Outcome::Void(why) | Outcome::Skipped(why) | Outcome::Error(why) => why.clone(),
    };
    let Run { experiment, arm, block, .. } = run;
    let (data_set, phase, mark) = (run.data_set(), run.phase(), mark(run.durability(), run.round_trip_ms()));
    format!("{experiment} {data_set}: round {block} of {rounds}: {arm} {phase}{mark}: {result}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn every_subject_takes_every_turn_and_each_round_begins_with_another() {
        let latency = Experiment::by_name("latency").unwrap();
        let subjects = latency.chosen(&[]);
        let names = |round| -> Vec<(&str, Option<u32>)> {
            turns(latency, &subjects, round).iter().map(|(subject, _, ms)| (subject.name, *ms)).collect()
        };
        let first = [("copy", Some(0)), ("millstream", Some(0)), ("copy", Some(5)), ("millstream", Some(5))];
        assert_eq!(names(1), first);
        assert_eq!(names(2), [first[1], first[2], first[3], first[0]]);
        assert_eq!(names(5), first);
    }

    #[test]
    fn documents_that_do_not_fit_the_disk_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Experiment::by_name("memory").unwrap();
        let check = |documents| {
            let set = DataSet::new("memory", crate::core::Keys::Random, 150, documents, 150, 1);
            check_room(&set, memory, false, dir.path())
        };
        assert!(check(10).is_ok());
        let error = check(1 << 60).unwrap_err();
        assert!(error.to_string().ends_with(" free"), "{error}");
        assert!(error.hint().unwrap().contains("TMPDIR"));
    }

    #[test]
    fn subjects_must_exist_and_leave_something_to_measure() {
        let check = |experiments: &[&str], subjects: &[&str]| {
            let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let experiments = Experiment::named(&strings(experiments), &[]).unwrap();
            check_subjects(&experiments, &strings(subjects)).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["ingest", "rivals"], &["copy", "millstream", "merge"]), Ok(()));
        assert!(check(&["rivals"], &["oracle"]).unwrap_err().starts_with("rivals has no subject oracle, only copy, "));
        assert_eq!(check(&["hot", "ingest"], &["copy"]).unwrap_err(), "hot has none of the subjects copy; without hot");
    }
}
