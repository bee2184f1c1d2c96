//! Decides which documents of a key may be folded, by what the table can refuse.

use super::fitness;
use super::typed::fitting;
use crate::error::Error;
use crate::merge::{Folding, Mode};
use crate::plan::TableTraits;
use millstream_document::decode::Fitting;
use millstream_model::KeySpec;
use millstream_pg::catalog::Table;
use millstream_pg::quote_qualified;
use millstream_store::{Judged, TypedColumn};
use tokio_postgres::Client;

/// What of a table's judgement may matter to a mode: if it changes, documents may have to be written in another way.
pub(super) fn judged(mode: &Mode) -> Judged {
    match mode.stores_documents() {
        true if mode.replaces() => Judged::Nothing,
        true => Judged::Documents,
        false => Judged::Rows,
    }
}

/// Whether it does matter. Where each document is checked by itself already, nothing more is to be done for any reason.
pub(super) fn relies(mode: &Mode, traits: TableTraits, folding: Folding) -> bool {
    match judged(mode) {
        Judged::Nothing => false,
        Judged::Documents => traits.can_join && !traits.may_refuse,
        Judged::Rows => folding != Folding::Never,
    }
}

/// Which documents of a key a load folds. A document that the mode stores unchanged is judged if it is stored. Where
/// documents are tried only for their typed columns, the second result tells without the server that they fit.
pub(super) async fn decide(
    client: &Client,
    table: &Table,
    key: &KeySpec,
    mode: &Mode,
    typed: &[TypedColumn],
) -> Result<(Folding, Option<Fitting>), Error> {
    if mode.stores_documents() || !fitness::may_refuse(table) {
        return Ok((Folding::Always, None));
    }
    if fitness::asks_others(table) {
        return Ok((Folding::Never, None));
    }
    let columns: Vec<&str> = key.columns.iter().map(|column| column.name.as_str()).collect();
    let names: Vec<&str> = typed.iter().map(|column| column.name.as_str()).collect();
    let row = client.query_one(include_str!("folding.sql"), &[&table.oid, &columns, &names]).await?;
    let is = |column: &str| row.get::<_, bool>(column);
    if is("checks_key") && is("takes_members") {
        let refuses_keys = !table.checks.is_empty() || fitness::has_domain_key(table);
        return Ok((if refuses_keys { Folding::ByKey } else { Folding::Always }, None));
    }
    let can_try = is("judges_documents") && can_copy(client, table).await?;
    if !can_try {
        return Ok((Folding::Never, None));
    }
    let only_typed = is("checks_key") && is("takes_members_or_typed");
    let fitting = if only_typed { fitting(typed, mode) } else { None };
    Ok((Folding::Tried, fitting))
}

/// Whether a session can make a temporary table that judges rows as this table does.
async fn can_copy(client: &Client, table: &Table) -> Result<bool, Error> {
    let like = quote_qualified(&table.schema, &table.name);
    let sql = format!(
        "begin; create temporary table millstream_judge (like {like} including generated including constraints); rollback"
    );
    let Err(error) = client.batch_execute(&sql).await else { return Ok(true) };
    if client.is_closed() {
        return Err(error.into());
    }
    client.batch_execute("rollback").await?;
    Ok(false)
}
