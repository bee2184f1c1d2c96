//! Check `not-recorded`: what the server does not record.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Level, Repair, Restart};
use millstream_pg::sizing::RECORDED;

pub(super) const CHECK: Check = Check {
    id: "not-recorded",
    about: "what the server does not record, so that nobody can see later what happened",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("not_recorded.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let rows = server.session.client.query(include_str!("not_recorded.sql"), &[]).await?;
    let found = rows.iter().filter_map(|row| {
        let name: &str = row.get("name");
        let recorded = RECORDED.iter().find(|one| one.name == name)?;
        let level = if name == "track_counts" { Level::Warning } else { Level::Info };
        let risk = "a little time or space in the log; on a machine with a slow clock track_io_timing costs more";
        let repair = match name {
            // It needs a restart, and may name other libraries.
            "shared_preload_libraries" => Repair::new(
                "add pg_stat_statements to it, restart the server, and create the extension",
                "a restart ends all sessions",
            )
            .run(["-- after the restart", "create extension pg_stat_statements"])
            .needs(Restart::Server),
            _ => server.setting(name, recorded.value, "record it", risk),
        };
        let setting: &str = row.get("setting");
        Some(
            task.finding(level, name, format!("the server does not record {}", recorded.reason))
                .with("value", if setting.is_empty() { "empty" } else { setting }, "pg_settings")
                .repaired_by(repair),
        )
    });
    let seen: Seen = found.collect();
    let why = "which libraries are loaded; grant pg_monitor to this role";
    Ok(seen.but((!server.may_monitor).then(|| why.to_owned())))
}
