//! Check `autovacuum-off`: a server on which nothing removes dead rows and nothing collects statistics.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Level, Repair};

pub(super) const CHECK: Check = Check {
    id: "autovacuum-off",
    about: "a server without autovacuum: dead rows stay, and the planner's statistics become old",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("autovacuum_off.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

/// Autovacuum needs both.
const SETTINGS: [&str; 2] = ["autovacuum", "track_counts"];

async fn look(server: &Server, task: Task) -> Looked {
    // What is valid for this session alone does not count.
    let sql = "select name from pg_settings where name = any($1) and reset_val = 'off' order by name";
    let rows = server.session.client.query(sql, &[&&SETTINGS[..]]).await?;
    let off: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let Some(first) = off.first() else { return Ok(Seen::default()) };
    let sentence = match *first {
        "autovacuum" => "no table is vacuumed and analyzed by itself, whatever its own options say".to_owned(),
        other => format!("autovacuum does nothing, because {other} is off"),
    };
    let mut finding = task.finding(Level::Warning, *first, sentence);
    for name in &off {
        finding = finding.with(name, "off", "pg_settings");
    }
    Ok(finding
        .unless("a job of yours vacuums and analyzes all tables")
        .repaired_by(switch_on(server, first, "switch it on"))
        .into())
}

/// Switches a setting on that autovacuum needs.
pub(super) fn switch_on(server: &Server, name: &str, sentence: &str) -> Repair {
    server.setting(name, "on", sentence, "the first vacuums take disk and processor, beside other work")
}
