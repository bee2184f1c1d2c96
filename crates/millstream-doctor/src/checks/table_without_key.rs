//! Check `table-without-key`: tables whose rows nothing tells apart.

use super::number::count;
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "table-without-key",
    about: "tables without a primary or unique key: duplicates stay unseen, and logical replication cannot update them",
    class: Class::Fact,
    thresholds: &[("rows", 1_000.0)],
    manual: include_str!("table_without_key.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("table_without_key.sql"), &[&task.threshold("rows")]).await?;
    let found = rows.iter().map(|row| {
        let name: String = row.get("name");
        let (level, sentence) = match row.get::<_, Option<String>>("publication") {
            Some(publication) => {
                (Level::Warning, format!("updates and deletes fail, because the publication {publication} needs a key"))
            }
            None => (Level::Info, "nothing tells its rows apart".to_owned()),
        };
        task.finding(level, name.clone(), sentence)
            .with("rows", count(row, "rows"), "pg_class.reltuples")
            .with("keys that tell rows apart", "none", "pg_index, pg_class.relreplident")
            .unless("rows are only added, as to a log, and duplicates do not matter")
            .repaired(
                "give it a primary key: of its columns, or a new one",
                "it fails if there are duplicates; a new column rewrites the table under an exclusive lock",
            )
            .run([format!("-- alter table {name} add primary key (..)")])
    });
    Ok(found.collect())
}
