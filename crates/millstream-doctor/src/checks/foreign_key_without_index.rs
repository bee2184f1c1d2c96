//! Check `foreign-key-without-index`: deletes that read a whole table to look for references.

use super::definition::definition;
use super::new_index;
use super::number::{count, with_analyzed};
use crate::check::{Check, Look, Looked, Task};
use crate::limits::{FINDINGS_MAX, ROWS_MAX};
use crate::server::Database;
use millstream_model::{Class, Level, Repair};

pub(super) const CHECK: Check = Check {
    id: "foreign-key-without-index",
    about: "foreign keys without an index: a delete in the other table reads the whole table",
    class: Class::Arithmetic,
    thresholds: &[("rows", 10_000.0)],
    manual: include_str!("foreign_key_without_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let sql = include_str!("foreign_key_without_index.sql");
    let rows = database.session.client.query(sql, &[&task.threshold("rows"), &ROWS_MAX]).await?;
    let mut found = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let Some(definition) = definition(row) else { continue };
        let (table, other, columns): (String, String, String) =
            (row.get("table_name"), row.get("other"), row.get("columns"));
        let clause = format!("({columns})");
        let (command, change) = if row.get("is_partitioned") {
            (format!("create index on {table} {clause}"), None)
        } else if n < FINDINGS_MAX {
            let client = &database.session.client;
            let (schema, name): (String, String) = (row.get("schema"), row.get("table"));
            (new_index::command(&table, &clause), new_index::change(client, &schema, &name, &clause).await?)
        } else {
            // It is not reported.
            (new_index::command(&table, &clause), None)
        };
        let risk = match row.get("is_partitioned") {
            true => "no partition can be written while the index is built; every write to the table maintains it",
            false => "every write to the table maintains it",
        };
        let sentence = format!("a delete in {other}, or an update of its key, reads all of {table}");
        let finding = task
            .finding(Level::Info, row.get::<_, String>("name"), sentence)
            .with("rows without an index", count(row, "rows"), "pg_class.reltuples")
            .with(
                "deletes and updates in the other one, without HOT updates",
                count(row, "changes"),
                "pg_stat_user_tables",
            )
            .with("foreign key", definition, "pg_get_constraintdef");
        let mut finding = with_analyzed(finding, row.get("analyze_age"));
        if row.get("is_partitioned") {
            finding = finding.with("partitions without an index", count(row, "tables"), "pg_index");
        }
        finding.counted_seconds = Some(database.counted_seconds);
        finding.alternative = Some("the updates leave the key alone, and rows are deleted with truncate".to_owned());
        finding.repair =
            Some(Repair::new("create an index on its columns", risk.to_owned()).run([command]).changes(change));
        found.push(finding);
    }
    Ok(found.into_iter().collect())
}
