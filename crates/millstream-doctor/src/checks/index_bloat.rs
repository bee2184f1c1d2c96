//! Check `index-bloat`: indexes that are mostly free space.

use super::number::{number, percent};
use super::pgstattuple;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::limits::ROWS_MAX;
use crate::server::Database;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::Error;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "index-bloat",
    about: "indexes that are mostly free space, which a rebuild beside other sessions gives back",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "index_mb", default: 100.0 }, Threshold { name: "percent", default: 50.0 }],
    manual: include_str!("index_bloat.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Result<Seen, Error> {
    let client = &database.session.client;
    let (least, percent) = (task.threshold("index_mb") * 1e6, task.threshold("percent"));
    let rows = client.query(include_str!("index_bloat.sql"), &[&least, &percent, &ROWS_MAX]).await?;
    let used = "leaf_pages * current_setting('block_size')::int8 * avg_leaf_density / 100";
    let sql = if rows.is_empty() { None } else { pgstattuple::call(database, "pgstatindex", used).await? };
    let mut seen = Seen::default();
    let mut unknown = 0;
    for row in &rows {
        let size = number(row, "bytes");
        let measured = pgstattuple::measure(database, sql.as_deref(), row.get("oid")).await?;
        let (free, source) = match (measured, row.get::<_, Option<i64>>("free")) {
            (Some(used), _) => (size.saturating_sub(rebuilt(used.first, row)), "pgstatindex"),
            (None, Some(free)) => (u64::try_from(free).unwrap_or(0), "estimate from pg_stats"),
            (None, None) => {
                unknown += 1;
                continue;
            }
        };
        seen.findings.extend(finding(row, size, free, source, &task));
    }
    Ok(seen.but((unknown > 0).then(|| format!("{unknown} large indexes; {}", pgstattuple::WHAT_WOULD_SHOW_IT))))
}

/// Size of the index if it were built now.
fn rebuilt(used: u64, row: &Row) -> u64 {
    let filled: f64 = row.get("filled");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let rebuilt = (used as f64 / filled) as u64;
    rebuilt
}

fn finding(row: &Row, size: u64, free: u64, source: &str, task: &Task) -> Option<Finding> {
    let share = percent(free, size);
    if share < task.threshold("percent") {
        return None;
    }
    let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
    let sentence = format!("{share:.0} % of this index of {table} would be gone if it were built again");
    let mut finding = task
        .finding(Level::Info, name.clone(), sentence)
        .with("size", bytes(size), "pg_class.relpages")
        .with("a rebuild gives back", bytes(free), source);
    finding.alternative = Some("random inserts have just split its pages, and fill them again".to_owned());
    finding.repair = Some(Repair {
        sentence: "build it again, beside other sessions".to_owned(),
        commands: vec![format!("reindex index concurrently {name}")],
        risk: format!("it needs up to {} of free disk meanwhile, and waits for long transactions", bytes(size - free)),
        restart: Restart::Nothing,
        change: None,
    });
    Some(finding)
}
