//! Check `dead-tuples`: dead row versions that autovacuum should have removed, and why it has not.

use super::number::{bytes, count, number, percent};
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::limits::ROWS_MAX;
use crate::server::{Database, Server};
use millstream_model::quantity::{self, age};
use millstream_model::{Class, Finding, Level, Repair, Restart};
use millstream_pg::Error;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "dead-tuples",
    about: "dead row versions that autovacuum should have removed, by the table's own settings, and why it has not",
    class: Class::Arithmetic,
    thresholds: &[
        Threshold { name: "table_mb", default: 100.0 },
        Threshold { name: "percent", default: 20.0 },
        Threshold { name: "holder_seconds", default: 300.0 },
        Threshold { name: "holder_transactions", default: 1e6 },
    ],
    manual: include_str!("dead_tuples.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

async fn look(server: &Server, database: &Database, task: Task) -> Result<Seen, Error> {
    if database.uncounted.is_some() {
        return Ok(Seen::default().but(database.uncounted.clone()));
    }
    let client = &database.session.client;
    let (seconds, transactions) = (task.threshold("holder_seconds"), task.threshold("holder_transactions"));
    let holder = client.query_opt(include_str!("vacuum_holder.sql"), &[&seconds, &transactions]).await?;
    let least = task.threshold("table_mb") * 1e6;
    // With a holder, autovacuum comes again and again and removes nothing.
    let rows = client.query(include_str!("dead_tuples.sql"), &[&least, &holder.is_some(), &ROWS_MAX]).await?;
    if rows.is_empty() {
        return Ok(Seen::default().but(server.blind_to_sessions()));
    }
    let cause = cause(server, database, holder.as_ref()).await?;
    let found: Seen = rows.iter().map(|row| finding(row, database, &cause, &task)).collect();
    Ok(found.but(server.blind_to_sessions()))
}

fn finding(row: &Row, database: &Database, cause: &Cause, task: &Task) -> Finding {
    let name: String = row.get("name");
    let (live, dead) = (number(row, "live"), number(row, "dead"));
    let percent = percent(dead, live + dead);
    let level = if percent >= task.threshold("percent") { Level::Warning } else { Level::Info };
    let cause = if row.get("enabled") { cause.clone() } else { off_for(database, &name) };
    let sentence = format!("{percent:.0} % of the rows are dead: {}", cause.sentence);
    let last: Option<f64> = row.get("vacuum_age");
    let last = last
        .map_or_else(|| "never, as far as the counters reach".to_owned(), |seconds| format!("{} ago", age(seconds)));
    let source = "pg_stat_user_tables";
    let mut finding = task
        .finding(level, name, sentence)
        .with("dead rows", quantity::count(dead), source)
        .with("autovacuum starts at", count(row, "trigger"), "pg_settings, pg_class.reloptions")
        .with("size", bytes(row, "bytes"), "pg_class.relpages, or from the rows")
        .with("last vacuum", last, source);
    finding.alternative = Some("the table has just reached that number, and autovacuum comes to it soon".to_owned());
    finding.repair = Some(cause.repair);
    finding
}

/// Why autovacuum does not remove the rows, and what to do.
#[derive(Debug, Clone)]
struct Cause {
    sentence: String,
    repair: Repair,
}

impl Cause {
    /// A cause that nobody but the user can remove.
    fn new(sentence: impl Into<String>, repair: &str, risk: &str) -> Self {
        let (repair, risk) = (repair.to_owned(), risk.to_owned());
        let repair = Repair { sentence: repair, commands: Vec::new(), risk, restart: Restart::Nothing, change: None };
        Self { sentence: sentence.into(), repair }
    }
}

fn off_for(database: &Database, table: &str) -> Cause {
    let repair = Repair {
        sentence: "switch it on; autovacuum then removes them".to_owned(),
        commands: vec![format!("alter table {table} reset (autovacuum_enabled)")],
        risk: "the first vacuum reads and writes the whole table, beside other work".to_owned(),
        restart: Restart::Nothing,
        change: database.reset_option(table, "autovacuum_enabled"),
    };
    Cause { sentence: "autovacuum is off for this table".to_owned(), repair }
}

/// The first of the possible causes that is there.
async fn cause(server: &Server, database: &Database, holder: Option<&Row>) -> Result<Cause, Error> {
    let state = database.session.client.query_one(include_str!("autovacuum.sql"), &[]).await?;
    if !state.get::<_, bool>("autovacuum") {
        let repair = server.setting("autovacuum", "on", "switch it on", "vacuum takes disk and processor");
        return Ok(Cause { sentence: "autovacuum is off on this server".to_owned(), repair });
    }
    if let Some(row) = holder {
        return Ok(held(row));
    }
    let (workers, most) = (number(&state, "workers"), number(&state, "max_workers"));
    if workers >= most {
        let (name, twice) = ("autovacuum_vacuum_cost_limit", 2 * number(&state, "cost_limit"));
        let sentence = "let each worker work twice as fast; more workers would share the same pace";
        let repair = server.setting(name, &twice.to_string(), sentence, "vacuum takes more of the disk");
        return Ok(Cause { sentence: format!("all {most} workers of autovacuum are busy"), repair });
    }
    let sentence = "no snapshot, slot or setting explains it; autovacuum may be too slow for the table";
    Ok(Cause::new(sentence, "vacuum it once, and read what `vacuum (verbose)` reports", "it reads the whole table"))
}

/// Something holds a snapshot to which the rows are visible.
fn held(row: &Row) -> Cause {
    let (kind, name): (&str, &str) = (row.get("kind"), row.get("name"));
    let seconds: Option<f64> = row.get("seconds");
    let since = seconds.map(|seconds| format!(" for {}", age(seconds))).unwrap_or_default();
    let sentence = format!("{name} has held them{since} ({} transactions)", count(row, "age"));
    let (repair, risk) = match kind {
        "slot" => ("let the slot's reader catch up, or drop the slot", "without the slot its reader must be made anew"),
        "prepared" => ("commit the prepared transaction, or roll it back", "neither can be taken back"),
        "standby" => (
            "end the long query on the standby, or switch hot_standby_feedback off there",
            "without the feedback, vacuum may cancel long queries of the standby",
        ),
        _ => ("end the transaction in its program, or end its session", "the transaction is rolled back"),
    };
    Cause::new(sentence, repair, risk)
}
