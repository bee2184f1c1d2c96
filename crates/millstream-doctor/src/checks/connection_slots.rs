//! Check `connection-slots`: hardly any connection is left.

use super::number::{number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity::count;
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "connection-slots",
    about: "hardly any connection is left, after which new clients are refused",
    class: Class::Arithmetic,
    thresholds: &[("percent", 80.0), ("critical_percent", 95.0)],
    manual: include_str!("connection_slots.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let sql = include_str!("connection_slots.sql");
    let row = server.session.client.query_one(sql, &[&server.may_monitor]).await?;
    let (used, most) = (number(&row, "used"), number(&row, "most"));
    let idle: Option<i64> = row.get("idle");
    let percent = percent(used, most);
    if percent < task.threshold("percent") {
        return Ok(Seen::default());
    }
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    let idle = idle.map(|idle| format!("; {idle} of them are idle")).unwrap_or_default();
    let sentence = format!("{} of {} connections are used{idle}", count(used), count(most));
    let source = if server.may_monitor { "pg_stat_activity" } else { "pg_stat_database.numbackends" };
    Ok(task
        .finding(level, "", sentence)
        .endangers(Danger::Service)
        .with("used", count(used), source)
        .with("max_connections", count(most), "pg_settings, without the reserved ones")
        .unless("a burst of clients has come and will go")
        .repaired(
            "share connections with a pooler such as pgbouncer; more of them cost memory and processor",
            "with a transaction pooler, session state does not last",
        )
        .into())
}
