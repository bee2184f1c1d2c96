//! The yardstick of refreshes: a materialized view by plain SQL with the same rows and indexes.

use super::{Subject, Trial, indexes, millstream};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use std::time::Instant;

pub(crate) const SUBJECT: Subject = Subject {
    name: "concurrently",
    about: "a materialized view with the same 8 indexes, then `refresh materialized view concurrently`",
    traits: &[],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..millstream::SUBJECT
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    millstream::load(trial, phase, table).await?;
    trial.checkpoint().await?;
    let (view, client) = (format!("{table}_view"), &trial.control.client);
    let name = trial.bench.quoted(&view);
    let start = Instant::now();
    if phase.is_fresh() {
        let rows = trial.bench.quoted(table);
        client.batch_execute(&format!("create materialized view {name} as select id, doc from {rows}")).await?;
        client.batch_execute(&format!("create unique index on {name} (id)")).await?;
        indexes::create(trial, &view).await?;
        client.batch_execute(&format!("analyze {name}")).await?;
    } else {
        client.batch_execute(&format!("refresh materialized view concurrently {name}")).await?;
    }
    let timing = Timing::of(start.elapsed().as_secs_f64());
    trial.verify(&SUBJECT, phase, &view).await?;
    Ok(timing)
}
