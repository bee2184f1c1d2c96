//! Check `wraparound`: rows that are not frozen in time.

use super::command;
use super::number::{bytes, number};
use crate::check::{Check, Look, Looked, Task};
use crate::server::{Database, Server};
use millstream_model::quantity::count;
use millstream_model::{Class, Danger, Finding, Level, Repair};
use millstream_pg::{Error, quote_identifier};
use tokio_postgres::{Client, Row};

/// Age at which a server refuses writes: 2^31 less 3 million; PostgreSQL's manual, "Preventing Transaction ID Wraparound
/// Failures".
const STOP_AT: u64 = (1 << 31) - 3_000_000;

pub(super) const CHECK: Check = Check {
    id: "wraparound",
    about: "rows that are not frozen in time: the server refuses writes before transaction ids run out",
    class: Class::Arithmetic,
    thresholds: &[("age_millions", 400.0), ("critical_millions", 1_000.0)],
    manual: include_str!("wraparound.md"),
    looks: &[
        Look::Server(|server, task| Box::pin(databases(server, task))),
        Look::Database(|_, database, task| Box::pin(tables(database, task))),
    ],
};

/// From which ages on a finding is made: in transactions and in multixacts.
struct Least {
    xid: f64,
    mxid: f64,
}

/// Autovacuum may be told to wait longer than the threshold.
async fn least(client: &Client, task: &Task) -> Result<Least, Error> {
    let sql = "select current_setting('autovacuum_freeze_max_age')::float8, \
               current_setting('autovacuum_multixact_freeze_max_age')::float8";
    let row = client.query_one(sql, &[]).await?;
    let of = |own: f64| (task.threshold("age_millions") * 1e6).max(1.2 * own);
    Ok(Least { xid: of(row.get(0)), mxid: of(row.get(1)) })
}

async fn databases(server: &Server, task: Task) -> Looked {
    let least = least(&server.session.client, &task).await?;
    let rows = server.worst(include_str!("wraparound_databases.sql"), &[&least.xid, &least.mxid]).await?;
    let found = rows.iter().map(|row| {
        let name: String = row.get("name");
        let quoted = quote_identifier(&name);
        let vacuum = format!("$ vacuumdb --freeze{}", command::connection(&server.db, &name));
        let commands = match row.get("may_connect") {
            true => vec![vacuum],
            false => vec![
                format!("alter database {quoted} allow_connections true"),
                vacuum,
                format!("alter database {quoted} allow_connections false"),
            ],
        };
        let repair = Repair::new(
            "freeze its tables, as a role that can connect to it",
            "it reads every table whole, and writes what was not frozen",
        )
        .run(commands);
        let sources = ["pg_database.datfrozenxid", "pg_database.datminmxid"];
        finding(row, &task, &least, &format!("database {name}"), sources, repair)
    });
    Ok(found.collect())
}

async fn tables(database: &Database, task: Task) -> Looked {
    let least = least(&database.session.client, &task).await?;
    let rows = database.worst(include_str!("wraparound.sql"), &[&least.xid, &least.mxid]).await?;
    let found = rows.iter().map(|row| {
        let name: String = row.get("name");
        let repair = match row.get("temporary") {
            true => {
                Repair::new("end the session that has this temporary table", "the session loses its temporary tables")
            }
            false => Repair::new(
                "freeze the table now, beside other work",
                "it reads the whole table, and writes what was not frozen",
            )
            .run([format!("vacuum (freeze, verbose) {name}")]),
        };
        let sources = ["pg_class.relfrozenxid", "pg_class.relminmxid"];
        let at_work = row.get::<_, bool>("in_progress").then_some("yes");
        finding(row, &task, &least, &name, sources, repair)
            .with("size", bytes(row, "bytes"), "pg_class.relpages")
            .with_known("a vacuum is at work", at_work, "pg_stat_progress_vacuum")
    });
    Ok(found.collect())
}

fn finding(
    row: &Row,
    task: &Task,
    least: &Least,
    name: &str,
    [xid_source, mxid_source]: [&str; 2],
    repair: Repair,
) -> Finding {
    let (xid, mxid) = (number(row, "xid_age"), number(row, "mxid_age"));
    let is_xid = xid as f64 >= least.xid && (xid >= mxid || (mxid as f64) < least.mxid);
    let (what, age, source) =
        if is_xid { ("transactions", xid, xid_source) } else { ("multixacts", mxid, mxid_source) };
    let level = if age as f64 >= task.threshold("critical_millions") * 1e6 { Level::Critical } else { Level::Warning };
    let left = count(STOP_AT.saturating_sub(age));
    let sentence = format!("its oldest row is {} {what} old; the server refuses writes in {left} more", count(age));
    task.finding(level, name, sentence)
        .endangers(Danger::Service)
        .with("age", count(age), source)
        .unless("a vacuum that has begun by itself ends before")
        .repaired_by(repair)
}
