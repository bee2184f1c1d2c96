//! Check `setting-not-in-effect`: settings that were written and are not used.

use crate::check::{Check, Look, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::Error;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "setting-not-in-effect",
    about: "settings that were written and are not used: they wait for a restart, or are wrong",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("setting_not_in_effect.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Result<Seen, Error> {
    let client = &server.session.client;
    let pending = "select name, setting from pg_settings where pending_restart order by name";
    let mut found: Seen = client.query(pending, &[]).await?.iter().map(|row| waiting(row, &task)).collect();
    let allowed = "select has_table_privilege('pg_file_settings', 'select') \
                   and has_function_privilege('pg_show_all_file_settings()', 'execute')";
    if client.query_one(allowed, &[]).await?.get(0) {
        let lines = client.query(include_str!("setting_not_in_effect.sql"), &[]).await?;
        found.findings.extend(lines.iter().map(|row| wrong(row, &task)));
        return Ok(found);
    }
    let why = "the configuration files; grant select on pg_file_settings and execute on pg_show_all_file_settings to this role";
    Ok(found.but(Some(why.to_owned())))
}

fn waiting(row: &Row, task: &Task) -> Finding {
    let name: String = row.get("name");
    let sentence = "its new value waits for a restart of the server";
    let mut finding = task
        .finding(Level::Warning, name, sentence)
        .with("value now", row.get::<_, String>("setting"), "pg_settings")
        .with("waits for a restart", "yes", "pg_settings.pending_restart");
    finding.repair = Some(Repair {
        sentence: "restart the server, or take the new value back".to_owned(),
        commands: Vec::new(),
        risk: "a restart ends all sessions".to_owned(),
        restart: Restart::Server,
        change: None,
    });
    finding
}

fn wrong(row: &Row, task: &Task) -> Finding {
    let (name, place, error): (String, String, String) = (row.get("name"), row.get("place"), row.get("error"));
    // Of such a setting the server says the same whether the value is wrong or only waits for a restart.
    let needs_restart: bool = row.get("needs_restart");
    let sentence = match needs_restart {
        true => format!("{place} waits for a restart, or is wrong: {error}"),
        false => format!("the server cannot use {place}: {error}"),
    };
    let mut finding = task
        .finding(Level::Warning, name, sentence)
        .with("written", row.get::<_, Option<String>>("written").unwrap_or_default(), "pg_file_settings")
        .with("value now", row.get::<_, Option<String>>("now").unwrap_or_default(), "pg_settings");
    finding.repair = Some(Repair {
        sentence: format!("correct {place}, then {}", if needs_restart { "restart the server" } else { "reload" }),
        commands: if needs_restart { Vec::new() } else { vec!["select pg_reload_conf()".to_owned()] },
        risk: "while the line is wrong, the server does not start again".to_owned(),
        restart: if needs_restart { Restart::Server } else { Restart::Reload },
        change: None,
    });
    finding
}
