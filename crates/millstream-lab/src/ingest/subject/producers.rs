//! Millstream as programs use it: eight tasks that send documents at the same time.

use super::{Subject, Trait, Trial, millstream};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::ingest::tool::PRODUCERS;
use millstream_host::Command;

pub(crate) const SUBJECT: Subject = Subject {
    name: "producers",
    about: "the example `producers` as a process: 8 tasks send the documents through the library and wait for commits",
    traits: &[Trait::Receipt, Trait::Unordered, Trait::Optional],
    tools: &[&PRODUCERS],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..millstream::SUBJECT
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let (file, _) = trial.input(&SUBJECT, phase);
    let mut command = Command::new(trial.tools.program(&PRODUCERS)?);
    command.arg(file).arg(trial.bench.dotted(table)).arg("id:text");
    command.arg(trial.lanes.to_string()).arg(trial.bench.store()).env_remove("DATABASE_URL");
    trial.bench.client(&mut command, trial.durability);
    trial.bench.run(SUBJECT.name, &mut command).await
}
