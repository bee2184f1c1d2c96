//! The course of a run, the same for every experiment: conditions, data, rounds in which subjects take turns.

use super::{Experiment, Finished, Plan, Told};
use crate::bench::Bench;
use crate::build::Build;
use crate::data_set::{DataSet, Expected};
use crate::durability::Durability;
use crate::error::Error;
use crate::limits::{DOCUMENTS_FEW_MAX, SAMPLE_DOCUMENTS};
use crate::machine::Machine;
use crate::record::{self, FORMAT, Record};
use crate::sample::{Outcome, Sample};
use crate::server::{self, Server};
use crate::subject::{Prepared, Subject, TABLE, Trial};
use crate::tool::Tools;
use millstream_pg::{Connection, quote_identifier};
use std::path::{Path, PathBuf};

/// What takes turns in a run, and with what.
struct Cast {
    subjects: Vec<&'static Subject>,
    tools: Tools,
    /// Why others do not take part.
    absent: Vec<String>,
}

pub(super) async fn run(
    experiment: &Experiment,
    plan: &Plan,
    bench: &Bench,
    told: &mut Told<'_>,
) -> Result<Finished, Error> {
    let cast = cast(experiment, plan, bench, told).await?;
    let control = bench.connect().await?;
    control.require_writable()?;
    let schema = quote_identifier(&bench.schema);
    control.client.batch_execute(&format!("create schema {schema}")).await?;
    let mut record = begin(experiment, plan, bench, &cast, &control).await?;
    let dir = record::new_dir(plan.out.as_deref(), &record.date, &record.machine)?;
    for data_set in record.data_sets.clone() {
        told(&format!("{}: writing {} documents", data_set.name, data_set.documents));
        let prepared = prepare(data_set, experiment, &cast.subjects, plan.lanes, bench.dir.path())?;
        for round in 1..=plan.rounds {
            let trial = Trial {
                bench,
                control: &control,
                prepared: &prepared,
                tools: &cast.tools,
                durability: Durability::default(),
                waves: experiment.waves,
                lanes: plan.lanes,
                round,
                checkpoints: record.server.checkpoints,
                definition: &record.table,
            };
            let samples = one_round(trial, experiment, &cast.subjects, plan.rounds, told).await?;
            record.samples.extend(samples);
            // After every round, so that a run given up or killed keeps what it has measured.
            record.write(&dir)?;
        }
        remove(&prepared)?;
    }
    control.close().await;
    let path = record.write(&dir)?;
    Ok(Finished { record, path })
}

/// Finds out who takes part, before anything is measured. What was asked for and cannot be measured is an error;
/// only what nothing but a MongoDB brings in may be absent.
async fn cast(experiment: &Experiment, plan: &Plan, bench: &Bench, told: &mut Told<'_>) -> Result<Cast, Error> {
    let mut cast = Cast { subjects: Vec::new(), tools: Tools::default(), absent: Vec::new() };
    for subject in experiment.chosen(&plan.subjects)? {
        if subject.is_mongo() && bench.ground.mongo_uri.is_none() {
            if plan.subjects.is_empty() {
                continue;
            }
            return Err(Error::Subjects(format!("{} needs a MongoDB, named by --mongo-uri", subject.name)));
        }
        match tools(subject, &mut cast.tools, bench, told).await {
            Ok(()) => cast.subjects.push(subject),
            Err(error @ Error::Missing { .. }) if subject.is_mongo() => {
                let line = format!("{}: {}", subject.name, error.chain());
                told(&line);
                cast.absent.push(line);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(cast)
}

async fn tools(subject: &Subject, tools: &mut Tools, bench: &Bench, told: &mut Told<'_>) -> Result<(), Error> {
    for tool in subject.tools {
        tools.add(tool, bench, told).await?;
    }
    Ok(())
}

/// The conditions of the run, still without samples.
async fn begin(
    experiment: &Experiment,
    plan: &Plan,
    bench: &Bench,
    cast: &Cast,
    control: &Connection,
) -> Result<Record, Error> {
    let local = bench.ground.db.is_local();
    let data = if local { server::data_directory(&control.client).await } else { None };
    let data_sets = data_sets(plan);
    Ok(Record {
        format: FORMAT,
        experiment: experiment.name.to_owned(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: plan.argv.clone(),
        rounds: plan.rounds,
        lanes: plan.lanes,
        seed: plan.seed,
        build: Build::ask(&bench.ground.binary, bench.ground.debug, bench.dir.path()).await?,
        machine: Machine::look(data.as_deref(), bench.dir.path()),
        server: Server::ask(&control.client, local).await?,
        tools: cast.tools.versions(),
        absent: cast.absent.clone(),
        table: definition(bench, &data_sets[0]).await?,
        data_sets,
        samples: Vec::new(),
    })
}

/// The statement with which the measured binary itself makes a collection, so that all tables are alike.
async fn definition(bench: &Bench, data_set: &DataSet) -> Result<String, Error> {
    let sample = bench.file("sample.ndjson");
    data_set.write_first(1, SAMPLE_DOCUMENTS.min(data_set.documents), &sample)?;
    let dry = bench.load(&sample, TABLE, &["--dry-run"]).await?;
    let ddl = dry.receipt.as_ref().and_then(|dry| dry.get("ddl")?.as_str());
    // The same quoting as the binary's, so that the name is found in the statement.
    let name = bench.quoted(TABLE);
    ddl.filter(|ddl| ddl.contains(&name)).map(|ddl| ddl.replacen(&name, TABLE, 1)).ok_or_else(|| Error::Subject {
        subject: "millstream",
        why: format!("load --dry-run printed no definition of the table {name}"),
    })
}

/// Every size with the first kind of key, and the other kinds with the smallest size.
fn data_sets(plan: &Plan) -> Vec<DataSet> {
    let mut sizes = plan.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let make = |keys, bytes| DataSet::new(keys, bytes, plan.documents, sizes[0], plan.seed);
    let smallest = plan.keys.iter().map(|keys| make(*keys, sizes[0]));
    let larger = sizes[1..].iter().map(|bytes| make(plan.keys[0], *bytes));
    smallest.chain(larger).collect()
}

fn prepare(
    data_set: DataSet,
    experiment: &Experiment,
    subjects: &[&Subject],
    lanes: u16,
    dir: &Path,
) -> Result<Prepared, Error> {
    let streams = data_set.write_copy_streams(lanes, dir)?;
    let waves = write_waves(&data_set, experiment.waves, &dir.join("wave"))?;
    let few = match subjects.iter().any(|subject| subject.is_slow()) {
        true => {
            let few = DataSet { documents: data_set.documents.min(DOCUMENTS_FEW_MAX), ..data_set.clone() };
            write_waves(&few, experiment.waves, &dir.join("few"))?
        }
        false => Vec::new(),
    };
    Ok(Prepared { data_set, waves, few, streams })
}

fn write_waves(data_set: &DataSet, waves: u32, name: &Path) -> Result<Vec<(PathBuf, Expected)>, Error> {
    let write = |wave: u32| {
        let path = name.with_added_extension(format!("{wave}.ndjson"));
        let expected = data_set.write_wave(wave, &path)?;
        Ok((path, expected))
    };
    (1..=waves).map(write).collect()
}

fn remove(prepared: &Prepared) -> Result<(), Error> {
    let waves = prepared.waves.iter().chain(&prepared.few).map(|(path, _)| path);
    for path in waves.chain(&prepared.streams) {
        std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(())
}

/// Every subject once with each durability, each round beginning with another one.
async fn one_round(
    trial: Trial<'_>,
    experiment: &Experiment,
    subjects: &[&Subject],
    rounds: u32,
    told: &mut Told<'_>,
) -> Result<Vec<Sample>, Error> {
    let mut turns: Vec<(Durability, &Subject)> = Vec::new();
    for durability in experiment.durabilities {
        turns.extend(subjects.iter().map(|subject| (*durability, *subject)));
    }
    let first = (trial.round as usize - 1) % turns.len();
    turns.rotate_left(first);
    let mut samples = Vec::new();
    for (turn, (durability, subject)) in (1..).zip(turns) {
        let taken = Trial { durability, ..trial }.run(subject, turn).await?;
        for sample in &taken {
            told(&progress(sample, rounds));
        }
        samples.extend(taken);
    }
    Ok(samples)
}

fn progress(sample: &Sample, rounds: u32) -> String {
    let result = match (&sample.outcome, sample.rows_per_second()) {
        (Outcome::Error(error), _) => error.clone(),
        (_, rate) => format!("{:.0} rows/s", rate.unwrap_or(0.0)),
    };
    let Sample { data_set, round, subject, phase, .. } = sample;
    let durability = if sample.durability.is_default() { "" } else { ", async" };
    format!("{data_set}: round {round} of {rounds}: {subject} {phase}{durability}: {result}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_set::KEYS;

    #[test]
    fn the_smallest_size_has_every_kind_of_key_and_larger_ones_the_first() {
        let plan = Plan {
            documents: 1_000_000,
            rounds: 1,
            sizes: vec![2_048, 150, 20_480, 150],
            keys: KEYS.to_vec(),
            subjects: Vec::new(),
            lanes: 2,
            seed: 1,
            out: None,
            argv: Vec::new(),
        };
        let names: Vec<String> = data_sets(&plan).into_iter().map(|set| set.name).collect();
        assert_eq!(names, ["random-150", "sequential-150", "random-2048", "random-20480"]);
    }
}
