//! Check `standby-conflict`: queries of a standby that its replay cancels.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::{Database, Server};
use millstream_model::quantity;
use millstream_model::{Class, Level, Repair};
use tokio_postgres::Row;

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

/// How long the replay waits for queries: first for WAL that the primary sends, then for that of the archive.
const DELAYS: &str = "select name, current_setting(name) as shown, setting::bigint as ms from pg_settings \
                      where name in ('max_standby_streaming_delay', 'max_standby_archive_delay') order by name desc";

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    if !server.session.server.in_recovery {
        return Ok(Seen::default());
    }
    let sql = "select *, current_setting('hot_standby_feedback') as feedback \
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
    let delays = database.session.client.query(DELAYS, &[]).await?;
    let by_rows = 2 * number(&row, "confl_snapshot") >= all;
    let repair = if by_rows && row.get::<_, &str>("feedback") == "off" {
        server.setting(
            "hot_standby_feedback",
            "on",
            "let the primary keep the rows that queries here still see",
            "a long query here then keeps dead rows on the primary",
        )
    } else {
        longer(server, &delays)
    };
    for delay in &delays {
        finding = finding.with(delay.get("name"), delay.get::<_, String>("shown"), "pg_settings");
    }
    let finding = finding
        .with("hot_standby_feedback", row.get::<_, String>("feedback"), "pg_settings")
        .unless("the programs send cancelled queries again, and nobody minds")
        .repaired_by(repair);
    Ok(finding.into())
}

/// Lets the replay wait twice as long as now, and no less than five minutes. The first delay counts that has an end.
fn longer(server: &Server, delays: &[Row]) -> Repair {
    let Some(delay) = delays.iter().find(|delay| delay.get::<_, i64>("ms") >= 0) else {
        return Repair::new(
            "look at the statements that the primary ran, such as drop tablespace: the replay already waits without end",
            "none",
        );
    };
    server.setting(
        delay.get("name"),
        &format!("{}min", longer_minutes(delay.get("ms"))),
        "let the replay wait longer for queries",
        "meanwhile this standby is behind, and shows old data",
    )
}

fn longer_minutes(ms: i64) -> i64 {
    ((2 * ms + 59_999) / 60_000).clamp(5, DELAY_MINUTES_MAX)
}

/// The server takes no larger delays: 2^31 - 1 milliseconds.
const DELAY_MINUTES_MAX: i64 = 35_791;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_becomes_longer_and_never_shorter() {
        for (ms, minutes) in
            [(0, 5), (30_000, 5), (180_000, 6), (1_800_000, 60), (1_800_001, 61), (2_000_000_000, 35_791)]
        {
            assert_eq!(longer_minutes(ms), minutes, "{ms}");
        }
    }
}
