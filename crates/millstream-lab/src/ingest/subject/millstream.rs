//! Millstream as users run it: `millstream load` as a process, from start to exit.

use super::{Subject, Trait, Trial};
use crate::error::Error;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;

pub(crate) const SUBJECT: Subject = Subject {
    name: "millstream",
    about: "`millstream load` as a process: it finds the key, checks and accounts for every document, can be resumed",
    traits: &[Trait::Receipt],
    run: |trial, phase, table| Box::pin(load(trial, phase, table)),
    ..Subject::PLAIN
};

/// Loads the documents of a phase.
pub(super) async fn load(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    load_with(trial, phase, table, &[]).await
}

/// As `load`, with more options.
pub(super) async fn load_with(
    trial: &Trial<'_>,
    phase: &Phase,
    table: &str,
    options: &[&str],
) -> Result<Timing, Error> {
    let (file, _) = trial.input(&SUBJECT, phase);
    let lanes = trial.lanes.to_string();
    let mut more = [&["--lanes", &lanes], options].concat();
    // Do not name the default, so that binaries from before the option can be measured.
    if trial.durability != Durability::default() {
        more.extend(["--durability", trial.durability.name()]);
    }
    trial.bench.load(file, table, &more, trial.proxy).await
}
