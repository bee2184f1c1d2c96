//! The log layout as users run it: one process appends documents, another merges them into the table.

use super::{Subject, Trait, Trial, check_receipt, millstream};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use serde_json::json;

pub(crate) const APPENDED: Subject = Subject {
    name: "log",
    about: "`millstream load --layout log` as a process: no key is looked up, the table has its rows after a compaction",
    traits: &[Trait::Appending],
    run: |trial, phase, table| Box::pin(append(trial, phase, table)),
    ..millstream::SUBJECT
};

pub(crate) const MERGED: Subject = Subject {
    name: "merged",
    about: "the same, and `millstream compact` as a second process",
    traits: &[],
    run: |trial, phase, table| Box::pin(append_and_merge(trial, phase, table)),
    ..APPENDED
};

/// Loads the documents of a phase. The receipt must count all of them as appended.
async fn append(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let timing = millstream::load_with(trial, phase, table, &["--layout", "log"]).await?;
    let (_, expected) = trial.input(&APPENDED, phase);
    let appended = Phase { counters: &["appended"], ..*phase };
    check_receipt(timing.receipt.as_ref(), &appended, expected.documents, 0)?;
    Ok(timing)
}

async fn append_and_merge(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    let appended = append(trial, phase, table).await?;
    let merged = merge(trial, table).await?;
    let receipt = json!({ "load": appended.receipt, "compact": merged.receipt });
    Ok(Timing { receipt: Some(receipt), ..appended.then(&merged) })
}

/// Merges the segments into the table. It is an error if any are left.
pub(super) async fn merge(trial: &Trial<'_>, table: &str) -> Result<Timing, Error> {
    let (name, workers) = (trial.bench.dotted(table), trial.lanes.to_string());
    trial.bench.millstream(&["compact", &name, "--workers", &workers], None).await
}
