//! Check `no-room-for-update`: updates that move a row to another page and touch every index.

use super::number::{count, number, percent};
use crate::check::{Check, Look, Looked, Task};
use crate::server::Database;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "no-room-for-update",
    about: "updates that find no room in the page of their row, so that every index gets a new entry",
    class: Class::Hypothesis,
    thresholds: &[("updates", 100_000.0), ("rows", 10_000.0), ("percent", 50.0)],
    manual: include_str!("no_room_for_update.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let [updates, rows, most] = ["updates", "rows", "percent"].map(|name| task.threshold(name));
    let found = database.worst(include_str!("no_room_for_update.sql"), &[&updates, &rows, &most]).await?;
    let findings = found.iter().map(|row| {
        let name: String = row.get("name");
        let share = percent(number(row, "moved"), number(row, "updates"));
        let (moved, source, alternative) = match row.get("is_counted") {
            true => (
                "updates that went to another page",
                "n_tup_newpage_upd",
                "long transactions keep the old versions of the rows in the page",
            ),
            false => (
                "updates that touched every index",
                "n_tup_upd - n_tup_hot_upd",
                "the updates change a column that is in an index, which fillfactor cannot help",
            ),
        };
        let sentence = format!("{share:.0} % of the updates found no room in the page of their row");
        task.finding(Level::Info, name.clone(), sentence)
            .with("updates", count(row, "updates"), "pg_stat_user_tables")
            .with(moved, count(row, "moved"), source)
            .with("fillfactor", "100, the default", "pg_class.reloptions")
            .counted(row.get::<_, Option<f64>>("seconds"))
            .unless(alternative)
            .repaired(
                "leave a tenth of each page free, and measure before and after",
                "the table becomes a tenth larger; vacuum full locks it, but new pages need none",
            )
            .run([
                format!("alter table {name} set (fillfactor = 90)"),
                "-- for the rows that are there already:".to_owned(),
                format!("vacuum (full, analyze) {name}"),
            ])
            .changes(database.set_option(&name, "fillfactor", "90"))
    });
    Ok(findings.collect())
}
