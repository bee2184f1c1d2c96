//! Upserts in Python through psycopg 3, run as a process from start to exit.

use super::{Subject, Trait, Trial};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::ingest::tool::PSYCOPG;
use millstream_host::Command;

/// The script. It is part of the binary, so that it is available wherever the binary runs.
const SCRIPT: &str = include_str!("../../../../../lab/rivals/psycopg_upsert.py");

pub(crate) const RECIPE: Subject = Subject {
    name: "recipe",
    about: "Python, psycopg 3: upserts of 1000 rows each, prepared, 8 processes with a connection each",
    tools: &[&PSYCOPG],
    run: |trial, phase, table| Box::pin(run(&RECIPE, trial, phase, table)),
    ..Subject::PLAIN
};

pub(crate) const PIPELINED: Subject = Subject {
    name: "pipelined",
    about: "like recipe, but nobody waits for the answer before sending the next upsert",
    run: |trial, phase, table| Box::pin(run(&PIPELINED, trial, phase, table)),
    ..RECIPE
};

pub(crate) const EXECUTEMANY: Subject = Subject {
    name: "executemany",
    about: "Python, psycopg 3: executemany of 1000 one-row upserts a transaction, 8 processes with a connection each",
    run: |trial, phase, table| Box::pin(run(&EXECUTEMANY, trial, phase, table)),
    ..RECIPE
};

pub(crate) const SINGLE: Subject = Subject {
    name: "single",
    about: "Python, psycopg 3: one row a transaction, prepared, 8 processes with a connection each; fewer documents, \
            so that it ends",
    traits: &[Trait::Slow],
    run: |trial, phase, table| Box::pin(run(&SINGLE, trial, phase, table)),
    ..RECIPE
};

/// Runs the form of the script that has the subject's name.
async fn run(subject: &Subject, trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    trial.create_first(phase, table).await?;
    let (file, _) = trial.input(subject, phase);
    let script = trial.bench.script("psycopg_upsert.py", SCRIPT)?;
    let mut command = Command::new(trial.tools.program(&PSYCOPG)?);
    command.arg(script).arg(subject.name).arg(file).arg(trial.bench.quoted(table));
    trial.bench.client(&mut command, trial.durability);
    trial.bench.run(subject.name, &mut command).await
}
