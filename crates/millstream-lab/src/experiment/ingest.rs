//! `ingest`: how fast documents come in, compared with the fastest thing PostgreSQL has for it.

use super::{Experiment, Finished, Plan, Told};
use crate::bench::Bench;
use crate::build::Build;
use crate::data_set::DataSet;
use crate::error::Error;
use crate::limits::SAMPLE_DOCUMENTS;
use crate::machine::Machine;
use crate::record::{self, FORMAT, Record};
use crate::server::{self, Server};
use crate::subject::{Prepared, SUBJECTS, TABLE, Trial, waves};
use millstream_pg::{Connection, quote_identifier};
use std::path::Path;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ingest",
    about: "how fast documents come in, new and changed, beside binary COPY into the same table",
    run: |plan, bench, told| Box::pin(run(plan, bench, told)),
};

async fn run(plan: &Plan, bench: &Bench, told: &mut Told<'_>) -> Result<Finished, Error> {
    let control = bench.connect().await?;
    control.require_writable()?;
    let schema = quote_identifier(&bench.schema);
    control.client.batch_execute(&format!("create schema {schema}")).await?;
    let mut record = begin(plan, bench, &control).await?;
    let dir = record::new_dir(plan.out.as_deref(), &record.date, &record.machine)?;
    for data_set in record.data_sets.clone() {
        told(&format!("{}: writing {} documents", data_set.name, data_set.documents));
        let prepared = prepare(data_set, plan.lanes, bench.dir.path())?;
        for round in 1..=plan.rounds {
            let trial = Trial {
                bench,
                control: &control,
                prepared: &prepared,
                lanes: plan.lanes,
                round,
                checkpoints: record.server.checkpoints,
                definition: &record.table,
            };
            let samples = one_round(&trial, plan.rounds, told).await?;
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

/// The conditions of the run, still without samples.
async fn begin(plan: &Plan, bench: &Bench, control: &Connection) -> Result<Record, Error> {
    let local = bench.ground.db.is_local();
    let data = if local { server::data_directory(&control.client).await } else { None };
    let data_sets = data_sets(plan);
    Ok(Record {
        format: FORMAT,
        experiment: EXPERIMENT.name.to_owned(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        argv: plan.argv.clone(),
        rounds: plan.rounds,
        lanes: plan.lanes,
        seed: plan.seed,
        build: Build::ask(&bench.ground.binary, bench.ground.debug, bench.dir.path()).await?,
        machine: Machine::look(data.as_deref(), bench.dir.path()),
        server: Server::ask(&control.client, local).await?,
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

fn prepare(data_set: DataSet, lanes: u16, dir: &Path) -> Result<Prepared, Error> {
    let mut prepared = Prepared { waves: Vec::new(), streams: data_set.write_copy_streams(lanes, dir)?, data_set };
    for wave in 1..=waves() {
        let path = dir.join(format!("wave-{wave}.ndjson"));
        let expected = prepared.data_set.write_wave(wave, &path)?;
        prepared.waves.push((path, expected));
    }
    Ok(prepared)
}

fn remove(prepared: &Prepared) -> Result<(), Error> {
    let waves = prepared.waves.iter().map(|(path, _)| path);
    for path in waves.chain(&prepared.streams) {
        std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    }
    Ok(())
}

/// Every subject once, each round beginning with another one.
async fn one_round(trial: &Trial<'_>, rounds: u32, told: &mut Told<'_>) -> Result<Vec<crate::sample::Sample>, Error> {
    let mut samples = Vec::new();
    for turn in 0..SUBJECTS.len() {
        let subject = &SUBJECTS[(turn + trial.round as usize - 1) % SUBJECTS.len()];
        let taken = trial.run(subject, u32::try_from(turn).unwrap_or(0) + 1).await?;
        for sample in &taken {
            let rate = match (&sample.outcome, sample.rows_per_second()) {
                (crate::sample::Outcome::Error(error), _) => error.clone(),
                (_, rate) => format!("{:.0} rows/s", rate.unwrap_or(0.0)),
            };
            let name = &trial.prepared.data_set.name;
            told(&format!("{name}: round {} of {rounds}: {} {}: {rate}", trial.round, subject.name, sample.phase));
        }
        samples.extend(taken);
    }
    Ok(samples)
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
            lanes: 2,
            seed: 1,
            out: None,
            argv: Vec::new(),
        };
        let names: Vec<String> = data_sets(&plan).into_iter().map(|set| set.name).collect();
        assert_eq!(names, ["random-150", "sequential-150", "random-2048", "random-20480"]);
    }
}
