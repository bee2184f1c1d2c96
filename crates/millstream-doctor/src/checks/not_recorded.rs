//! Check `not-recorded`: what the server does not record.

use crate::check::{Check, Look, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Level, Repair, Restart};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "not-recorded",
    about: "what the server does not record, so that nobody can see later what happened",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("not_recorded.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

/// A setting, what is missing without it, and the value that records it.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("log_autovacuum_min_duration", "which tables autovacuum works on, and for how long", "10min"),
    ("log_checkpoints", "when checkpoints come, why, and how long they take", "on"),
    ("log_lock_waits", "who waited long for a lock, and for whom", "on"),
    ("shared_preload_libraries", "which statements take the time (pg_stat_statements)", "pg_stat_statements"),
    ("track_activities", "what sessions do", "on"),
    ("track_counts", "how tables and indexes are used; autovacuum needs it, too", "on"),
    ("track_io_timing", "how much time reads and writes take", "on"),
];

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let rows = server.session.client.query(include_str!("not_recorded.sql"), &[]).await?;
    let found = rows.iter().filter_map(|row| {
        let name: &str = row.get("name");
        let (_, missing, value) = SETTINGS.iter().find(|(setting, ..)| *setting == name)?;
        let level = if name == "track_counts" { Level::Warning } else { Level::Info };
        let mut finding = task.finding(level, name, format!("the server does not record {missing}")).with(
            "value",
            row.get::<_, String>("setting"),
            "pg_settings",
        );
        let risk = "a little time or space in the log; on a machine with a slow clock track_io_timing costs more";
        finding.repair = Some(match name {
            // It needs a restart, and may name other libraries.
            "shared_preload_libraries" => Repair {
                sentence: "add pg_stat_statements to it, restart the server, and create the extension".to_owned(),
                commands: vec!["-- after the restart".to_owned(), "create extension pg_stat_statements".to_owned()],
                risk: "a restart ends all sessions".to_owned(),
                restart: Restart::Server,
                change: None,
            },
            _ => server.setting(name, value, "record it", risk),
        });
        Some(finding)
    });
    let seen: Seen = found.collect();
    let why = "which libraries are loaded; grant pg_monitor to this role";
    Ok(seen.but((!server.may_monitor).then(|| why.to_owned())))
}
