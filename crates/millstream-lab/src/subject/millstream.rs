//! Millstream as a user runs it: `millstream load` as a process, from its start to its exit.

use super::{Phase, Store, Subject, Trial};
use crate::durability::Durability;
use crate::error::Error;
use crate::sample::Timing;

pub(crate) const SUBJECT: Subject = Subject {
    name: "millstream",
    about: "`millstream load` as a process: it finds the key, checks and accounts for every document, can be resumed",
    phases: &[
        Phase { name: "fresh", wave: 1, counter: Some("inserted") },
        Phase { name: "changed", wave: 2, counter: Some("updated") },
        Phase { name: "changed again", wave: 3, counter: Some("updated") },
    ],
    store: Store::Postgres,
    few: false,
    tools: &[],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let (file, _) = trial.wave(&SUBJECT, phase);
    let lanes = trial.lanes.to_string();
    let mut more = vec!["--lanes", &lanes];
    // The default is not named, so that binaries from before the option can be measured.
    if trial.durability != Durability::default() {
        more.extend(["--durability", trial.durability.name()]);
    }
    trial.bench.load(file, table, &more).await
}
