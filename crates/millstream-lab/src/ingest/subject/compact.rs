//! The smallest table for the rows: the same COPY into the same definition, with every page filled.

use super::{Subject, Trial, copy};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;

pub(crate) const SUBJECT: Subject = Subject {
    name: "compact",
    about: "like copy, at fillfactor 100, for the size of its table",
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..copy::SUBJECT
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    trial.create_first(phase, table).await?;
    let full = format!("alter table {} set (fillfactor = 100)", trial.bench.quoted(table));
    trial.control.client.batch_execute(&full).await?;
    copy::send_all(trial, table).await
}
