//! A table that Citus distributes, as the coordinator has it.

use super::{Provided, agreed, oid, provide};
use crate::error::Error;
use crate::feed::Feed;
use crate::observe::{Event, Observer};
use crate::request::LoadRequest;
use millstream_model::{CollectionName, HashedColumn, KeyColumn, KeyRequest, KeySpec};
use millstream_pg::{Connection, catalog, quote_literal, quote_name};
use millstream_store::collections;

/// Makes or checks a table that Citus distributes, and records it. Returns its OID, and what a load into one of its shards is
/// asked for: the types of the key and of the version are the same for all.
///
/// # Errors
/// As [`provide`] and [`require_distributed`].
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
    require_distributed(control, request).await?;
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

/// Requires that Citus distributes the table if there is one, and that the load makes one if there is none.
///
/// # Errors
/// [`Error::Collection`] if not; the server's.
pub(crate) async fn require_distributed(control: &Connection, request: &LoadRequest) -> Result<(), Error> {
    let name = &request.collection;
    let (problem, hint) = match catalog::table(&control.client, &name.schema, &name.table).await? {
        None if request.distribute => return Ok(()),
        None => {
            let hint = "add --distribute, and the load makes it, distributed by the first column of the key";
            ("there is no such table", hint.to_owned())
        }
        Some(table) if millstream_store::is_distributed(&control.client, table.oid).await? => return Ok(()),
        Some(_) => {
            let column = request.key.first().map_or("COLUMN", |column| column.column.as_str());
            ("Citus does not distribute it", format!("distribute it: {}", distribution(name, column)))
        }
    };
    Err(Error::Collection { collection: name.clone(), problem: problem.to_owned(), hint })
}

/// Requires that the shard of a document can be found by the first column of a key.
///
/// # Errors
/// [`Error::Collection`] if not.
pub(super) fn require_hashed(name: &CollectionName, key: &KeySpec) -> Result<(), Error> {
    if HashedColumn::new(&key.types(), 0).is_some() {
        return Ok(());
    }
    let KeyColumn { name: column, key_type, .. } = &key.columns[0];
    Err(Error::Collection {
        collection: name.clone(),
        problem: format!("Citus would distribute it by {column}, whose type is {key_type}"),
        hint: "begin the key with a column of another type, such as --key PATH:text: text, varchar, an integer, uuid, or a \
               time"
            .into(),
    })
}

/// The statement that distributes a table by a column.
pub(super) fn distribution(name: &CollectionName, column: &str) -> String {
    let (table, column) = (quote_literal(&quote_name(name)), quote_literal(column));
    format!("select pg_catalog.create_distributed_table({table}, {column})")
}

/// A shard is not where it was when the load began.
pub(super) fn moved(shard: &CollectionName) -> Error {
    Error::TableChanged { collection: shard.clone(), what: "the node of a shard" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_whose_first_column_has_no_known_hash_is_refused_before_a_table_is_made() {
        let name = "events".parse().unwrap();
        for (key, refused) in [
            ("id:text", None),
            ("id:bigint,n:numeric", None),
            ("n:numeric,id:bigint", Some("distribute it by n, whose type is numeric")),
            ("is:boolean", Some("distribute it by is, whose type is boolean")),
        ] {
            let key = KeySpec::from_requests(&KeyRequest::parse_list(key).unwrap()).unwrap();
            let error = require_hashed(&name, &key).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), refused.is_some(), "{key:?}: {error:?}");
            assert!(error.is_none_or(|error| error.contains(refused.unwrap_or_default())), "{key:?}");
        }
    }
}
