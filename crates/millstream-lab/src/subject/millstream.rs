//! Millstream as a user runs it: `millstream load` as a process, from its start to its exit.

use super::{Phase, Subject, Trial};
use crate::error::Error;
use crate::sample::Timing;

pub(super) const SUBJECT: Subject = Subject {
    name: "millstream",
    about: "`millstream load` as a process: all keys new, then every document changed, in another order, twice",
    phases: &[
        Phase { name: "fresh", wave: 1, counter: "inserted" },
        Phase { name: "changed", wave: 2, counter: "updated" },
        Phase { name: "changed again", wave: 3, counter: "updated" },
    ],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let (file, _) = trial.wave(phase);
    trial.bench.load(file, table, &["--lanes", &trial.lanes.to_string()]).await
}
