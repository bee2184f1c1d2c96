//! Check `table-bloat`: tables that are mostly free space.

use super::command;
use super::number::{number, percent, with_analyzed};
use super::pgstattuple::Meter;
use super::space::{MEASURED, MEASURING, SIZES, Space};
use super::together::{ESTIMATE, LOOKED_AT_MAX, Together};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::ROWS_MAX;
use crate::server::Database;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Finding, Level, shell_word};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "table-bloat",
    about: "tables that are mostly free space, and what a rewrite would give back",
    class: Class::Arithmetic,
    thresholds: &[("table_mb", 100.0), ("percent", 20.0), ("free_mb", 10.0), ("warning_percent", 50.0)],
    manual: include_str!("table_bloat.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let (least, percent) = (task.threshold("table_mb") * 1e6, task.threshold("percent"));
    let client = &database.session.client;
    let rows = client.query(SIZES, &[&least, &percent, &ROWS_MAX, &None::<f64>, &LOOKED_AT_MAX]).await?;
    let mut meter = Meter::of(database, MEASURING, MEASURED, &rows).await?;
    for row in &rows {
        let measured = meter.measure(row.get("oid")).await?;
        match Space::of(row, measured.as_deref()) {
            Some(space) => finding(row, &space, database, &task).into_iter().for_each(|found| task.keep(found)),
            None => meter.unknown += 1,
        }
    }
    let small = Together::read(database, SIZES, least, percent).await?;
    if small.is_much(least) && small.free as f64 >= task.threshold("free_mb") * 1e6 {
        let commands = small.worst().iter().map(|name| format!("vacuum (full, analyze) {name}"));
        let finding = small.finding(&task, database, "rewrite", "tables");
        let finding = finding.unless("their rows are dead and not vacuumed yet").repaired(
            "first see that dead-tuples finds nothing, or they grow again; then rewrite them, one by one",
            "vacuum full locks each table while it is rewritten",
        );
        task.keep(finding.run(commands));
    }
    Ok(Seen::default().but(meter.unseen("large tables", rows.len())))
}

fn finding(row: &Row, space: &Space, database: &Database, task: &Task) -> Option<Finding> {
    let Space { size, after, dead, .. } = *space;
    let free = size.saturating_sub(after);
    let share = percent(free, size);
    if share < task.threshold("percent") || (free as f64) < task.threshold("free_mb") * 1e6 {
        return None;
    }
    // An estimate alone is no reason to lock a table.
    let warns = dead.is_some() && share >= task.threshold("warning_percent");
    let name: String = row.get("name");
    let is_toast: bool = row.get("is_toast");
    let source = match dead {
        Some(_) => "pgstattuple_approx",
        None if is_toast => "estimate, four rows a page",
        None => ESTIMATE,
    };
    let (subject, what) = match is_toast {
        true => (format!("{name}.toast"), "the TOAST table"),
        false => (name.clone(), "this table"),
    };
    // The measurement takes the pointers to removed rows for rows; they can be an eighth of a page.
    let sentence = format!("a rewrite would make {what} at least {share:.0} % smaller");
    let finding = task
        .finding(if warns { Level::Warning } else { Level::Info }, subject, sentence)
        .wastes(free)
        .with("size", bytes(size), if dead.is_some() { source } else { "pg_class.relpages" })
        .with("a rewrite gives back", bytes(free), source)
        .with_known("dead rows", dead.map(bytes), source)
        .unless(match dead {
            Some(_) => "the table fills the space again soon, as a queue does",
            None => "rows differ much, or are dead and not vacuumed yet; with the extension pgstattuple it is measured",
        });
    let is_of_rows = dead.is_none() && !is_toast;
    let finding = if is_of_rows { with_analyzed(finding, row.get("analyze_age")) } else { finding };
    let needed = bytes(after + number(row, "other_bytes"));
    let mut commands = Vec::new();
    if row.get("has_key") {
        commands.push("-- beside other sessions, with the extension pg_repack:".to_owned());
        let place = command::connection(&database.db, &database.name);
        commands.push(format!("$ pg_repack{place} --table {}", shell_word(&name)));
        commands.push("-- or while everybody else waits:".to_owned());
    }
    commands.push(format!("vacuum (full, analyze) {name}"));
    let sentence = "first see that dead-tuples finds nothing, or the table grows again; then rewrite it";
    let risk = "of free disk meanwhile, and as much WAL; vacuum full locks the table all the time";
    Some(finding.repaired(sentence, format!("it needs up to {needed} {risk}")).run(commands))
}
