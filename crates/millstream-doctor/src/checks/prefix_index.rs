//! Check `prefix-index`: indexes that are the beginning of another one.

use super::definition::definition;
use super::number::{bytes, count, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "prefix-index",
    about: "indexes whose columns begin another index, which can serve the same queries",
    class: Class::Hypothesis,
    thresholds: &[("index_mb", 10.0)],
    manual: include_str!("prefix_index.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let (least, sql) = (task.threshold("index_mb") * 1e6, include_str!("prefix_index.sql"));
    let rows = database.worst(sql, &[&least]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (name, longer): (String, String) = (row.get("name"), row.get("longer"));
        Some(
            task.finding(Level::Info, name.clone(), format!("{longer} begins with the same columns"))
                .with("definition", &definition, "pg_get_indexdef")
                .with("the longer one", row.get::<_, Option<String>>("longer_definition")?, "pg_get_indexdef")
                .with("size", bytes(row, "bytes"), "pg_class.relpages")
                .with("scans of it", count(row, "scans"), "pg_stat_user_indexes")
                .wastes(number(row, "bytes"))
                .unless("it is much smaller than the longer one, and scanned often: then it is faster")
                .repaired(
                    format!("drop it; {longer} serves the same queries. To undo: {definition}"),
                    "scans of the longer index read more pages",
                )
                .run([format!("drop index concurrently {name}")])
                .changes(database.drop_index(&name)),
        )
    });
    Ok(found.collect())
}
