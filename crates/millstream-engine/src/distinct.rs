//! The distinct values of a column of a collection's key, found by walking the key's index.

use crate::error::Error;
use crate::limits::DISTINCT_SETTINGS;
use crate::store::Schema;
use crate::store::collections::Collection;
use futures_util::{Stream, StreamExt, TryStreamExt};
use millstream_pg::quote_qualified;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// Which values are asked for.
#[derive(Debug, Clone, Default)]
pub struct DistinctRequest {
    /// A column of the key.
    pub column: String,
    /// A value for each column of the key before it, spelled as for a cast to the column's type.
    pub prefix: Vec<String>,
    /// Each with the number of its rows.
    pub count: bool,
    /// Values as JSON, not as text.
    pub json: bool,
    /// At most so many values, the first in the key's order.
    pub limit: Option<u64>,
}

/// Streams the distinct values in the key's order, each once. A value costs one descent of the index, however
/// many rows have it, and the first one does not wait for the others. Counted, it also costs the part of the index
/// that its rows have, and is its count, a tab and the value; as JSON an object of `value` and `count`.
///
/// # Errors
/// [`Error::Request`] when the column is not the one that comes after the prefix; the server's, also when a
/// value of the prefix does not fit its type.
pub async fn distinct(
    client: &mut Client,
    schema: &Schema,
    collection: &Collection,
    request: &DistinctRequest,
) -> Result<impl Stream<Item = Result<String, Error>> + use<>, Error> {
    check(collection, request)?;
    let transaction = client.build_transaction().read_only(true).start().await?;
    transaction.batch_execute(DISTINCT_SETTINGS).await?;
    let table = quote_qualified(&collection.name.schema, &collection.name.table);
    let walk = schema.sql("select {schema}.distinct_walk($1::text::pg_catalog.regclass, $2, $3, $4)");
    let asked: [&(dyn ToSql + Sync); 4] = [&table, &request.column, &request.prefix, &request.count];
    let walk: String = transaction.query_one(&walk, &asked).await?.get(0);
    let spelled = match (request.json, request.count) {
        (false, false) => "value",
        (false, true) => r"pg_catalog.concat(rows, e'\t', value)",
        (true, false) => "pg_catalog.to_jsonb(value)",
        (true, true) => "pg_catalog.jsonb_build_object('value', value, 'count', rows)",
    };
    let limit = request.limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
    let portal = transaction.bind(&format!("select {spelled}::text from ({walk}) as walked{limit}"), &[]).await?;
    // The server sends rows when its buffer is full or a request is answered, so that the first row is a request of
    // its own. Both are on their way before either is answered, and before the end of the transaction.
    let first = transaction.query_portal_raw(&portal, 1).await?;
    let others = transaction.query_portal_raw(&portal, 0).await?;
    Ok(first.chain(others).map_err(Error::from).map_ok(|row| row.get(0)))
}

/// Whether the column is the one that comes after the prefix.
fn check(collection: &Collection, request: &DistinctRequest) -> Result<(), Error> {
    let names: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    let (key, given) = (names.join(", "), request.prefix.len());
    let refused = |problem: String, hint: String| Err(Error::Request { problem, hint });
    let Some(place) = names.iter().position(|name| *name == request.column) else {
        let problem = format!("{} is no column of the key of {} ({key})", request.column, collection.name);
        let hint = match &names[1..] {
            [] => format!("{} can be walked", names[0]),
            later => format!("{} can be walked, and {} with the values of those before it", names[0], later.join(", ")),
        };
        return refused(problem, hint);
    };
    if place == given {
        return Ok(());
    }
    if place == 0 {
        let problem = format!("{} comes first in the key ({key}), and {given} values are given before it", names[0]);
        return refused(problem, "leave out --prefix".into());
    }
    let values = if place == 1 { "value" } else { "values" };
    let problem =
        format!("{} comes after {place} {values} in the key ({key}), of which {given} are given", names[place]);
    let hint = format!("give them as --prefix {}, or walk {}", names[..place].join(","), names[given.min(place)]);
    refused(problem, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{KeyColumn, KeyType};

    #[test]
    fn the_column_is_the_one_after_the_prefix() {
        let column = |name: &str| KeyColumn { name: name.into(), path: vec![name.into()], key_type: KeyType::Text };
        let collection = Collection {
            table_oid: 1,
            name: "t".parse().unwrap(),
            key: ["a", "b", "c"].map(column).into(),
            adopted: false,
            present: true,
        };
        for (column, given, refusal) in [
            ("a", 0, None),
            ("b", 1, None),
            ("c", 2, None),
            (
                "doc",
                0,
                Some(
                    "doc is no column of the key of t (a, b, c)|a can be walked, and b, c with the values of those before it",
                ),
            ),
            ("a", 1, Some("a comes first in the key (a, b, c), and 1 values are given before it|leave out --prefix")),
            (
                "b",
                0,
                Some(
                    "b comes after 1 value in the key (a, b, c), of which 0 are given|give them as --prefix a, or walk a",
                ),
            ),
            (
                "c",
                1,
                Some(
                    "c comes after 2 values in the key (a, b, c), of which 1 are given|give them as --prefix a,b, or walk b",
                ),
            ),
            (
                "b",
                2,
                Some(
                    "b comes after 1 value in the key (a, b, c), of which 2 are given|give them as --prefix a, or walk b",
                ),
            ),
        ] {
            let request = DistinctRequest {
                column: column.into(),
                prefix: vec!["x".into(); given],
                ..DistinctRequest::default()
            };
            let found = check(&collection, &request).err().map(|e| format!("{e}|{}", e.hint().unwrap()));
            assert_eq!(found.as_deref(), refusal, "{column} after {given}");
        }
    }
}
