//! Check `blocked-session`: sessions that wait for a lock of another one.

use super::number::number;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::limits::ROWS_MAX;
use crate::server::Server;
use millstream_model::quantity::age;
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::Error;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "blocked-session",
    about: "sessions that wait for a lock, and the one that holds it",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "seconds", default: 10.0 }],
    manual: include_str!("blocked_session.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let sql = include_str!("blocked_session.sql");
    let rows = server.session.client.query(sql, &[&task.threshold("seconds"), &ROWS_MAX]).await?;
    let found: Seen = rows.iter().map(|row| finding(row, &task)).collect();
    Ok(found.but(server.blind_to_sessions()))
}

fn finding(row: &Row, task: &Task) -> Finding {
    let (name, pid): (String, i32) = (row.get("name"), row.get("pid"));
    let (sessions, longest) = (number(row, "sessions"), age(row.get("seconds")));
    let sentence = match sessions {
        1 => format!("a session has waited {longest} for a lock that this one holds"),
        _ => format!("{sessions} sessions wait for a lock that this one holds, the longest for {longest}"),
    };
    let mut finding =
        task.finding(Level::Warning, name, sentence).with("sessions that wait", sessions, "pg_blocking_pids");
    for (what, column) in [("its state", "state"), ("its statement", "query")] {
        let value: String = row.get(column);
        if !value.is_empty() {
            finding = finding.with(what, value, "pg_stat_activity");
        }
    }
    finding.alternative = Some("it ends by itself in a moment".to_owned());
    let (sentence, commands, risk) = match (pid, row.get("client")) {
        (0, _) => (
            "commit the prepared transaction, or roll it back, in its database",
            vec!["select gid, prepared, owner, database from pg_prepared_xacts".to_owned()],
            "its coordinator may count on it; neither can be taken back",
        ),
        (_, true) => (
            "end its transaction in its program; lock_timeout lets waiting sessions give up by themselves",
            vec![format!("select pg_terminate_backend({pid})")],
            "the transaction is rolled back, and its program gets an error",
        ),
        (_, false) => ("wait for this process of the server", Vec::new(), "none"),
    };
    let (sentence, risk) = (sentence.to_owned(), risk.to_owned());
    finding.repair = Some(Repair { sentence, commands, risk, restart: Restart::Nothing, change: None });
    finding
}
