//! Check `table-bloat`: tables that are mostly free space.

use super::command;
use super::number::{number, percent, with_analyzed};
use super::pgstattuple::Meter;
use super::together::{ESTIMATE, LOOKED_AT_MAX, Together};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::ROWS_MAX;
use crate::server::Database;
use millstream_model::quantity::{bytes, whole};
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
    let sql = include_str!("table_bloat.sql");
    let client = &database.session.client;
    let rows = client.query(sql, &[&least, &percent, &ROWS_MAX, &None::<f64>, &LOOKED_AT_MAX]).await?;
    let columns = "table_len, approx_free_space, dead_tuple_len, approx_tuple_count";
    let mut meter = Meter::of(database, "pgstattuple_approx", columns, &rows).await?;
    for row in &rows {
        let measured = meter.measure(row.get("oid")).await?;
        match Space::of(row, measured.as_deref()) {
            Some(space) => finding(row, &space, database, &task).into_iter().for_each(|found| task.keep(found)),
            None => meter.unknown += 1,
        }
    }
    let small = Together::read(database, sql, least, percent).await?;
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

/// How the space of a table is used, in bytes.
struct Space {
    size: u64,
    /// After a rewrite.
    after: u64,
    /// What dead rows take, if it was measured.
    dead: Option<u64>,
}

impl Space {
    /// `None` if neither a measurement nor the statistics tell.
    fn of(row: &Row, measured: Option<&[u64]>) -> Option<Self> {
        if let Some([size, free, dead, rows]) = measured {
            // The measurement counts the headers of pages as rows.
            let (live, block) = (size.saturating_sub(*free).saturating_sub(*dead) as f64, row.get::<_, f64>("block"));
            let page = block * row.get::<_, f64>("filled");
            // Pieces of a value that is stored apart fill their pages.
            let pages = match row.get("is_toast") {
                true => live / page,
                false => pages(live, *rows as f64, page, row.get("is_uneven")),
            };
            return Some(Self { size: *size, after: whole(pages * block).min(*size), dead: Some(*dead) });
        }
        let needed = u64::try_from(row.get::<_, Option<i64>>("needed")?).unwrap_or(0);
        Some(Self { size: number(row, "bytes"), after: needed, dead: None })
    }
}

/// Pages for rows of so many bytes in all. A row is in one page, so the end of a page stays free. If wide rows stand between
/// narrow ones, all that is known is that a row and the one after it fill at least one page.
fn pages(bytes: f64, rows: f64, page: f64, is_uneven: bool) -> f64 {
    if rows <= 0.0 || bytes <= 0.0 {
        return bytes.max(0.0) / page;
    }
    // A measured width has a part of the page's header in it.
    let fit = (page * (1.0 + HEADER_SHARE) * rows / bytes).floor().max(1.0);
    if is_uneven { rows.min(2.0 * bytes / page) } else { (rows / fit).max(bytes / page) }
}

/// The header of a page, as a share of the page, with some room for what was rounded.
const HEADER_SHARE: f64 = 0.01;

fn finding(row: &Row, space: &Space, database: &Database, task: &Task) -> Option<Finding> {
    let Space { size, after, dead } = *space;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_one_page() {
        let page = 8_168.0;
        for (width, rows, is_uneven, expected) in [
            (100.0, 8_100.0, false, 100.0),
            (4_084.0, 100.0, false, 50.0),
            (5_000.0, 100.0, false, 100.0),
            (5_000.0, 100.0, true, 100.0),
            (3_000.0, 100.0, false, 50.0),
        ] {
            let found = pages(width * rows, rows, page, is_uneven);
            assert!((found - expected).abs() < 2.0, "{width}: {found}");
        }
        // Nine narrow rows before each wide one, which take two pages.
        let bytes = 100.0 * (9.0 * 100.0 + 8_000.0);
        assert!(pages(bytes, 1_000.0, page, true) >= 200.0);
        assert!(pages(0.0, 0.0, page, false) < 1.0);
    }
}
