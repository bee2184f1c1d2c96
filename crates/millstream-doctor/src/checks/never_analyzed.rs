//! Check `never-analyzed`: tables of which the planner has no statistics.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::{count, whole};
use millstream_model::{Class, Finding, Level};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "never-analyzed",
    about: "tables of which the planner has no statistics, so that it guesses",
    class: Class::Fact,
    thresholds: &[("rows", 10_000.0)],
    manual: include_str!("never_analyzed.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    // A standby has the statistics of its primary, but not the counters, which only say where to look.
    let client = &database.session.client;
    let on: bool = client.query_one("select current_setting('autovacuum')::bool", &[]).await?.get(0);
    let rows = database.worst(include_str!("never_analyzed.sql"), &[&task.threshold("rows")]).await?;
    let (known, unknown): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.get::<_, bool>("is_known"));
    let seen: Seen = known.into_iter().map(|row| finding(row, on, &task)).collect();
    let why = "tables that this role may not read; grant select on them or pg_read_all_data to it";
    Ok(seen.but((!unknown.is_empty()).then(|| format!("the statistics of {} {why}", unknown.len()))))
}

fn finding(row: &Row, autovacuum: bool, task: &Task) -> Finding {
    let name: String = row.get("name");
    let rows = count(whole(row.get("rows")));
    let (is_root, enabled): (bool, bool) = (row.get("is_root"), row.get("enabled"));
    let (level, why) = match (is_root, enabled, autovacuum) {
        (true, ..) => (Level::Warning, "autovacuum analyzes its partitions, but never the table as a whole"),
        (_, false, _) => (Level::Warning, "autovacuum is off for this table"),
        (.., false) => (Level::Warning, "autovacuum is off on this server"),
        _ => (Level::Info, "autovacuum has not come to it"),
    };
    let sentence = format!("the planner has no statistics of this table of {rows} rows: {why}");
    let what = if is_root { "analyze it, and do so again after much has changed" } else { "analyze it" };
    task.finding(level, name.clone(), sentence)
        .with("rows", rows, "pg_class.reltuples, or counted since")
        .with("last analyze", "never, as far as the counters reach", "pg_stat_all_tables")
        .with("statistics of its columns", "none", "pg_stats, or pg_class.reltuples = -1")
        .unless("it was filled a moment ago, or no query has a condition on it")
        .repaired(what, "it reads a sample of 30,000 rows, and plans change")
        .run([format!("analyze {name}")])
}
