//! Check `connection-churn`: sessions that do next to nothing.

use super::number::{needs, number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::count;
use millstream_model::{Class, Finding, Level};

pub(super) const CHECK: Check = Check {
    id: "connection-churn",
    about: "programs that open a session for a few transactions, which costs more than the transactions",
    class: Class::Arithmetic,
    thresholds: &[("percent", 10.0), ("per_second", 1.0), ("hours", 1.0), ("now_per_second", 20.0)],
    manual: include_str!("connection_churn.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    database.counts_here()?;
    let client = &database.session.client;
    let now = match &database.earlier {
        Some(earlier) => earlier.sessions_per_second(client, &database.name).await?,
        None => None,
    };
    if let Some(now) = now.filter(|now| *now >= task.threshold("now_per_second")) {
        let sentence = format!("{now:.0} sessions a second are opened now");
        return Ok(repaired(task.finding(Level::Warning, "", sentence), database).into());
    }
    let needed = task.threshold("hours") * 3_600.0;
    needs("how often sessions are opened", "of counters", needed, database.sure_seconds)?;
    let row = client.query_one(include_str!("connection_churn.sql"), &[]).await?;
    let (sessions, transactions) = (number(&row, "sessions"), number(&row, "transactions"));
    let seconds = database.counted_seconds;
    let (percent, per_second) = (percent(sessions, transactions), sessions as f64 / seconds);
    if percent < task.threshold("percent") || per_second < task.threshold("per_second") {
        return Ok(Seen::default());
    }
    let sentence = format!("{per_second:.1} sessions a second are opened, one for {:.1} transactions", 100.0 / percent);
    let finding = task
        .finding(Level::Warning, "", sentence)
        .with("sessions", count(sessions), "pg_stat_database")
        .with("transactions", count(transactions), "pg_stat_database")
        .with("encrypted sessions now", number(&row, "encrypted"), "pg_stat_ssl")
        .counted(seconds)
        .unless("a job that opens many sessions has run once since the counters began");
    Ok(repaired(finding, database).into())
}

/// The finding with what a session costs, and what to do.
fn repaired(finding: Finding, database: &Database) -> Finding {
    let opened = database.opened.as_secs_f64() * 1e3;
    finding.with("time to open the session of this report", format!("{opened:.1} ms"), "measured").repaired(
        "keep connections open in the program, or put a pooler such as pgbouncer before the server",
        "with a transaction pooler, session state does not last",
    )
}
