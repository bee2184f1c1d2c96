//! Check `table-bloat`: tables that are mostly free space.

use super::number::{number, percent};
use super::pgstattuple::{self, Measured};
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::limits::ROWS_MAX;
use crate::server::Database;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::Error;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "table-bloat",
    about: "tables that are mostly free space, and what a rewrite would give back",
    class: Class::Arithmetic,
    thresholds: &[
        Threshold { name: "table_mb", default: 100.0 },
        Threshold { name: "percent", default: 20.0 },
        Threshold { name: "free_mb", default: 10.0 },
        Threshold { name: "warning_percent", default: 50.0 },
    ],
    manual: include_str!("table_bloat.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Result<Seen, Error> {
    let client = &database.session.client;
    let (least, percent) = (task.threshold("table_mb") * 1e6, task.threshold("percent"));
    let rows = client.query(include_str!("table_bloat.sql"), &[&least, &percent, &ROWS_MAX]).await?;
    let sql = match rows.is_empty() {
        true => None,
        false => pgstattuple::call(database, "pgstattuple_approx", "approx_free_space, dead_tuple_len").await?,
    };
    let mut seen = Seen::default();
    let mut unknown = 0;
    for row in &rows {
        let measured = pgstattuple::measure(database, sql.as_deref(), row.get("oid")).await?;
        let Some(space) = Space::of(row, measured) else {
            unknown += 1;
            continue;
        };
        seen.findings.extend(finding(row, &space, database, &task));
    }
    Ok(seen.but((unknown > 0).then(|| format!("{unknown} large tables; {}", pgstattuple::WHAT_WOULD_SHOW_IT))))
}

/// How the space of a table is used.
struct Space {
    size: u64,
    free: u64,
    /// What dead rows take, if it was measured.
    dead: Option<u64>,
}

impl Space {
    /// `None` if neither a measurement nor the statistics tell.
    fn of(row: &Row, measured: Option<Measured>) -> Option<Self> {
        let size = number(row, "bytes");
        Some(match measured {
            Some(Measured { first, second }) => Self { size, free: first.min(size), dead: Some(second) },
            None => Self { size, free: u64::try_from(row.get::<_, Option<i64>>("free")?).unwrap_or(0), dead: None },
        })
    }
}

fn finding(row: &Row, space: &Space, database: &Database, task: &Task) -> Option<Finding> {
    let Space { size, free, dead } = *space;
    let share = percent(free, size);
    if share < task.threshold("percent") || (free as f64) < task.threshold("free_mb") * 1e6 {
        return None;
    }
    let level = if share >= task.threshold("warning_percent") { Level::Warning } else { Level::Info };
    let name: String = row.get("name");
    let source = if dead.is_some() { "pgstattuple_approx" } else { "estimate from pg_stats" };
    // The free space that the table's fillfactor asks for comes back with a rewrite.
    let (live, filled) = (size.saturating_sub(free).saturating_sub(dead.unwrap_or(0)), row.get::<_, f64>("filled"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let after = ((live as f64 / filled) as u64).min(size);
    let mut finding = task
        .finding(level, name.clone(), format!("{share:.0} % of the table is free space"))
        .with("size", bytes(size), "pg_class.relpages")
        .with("free", bytes(free), source);
    if let Some(dead) = dead {
        finding = finding.with("dead rows", bytes(dead), source);
    }
    finding = finding.with("a rewrite gives back", bytes(size - after), "size without free space and dead rows");
    finding.alternative = Some(match dead {
        Some(_) => "the table fills the space again soon, as a queue does".to_owned(),
        None => "the estimate is wrong, because the rows differ much; with the extension pgstattuple it is measured"
            .to_owned(),
    });
    let needed = bytes(after + number(row, "index_bytes"));
    finding.repair = Some(Repair {
        sentence: "first see that dead-tuples finds nothing, or the table grows again; then rewrite it".to_owned(),
        commands: vec![
            "-- beside other sessions, with the extension pg_repack:".to_owned(),
            format!("$ pg_repack --dbname '{}' --table '{name}'", database.name.replace('\'', r"'\''")),
            "-- or while everybody else waits:".to_owned(),
            format!("vacuum (full, analyze) {name}"),
        ],
        risk: format!("both need up to {needed} of free disk meanwhile; vacuum full locks the table all the time"),
        restart: Restart::Nothing,
        change: None,
    });
    Some(finding)
}
