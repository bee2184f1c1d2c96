//! `incremental`: derives only the changed rows again, in the table that readers see.

use crate::error::Error;
use crate::uncast::uncast;
use crate::way::{Applied, Refresh, Way, Working};
use futures_util::FutureExt;
use millstream_failpoint as failpoint;

pub(crate) static WAY: Way = Way { name: "incremental", apply };

fn apply<'a>(refresh: &'a Refresh<'a>) -> Working<'a> {
    async move { derive_again(refresh).await }.boxed()
}

async fn derive_again(refresh: &Refresh<'_>) -> Result<Applied, Error> {
    let Refresh { coordinator, model, derivation, storage, change_record, .. } = refresh;
    let shows = model.shows.as_ref().expect("only what is built is refreshed by what changed");
    // A utility statement takes no parameters. The text of a snapshot needs no escaping.
    let changed = change_record.changed_keys().replace("$1", &format!("'{shows}'"));
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
    let all = [keys, rest.clone()].concat();
    let merge = include_str!("incremental.sql")
        .replace("{part}", &part)
        .replace("{generation}", &model.serving.to_string())
        .replace("{staged}", &staged)
        .replace("{join}", &derivation.join("shown", "fresh"))
        .replace("{key}", &derivation.key())
        .replace("{shown}", &list(&rest, &|column| format!("shown.{column}")))
        .replace("{fresh}", &list(&rest, &|column| format!("fresh.{column}")))
        .replace("{set}", &list(&rest, &|column| format!("{column} = fresh.{column}")))
        .replace("{columns}", &list(&all, &|column| column.to_owned()))
        .replace("{values}", &list(&all, &|column| format!("fresh.{column}")))
        // Last, because the user's definition may hold any text, even a placeholder.
        .replace("{rows}", &derivation.rows(""));
    let written = coordinator.execute(&merge, &[]).await?;
    failpoint::hit("changes-applied").await?;
    let among = format!("exists (select from {staged} as changed where {})", derivation.join("shown", "changed"));
    let uncast = uncast(*coordinator, derivation, &part, &among).await?;
    Ok(Applied { generation: model.serving, rows: written, uncast })
}
