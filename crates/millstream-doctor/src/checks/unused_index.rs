//! Check `unused-index`: indexes that no query uses.

use super::definition::definition;
use super::number::{bytes, count, needs, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::quantity::age;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "unused-index",
    about: "indexes that no query has used for weeks, and that every write maintains",
    class: Class::Arithmetic,
    thresholds: &[("index_mb", 10.0), ("days", 35.0)],
    manual: include_str!("unused_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let (needed, counted) = (task.threshold("days") * 86_400.0, database.sure_seconds);
    needs("which indexes no query uses", "of counters", needed, counted)?;
    let (least, sql) = (task.threshold("index_mb") * 1e6, include_str!("unused_index.sql"));
    let rows = database.worst(sql, &[&least]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
        let sentence =
            format!("no query has used this index of {table} since the counters began, {} ago", age(counted));
        Some(
            task.finding(Level::Info, name.clone(), sentence)
                .wastes(number(row, "bytes"))
                .with("size", bytes(row, "bytes"), "pg_class.relpages")
                .with("writes to the table", count(row, "writes"), "pg_stat_user_tables")
                .with("definition", &definition, "pg_get_indexdef")
                .counted(counted)
                .unless("the index is younger than the counters, a standby uses it, or a job needs it once a quarter")
                .repaired(
                    format!("look at the standbys, then drop it. To undo: {definition}"),
                    "a rare query that needs it becomes slow",
                )
                .run([format!("drop index concurrently {name}")])
                .changes(database.drop_index(&name)),
        )
    });
    Ok(found.collect())
}
