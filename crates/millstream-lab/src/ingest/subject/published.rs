//! A collection with a read model: documents are loaded while the model records changes, or the model is refreshed.

use super::indexes::INDEXES;
use super::{Subject, Trial, millstream};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use serde_json::Value;

pub(crate) const LISTENING: Subject = Subject {
    name: "published",
    about: "`millstream load` into a collection with a read model that has 8 indexes: every change goes on record",
    run: |trial, phase, table| Box::pin(load(trial, phase, table)),
    ..millstream::SUBJECT
};

pub(crate) const REFRESHED: Subject = Subject {
    name: "model",
    about: "`millstream publish` with 8 indexes, then `millstream refresh` after each load",
    traits: &[],
    run: |trial, phase, table| Box::pin(refresh(trial, phase, table)),
    ..millstream::SUBJECT
};

async fn load(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    if phase.is_fresh() {
        trial.make_collection(table).await?;
        publish(trial, table).await?;
    }
    millstream::load(trial, phase, table).await
}

/// Loads outside the measured time, then refreshes in the way that the phase measures. The first phase publishes
/// instead.
async fn refresh(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    millstream::load(trial, phase, table).await?;
    trial.checkpoint().await?;
    if phase.is_fresh() {
        let timing = publish(trial, table).await?;
        trial.verify(&REFRESHED, phase, &model(table)).await?;
        return Ok(timing);
    }
    // Name the way, because the phase measures this one, even if another is cheaper.
    let name = trial.bench.dotted(&model(table));
    let mut args = vec!["refresh", &name];
    args.extend(phase.writer.iter().flat_map(|way| ["--way", way]));
    let timing = trial.bench.millstream(&args, None).await?;
    let way = timing.receipt.as_ref().and_then(way);
    if way != phase.writer {
        let [way, asked] = [way, phase.writer].map(|way| way.unwrap_or("none"));
        return Err(Error::Wrong(format!("refreshed in the way {way} instead of {asked}")));
    }
    trial.verify(&REFRESHED, phase, &model(table)).await?;
    Ok(timing)
}

async fn publish(trial: &Trial<'_>, table: &str) -> Result<Timing, Error> {
    let (name, model) = (trial.bench.dotted(table), trial.bench.dotted(&model(table)));
    let mut args = vec!["publish", &name, "--as", &model];
    args.extend(INDEXES.iter().flat_map(|clause| ["--index", clause]));
    trial.bench.millstream(&args, None).await
}

/// Removes the model, if it exists.
pub(super) async fn unpublish(trial: &Trial<'_>, table: &str) -> Result<(), Error> {
    let model = model(table);
    let exists = "select to_regclass($1) is not null";
    if trial.control.client.query_one(exists, &[&trial.bench.quoted(&model)]).await?.get(0) {
        trial.bench.millstream(&["unpublish", &trial.bench.dotted(&model)], None).await?;
    }
    Ok(())
}

fn model(table: &str) -> String {
    format!("{table}_read")
}

/// The way that a refresh reports, for one model or for a list.
fn way(told: &Value) -> Option<&str> {
    told.get(0).unwrap_or(told).get("way")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_way_is_read_from_the_refresh_output() {
        assert_eq!(way(&json!([{"way": "swap"}])), Some("swap"));
        assert_eq!(way(&json!({"way": "incremental"})), Some("incremental"));
        assert_eq!(way(&json!([])), None);
    }
}
