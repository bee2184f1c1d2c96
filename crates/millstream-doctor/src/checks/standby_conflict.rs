//! Check `standby-conflict`: queries of a standby that its replay cancels.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::{Database, Server};
use millstream_model::quantity;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "standby-conflict",
    about: "queries of a standby that are cancelled because they stand in the way of the replay",
    class: Class::Arithmetic,
    thresholds: &[("per_day", 10.0)],
    manual: include_str!("standby_conflict.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// What was in the way: the counter, and in words.
const KINDS: [(&str, &str); 5] = [
    ("confl_snapshot", "old rows that the primary has vacuumed"),
    ("confl_lock", "locks, as of an alter table"),
    ("confl_bufferpin", "pages in use"),
    ("confl_deadlock", "deadlocks with the replay"),
    ("confl_tablespace", "tablespaces that were dropped"),
];

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    if !server.session.server.in_recovery {
        return Ok(Seen::default());
    }
    let sql = "select *, current_setting('hot_standby_feedback') as feedback, \
               current_setting('max_standby_streaming_delay') as delay \
               from pg_stat_database_conflicts where datname = current_database()";
    let row = database.session.client.query_one(sql, &[]).await?;
    let (all, seconds) = (KINDS.iter().map(|(column, _)| number(&row, column)).sum::<u64>(), database.counted_seconds);
    // A day at least, so that the first hour does not count twenty-four times.
    let per_day = all as f64 * 86_400.0 / seconds.max(86_400.0);
    if all == 0 || per_day < task.threshold("per_day") {
        return Ok(Seen::default());
    }
    let sentence = format!("the replay has cancelled {} queries", quantity::count(all));
    let mut finding = task.finding(Level::Warning, "", sentence).counted(seconds);
    for (column, what) in KINDS.iter().filter(|(column, _)| number(&row, column) > 0) {
        finding = finding.with(what, count(&row, column), "pg_stat_database_conflicts");
    }
    let by_rows = 2 * number(&row, "confl_snapshot") >= all;
    let repair = if by_rows && row.get::<_, &str>("feedback") == "off" {
        server.setting(
            "hot_standby_feedback",
            "on",
            "let the primary keep the rows that queries here still see",
            "a long query here then keeps dead rows on the primary",
        )
    } else {
        server.setting(
            "max_standby_streaming_delay",
            "5min",
            "let the replay wait longer for queries",
            "meanwhile this standby is behind, and shows old data",
        )
    };
    let finding = finding
        .with("hot_standby_feedback", row.get::<_, String>("feedback"), "pg_settings")
        .with("max_standby_streaming_delay", row.get::<_, String>("delay"), "pg_settings")
        .unless("the programs send cancelled queries again, and nobody minds")
        .repaired_by(repair);
    Ok(finding.into())
}
