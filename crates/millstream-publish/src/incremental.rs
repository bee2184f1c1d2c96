//! `incremental`: derives only the changed rows again, in the table that readers see.

use crate::error::Error;
use crate::invalid_values::invalid_values;
use crate::refresh_way::{Applied, Refresh, Way, Working};
use futures_util::FutureExt;
use millstream_failpoint as failpoint;
use millstream_pg::{fill, own_plans, plans_by_key, quote_literal};

pub(crate) static WAY: Way =
    Way { name: "incremental", is_for_materialized: false, swaps: false, needs_records: true, apply };

fn apply<'a>(refresh: &'a Refresh<'a>) -> Working<'a> {
    async move { derive_again(refresh).await }.boxed()
}

async fn derive_again(refresh: &Refresh<'_>) -> Result<Applied, Error> {
    let Refresh { coordinator, model, derivation, storage, change_record, .. } = refresh;
    let shows = model.shows.as_ref().expect("only what is built is refreshed by what changed");
    // A utility statement takes no parameters.
    let changed = change_record.changed_keys(&quote_literal(shows));
    let staged = format!("pg_temp.millstream_changed_{}", model.model_id);
    // In the order of the key's index, because the merge looks them up there.
    let stage = format!(
        "create temp table {staged} on commit drop as {changed} order by {}; analyze {staged}",
        derivation.key()
    );
    coordinator.batch_execute(&stage).await?;
    failpoint::hit("changes-staged").await?;
    let part = storage.part(model.serving);
    let columns = storage.columns(*coordinator).await?;
    let (keys, rest): (Vec<&String>, Vec<&String>) =
        columns.iter().partition(|column| derivation.key_columns().contains(column));
    let list = |columns: &[&String], form: &dyn Fn(&str) -> String| {
        columns.iter().map(|column| form(column)).collect::<Vec<_>>().join(", ")
    };
    let changed_columns = keys.iter().map(|key| format!("changed.{key}"));
    let changed_columns: Vec<String> =
        changed_columns.chain(rest.iter().map(|column| format!("derived.{column}"))).collect();
    let all = [keys, rest.clone()].concat();
    let merge = fill!(
        include_str!("incremental.sql"),
        part,
        staged,
        generation = model.serving,
        rows = derivation.rows(""),
        changed = changed_columns.join(", "),
        derived_join = derivation.look_up("derived", "changed"),
        join = derivation.look_up("shown", "fresh"),
        shown = list(&rest, &|column| format!("shown.{column}")),
        fresh = list(&rest, &|column| format!("fresh.{column}")),
        set = list(&rest, &|column| format!("{column} = fresh.{column}")),
        columns = list(&all, &|column| column.to_owned()),
        values = list(&all, &|column| format!("fresh.{column}")),
    );
    coordinator.batch_execute(&plans_by_key()).await?;
    let written = coordinator.execute(&merge, &[]).await?;
    failpoint::hit("changes-applied").await?;
    let invalid_values = invalid_values(*coordinator, derivation, &part, Some(&staged)).await?;
    coordinator.batch_execute(&own_plans()).await?;
    Ok(Applied { generation: model.serving, rows: written, invalid_values })
}
