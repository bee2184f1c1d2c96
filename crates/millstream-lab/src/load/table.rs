//! What a table holds after a load, compared with what the generator of the documents knows.

use super::copy;
use super::stream::{Expected, Stored};
use crate::error::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tokio_postgres::Client;

/// One document per line. No document contains the characters used as delimiter and quote.
const COPY: &str = "copy pg_temp.sent from stdin (format csv, delimiter e'\\x01', quote e'\\x02')";

/// Checks that a table holds these rows, and each document under its own key; or, if documents are stored without their
/// key, that they are. Without the documents if they were loaded in an order that nobody knows. `table` is quoted.
///
/// # Errors
/// [`Error::Wrong`] with the difference; the server's.
pub async fn check_stored(
    client: &Client,
    table: &str,
    expected: &Stored,
    (with_documents, with_key): (bool, bool),
) -> Result<(), Error> {
    let misplaced = match with_key {
        true => "(doc operator(pg_catalog.->>) 'id') is distinct from id::text",
        false => "doc operator(pg_catalog.?) 'id'",
    };
    let sql = format!(
        "select pg_catalog.count(*), \
         coalesce(pg_catalog.sum((doc operator(pg_catalog.->>) 'n')::bigint), 0)::text, \
         pg_catalog.count(*) filter (where {misplaced}) \
         from {table}"
    );
    let row = client.query_one(&sql, &[]).await?;
    let (rows, sum, misplaced): (i64, String, i64) = (row.get(0), row.get(1), row.get(2));
    if i64::try_from(expected.rows) != Ok(rows) {
        return Err(Error::Wrong(format!("{rows} rows instead of {}", expected.rows)));
    }
    if misplaced != 0 {
        let wrong = if with_key { "under another key" } else { "with their key" };
        return Err(Error::Wrong(format!("{misplaced} documents {wrong}")));
    }
    if with_documents && sum != expected.sum {
        return Err(Error::Wrong("other documents than those that were loaded".to_owned()));
    }
    Ok(())
}

/// Checks that for each key in a file the table holds a document of the file. `table` is quoted.
///
/// # Errors
/// [`Error::Wrong`] with the difference; those of the server and the disk.
pub async fn check_sent(client: &Client, table: &str, file: &Path) -> Result<(), Error> {
    client.batch_execute("create temp table sent (doc jsonb not null)").await?;
    copy::send(client, COPY, file).await?;
    client.batch_execute("analyze pg_temp.sent").await?;
    let row = client.query_one(&include_str!("sent.sql").replace("the_table", table), &[]).await?;
    match (row.get::<_, i64>("keys"), row.get::<_, i64>("found")) {
        (keys, found) if keys == found => Ok(()),
        (keys, found) => Err(Error::Wrong(format!("{found} of {keys} keys have a document that was sent"))),
    }
}

/// Bytes and rows of a table, by the names of their metrics. `table` is quoted.
///
/// # Errors
/// The server's.
pub async fn sizes(client: &Client, table: &str) -> Result<BTreeMap<&'static str, f64>, Error> {
    let row = client.query_one(&include_str!("table_state.sql").replace("the_table", table), &[]).await?;
    let names = ["heap_bytes", "index_bytes", "toast_bytes", "stored"];
    let mut sizes: BTreeMap<&'static str, f64> = names.into_iter().map(|name| (name, row.get(name))).collect();
    let all: f64 = names[..3].iter().map(|name| sizes[name]).sum();
    if sizes["stored"] > 0.0 {
        sizes.insert("bytes_per_row", all / sizes["stored"]);
    }
    Ok(sizes)
}

/// Checks that a receipt counts every document: those that are not stored as rejected, the others by these counters.
///
/// # Errors
/// [`Error::Wrong`] with the difference.
pub fn check_receipt(receipt: &Value, expected: &Expected, refuses: bool, counters: &[String]) -> Result<(), Error> {
    let number = |name: &str| receipt.get(name).and_then(Value::as_u64);
    let rejected = if refuses { expected.documents - expected.accepted.rows } else { 0 };
    let counted = counters.iter().map(|name| number(name)).sum::<Option<u64>>();
    for (name, value, expected) in [
        ("read", number("read"), expected.documents),
        ("rejected", number("rejected"), rejected),
        (&*counters.join(" and "), counted, expected.documents - rejected),
    ] {
        if value != Some(expected) {
            let value = value.map_or("nothing".to_owned(), |value| value.to_string());
            return Err(Error::Wrong(format!("the receipt says {value} for {name} instead of {expected}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_receipt_with_other_counts_is_an_error() {
        let stored = |rows| Stored { rows, sum: String::new() };
        let expected = Expected { documents: 10, all: stored(10), accepted: stored(9) };
        let check = |receipt: Value, refuses: bool, counters: &[&str]| {
            let counters: Vec<String> = counters.iter().map(|name| (*name).to_owned()).collect();
            check_receipt(&receipt, &expected, refuses, &counters).map_err(|error| error.to_string())
        };
        let updated = |read, updated, rejected| json!({"read": read, "updated": updated, "rejected": rejected});
        assert_eq!(check(updated(10, 10, 0), false, &["updated"]), Ok(()));
        let wrong = check(updated(10, 9, 0), false, &["updated"]).unwrap_err();
        assert_eq!(wrong, "wrong result: the receipt says 9 for updated instead of 10");
        assert!(check(updated(9, 10, 0), false, &["updated"]).is_err());
        assert!(check(updated(10, 10, 1), false, &["updated"]).is_err());
        assert!(check(json!({}), false, &["updated"]).is_err());
        assert_eq!(check(updated(10, 9, 1), true, &["updated"]), Ok(()));
        assert!(check(updated(10, 10, 0), true, &["updated"]).is_err());
        let two = json!({"read": 10, "updated": 9, "superseded": 2, "rejected": 0});
        let wrong = check(two, false, &["updated", "superseded"]).unwrap_err();
        assert!(wrong.contains("says 11 for updated and superseded"), "{wrong}");
    }
}
