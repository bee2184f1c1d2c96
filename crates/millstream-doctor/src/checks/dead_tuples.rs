//! Check `dead-tuples`: dead row versions that autovacuum should have removed, and why it has not.

use super::autovacuum_off::switch_on;
use super::number::{bytes, count, number, percent};
use super::together::{LOOKED_AT_MAX, NAMES_MAX, SMALLER_MAX};
use super::vacuum_pace::{Pace, Pass};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::ROWS_MAX;
use crate::server::{Database, Server};
use millstream_model::quantity::{self, age};
use millstream_model::{Change, Class, Finding, Level, Repair};
use millstream_pg::fill;
use millstream_pg::sizing::VACUUM_PACE;
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "dead-tuples",
    about: "dead row versions that autovacuum should have removed, by the table's own settings, and why it has not",
    class: Class::Arithmetic,
    thresholds: &[
        ("table_mb", 100.0),
        ("percent", 20.0),
        ("holder_seconds", 300.0),
        ("holder_transactions", 1e6),
        ("pace_seconds", 600.0),
    ],
    manual: include_str!("dead_tuples.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// The largest `cost_limit` that the server takes.
const COST_MAX: f64 = 10_000.0;

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    database.counts.clone()?;
    let client = &database.session.client;
    let (seconds, transactions) = (task.threshold("holder_seconds"), task.threshold("holder_transactions"));
    let holder = client.query_opt(include_str!("vacuum_holder.sql"), &[&seconds, &transactions]).await?;
    let least = task.threshold("table_mb") * 1e6;
    // With a holder, autovacuum comes again and again and removes nothing.
    let sql = fill!(include_str!("dead_tuples.sql"), threshold = include_str!("autovacuum_threshold.sql"));
    let held = holder.is_some();
    let all = client.query(&sql, &[&(least / SMALLER_MAX), &held, &ROWS_MAX, &least, &LOOKED_AT_MAX]).await?;
    let (small, rows): (Vec<Row>, Vec<Row>) = all.into_iter().partition(|row| row.get("is_small"));
    if rows.is_empty() && small.is_empty() {
        return Ok(Seen::default().but(server.blind_to_sessions()));
    }
    let state = client.query_one(include_str!("autovacuum.sql"), &[]).await?;
    let common = common_cause(server, &state, holder.as_ref());
    let of_table = |row: &Row| {
        let pace = Pace::of(row, &state);
        let pass = pace.map(|pace| Pass::of(row, &pace));
        let slow = pass.and_then(|pass| pass.reason(task.threshold("pace_seconds")));
        let slow = slow.map(|reason| slow_for(server, database, row, reason));
        let cause = match (row.get::<_, bool>("in_progress"), &common) {
            // What is being removed is not a fault, unless it takes too long.
            (true, _) => slow?,
            (false, _) if !row.get::<_, bool>("enabled") => off_for(server, database, row, state.get("autovacuum")),
            (false, Some(cause)) => cause.clone(),
            (false, None) => slow.unwrap_or_else(|| unexplained(pass)),
        };
        let limited = pace.map(|pace| (pace.shown(), pace.source()));
        let unlimited = || ("not limited".to_owned(), "autovacuum_vacuum_cost_delay".to_owned());
        let (shown, source) = limited.unwrap_or_else(unlimited);
        let time = pass.map(|pass| pass.shown());
        Some(
            finding(row, cause, &task)
                .counted(database.counted_seconds)
                .with("pace of autovacuum", shown, &source)
                .with_known("time for the table at this pace", time, "computed from its pages"),
        )
    };
    let found: Vec<Finding> = rows.iter().filter_map(of_table).collect();
    let together = of_small(&small, common.as_ref(), database, &task);
    Ok(found.into_iter().chain(together).collect::<Seen>().but(server.blind_to_sessions()))
}

/// A finding about tables that are too small alone.
fn of_small(rows: &[Row], common: Option<&Cause>, database: &Database, task: &Task) -> Option<Finding> {
    let waiting = || rows.iter().filter(|row| !row.get::<_, bool>("in_progress"));
    let sum = |column| waiting().map(|row| number(row, column)).sum::<u64>();
    let (live, dead, size) = (sum("live"), sum("dead"), sum("bytes"));
    let (count, percent) = (waiting().count(), percent(dead, live + dead));
    if count == 0 || (size as f64) < task.threshold("table_mb") * 1e6 {
        return None;
    }
    let level = if percent >= task.threshold("percent") { Level::Warning } else { Level::Info };
    let off = waiting().filter(|row| !row.get::<_, bool>("enabled")).count();
    let cause = match common {
        Some(cause) => cause.clone(),
        None if off > 0 => Cause::new(
            format!("autovacuum is off for {off} of them"),
            "switch it on for these tables: alter table .. reset (autovacuum_enabled)",
            "the first vacuum of each reads and writes the whole table",
        ),
        None => unexplained(None),
    };
    let worst: Vec<&str> = waiting().take(NAMES_MAX).map(|row| row.get("owner")).collect();
    let sentence = format!("{percent:.0} % of the rows of {count} small tables are dead: {}", cause.sentence);
    let source = "pg_stat_all_tables";
    Some(
        task.finding(level, database.name.clone(), sentence)
            .with("dead rows", quantity::count(dead), source)
            .with("size", quantity::bytes(size), "pg_class.relpages, or from the rows")
            .with("the worst", worst.join(", "), source)
            .drawn("dead rows", dead, quantity::count(dead))
            .drawn("other rows", live, quantity::count(live))
            .counted(database.counted_seconds)
            .unless("autovacuum is on its way through them")
            .repaired_by(cause.repair),
    )
}

fn finding(row: &Row, cause: Cause, task: &Task) -> Finding {
    let owner: &str = row.get("owner");
    let (name, whose) = match row.get::<_, bool>("is_toast") {
        true => (format!("{owner}.toast"), "rows of its TOAST table"),
        false => (owner.to_owned(), "rows"),
    };
    let (live, dead) = (number(row, "live"), number(row, "dead"));
    let percent = percent(dead, live + dead);
    let level = if percent >= task.threshold("percent") { Level::Warning } else { Level::Info };
    let sentence = format!("{percent:.0} % of the {whose} are dead: {}", cause.sentence);
    let last: Option<f64> = row.get("vacuum_age");
    let last = last
        .map_or_else(|| "never, as far as the counters reach".to_owned(), |seconds| format!("{} ago", age(seconds)));
    let source = "pg_stat_all_tables";
    task.finding(level, name, sentence)
        .with("dead rows", quantity::count(dead), source)
        .with("autovacuum starts at", count(row, "starts_at"), "pg_settings, pg_class.reloptions")
        .with("size", bytes(row, "bytes"), "pg_class.relpages, or from the rows")
        .with("last vacuum", last, source)
        .drawn("dead rows", dead, quantity::count(dead))
        .drawn("other rows", live, quantity::count(live))
        .drawn("autovacuum starts at", number(row, "starts_at"), count(row, "starts_at"))
        .unless("the table has just reached that number, and autovacuum comes to it soon")
        .repaired_by(cause.repair)
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
        Self { sentence: sentence.into(), repair: Repair::new(repair, risk) }
    }
}

/// It is off for the table. While it is off on the server, too, the table's own option changes nothing.
fn off_for(server: &Server, database: &Database, row: &Row, is_on: bool) -> Cause {
    let (table, prefix): (&str, &str) = (row.get("owner"), row.get("prefix"));
    if !is_on {
        let first =
            "switch it on for the server first, and then reset the option of the table; the report then says how";
        let sentence = "autovacuum is off on this server, and for this table".to_owned();
        return Cause { sentence, repair: switch_on(server, "autovacuum", first) };
    }
    let repair = Repair::new(
        "switch it on; autovacuum then removes them",
        "the first vacuum reads and writes the whole table, beside other work",
    )
    .run([format!("alter table {table} reset ({prefix}autovacuum_enabled)")])
    .changes(database.reset_option(table, "autovacuum_enabled").filter(|_| prefix.is_empty()));
    Cause { sentence: "autovacuum is off for this table".to_owned(), repair }
}

/// The first of the causes that all tables share, if one is there.
fn common_cause(server: &Server, state: &Row, holder: Option<&Row>) -> Option<Cause> {
    if !state.get::<_, bool>("autovacuum") {
        let repair = switch_on(server, "autovacuum", "switch it on");
        return Some(Cause { sentence: "autovacuum is off on this server".to_owned(), repair });
    }
    if let Some(row) = holder {
        return Some(held(row));
    }
    let (workers, most) = (number(state, "workers"), number(state, "max_workers"));
    if workers >= most {
        let (name, twice) = (VACUUM_PACE.name, (2.0 * number(state, "cost_limit") as f64).min(COST_MAX));
        let sentence = "let each worker work twice as fast; more workers would share the same pace";
        let repair = server.setting(name, &twice.to_string(), sentence, "vacuum takes more of the disk");
        return Some(Cause { sentence: format!("all {most} workers of autovacuum are busy"), repair });
    }
    None
}

/// The pace alone explains it.
fn slow_for(server: &Server, database: &Database, row: &Row, reason: String) -> Cause {
    let (table, prefix): (&str, &str) = (row.get("owner"), row.get("prefix"));
    let (limit, delay): (f64, f64) = (row.get("cost_limit"), row.get("delay"));
    let (name, risk) = (VACUUM_PACE.name, "vacuum takes more of the disk");
    let faster = VACUUM_PACE.value.parse::<f64>().unwrap_or(COST_MAX).max(2.0 * limit).min(COST_MAX);
    let of_table = |sentence: &str, command: String, change: Option<Change>| {
        Repair::new(sentence.to_owned(), risk.to_owned())
            .run([format!("alter table {table} {command}")])
            .changes(change.filter(|_| prefix.is_empty()))
    };
    let repair = match (row.get::<_, bool>("has_own_delay"), row.get::<_, bool>("has_own_limit")) {
        (true, _) => {
            let delay = "autovacuum_vacuum_cost_delay";
            let sentence = "let the server's delay count for this table, which is shorter";
            of_table(sentence, format!("reset ({prefix}{delay})"), database.reset_option(table, delay))
        }
        (false, true) if limit < COST_MAX => {
            let change = database.set_option(table, name, &format!("{faster:.0}"));
            of_table("let it do more before it sleeps", format!("set ({prefix}{name} = {faster:.0})"), change)
        }
        (false, false) if limit < COST_MAX => {
            server.setting(name, &format!("{faster:.0}"), "let each worker do more before it sleeps", risk)
        }
        _ => {
            let half = format!("{}ms", delay / 2.0);
            server.setting("autovacuum_vacuum_cost_delay", &half, "let each worker sleep half as long", risk)
        }
    };
    Cause { sentence: reason, repair }
}

/// Nothing that the doctor knows explains it. It says what the pace allows.
fn unexplained(pass: Option<Pass>) -> Cause {
    let pace = match pass {
        Some(pass) => format!("at its pace a vacuum takes {}", pass.shown()),
        None => "nothing slows vacuum down".to_owned(),
    };
    let sentence = format!("no snapshot, slot or setting explains it, and {pace}");
    Cause::new(sentence, "vacuum it once, and read what `vacuum (verbose)` reports", "it reads the whole table")
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
