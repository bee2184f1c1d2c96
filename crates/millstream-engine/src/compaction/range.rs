//! Ranges of keys that divide the documents of a group about evenly, so that each worker has its own part of the index.

use crate::error::Error;
use crate::limits::COMPACTION_SAMPLE;
use millstream_model::KeyColumn;
use millstream_pg::{quote_identifier, quote_literal};
use millstream_store::Schema;
use millstream_store::collections::Collection;
use millstream_store::segments::{self, Segment};
use tokio_postgres::Client;

/// The keys that separate the ranges, in order: the values of the columns as text, key after key. They are taken from a
/// sample. If the sample holds fewer keys, there are fewer ranges.
pub(super) async fn bounds(
    client: &Client,
    schema: &Schema,
    collection: &Collection,
    group: &[Segment],
    ranges: usize,
) -> Result<Vec<String>, Error> {
    let documents: u64 = group.iter().map(|segment| segment.documents).sum();
    let percent = (100 * COMPACTION_SAMPLE / documents.max(1)).clamp(1, 100);
    let keys = segments::key_names(collection);
    let list = |form: &dyn Fn(&String) -> String| keys.iter().map(form).collect::<Vec<_>>().join(", ");
    let sample: Vec<String> = group
        .iter()
        .map(|segment| {
            let (keys, table) = (keys.join(", "), segment.table(schema));
            format!("select {keys} from {table} tablesample system ({percent})")
        })
        .collect();
    // The order is that of the values, not of their texts.
    let sql = format!(
        "select {} from ({}) as sample order by {}",
        list(&|key| format!("sample.{key}::text")),
        sample.join(" union all "),
        list(&|key| format!("sample.{key}"))
    );
    let rows = client.query(&sql, &[]).await?;
    let mut bounds: Vec<Vec<String>> = (1..ranges)
        .filter_map(|n| rows.get(n * rows.len() / ranges))
        .map(|row| (0..keys.len()).map(|column| row.get(column)).collect())
        .collect();
    bounds.dedup();
    Ok(bounds.concat())
}

/// The number of ranges that these bounds make.
pub(super) fn count(key: &[KeyColumn], bounds: &[String]) -> usize {
    bounds.len() / key.len() + 1
}

/// The condition for the keys of a range.
pub(super) fn condition(key: &[KeyColumn], bounds: &[String], range: usize) -> String {
    let names: Vec<String> = key.iter().map(|column| quote_identifier(&column.name)).collect();
    let compared = |comparison: &str, bound: &[String]| {
        let values = key.iter().zip(bound);
        let values: Vec<String> =
            values.map(|(column, value)| format!("{}::{}", quote_literal(value), column.key_type.sql_name())).collect();
        format!("row({}) operator(pg_catalog.{comparison}) row({})", names.join(", "), values.join(", "))
    };
    let mut bounds = bounds.chunks(key.len());
    // The first range has no lower bound, and the last has no upper bound.
    let before = range.checked_sub(1).and_then(|n| bounds.clone().nth(n)).map(|bound| compared(">=", bound));
    let after = bounds.nth(range).map(|bound| compared("<", bound));
    let conditions: Vec<String> = before.into_iter().chain(after).collect();
    if conditions.is_empty() { "true".into() } else { conditions.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;

    #[test]
    fn ranges_cover_every_key_once() {
        let column = |name: &str, key_type| KeyColumn { name: name.into(), path: vec![name.into()], key_type };
        let key = [column("id", KeyType::Text), column("n", KeyType::Bigint)];
        assert_eq!((count(&key, &[]), condition(&key, &[], 0)), (1, "true".to_owned()));
        let bounds = ["b'", "1", "c", "2"].map(str::to_owned);
        let (b, c) = ("row('b'''::text, '1'::bigint)", "row('c'::text, '2'::bigint)");
        assert_eq!(count(&key, &bounds), 3);
        let ranges = [0, 1, 2].map(|range| condition(&key, &bounds, range));
        let key = "row(\"id\", \"n\")";
        let expected = [
            format!("{key} operator(pg_catalog.<) {b}"),
            format!("{key} operator(pg_catalog.>=) {b} and {key} operator(pg_catalog.<) {c}"),
            format!("{key} operator(pg_catalog.>=) {c}"),
        ];
        assert_eq!(ranges, expected);
    }
}
