//! Check `replication-slot`: slots that hold much WAL, or have lost it.

use crate::check::{Check, Look, Looked, Task};
use crate::server::Server;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Danger, Finding, Level, Repair};
use millstream_pg::quote_literal;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "replication-slot",
    about: "replication slots that hold so much WAL that the disk may fill, or that have lost it",
    class: Class::Arithmetic,
    thresholds: &[("times", 1.0), ("critical_times", 10.0)],
    manual: include_str!("replication_slot.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let rows = server.worst(include_str!("replication_slot.sql"), &[&task.threshold("times")]).await?;
    Ok(rows.iter().map(|row| finding(row, &task)).collect())
}

fn finding(row: &Row, task: &Task) -> Finding {
    let (name, status, keep): (String, &str, &str) = (row.get("name"), row.get("status"), row.get("keep_size"));
    let (active, usual): (bool, i64) = (row.get("active"), row.get("usual"));
    let held = row.get::<_, Option<i64>>("bytes").and_then(|bytes| u64::try_from(bytes).ok());
    let lost = status == "lost";
    let reader = if active { "its reader is connected, but behind" } else { "nobody reads it" };
    let sentence = match held {
        _ if lost => "it has lost WAL that its reader needs".to_owned(),
        Some(held) => format!("it holds {} of WAL; {reader}", bytes(held)),
        None => format!("it will lose WAL that its reader needs; {reader}"),
    };
    let much = held.unwrap_or(0) as f64 >= task.threshold("critical_times") * usual as f64;
    let level = if much && !active && !lost && keep == "-1" { Level::Critical } else { Level::Warning };
    let drop = [format!("select pg_drop_replication_slot({})", quote_literal(&name))];
    let repair = match (lost, active) {
        (true, _) => {
            Repair::new("drop the slot and make its reader again", "none: the slot is of no use any more").run(drop)
        }
        (false, true) => Repair::new("let its reader catch up: look at its machine and its network", "none"),
        (false, false) => Repair::new(
            "bring its reader back; if there is none any more, drop the slot",
            "a reader that comes back later must be made again from a new copy",
        )
        .run(drop),
    };
    let finding = task
        .finding(level, name, sentence)
        .endangers(Danger::Service)
        .wastes(held.unwrap_or(0))
        .with("held WAL", held.map_or_else(|| "unknown".to_owned(), bytes), "pg_replication_slots.restart_lsn")
        .with("status", status, "pg_replication_slots.wal_status")
        .with("max_slot_wal_keep_size", keep, "pg_settings")
        .repaired_by(repair);
    if lost { finding } else { finding.unless("a reader that was just restarted catches up by itself") }
}
