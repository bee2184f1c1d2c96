//! A table that Citus distributes, as the coordinator has it.

use super::{Provided, agreed, oid, provide};
use crate::error::Error;
use crate::feed::Feed;
use crate::observe::{Event, Observer};
use crate::request::LoadRequest;
use millstream_model::{CollectionName, KeyColumn, KeyRequest, KeySpec};
use millstream_pg::{Connection, catalog, quote_literal, quote_name};
use millstream_store::collections;

/// Makes or checks a table that Citus distributes, and records it. Returns its OID, and what a load into one of its shards is
/// asked for: the types of the key and of the version are the same for all.
///
/// # Errors
/// As [`provide`]; [`Error::Collection`] when there is no table and none is to be made.
pub(crate) async fn provide_distributed(
    control: &mut Connection,
    request: &LoadRequest,
    feed: &mut Feed,
    observer: &dyn Observer,
) -> Result<(u32, LoadRequest), Error> {
    let (name, schema) = (&request.collection, &request.schema);
    // Citus makes a table anew when it gets another number of shards.
    let recorded = collections::find(&control.client, schema, name).await?;
    let adopt = request.adopt || recorded.is_some_and(|recorded| recorded.replaced);
    let request = &LoadRequest { adopt, ..request.clone() };
    let refuse =
        |problem: &str, hint: String| Error::Collection { collection: name.clone(), problem: problem.to_owned(), hint };
    if !request.distribute && catalog::table(&control.client, &name.schema, &name.table).await?.is_none() {
        let hint = "add --distribute, and the load makes it, distributed by the first column of the key";
        return Err(refuse("there is no such table", hint.to_owned()));
    }
    let Provided { mut prospect, made } = provide(control, request, feed).await?;
    observer.event(Event::Key(std::mem::take(&mut prospect.reasons)));
    if let Some(version) = &prospect.version {
        observer.event(Event::Version(version.clone()));
    }
    observer.warn(std::mem::take(&mut prospect.warnings));
    if let Some(ddl) = &prospect.ddl {
        observer.event(Event::Created(ddl.clone()));
    }
    let table = match made.or(prospect.table) {
        Some(table) => table,
        None => oid(&control.client, name).await?,
    };
    if !millstream_store::is_distributed(&control.client, table).await? {
        let hint = format!("distribute it: {}", distribution(name, &prospect.key));
        return Err(refuse("Citus does not distribute it", hint));
    }
    let known = prospect.known();
    millstream_store::remember_collection(&control.client, schema, table, name, &known, true).await?;
    let of_column = |column: &KeyColumn| KeyRequest {
        column: column.name.clone(),
        path: column.path.clone(),
        key_type: Some(column.key_type),
    };
    let key = prospect.key.columns.iter().map(of_column).collect();
    let mode = agreed(control, schema, table, request, prospect.mode).await?;
    // Whoever may load into the table may load into its shards.
    Ok((table, LoadRequest { key, mode, adopt: true, distribute: false, ..request.clone() }))
}

/// The statement that distributes a table.
pub(super) fn distribution(name: &CollectionName, key: &KeySpec) -> String {
    let (table, column) = (quote_literal(&quote_name(name)), quote_literal(&key.columns[0].name));
    format!("select pg_catalog.create_distributed_table({table}, {column})")
}

/// A shard is not where it was when the load began.
pub(super) fn moved(shard: &CollectionName) -> Error {
    Error::TableChanged { collection: shard.clone(), what: "the node of a shard" }
}
