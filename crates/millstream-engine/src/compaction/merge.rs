//! Merges one range of keys of a group of segments into the table, in one transaction.

use super::{range, session};
use crate::error::Error;
use crate::limits::COMPACTION_MEMORY_MIB;
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, KeyColumn};
use millstream_pg::{ConnInfo, ErrorKind, Failures, quote_qualified};
use millstream_store::Schema;
use millstream_store::collections::Collection;
use millstream_store::segments::{self, Segment};
use tokio_postgres::Client;

/// How a group is merged.
pub(super) struct Merge {
    schema: Schema,
    collection: CollectionName,
    table: String,
    table_oid: u32,
    compaction: i64,
    key: Vec<KeyColumn>,
    bounds: Vec<String>,
    /// The query for the newest row of each key of a range, in key order. Its `{range}` is replaced by the range's
    /// condition.
    latest: String,
    key_list: String,
    join: String,
    values: String,
    /// Whether the table had no row, so that every key is new.
    empty: bool,
}

impl Merge {
    pub(super) async fn new(
        client: &Client,
        schema: &Schema,
        collection: &Collection,
        group: &[Segment],
    ) -> Result<Self, Error> {
        let begun = group.first().and_then(|segment| segment.compaction.clone());
        let (compaction, bounds) = begun.ok_or(millstream_store::Error::Ledger("a group of segments has no number"))?;
        let keys = segments::key_names(collection);
        let key_list = keys.join(", ");
        let table = quote_qualified(&collection.name.schema, &collection.name.table);
        let exists = format!("select exists (select from {table})");
        let empty = !client.query_one(&exists, &[]).await?.get::<_, bool>(0);
        let latest = include_str!("latest.sql")
            .replace("{key}", &key_list)
            .replace("{appended}", &segments::appended(schema, &key_list, "doc", group));
        let values: Vec<String> = keys.iter().map(|key| format!("latest.{key}")).collect();
        let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} = latest.{key}")).collect();
        Ok(Self {
            schema: schema.clone(),
            collection: collection.name.clone(),
            table,
            table_oid: collection.table_oid,
            compaction,
            key: collection.key.clone(),
            bounds,
            latest,
            key_list,
            join: join.join(" and "),
            values: values.join(", "),
            empty,
        })
    }

    /// The number of ranges.
    pub(super) fn ranges(&self) -> usize {
        range::count(&self.key, &self.bounds)
    }

    /// Merges one range and returns the number of keys written or deleted; 0 if the range is merged already. Retries
    /// after errors that may pass. If the answer to the commit was lost, the range's record shows whether it is merged.
    pub(super) async fn run(&self, db: &ConnInfo, range: usize) -> Result<u64, Error> {
        let (mut failures, mut empty) = (Failures::default(), self.empty);
        loop {
            let error = match self.attempt(db, range, empty).await {
                Ok(keys) => return Ok(keys),
                Err(error) => error,
            };
            // Somebody has inserted rows since we found the table empty.
            let kind = if error.is_duplicate() { ErrorKind::Serialization } else { error.kind() };
            empty = false;
            if !failures.wait(kind).await {
                return Err(self.explained(error));
            }
        }
    }

    /// The error to report. A table that refuses a document blocks all documents that wait, so that error says what to
    /// do.
    fn explained(&self, error: Error) -> Error {
        if !error.refuses_data() {
            return error;
        }
        let table = &self.collection;
        Error::Request {
            problem: format!("{table} refuses documents that wait to be merged into it: {error}"),
            hint: format!(
                "nothing is lost: drop the constraint, index or trigger that refuses them, or mend the row of \
                 {} whose document is not valid jsonb, then run again: millstream compact {table}",
                self.schema.sql("{schema}.segment_N")
            ),
        }
    }

    async fn attempt(&self, db: &ConnInfo, range: usize, empty: bool) -> Result<u64, Error> {
        let settings = session("millstream compact")
            .with("work_mem", &format!("{COMPACTION_MEMORY_MIB}MB"))
            .with("max_parallel_workers_per_gather", "0");
        let connection = millstream_pg::connect(db, &settings).await?;
        let client = &connection.client;
        client.batch_execute(include_str!("../write/durable.sql")).await?;
        client.batch_execute("begin").await?;
        // Waits for the backend of a killed compaction, if it still merges this range.
        let line = "insert into {schema}.merged_range (compaction, range) values ($1, $2) on conflict do nothing";
        let number = i16::try_from(range).expect("workers are few");
        if client.execute(&self.schema.sql(line), &[&self.compaction, &number]).await? == 0 {
            return Ok(0);
        }
        client.batch_execute(&format!("lock table {} in row exclusive mode", self.table)).await?;
        let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
        if client.query_one(oid, &[&self.table]).await?.get::<_, u32>(0) != self.table_oid {
            return Err(Error::TableMoved { collection: self.collection.clone() });
        }
        let keys = client.execute(&self.sql(range, empty), &[]).await?;
        failpoint::hit("range-merged").await?;
        client.batch_execute("commit").await?;
        failpoint::hit("range-committed").await?;
        connection.close().await;
        Ok(keys)
    }

    /// The statement that merges a range.
    fn sql(&self, range: usize, empty: bool) -> String {
        let sql = if empty { include_str!("merge_new.sql") } else { include_str!("merge.sql") };
        sql.replace("{latest}", &self.latest)
            .replace("{table}", &self.table)
            .replace("{key}", &self.key_list)
            .replace("{join}", &self.join)
            .replace("{values}", &self.values)
            // Last, because the conditions hold keys, and a key may contain any text.
            .replace("{stored_range}", &range::condition("stored.", &self.key, &self.bounds, range))
            .replace("{range}", &range::condition("", &self.key, &self.bounds, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;

    #[test]
    fn placeholders_in_keys_are_not_replaced() {
        let merge = Merge {
            schema: Schema::new("millstream"),
            collection: "t".parse().unwrap(),
            table: "\"public\".\"t\"".into(),
            table_oid: 1,
            compaction: 1,
            key: vec![KeyColumn { name: "id".into(), path: vec!["id".into()], key_type: KeyType::Text }],
            bounds: vec!["{table} {key} {join} {values} {latest}".into()],
            latest: include_str!("latest.sql").into(),
            key_list: "\"id\"".into(),
            join: "stored.\"id\" = latest.\"id\"".into(),
            values: "latest.\"id\"".into(),
            empty: false,
        };
        for (range, comparison) in ["<", ">="].into_iter().enumerate() {
            for empty in [false, true] {
                let sql = merge.sql(range, empty);
                let condition = format!("(\"id\") {comparison} ('{}'::text)", merge.bounds[0]);
                assert!(sql.contains(&condition), "{sql}");
            }
        }
    }
}
