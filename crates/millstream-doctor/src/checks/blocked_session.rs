//! Check `blocked-session`: sessions that wait for a lock of another one.

use super::number::{number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use crate::statement::{shown, without_constants};
use millstream_model::quantity::age;
use millstream_model::{Class, Finding, Level, Repair};
use std::collections::BTreeMap;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "blocked-session",
    about: "sessions that wait for a lock, and the one that holds it",
    class: Class::Arithmetic,
    thresholds: &[("seconds", 10.0)],
    manual: include_str!("blocked_session.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let client = &server.session.client;
    let rows = server.worst(include_str!("blocked_session.sql"), &[&task.threshold("seconds")]).await?;
    let ids: Vec<i64> =
        rows.iter().filter(|row| is_counted(row.get("words"))).filter_map(|row| row.get("query_id")).collect();
    let texts = if ids.is_empty() { BTreeMap::new() } else { without_constants(client, &ids).await? };
    Ok(rows.iter().map(|row| finding(row, &texts, &task)).collect::<Seen>().but(server.blind_to_sessions()))
}

/// Whether `pg_stat_statements` keeps such a statement without its constants, by its first words. It keeps others as they
/// are, up to PostgreSQL 15.
fn is_counted(words: &str) -> bool {
    let first = words.split_whitespace().next().unwrap_or_default();
    ["select", "with", "insert", "update", "delete", "merge", "values"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

fn finding(row: &Row, texts: &BTreeMap<i64, String>, task: &Task) -> Finding {
    let (name, pid): (String, i32) = (row.get("name"), row.get("pid"));
    let (sessions, longest) = (number(row, "sessions"), age(row.get("seconds")));
    let sentence = match sessions {
        1 => format!("a session has waited {longest} for a lock that this one holds"),
        _ => format!("{sessions} sessions wait for a lock that this one holds, the longest for {longest}"),
    };
    let (state, words): (String, String) = (row.get("state"), row.get("words"));
    let text = row.get::<_, Option<i64>>("query_id").and_then(|id| texts.get(&id)).filter(|_| is_counted(&words));
    let words = Some(&words).filter(|words| text.is_none() && !words.is_empty());
    task.finding(Level::Warning, name, sentence)
        // Who waits does nothing: its share of the active sessions is a share of their time.
        .costs(percent(sessions, number(row, "active")).min(100.0))
        .with("sessions that wait", sessions, "pg_blocking_pids")
        .with("active sessions", number(row, "active"), "pg_stat_activity")
        .drawn("sessions that wait", sessions, sessions)
        .drawn("active sessions", number(row, "active"), number(row, "active"))
        .with_known("its state", Some(state).filter(|state| !state.is_empty()), "pg_stat_activity")
        .with_known("its statement", text.map(|text| shown(text)), "pg_stat_statements")
        .with_known("its statement begins with", words.map(|words| shown(words)), "pg_stat_activity")
        .unless("it ends by itself in a moment")
        .repaired_by(match (pid, row.get("client")) {
            (0, _) => Repair::new(
                "commit the prepared transaction, or roll it back, in its database",
                "its coordinator may count on it; neither can be taken back",
            )
            .run([
                "select gid, prepared, owner, database from pg_prepared_xacts",
                "-- then either commit prepared 'GID', or rollback prepared 'GID'",
            ]),
            (_, true) => Repair::new(
                "end its transaction in its program; lock_timeout lets waiting sessions give up by themselves",
                "the transaction is rolled back, and its program gets an error",
            )
            .run([format!("select pg_terminate_backend({pid})")]),
            (_, false) => Repair::new("wait for this process of the server", "none"),
        })
}
