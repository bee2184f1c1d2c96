//! Merges one range of keys of a group of segments into the table, in one transaction.

use super::{range, refresh_session};
use crate::error::Error;
use crate::limits::COMPACTION_MEMORY_MIB;
use crate::turns::turn;
use crate::watched::same_table;
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, KeyColumn, shell_word};
use millstream_pg::{ConnInfo, ErrorKind, Explained, Failures, by_key, fill, quote_name};
use millstream_store::collections::Collection;
use millstream_store::segments::{self, Segment};
use millstream_store::{Schema, TableMark};
use tokio_postgres::Client;

/// The table as it was found fit.
pub(super) struct Fit {
    pub(super) mark: TableMark,
    /// Whether a trigger may drop rows or change their keys.
    pub(super) alters_rows: bool,
}

/// Whether other ranges are merged at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Others,
    None,
}

/// How a group is merged.
pub(super) struct Merge {
    schema: Schema,
    collection: CollectionName,
    table: String,
    compaction: i64,
    key: Vec<KeyColumn>,
    bounds: Vec<String>,
    /// The query for every row of the group.
    appended: String,
    key_list: String,
    join: String,
    values: String,
    /// Whether the table had no row, so that every key is new.
    empty: bool,
    /// Whether the group can be divided.
    divisible: bool,
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
        let table = quote_name(&collection.name);
        let exists = format!("select exists (select from {table})");
        let empty = !client.query_one(&exists, &[]).await?.get::<_, bool>(0);
        let appended = segments::appended(schema, &key_list, "doc", group);
        let values: Vec<String> = keys.iter().map(|key| format!("latest.{key}")).collect();
        Ok(Self {
            schema: schema.clone(),
            collection: collection.name.clone(),
            table,
            compaction,
            key: collection.key.clone(),
            bounds,
            appended,
            key_list,
            join: by_key("stored", "latest", &keys),
            values: values.join(", "),
            empty,
            divisible: group.len() > 1,
        })
    }

    /// The number of ranges.
    pub(super) fn ranges(&self) -> usize {
        range::count(&self.key, &self.bounds)
    }

    /// Merges one range and returns the number of keys written or deleted; 0 if the range is merged already. Retries
    /// after errors that may pass, but not when there is no connection for it. If the answer to the commit was lost, the
    /// range's record shows whether it is merged.
    pub(super) async fn run(&self, db: &ConnInfo, fit: &Fit, range: usize, company: Company) -> Result<u64, Error> {
        let (mut failures, mut empty, mut alone) = (Failures::default(), self.empty, false);
        loop {
            let error = match self.attempt(db, fit, range, company, (empty, alone)).await {
                Ok(keys) => return Ok(keys),
                Err(error) => error,
            };
            // Fewer segments need fewer locks.
            if self.divisible && is_out_of_memory(&error) || has_no_connection(&error, company) {
                return Err(error);
            }
            // Somebody has inserted rows since we found the table empty.
            let kind = if error.is_duplicate() { ErrorKind::Serialization } else { error.kind() };
            (empty, alone) = (false, alone || kind == ErrorKind::Deadlock);
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
        Error::refused(
            format!("{table} refuses documents that wait to be merged into it: {error}"),
            format!(
                "nothing is lost: drop the constraint, index or trigger that refuses them, or mend the row of \
                 {}.segment_N whose document is not valid jsonb, then run again: millstream compact {}",
                self.schema,
                shell_word(table)
            ),
        )
    }

    /// One try: into a table that is `empty`, and `alone`, because others that write into it lock the same rows in another
    /// order.
    async fn attempt(
        &self,
        db: &ConnInfo,
        fit: &Fit,
        range: usize,
        company: Company,
        (empty, alone): (bool, bool),
    ) -> Result<u64, Error> {
        let settings = refresh_session("millstream compact")
            .with_plans_by_key()
            .with("work_mem", &format!("{COMPACTION_MEMORY_MIB}MB"))
            .with("max_parallel_workers_per_gather", "0");
        let connection = match company {
            Company::Others => millstream_pg::connect(db, &settings).await?,
            Company::None => millstream_pg::connect_when_free(db, &settings).await?,
        };
        let client = &connection.client;
        client.batch_execute(include_str!("../write/durable.sql")).await?;
        client.batch_execute(&format!("begin; {}", turn(fit.mark.oid, alone))).await?;
        // Waits for the backend of a killed compaction, if it still merges this range.
        let line = "insert into {schema}.merged_range (compaction, range) values ($1, $2) on conflict do nothing";
        let number = i16::try_from(range).expect("workers are few");
        if client.execute(&self.schema.sql(line), &[&self.compaction, &number]).await? == 0 {
            return Ok(0);
        }
        client.batch_execute(&format!("lock table {} in row exclusive mode", self.table)).await?;
        // Locked now, it must still be as it was found.
        same_table(&fit.mark, client, false).await?;
        let keys = client.execute(&self.sql(range, empty), &[]).await?;
        if fit.alters_rows {
            let dropped: i64 = client.query_one(&self.dropped(range), &[]).await?.get(0);
            let rows = u64::try_from(dropped).unwrap_or(0);
            if rows > 0 {
                return Err(Error::RowsDropped { rows });
            }
        }
        failpoint::hit("range-merged").await?;
        client.batch_execute("commit").await?;
        failpoint::hit("range-committed").await?;
        connection.close().await;
        Ok(keys)
    }

    /// The statement that merges a range.
    fn sql(&self, range: usize, empty: bool) -> String {
        let Self { table, key_list, join, values, .. } = self;
        let latest = self.latest(range);
        if empty {
            return fill!(include_str!("merge_new.sql"), table, key = key_list, latest);
        }
        fill!(include_str!("merge.sql"), table, key = key_list, latest, join, values)
    }

    /// The query for the newest row of each key of a range, in key order.
    fn latest(&self, range: usize) -> String {
        let range = range::condition(&self.key, &self.bounds, range);
        fill!(include_str!("latest.sql"), key = self.key_list, appended = self.appended, range)
    }

    /// The query for the number of keys of a range that the transaction has not written.
    fn dropped(&self, range: usize) -> String {
        fill!(include_str!("dropped.sql"), table = self.table, join = self.join, latest = self.latest(range))
    }
}

/// Whether the server, the role or a pool has no connection for a range. A pool does not answer then, and if nobody else
/// has a connection, that may as well be a server that is away.
pub(super) fn has_no_connection(error: &Error, company: Company) -> bool {
    let Error::Postgres(error) = error else { return false };
    error.kind() == ErrorKind::TooManyConnections || company == Company::Others && error.is_unanswered()
}

/// Whether the server had no room, for locks or anything else.
pub(super) fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Postgres(error) if error.is_out_of_memory())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;

    #[test]
    fn names_and_keys_may_look_like_places() {
        let merge = Merge {
            schema: Schema::new("millstream"),
            collection: "t".parse().unwrap(),
            table: "\"public\".\"{key}\"".into(),
            compaction: 1,
            key: vec![KeyColumn { name: "{latest}".into(), path: vec!["id".into()], key_type: KeyType::Text }],
            bounds: vec!["{table} {key} {join} {values} {range}".into()],
            appended: "select".into(),
            key_list: "\"{latest}\"".into(),
            join: "stored.\"{latest}\" = latest.\"{latest}\"".into(),
            values: "latest.\"{latest}\"".into(),
            empty: false,
            divisible: true,
        };
        for (range, comparison) in ["<", ">="].into_iter().enumerate() {
            for empty in [false, true] {
                let sql = merge.sql(range, empty);
                let condition =
                    format!("row(\"{{latest}}\") operator(pg_catalog.{comparison}) row('{}'::text)", merge.bounds[0]);
                assert!(sql.contains(&condition) && sql.contains("into \"public\".\"{key}\" "), "{sql}");
            }
        }
    }
}
