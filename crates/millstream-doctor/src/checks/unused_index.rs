//! Check `unused-index`: indexes that no query uses.

use super::definition::definition;
use super::number::{bytes, count, needs, number};
use crate::check::{Check, Look, Looked, Task};
use crate::refusal::Stop;
use crate::server::{Database, Server};
use millstream_model::quantity::age;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "unused-index",
    about: "indexes that no query has used for weeks, and that every write maintains",
    class: Class::Arithmetic,
    thresholds: &[("index_mb", 10.0), ("days", 35.0)],
    manual: include_str!("unused_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// What the check looks for, where it cannot.
const WHAT: &str = "which indexes no query uses";

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let (needed, primary) = (task.threshold("days") * 86_400.0, primary_seconds(server, database).await?);
    let counted = database.sure_seconds.min(primary);
    needs(WHAT, "of counters", needed, counted)?;
    let since = if counted < primary { "the counters began" } else { "this server became the primary" };
    let (least, sql) = (task.threshold("index_mb") * 1e6, include_str!("unused_index.sql"));
    let rows = database.worst(sql, &[&least]).await?;
    let found = rows.iter().filter_map(|row| {
        let definition = definition(row)?;
        let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
        let sentence = format!("no query has used this index of {table} since {since}, {} ago", age(counted));
        Some(
            task.finding(Level::Info, name.clone(), sentence)
                .wastes(number(row, "bytes"))
                .with("size", bytes(row, "bytes"), "pg_class.relpages")
                .with("writes to the table", count(row, "writes"), "pg_stat_user_tables")
                .with("definition", &definition, "pg_get_indexdef")
                .counted(counted)
                .unless("the index is younger than the counters, a standby uses it, or a job needs it once a quarter")
                .repaired(
                    format!("look at the standbys, then drop it. To undo: {definition}"),
                    "a rare query that needs it becomes slow",
                )
                .run([format!("drop index concurrently {name}")])
                .changes(database.drop_index(&name)),
        )
    });
    Ok(found.collect())
}

/// For how many seconds the server has been the primary. Before, as a standby, it has not counted its primary's queries,
/// and a promotion resets no counters.
async fn primary_seconds(server: &Server, database: &Database) -> Result<f64, Stop> {
    let client = &database.session.client;
    let timeline = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)";
    let timeline: String = client.query_one(timeline, &[]).await?.get(0);
    if timeline == FIRST_TIMELINE {
        return Ok(f64::INFINITY);
    }
    if server.may_monitor {
        // The server writes this file when it is promoted.
        let sql = "select date_part('epoch', now() - modification)::float8 from pg_ls_waldir() where name = $1";
        if let Some(row) = client.query_opt(sql, &[&format!("{timeline}.history")]).await? {
            return Ok(row.get(0));
        }
    }
    Err(format!("{WHAT}: this server was a standby, and the role may not see until when; grant pg_monitor to it")
        .into())
}

/// The timeline of a server that has never been promoted, as the names of WAL files begin.
const FIRST_TIMELINE: &str = "00000001";
