//! `incremental`: deletes and derives again only what was changed, in the table that is shown.

use super::uncast::uncast;
use super::{Applied, Refresh, Way, Working};
use crate::error::Error;
use crate::failpoint;
use futures_util::FutureExt;

pub(super) static WAY: Way = Way { name: "incremental", apply };

fn apply<'a>(refresh: &'a Refresh<'a>) -> Working<'a> {
    async move { derive_again(refresh).await }.boxed()
}

async fn derive_again(refresh: &Refresh<'_>) -> Result<Applied, Error> {
    let Refresh { coordinator, model, derivation, storage, listened, .. } = refresh;
    let shows = model.shows.as_ref().expect("only what is built is refreshed by what changed");
    // A parameter cannot stand in a utility statement, and a snapshot's text needs no quoting.
    let changed = listened.changed_keys().replace("$1", &format!("'{shows}'"));
    let staged = format!("pg_temp.millstream_changed_{}", model.model_id);
    coordinator
        .batch_execute(&format!("create temp table {staged} on commit drop as {changed}; analyze {staged}"))
        .await?;
    failpoint::hit("changes-staged").await?;
    let part = storage.part(model.serving);
    let rows = derivation.rows("");
    let delete = include_str!("incremental_delete.sql")
        .replace("{part}", &part)
        .replace("{staged}", &staged)
        .replace("{join}", &derivation.join("shown", "changed"))
        .replace("{same}", &derivation.join("derived", "changed"))
        .replace("{rows}", &rows);
    let deleted = coordinator.execute(&delete, &[]).await?;
    let columns = storage.columns(*coordinator).await?;
    let upsert = include_str!("incremental_upsert.sql")
        .replace("{part}", &part)
        .replace("{generation}", &model.serving.to_string())
        .replace("{staged}", &staged)
        .replace("{same}", &derivation.join("derived", "changed"))
        .replace("{key}", &derivation.key())
        .replace("{set}", &columns.iter().map(|c| format!("{c} = excluded.{c}")).collect::<Vec<_>>().join(", "))
        .replace("{rows}", &rows);
    let written = coordinator.execute(&upsert, &[]).await?;
    failpoint::hit("changes-applied").await?;
    let among = format!("exists (select from {staged} as changed where {})", derivation.join("shown", "changed"));
    let uncast = uncast(*coordinator, derivation, &part, &among).await?;
    Ok(Applied { generation: model.serving, rows: deleted + written, uncast })
}
