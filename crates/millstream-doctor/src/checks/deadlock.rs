//! Check `deadlock`: transactions that wait for each other.

use super::number::number;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::count;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "deadlock",
    about: "transactions that wait for each other, of which the server cancels one",
    class: Class::Arithmetic,
    thresholds: &[("count", 5.0), ("per_day", 5.0)],
    manual: include_str!("deadlock.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    // A standby has none of its own.
    database.counts.clone()?;
    let sql = "select deadlocks, current_setting('deadlock_timeout') as timeout, current_setting('log_lock_waits') as logs \
               from pg_stat_database where datname = current_database()";
    let row = database.session.client.query_one(sql, &[]).await?;
    let (deadlocks, seconds) = (number(&row, "deadlocks"), database.counted_seconds);
    let per_day = deadlocks as f64 * 86_400.0 / seconds.max(86_400.0);
    if (deadlocks as f64) < task.threshold("count") || per_day < task.threshold("per_day") {
        return Ok(Seen::default());
    }
    let sentence = format!("{per_day:.0} transactions a day were cancelled because of a deadlock");
    Ok(task
        .finding(Level::Warning, "", sentence)
        .with("deadlocks", count(deadlocks), "pg_stat_database")
        .with("time that each has waited at least", row.get::<_, String>("timeout"), "deadlock_timeout")
        .with("log_lock_waits", row.get::<_, String>("logs"), "pg_settings")
        .counted(seconds)
        .unless("the programs send such a transaction again, and they are few among all")
        .repaired(
            "find both statements in the server's log, and let all programs take rows and tables in the same order",
            "none",
        )
        .into())
}
