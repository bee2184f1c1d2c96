//! Check `cache-misses`: queries that wait for pages which shared buffers do not hold.

use super::number::{count, number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use crate::statement::Counted;
use millstream_model::quantity;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "cache-misses",
    about: "pages that are read again and again because shared_buffers do not hold them",
    class: Class::Arithmetic,
    thresholds: &[("percent", 10.0), ("reads", 1_000_000.0), ("per_second", 1_000.0), ("warning_percent", 30.0)],
    manual: include_str!("cache_misses.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

/// Most tables that are named.
const NAMED_MAX: usize = 3;

async fn look(database: &Database, task: Task) -> Looked {
    database.counts_here()?;
    let client = &database.session.client;
    let row = client.query_one(include_str!("cache_misses.sql"), &[]).await?;
    let (hits, reads, seconds) = (number(&row, "hits"), number(&row, "reads"), database.counted_seconds);
    let share = percent(reads, hits.saturating_add(reads));
    let is_much = reads as f64 >= task.threshold("reads") && reads as f64 / seconds >= task.threshold("per_second");
    if share < task.threshold("percent") || !is_much {
        return Ok(Seen::default());
    }
    let time: Option<f64> = row.get("time_percent");
    let is_slow = time.is_some_and(|time| time >= task.threshold("warning_percent"));
    let level = if is_slow { Level::Warning } else { Level::Info };
    let waits = time.filter(|_| is_slow).map(|time| format!(", which takes {time:.0} % of the time of its statements"));
    let sentence =
        format!("{share:.0} % of the pages are read from outside shared_buffers{}", waits.unwrap_or_default());
    let mut finding = task
        .finding(level, "", sentence)
        .with("pages found in shared_buffers", quantity::count(hits), "pg_stat_database")
        .with("pages read", quantity::count(reads), "pg_stat_database")
        .with("shared_buffers", row.get::<_, String>("buffers"), "pg_settings")
        .with("size of the database", quantity::bytes(number(&row, "bytes")), "pg_class.relpages")
        .counted(seconds);
    finding.time_percent = time.filter(|_| is_slow);
    for row in client.query(include_str!("cache_misses_tables.sql"), &[]).await?.iter().take(NAMED_MAX) {
        let name = format!("pages read of {}", row.get::<_, String>("name"));
        finding = finding.with(&name, count(row, "reads"), "pg_statio_user_tables");
    }
    let statements = task.statements(database).await?;
    let (most, source) = (statements.list.iter().max_by_key(|one| one.reads), "pg_stat_statements");
    let most = most.filter(|one| one.reads > 0);
    Ok(finding
        .with_known("statement that reads most", most.map(Counted::shown), source)
        .with_known("pages that it has read", most.map(|one| quantity::count(one.reads)), source)
        .unless("the system's cache holds the pages, or the queries must read everything, as reports do")
        .repaired(
            "first see missing-index and top-statement: a query that reads less helps most; then compare larger \
             shared_buffers with the lab",
            "more shared_buffers leave less memory for the system's cache and for sessions",
        )
        .into())
}
