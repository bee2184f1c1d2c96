//! Check `invalid-index`: indexes whose build failed.

use super::definition::definition;
use super::number::{bytes, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level, Repair};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "invalid-index",
    about: "indexes whose build failed: no query uses them, and writes may still maintain them",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("invalid_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("invalid_index.sql"), &[]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
        let cost = if row.get("maintained") { ", and every write to the table maintains it" } else { "" };
        let sentence = match row.get("partitioned") {
            true => format!("this index of the partitioned table {table} lacks the index of a partition"),
            false => format!("no query uses this index of {table}{cost}"),
        };
        Some(
            task.finding(Level::Warning, name.clone(), sentence)
                .with("valid", "no", "pg_index.indisvalid")
                .wastes(number(row, "bytes"))
                .with("size", bytes(row, "bytes"), "pg_class.relpages")
                .with("definition", definition, "pg_get_indexdef")
                .repaired_by(repair(row, &name)),
        )
    });
    Ok(found.collect())
}

fn repair(row: &Row, name: &str) -> Repair {
    if row.get("partitioned") {
        let sentence =
            "create the index on each partition that lacks it, and attach it with alter index .. attach partition";
        Repair::new(sentence, "each build reads a partition")
    } else if row.get("left_over") {
        let sentence = "drop it: a reindex concurrently that failed has left it behind";
        Repair::new(sentence, "none: no query uses it").run([format!("drop index concurrently {name}")])
    } else {
        let risk = "it reads the table twice; a unique index fails again if there are duplicates";
        Repair::new("build it again beside other work, or drop it if nobody misses it", risk)
            .run([format!("reindex index concurrently {name}")])
    }
}
