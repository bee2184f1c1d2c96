//! Check `memory-promised`: more memory for sorts and hashes than there is.

use super::number::number;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::server::Server;
use millstream_model::quantity::{bytes, count};
use millstream_model::{Class, Danger, Level};

pub(super) const CHECK: Check = Check {
    id: "memory-promised",
    about: "sessions that may together use far more memory for sorts and hashes than there is",
    class: Class::Arithmetic,
    thresholds: &[("times", 2.0)],
    manual: include_str!("memory_promised.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

/// The least that is proposed: PostgreSQL's own default.
const WORK_MEM_MIN: u64 = 4 << 20;

async fn look(server: &Server, host: &Host, task: Task) -> Looked {
    let facts = host.facts()?;
    let row = server.session.client.query_one(include_str!("memory_promised.sql"), &[]).await?;
    let (buffers, work, most) = (number(&row, "buffers"), number(&row, "work_mem"), number(&row, "max_sessions"));
    let usable = facts.usable_bytes();
    let promised = buffers.saturating_add(work.saturating_mul(most));
    let times = promised as f64 / usable.max(1) as f64;
    if times < task.threshold("times") || work <= WORK_MEM_MIN {
        return Ok(Seen::default());
    }
    let whose = if usable < facts.memory_bytes { "its control group may use" } else { "the machine has" };
    let sentence = format!("if each session sorts once, the server needs {times:.1} times the memory that {whose}");
    let fitting = (usable.saturating_sub(buffers) / 2 / most.max(1)).max(WORK_MEM_MIN) >> 20;
    Ok(task
        .finding(Level::Warning, "work_mem", sentence)
        .with("work_mem", bytes(work), "pg_settings")
        .with("max_connections", count(most), "pg_settings")
        .with("sessions now", number(&row, "sessions"), "pg_stat_activity")
        .with("shared_buffers", bytes(buffers), "pg_settings")
        .with("memory that the server can use", bytes(usable), "/proc/meminfo, memory limit of the control group")
        .endangers(Danger::Service)
        .unless("a pooler keeps the sessions few, or few of them sort")
        .repaired_by(server.setting(
            "work_mem",
            &format!("{fitting}MB"),
            "give all sessions less, and the roles that sort much their own: alter role R set work_mem",
            "sorts and hashes that do not fit go to temporary files",
        ))
        .into())
}
