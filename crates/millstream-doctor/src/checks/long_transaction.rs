//! Check `long-transaction`: transactions that stay open.

use super::number::count;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity::age;
use millstream_model::{Class, Finding, Level, Repair};
use millstream_pg::quote_literal;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "long-transaction",
    about: "transactions that stay open: they keep locks, and no vacuum removes what they may still see",
    class: Class::Arithmetic,
    thresholds: &[("idle_seconds", 300.0), ("active_seconds", 3_600.0)],
    manual: include_str!("long_transaction.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let (idle, active) = (task.threshold("idle_seconds"), task.threshold("active_seconds"));
    let rows = server.worst(include_str!("long_transaction.sql"), &[&idle, &active]).await?;
    Ok(rows.iter().map(|row| finding(row, &task)).collect::<Seen>().but(server.blind_to_sessions()))
}

fn finding(row: &Row, task: &Task) -> Finding {
    let (name, state): (String, &str) = (row.get("name"), row.get("state"));
    let does = match state {
        "active" => "has run",
        "prepared" => "has been prepared",
        _ => "has been idle",
    };
    let sentence = format!("a transaction {does} for {}", age(row.get("waited")));
    let source = if state == "prepared" { "pg_prepared_xacts" } else { "pg_stat_activity" };
    task.finding(Level::Warning, name, sentence)
        .with("open for", age(row.get("seconds")), source)
        .with("such transactions", count(row, "times"), source)
        .with("transactions since its snapshot", count(row, "age"), source)
        .unless("a backup, a large load or an index build takes its time")
        .repaired_by(match row.get::<_, Option<String>>("gid") {
            Some(gid) => Repair::new(
                "commit it, or roll it back, in its database",
                "its coordinator may count on it; neither can be taken back",
            )
            .run([
                "-- either:".to_owned(),
                format!("commit prepared {}", quote_literal(&gid)),
                "-- or:".to_owned(),
                format!("rollback prepared {}", quote_literal(&gid)),
            ]),
            None => Repair::new(
                "end it in its program; idle_in_transaction_session_timeout ends idle ones by itself",
                "the transaction is rolled back, and its program gets an error",
            )
            .run(row.get::<_, Option<i32>>("pid").map(|pid| format!("select pg_terminate_backend({pid})"))),
        })
}
