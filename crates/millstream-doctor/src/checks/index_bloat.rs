//! Check `index-bloat`: indexes that are mostly free space.

use super::number::{number, percent, with_analyzed};
use super::pgstattuple::Meter;
use super::together::{ESTIMATE, LOOKED_AT_MAX, Together};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::ROWS_MAX;
use crate::server::Database;
use millstream_model::quantity::{bytes, whole};
use millstream_model::{Class, Finding, Level};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "index-bloat",
    about: "indexes that are mostly free space, which a rebuild beside other sessions gives back",
    class: Class::Arithmetic,
    thresholds: &[("index_mb", 100.0), ("percent", 50.0)],
    manual: include_str!("index_bloat.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let (least, percent) = (task.threshold("index_mb") * 1e6, task.threshold("percent"));
    let sql = include_str!("index_bloat.sql");
    let client = &database.session.client;
    let rows = client.query(sql, &[&least, &percent, &ROWS_MAX, &None::<f64>, &LOOKED_AT_MAX]).await?;
    let columns = "index_size, leaf_pages * current_setting('block_size')::int8 * avg_leaf_density / 100";
    let mut meter = Meter::of(database, "pgstatindex", columns, &rows).await?;
    for row in &rows {
        let measured = meter.measure(row.get("oid")).await?;
        let (size, after, source) = match (measured.as_deref(), row.get::<_, Option<i64>>("needed")) {
            (Some([size, used]), _) => (*size, rebuilt(*used, row), "pgstatindex"),
            (_, Some(needed)) => (number(row, "bytes"), u64::try_from(needed).unwrap_or(0), ESTIMATE),
            (_, None) => {
                meter.unknown += 1;
                continue;
            }
        };
        if let Some(finding) = finding(row, size, size.saturating_sub(after), source, &task) {
            task.keep(finding);
        }
    }
    let small = Together::read(database, sql, least, percent).await?;
    if small.is_much(least) {
        let commands = small.worst().iter().map(|name| format!("reindex index concurrently {name}"));
        let finding = small
            .finding(&task, database, "rebuild", "indexes")
            .repaired("build them again, one by one, beside other sessions", "each waits for long transactions");
        task.keep(finding.run(commands));
    }
    Ok(Seen::default().but(meter.unseen("large indexes", rows.len())))
}

/// Size of the index if it were built now: its leaves, the first page and the root.
fn rebuilt(used: u64, row: &Row) -> u64 {
    whole(used as f64 / row.get::<_, f64>("filled")) + 2 * number(row, "page_bytes")
}

fn finding(row: &Row, size: u64, free: u64, source: &str, task: &Task) -> Option<Finding> {
    let share = percent(free, size);
    if share < task.threshold("percent") {
        return None;
    }
    let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
    let about = if source == ESTIMATE { "at least " } else { "" };
    let sentence = format!("a rebuild would make this index of {table} {about}{share:.0} % smaller");
    let mut finding = task
        .finding(Level::Info, name.clone(), sentence)
        .wastes(free)
        .with("size", bytes(size), "pg_class.relpages")
        .with("a rebuild gives back", bytes(free), source);
    if source == ESTIMATE {
        finding = with_analyzed(finding, row.get("analyze_age"));
    }
    Some(
        finding
            .unless("random inserts have just split its pages, and fill them again")
            .repaired(
                "build it again, beside other sessions",
                format!(
                    "it needs up to {} of free disk meanwhile, and waits for long transactions",
                    bytes(size - free)
                ),
            )
            .run([format!("reindex index concurrently {name}")]),
    )
}
