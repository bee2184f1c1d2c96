//! The distinct values of a column of a collection's key, found by a skip scan of the key's index.

use crate::error::Error;
use crate::limits::DISTINCT_SETTINGS;
use futures_util::{Stream, StreamExt, TryStreamExt};
use millstream_model::shell_word;
use millstream_pg::{quote_identifier, quote_name};
use millstream_store::DISTINCT_WALK;
use millstream_store::collections::Collection;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// Which values are asked for.
#[derive(Debug, Clone, Default)]
pub struct DistinctRequest {
    /// A column of the key.
    pub column: String,
    /// A value for each column of the key before it, spelled as for a cast to the column's type.
    pub prefix: Vec<String>,
    /// Whether to count the rows of each value.
    pub count: bool,
    /// Whether to give values as JSON, not as text.
    pub json: bool,
    /// At most so many values, the first in the key's order.
    pub limit: Option<u64>,
}

/// Streams the distinct values in the key's order, each once. A value costs one descent of the index, however many rows
/// have it. The first value does not wait for the others. Counting also reads the index entries of all rows. A counted
/// value is its count, a tab and the value; as JSON it is an object of `value` and `count`.
///
/// # Errors
/// [`Error::Refused`] when the column does not come right after the prefix; the server's, also when a value of the
/// prefix does not fit its type.
pub async fn distinct(
    client: &mut Client,
    collection: &Collection,
    request: &DistinctRequest,
) -> Result<impl Stream<Item = Result<String, Error>> + use<>, Error> {
    check(collection, request)?;
    let transaction = client.build_transaction().read_only(true).start().await?;
    let spelled = match (request.json, request.count) {
        (false, false) => "value",
        (false, true) => r"pg_catalog.concat(rows, e'\t', value)",
        (true, false) => "pg_catalog.to_jsonb(value)",
        (true, true) => "pg_catalog.jsonb_build_object('value', value, 'count', rows)",
    };
    let limit = request.limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
    let statement = format!("select {spelled}::text from ({}) as walked{limit}", skip_scan(collection, request));
    let settings = transaction.batch_execute(DISTINCT_SETTINGS);
    let ((), statement) = tokio::try_join!(biased; settings, transaction.prepare(&statement))?;
    let prefix: Vec<&(dyn ToSql + Sync)> = request.prefix.iter().map(|value| value as _).collect();
    let portal = transaction.bind(&statement, &prefix).await?;
    // The server sends rows when its buffer is full or a request is complete. So the first row is a request of its own.
    // Both requests are sent before either is answered, and before the transaction ends.
    let first = transaction.query_portal_raw(&portal, 1).await?;
    let others = transaction.query_portal_raw(&portal, 0).await?;
    Ok(first.chain(others).map_err(Error::from).map_ok(|row| row.get(0)))
}

/// The skip scan. Its parameters are the prefix.
fn skip_scan(collection: &Collection, request: &DistinctRequest) -> String {
    let table = quote_name(&collection.name);
    let column = quote_identifier(&request.column);
    let given = (1..).zip(&collection.key).take(request.prefix.len()).map(|(n, before)| {
        let (name, key_type) = (quote_identifier(&before.name), before.key_type.sql_name());
        format!("stored.{name} operator(pg_catalog.=) (${n}::text)::{key_type}")
    });
    let among = given.collect::<Vec<_>>().join(" and ");
    let among = if among.is_empty() { "true" } else { &among };
    let rows = format!(
        ", (select pg_catalog.count(*) from {table} as stored \
            where {among} and stored.{column} operator(pg_catalog.=) walk.value) as rows"
    );
    filled(DISTINCT_WALK, &[&column, &table, among, if request.count { &rows } else { "" }])
}

/// Fills in a text as SQL's `format` does. Each specifier names its argument by number, and the arguments are quoted
/// already.
fn filled(text: &str, arguments: &[&str]) -> String {
    let mut pieces = text.split('%');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (number, rest) = piece.split_once('$').expect("a specifier is like %1$I");
        let number: usize = number.parse().expect("an argument is named by its number");
        filled.push_str(arguments[number - 1]);
        filled.push_str(&rest[1..]);
    }
    filled
}

/// Requires that the column comes right after the prefix.
fn check(collection: &Collection, request: &DistinctRequest) -> Result<(), Error> {
    let names: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    let (key, given) = (names.join(", "), request.prefix.len());
    let refused = |problem: String, hint: String| Err(Error::refused(problem, hint));
    let Some(place) = names.iter().position(|name| *name == request.column) else {
        let problem = format!("{} is not a column of the key of {} ({key})", request.column, collection.name);
        let hint = match &names[1..] {
            [] => format!("choose {}", names[0]),
            later => format!("choose {}, or {} with the values of the columns before it", names[0], later.join(", ")),
        };
        return refused(problem, hint);
    };
    if place == given {
        return Ok(());
    }
    if place == 0 {
        let problem = format!("{} comes first in the key ({key}), and {given} values are given before it", names[0]);
        return refused(problem, "leave out --prefix".to_owned());
    }
    let values = if place == 1 { "value" } else { "values" };
    let problem =
        format!("{} comes after {place} {values} in the key ({key}), of which {given} are given", names[place]);
    let prefix = format!("--prefix {}", shell_word(&names[..place].join(",")));
    let hint = format!("give them as {prefix}, or choose {}", names[given.min(place)]);
    refused(problem, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{DocumentForm, KeyColumn, KeyType};
    use millstream_pg::Explained as _;

    #[test]
    fn the_column_is_the_one_after_the_prefix() {
        let column = |name: &str| KeyColumn { name: name.into(), path: vec![name.into()], key_type: KeyType::Text };
        let collection = Collection {
            table_oid: 1,
            name: "t".parse().unwrap(),
            key: ["a", "b", "c"].map(column).into(),
            doc: DocumentForm::Whole,
            adopted: false,
            present: true,
            replaced: false,
            distributed: false,
        };
        for (column, given, refusal) in [
            ("a", 0, None),
            ("b", 1, None),
            ("c", 2, None),
            (
                "doc",
                0,
                Some(
                    "doc is not a column of the key of t (a, b, c)|choose a, or b, c with the values of the columns before it",
                ),
            ),
            ("a", 1, Some("a comes first in the key (a, b, c), and 1 values are given before it|leave out --prefix")),
            (
                "b",
                0,
                Some(
                    "b comes after 1 value in the key (a, b, c), of which 0 are given|give them as --prefix \
                     a, or choose a",
                ),
            ),
            (
                "c",
                1,
                Some(
                    "c comes after 2 values in the key (a, b, c), of which 1 are given|give them as --prefix \
                     a,b, or choose b",
                ),
            ),
            (
                "b",
                2,
                Some(
                    "b comes after 1 value in the key (a, b, c), of which 2 are given|give them as --prefix \
                     a, or choose b",
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
