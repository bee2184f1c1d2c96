//! Check `duplicate-index`: indexes that another one replaces.

use super::definition::definition;
use super::number::{bytes, count, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "duplicate-index",
    about: "indexes that are defined as another one: they take space, and every write maintains both",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("duplicate_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("duplicate_index.sql"), &[]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (name, kept): (String, String) = (row.get("name"), row.get("kept"));
        let sentence = format!("it is defined as {kept}, on {}", row.get::<_, String>("table_name"));
        // What a partitioned index consists of cannot be dropped beside other work, nor built again so.
        let (word, wait, change) = match row.get("is_partitioned") {
            true => ("", "; it waits for all work on the table and its partitions, which waits for it", None),
            false => (" concurrently", "", database.drop_index(&name)),
        };
        Some(
            task.finding(Level::Warning, name.clone(), sentence)
                .with("definition", &definition, "pg_get_indexdef")
                .wastes(number(row, "bytes"))
                .with("size", bytes(row, "bytes"), "pg_class.relpages")
                .with("scans of it", count(row, "scans"), "pg_stat_user_indexes")
                .unless("somebody builds a new index to replace the old one, and has not dropped it yet")
                .repaired(
                    format!("drop it; {kept} serves the same queries. To undo: {definition}"),
                    format!("statements that name the index, in hints or scripts, fail{wait}"),
                )
                .run([format!("drop index{word} {name}")])
                .changes(change),
        )
    });
    Ok(found.collect())
}
