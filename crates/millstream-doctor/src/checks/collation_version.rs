//! Check `collation-version`: indexes that were built with another version of the sort order.

use super::command;
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "collation-version",
    about: "indexes that were built with another version of the sort order: they may miss rows",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("collation_version.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("collation_version.sql"), &[]).await?;
    let found = rows.iter().map(|row| {
        let (kind, name): (&str, String) = (row.get("kind"), row.get("name"));
        let (built, present): (String, String) = (row.get("built"), row.get("present"));
        let sentence = format!(
            "version {built} is recorded for the indexes of text of this {kind}, and the library has {present}"
        );
        let refresh = if kind == "database" { "refresh collation version" } else { "refresh version" };
        task.finding(Level::Warning, format!("{kind} {name}"), sentence)
            .endangers(Danger::Data)
            .with("recorded version", built, "pg_database, pg_collation")
            .with("version of the library", present, "pg_collation_actual_version")
            .unless("the two versions sort your texts alike, or the indexes were built again since")
            .repaired(
                "build the indexes of text again, then record the new version",
                "it takes time and space, and fails at a unique index that has duplicates already: remove them first",
            )
            .run([
                format!("$ reindexdb --concurrently{}", command::connection(&database.db, &database.name)),
                format!("alter {kind} {name} {refresh}"),
            ])
    });
    Ok(found.collect())
}
