//! Check `constraint-not-validated`: constraints that old rows may break.

use super::definition::definition;
use super::number::count;
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "constraint-not-validated",
    about: "constraints of tables and domains that were added without looking at the rows that were there",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("constraint_not_validated.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let rows = database.worst(include_str!("constraint_not_validated.sql"), &[]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (owner, name): (String, String) = (row.get("owner"), row.get("name"));
        let (kind, reads) = match row.get("is_of_domain") {
            true => (
                "domain",
                "every table with a column of the domain, and others may have to wait before they write to it",
            ),
            false => ("table", "the whole table, beside other work"),
        };
        Some(
            task.finding(
                Level::Info,
                format!("{owner}.{name}"),
                "rows that were there before it may break this constraint",
            )
            .with("definition", definition, "pg_get_constraintdef")
            .with("rows", count(row, "rows"), "pg_class.reltuples")
            .unless("the rows from before are allowed to break it")
            .repaired(
                "validate it: then the planner may rely on it, too",
                format!("it reads {reads}; it fails if a row breaks the constraint"),
            )
            .run([format!("alter {kind} {owner} validate constraint {name}")]),
        )
    });
    Ok(found.collect())
}
