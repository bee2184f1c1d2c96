//! Check `foreign-key-without-index`: deletes that may read a whole table to look for references.

use super::definition::definition;
use super::new_index;
use super::number::{count, with_analyzed};
use crate::check::{Check, Look, Looked, Task};
use crate::limits::FINDINGS_MAX;
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "foreign-key-without-index",
    about: "foreign keys without an index: a delete in the other table may read the whole table",
    class: Class::Arithmetic,
    thresholds: &[("rows", 10_000.0)],
    manual: include_str!("foreign_key_without_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

/// What would serve the key.
const WANTED: &str = "valid index that has all rows and finds single ones begins with a column of the key";

async fn look(database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let rows = database.worst(include_str!("foreign_key_without_index.sql"), &[&task.threshold("rows")]).await?;
    let mut found = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let Some(definition) = definition(row) else { continue };
        let [table, other, columns] = ["table_name", "other", "columns"].map(|column| row.get::<_, String>(column));
        let (clause, is_partitioned) = (format!("({columns})"), row.get("is_partitioned"));
        let (command, risk) = match is_partitioned {
            true => (
                format!("create index on {table} {clause}"),
                "no partition can be written while the index is built; every write to the table maintains it",
            ),
            false => (new_index::command(&table, &clause), "every write to the table maintains it"),
        };
        let (client, schema, name) = (&database.session.client, row.get("schema"), row.get("table"));
        // What comes after these is not reported.
        let is_reported = n < FINDINGS_MAX;
        // One that is not valid finds nothing, and is to be mended.
        let is_there = is_reported && new_index::is_there(client, schema, name, &clause).await?;
        let change = match is_reported && !is_there && !is_partitioned {
            true => new_index::change(client, schema, name, &clause).await?,
            false => None,
        };
        let (repair, command) = match is_there {
            true => ("an index on its columns is not valid: do as invalid-index says", None),
            false => ("create an index on its columns", Some(command)),
        };
        let partitions = is_partitioned.then(|| count(row, "tables"));
        let index: Option<String> = row.get("index_name");
        // The planner may know another way: a partial index, or a skip scan.
        let what = match &index {
            None if is_partitioned => format!("whole partitions of {table}: of these no {WANTED}"),
            None => format!("all of {table}: no {WANTED}"),
            Some(index) => {
                format!("{} rows of {table}, because {index} finds a part of the key only", count(row, "rows_read"))
            }
        };
        let sentence = format!("a delete in {other}, or an update of its key, may read {what}");
        let finding = task
            .finding(Level::Info, row.get::<_, String>("name"), sentence)
            .with(
                if index.is_some() { "rows" } else { "rows without such an index" },
                count(row, "rows"),
                "pg_class.reltuples",
            )
            .with_known(
                "rows for each value of that part",
                index.map(|_| count(row, "rows_read")),
                "pg_stats.n_distinct",
            )
            .with(
                "deletes and updates in the other one, without HOT updates",
                count(row, "changes"),
                "pg_stat_user_tables",
            )
            .with("foreign key", definition, "pg_get_constraintdef");
        let finding = with_analyzed(finding, row.get("analyze_age"))
            .with_known("partitions without an index", partitions, "pg_index")
            .counted(database.counted_seconds)
            .unless(
                "the updates leave the key alone, and rows are deleted with truncate; or another index serves the lookup, such as \
                 a partial one for the values of the key or, from PostgreSQL 18 on, one with few values before the key",
            )
            .repaired(repair, risk)
            .run(command)
            .changes(change);
        found.push(finding);
    }
    Ok(found.into_iter().collect())
}
