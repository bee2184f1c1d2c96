//! Collections whose table refuses one document of ten, each in another way.

use super::{Subject, Trait, Trial, millstream};
use crate::error::Error;
use crate::ingest::bench::TABLE;
use crate::ingest::phase::Phase;
use crate::ingest::stream::ACCEPTED;
use crate::ingest::timing::Timing;

/// A limit higher than the number of rejects.
const ALL_REJECTS: &[&str] = &["--max-rejects", "1000000000"];

pub(crate) const CONSTRAINT: Subject = Subject {
    name: "constraint",
    about: "`millstream load` into a table with a CHECK that refuses one document of ten",
    traits: &[Trait::Receipt, Trait::Refusing],
    run: |trial, phase, table| Box::pin(constraint(trial, phase, table)),
    ..millstream::SUBJECT
};

pub(crate) const TRIGGER: Subject = Subject {
    name: "trigger",
    about: "`millstream load` into a table with a trigger that raises an error for one document of ten",
    run: |trial, phase, table| Box::pin(trigger(trial, phase, table)),
    ..CONSTRAINT
};

pub(crate) const CHECK: Subject = Subject {
    name: "check",
    about: "`millstream load --check`, which one document of ten breaks",
    run: |trial, phase, table| Box::pin(check(trial, phase, table)),
    ..CONSTRAINT
};

async fn constraint(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let sql = format!("alter table {TABLE} add check ({ACCEPTED})");
    prepared(trial, phase, table, &sql).await
}

async fn trigger(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let function = trial.bench.quoted(&format!("{table}_refuse"));
    let sql = include_str!("refused.sql").replace("the_function", &function);
    prepared(trial, phase, table, &sql.replace("is_accepted", &ACCEPTED.replace("doc", "new.doc"))).await
}

async fn check(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    millstream::load_with(trial, phase, table, &[ALL_REJECTS, &["--check", ACCEPTED]].concat()).await
}

/// Loads into a table that was made beforehand.
async fn prepared(trial: &Trial<'_>, phase: &Phase, table: &str, sql: &str) -> Result<Timing, Error> {
    trial.make_collection(table).await?;
    trial.control.client.batch_execute(&sql.replace(TABLE, &trial.bench.quoted(table))).await?;
    millstream::load_with(trial, phase, table, ALL_REJECTS).await
}
