//! Check `rollback`: transactions whose work is thrown away.

use super::number::{needs, number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::count;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "rollback",
    about: "many transactions that end without a commit: their work was for nothing",
    class: Class::Arithmetic,
    thresholds: &[("percent", 20.0), ("per_second", 1.0), ("hours", 1.0)],
    manual: include_str!("rollback.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts_here()?;
    let needed = task.threshold("hours") * 3_600.0;
    needs("how many transactions are rolled back", "of counters", needed, database.sure_seconds)?;
    let sql = "select xact_commit as commits, xact_rollback as rollbacks from pg_stat_database \
               where datname = current_database()";
    let row = database.session.client.query_one(sql, &[]).await?;
    let (commits, rollbacks, seconds) = (number(&row, "commits"), number(&row, "rollbacks"), database.counted_seconds);
    let (share, per_second) = (percent(rollbacks, commits.saturating_add(rollbacks)), rollbacks as f64 / seconds);
    if rollbacks == 0 || share < task.threshold("percent") || per_second < task.threshold("per_second") {
        return Ok(Seen::default());
    }
    let sentence = format!("{share:.0} % of the transactions are rolled back, {per_second:.1} a second");
    Ok(task
        .finding(Level::Info, "", sentence)
        .with("transactions rolled back", count(rollbacks), "pg_stat_database")
        .with("transactions committed", count(commits), "pg_stat_database")
        .counted(seconds)
        .unless("a program or a pooler ends transactions that only read with a rollback, which costs nothing")
        .repaired(
            "look in the server's log for the errors that end them; log_min_error_statement shows the statements",
            "none",
        )
        .into())
}
