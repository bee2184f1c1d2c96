//! Check `memory-overcommitted`: shared buffers that leave too little memory for everything else.

use super::number::percent;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::server::Server;
use millstream_model::quantity::{bytes, whole};
use millstream_model::{Class, Danger, Level, Repair, Restart};
use millstream_pg::sizing::{shared_buffers, size};

pub(super) const CHECK: Check = Check {
    id: "memory-overcommitted",
    about: "shared_buffers that leave little memory for sessions and for the system's cache",
    class: Class::Arithmetic,
    thresholds: &[("percent", 40.0), ("critical_percent", 80.0)],
    manual: include_str!("memory_overcommitted.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: &Host, task: Task) -> Looked {
    let facts = host.facts()?;
    let row = server.session.client.query_one(include_str!("setting.sql"), &[&"shared_buffers"]).await?;
    let buffers = whole(row.get("number"));
    let usable = facts.usable_bytes();
    let percent = percent(buffers, usable);
    // On a tiny machine even the smallest useful size is a large share.
    if percent < task.threshold("percent") || buffers <= shared_buffers(usable) {
        return Ok(Seen::default());
    }
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    let whose = if usable < facts.memory_bytes { "its control group may use" } else { "the machine has" };
    let repair = server.setting(
        "shared_buffers",
        &size(shared_buffers(usable)),
        "begin with what Millstream sets on such a machine: a quarter, at most 16 GB; and measure",
        "fewer pages stay in the server's own memory",
    );
    let sentence = format!("shared_buffers take {percent:.0} % of the memory that {whose}");
    Ok(task
        .finding(level, "shared_buffers", sentence)
        .endangers(Danger::Service)
        .with("shared_buffers", row.get::<_, String>("shown"), "pg_settings")
        .with("memory of the machine", bytes(facts.memory_bytes), "/proc/meminfo")
        .with_known("limit of the control group", facts.cgroup_bytes.map(bytes), "memory.max")
        .unless("the database fits into shared_buffers, and few sessions work at a time")
        // It is about memory that runs out, which an experiment does not show.
        .repaired_by(Repair { change: None, ..repair.needs(Restart::Server) })
        .into())
}
