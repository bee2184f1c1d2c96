//! Check `unlogged-table`: tables that a crash empties.

use super::number::bytes;
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "unlogged-table",
    about: "tables that a crash of the server empties, and that no backup by WAL and no standby has",
    class: Class::Fact,
    thresholds: &[("table_mb", 1.0)],
    manual: include_str!("unlogged_table.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let least = task.threshold("table_mb") * 1e6;
    let rows = database.worst(include_str!("unlogged_table.sql"), &[&least]).await?;
    let found = rows.iter().map(|row| {
        let name: String = row.get("name");
        task.finding(Level::Info, name.clone(), "a crash of the server empties this table")
            .endangers(Danger::Data)
            .with("size", bytes(row, "bytes"), "pg_class.relpages")
            .with("relpersistence", "unlogged", "pg_class")
            .unless("its rows can be made again, as those of a cache")
            .repaired(
                "log it, unless its rows can be made again",
                "it writes the whole table to the WAL, and locks it meanwhile; later writes cost more",
            )
            .run([format!("alter table {name} set logged")])
    });
    Ok(found.collect())
}
