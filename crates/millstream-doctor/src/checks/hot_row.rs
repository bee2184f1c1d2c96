//! Check `hot-row`: few rows that take most of the updates.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::quantity;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "hot-row",
    about: "small tables whose few rows are updated all the time, so that transactions wait for each other",
    class: Class::Hypothesis,
    thresholds: &[("rows", 1_000.0), ("updates", 1e6), ("per_row", 10_000.0), ("per_second", 10.0)],
    manual: include_str!("hot_row.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let [rows, updates, per_row, per_second] =
        ["rows", "updates", "per_row", "per_second"].map(|name| task.threshold(name));
    let sql = include_str!("hot_row.sql");
    let seconds = database.counted_seconds;
    let found = database.worst(sql, &[&rows, &updates, &per_row, &per_second, &seconds]).await?;
    let findings = found.iter().map(|row| {
        let (live, updated, waiting) = (number(row, "live"), number(row, "updates"), number(row, "waiting"));
        let whose = match live {
            1 => "its only row".to_owned(),
            _ => format!("each of its {} rows", quantity::count(live)),
        };
        let sentence = format!("{whose} was updated {} times on average", count(row, "per_row"));
        task.finding(Level::Info, row.get::<_, String>("name"), sentence)
            .with("updates", quantity::count(updated), "pg_stat_user_tables")
            .with("updates a second", format!("{:.1}", row.get::<_, f64>("per_second")), "pg_stat_user_tables")
            .with("rows", quantity::count(live), "pg_stat_user_tables")
            .with("sessions that wait for a row of it now", waiting, "pg_locks")
            .counted(seconds)
            .unless("a single session makes the updates, so that nobody waits")
            .repaired(
                "update the hot row last in the transaction, in one statement, or split it into several that are added \
                 up when they are read",
                "the program changes",
            )
    });
    Ok(findings.collect())
}
