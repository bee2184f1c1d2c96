//! Check `missing-index`: indexes that no table has, and that the statements which take the time would use.

use super::command::spelled;
use super::new_index;
use super::number::count;
use super::proof::without;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::index::{Candidate, Trial, candidates, try_candidate, with_limit, with_patterns};
use crate::limits::{CANDIDATES_MAX, PROOF_TIME_MAX, ROWS_MAX};
use crate::server::{Database, Server};
use crate::statement::{Counted, Statements};
use millstream_model::quantity;
use millstream_model::words::option;
use millstream_model::{Class, Finding, Level};
use millstream_pg::{ConnInfo, Error};
use std::time::Instant;
use tokio_postgres::{Client, Row};

pub(super) const CHECK: Check = Check {
    id: "missing-index",
    about: "indexes that would save most of the time of the statements that take the most",
    class: Class::Hypothesis,
    thresholds: &[
        Threshold { name: "rows", default: 10_000.0 },
        Threshold { name: "calls", default: 10.0 },
        Threshold { name: "percent", default: 2.0 },
        Threshold { name: "warning_percent", default: 10.0 },
        Threshold { name: "times", default: 5.0 },
        Threshold { name: "expression_times", default: 1.5 },
        Threshold { name: "reads", default: 100.0 },
    ],
    manual: include_str!("missing_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// An index, and the statements that lack it, by their places.
#[derive(Debug, Clone)]
struct Wanted {
    candidate: Candidate,
    statements: Vec<usize>,
}

async fn look(server: &Server, database: &Database, task: Task) -> Result<Seen, Error> {
    match &server.planner {
        None => suspected(database, &task, database.statements().await?).await,
        Some(planner) => Box::pin(proven(planner, database, &task)).await,
    }
}

/// What the counters alone show: tables that are read as a whole, and the statement that most likely does so.
async fn suspected(database: &Database, task: &Task, statements: &Statements) -> Result<Seen, Error> {
    if database.uncounted.is_some() {
        return Ok(Seen::default().but(database.uncounted.clone()));
    }
    let (rows, reads) = (task.threshold("rows"), task.threshold("reads"));
    let found = database.session.client.query(include_str!("missing_index.sql"), &[&rows, &reads, &ROWS_MAX]).await?;
    let suspicions = found.iter().filter_map(|row| suspicion(row, task, statements));
    Ok(suspicions.map(|finding| finding.counted(database.counted_seconds)).collect())
}

fn suspicion(row: &Row, task: &Task, statements: &Statements) -> Option<Finding> {
    let (name, word): (String, String) = (row.get("table_name"), row.get::<_, String>("table_word").to_lowercase());
    let reads_it = |one: &&Counted| {
        let words = one.words();
        one.percent >= task.threshold("percent") && words.contains(&word) && words.iter().any(|word| word == "where")
    };
    let statement = statements.list.iter().find(reads_it)?;
    let sentence = format!("suspected: {name} was read as a whole {} times, for want of an index", count(row, "reads"));
    let finding = task
        .finding(Level::Info, name, sentence)
        .with("rows read by whole reads", count(row, "rows_read"), "pg_stat_user_tables")
        .with("share of the time of all statements", format!("{:.0} %", statement.percent), "pg_stat_statements");
    let finding = statement.add_reads_to(finding);
    Some(finding.costs(statement.percent).unless("the statement wants most of the rows").repaired(
        format!("let the doctor plan the statements with {}, which names the index", option("prove")),
        "none: the statements are planned and not executed",
    ))
}

/// Plans the statements that take the time, and tries the indexes that they lack.
async fn proven(planner: &ConnInfo, database: &Database, task: &Task) -> Result<Seen, Error> {
    let statements = task.statements(database).await?;
    let mut session = match database.session_to_plan(planner).await? {
        Ok(session) => session,
        Err(why) => return Ok(Seen::default().but(Some(why))),
    };
    let end = Instant::now() + PROOF_TIME_MAX;
    let (calls, rows) = (task.threshold("calls"), task.threshold("rows"));
    let often: Vec<&Counted> =
        statements.planned().into_iter().filter(|one| one.calls as f64 >= calls && one.percent > 0.0).collect();
    let texts: Vec<String> = often.iter().map(|one| planned(one)).collect();
    let (mut wanted, mut refused, mut late): (Vec<Wanted>, Vec<String>, usize) = (Vec::new(), Vec::new(), 0);
    for (place, sql) in texts.iter().enumerate() {
        if Instant::now() >= end {
            late = texts.len() - place;
            break;
        }
        match candidates(&mut session.client, sql).await {
            Ok(found) => {
                for candidate in found.into_iter().filter(|one| one.rows >= rows) {
                    match wanted.iter_mut().find(|known| known.candidate.same(&candidate)) {
                        Some(known) => known.statements.push(place),
                        None => wanted.push(Wanted { candidate, statements: vec![place] }),
                    }
                }
            }
            Err(error) if session.client.is_closed() => return Err(error),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let share = |one: &Wanted| one.statements.iter().map(|place| often[*place].percent).sum::<f64>();
    let mut wanted = joined(wanted);
    wanted.retain(|one| share(one) >= task.threshold("percent"));
    wanted.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let (mut untried, mut left) = (None, wanted.len().saturating_sub(CANDIDATES_MAX));
    for (place, one) in wanted.iter().take(CANDIDATES_MAX).enumerate() {
        if Instant::now() >= end {
            left = wanted.len() - place;
            break;
        }
        let times = task.threshold(if one.candidate.has_expression() { "expression_times" } else { "times" });
        let sqls: Vec<&str> = one.statements.iter().map(|place| texts[*place].as_str()).collect();
        match try_candidate(&mut session.client, &one.candidate, &sqls).await {
            Ok(Ok(trial)) => {
                let served = one.statements.iter().zip(&trial.costs).filter_map(|(place, costs)| {
                    let (before, after) = (*costs)?;
                    (before >= times * after).then_some((often[*place], before, after))
                });
                let served: Vec<(&Counted, f64, f64)> = served.collect();
                if let Some(finding) = finding(&session.client, &one.candidate, &trial, &served, task).await? {
                    task.keep(finding);
                }
            }
            Err(error) if session.client.is_closed() => return Err(error),
            Ok(Err(message)) => untried = untried.or(Some(format!("indexes that cannot be tried: {message}"))),
            Err(error) => untried = untried.or(Some(format!("indexes that cannot be tried: {error}"))),
        }
    }
    let left = (left > 0).then(|| format!("new indexes for statements that take less time: {left}"));
    let seen = without(("statements", "that cannot be planned"), &refused, late);
    Ok(seen.but(statements.unseen.clone()).but(untried).but(left))
}

/// A statement in the form in which it is planned, with a limit of as many rows as a call returns.
fn planned(statement: &Counted) -> String {
    with_patterns(&with_limit(&statement.sql, (statement.rows / statement.calls.max(1)).max(1)))
}

/// The same with fewer indexes: one that begins as a shorter one does serves the shorter one's statements, too.
fn joined(mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    wanted.sort_by_key(|one| one.candidate.width());
    let mut left: Vec<Wanted> = Vec::new();
    while !wanted.is_empty() {
        let shorter = wanted.remove(0);
        let wider = wanted.iter_mut().find_map(|one| Some((one.candidate.with_first(&shorter.candidate)?, one)));
        match wider {
            Some((candidate, one)) => {
                one.candidate = candidate;
                one.statements.extend(&shorter.statements);
            }
            None => left.push(shorter),
        }
    }
    left
}

/// `None` if too little of the time is saved.
async fn finding(
    client: &Client,
    candidate: &Candidate,
    trial: &Trial,
    served: &[(&Counted, f64, f64)],
    task: &Task,
) -> Result<Option<Finding>, Error> {
    let percent: f64 = served.iter().map(|(one, ..)| one.percent).sum();
    let Some((worst, before, after)) = served.first().filter(|_| percent >= task.threshold("percent")) else {
        return Ok(None);
    };
    let table = format!("{}.{}", spelled(&candidate.schema), spelled(&candidate.table));
    let level = if percent >= task.threshold("warning_percent") { Level::Warning } else { Level::Info };
    let (how_many, take) = if served.len() == 1 { ("a statement", "takes") } else { ("statements", "take") };
    let sentence = format!(
        "an index on {table} {} would speed up {how_many} that {take} {percent:.0} % of the time of all statements",
        candidate.clause()
    );
    let how = match trial.hypothetical {
        true => "planned with a hypothetical index (the extension hypopg)",
        false => "used on an empty copy of the table; its cost is estimated from the number of rows",
    };
    let mut finding = task
        .finding(level, format!("{table} {}", candidate.clause()), sentence)
        .with("statements that would use it", served.len(), "their plans")
        .with("the planner's cost of the first, now", format!("{before:.0}"), "explain")
        .with("with the index", format!("{after:.0}"), "explain")
        .with("how it was tried", how, "the planner")
        .with("size of the index, about", quantity::bytes(whole(trial.bytes)), "an estimate");
    if let Some(row) = client.query_opt(include_str!("missing_index_writes.sql"), &[&table]).await? {
        finding = finding.with("writes to the table", count(&row, "writes"), "pg_stat_user_tables");
        if let Some(percent) = row.get::<_, Option<i64>>("hot_percent") {
            let name = "updates that touch no index now (HOT), and may then";
            finding = finding.with(name, format!("{percent} %"), "pg_stat_user_tables");
        }
    }
    let change = new_index::change(client, &candidate.schema, &candidate.table, &candidate.clause()).await?;
    let finding = worst.add_to(finding).costs(percent);
    let finding = finding.unless("the values that are looked for are frequent ones, and most rows have them");
    Ok(Some(
        finding
            .repaired(
                "create the index, and measure before and after",
                "every write to the table maintains an index more",
            )
            .run([new_index::command(&table, &candidate.clause())])
            .changes(change),
    ))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
fn whole(number: f64) -> u64 {
    number as u64
}
