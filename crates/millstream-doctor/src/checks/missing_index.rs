//! Check `missing-index`: indexes that no table has, and that the statements which take the time would use.

use super::command::spelled;
use super::new_index;
use super::number::{count, size};
use super::proof::without;
use crate::check::{Check, Look, Looked, Task};
use crate::index::{
    Candidate, KnownTables, Need, PATTERN, Trial, Wish, candidates, shortened, try_candidate, with_limit, with_patterns,
};
use crate::limits::{CANDIDATES_MAX, PROOF_TIME_MAX};
use crate::refusal::Stop;
use crate::server::{Database, Server};
use crate::statement::{Counted, Statements};
use millstream_model::{Class, Finding, Level};
use millstream_pg::{ConnInfo, Error};
use std::cmp::Ordering;
use std::time::Instant;
use tokio_postgres::{Client, Row};

pub(super) const CHECK: Check = Check {
    id: "missing-index",
    about: "indexes that would save most of the time of the statements that take the most",
    class: Class::Hypothesis,
    thresholds: &[
        ("rows", 10_000.0),
        ("calls", 10.0),
        ("percent", 2.0),
        ("saved_ms", 10.0),
        ("warning_percent", 10.0),
        ("times", 5.0),
        ("expression_times", 1.5),
        ("reads", 100.0),
    ],
    manual: include_str!("missing_index.md"),
    looks: &[Look::Database(|server, database, task| Box::pin(look(server, database, task)))],
};

/// An index, and the statements that lack it, by their places.
#[derive(Debug)]
struct Wanted {
    candidate: Candidate,
    statements: Vec<(usize, Need)>,
}

/// An index, and the statements that would use it.
#[derive(Debug)]
struct Tried<'a> {
    candidate: Candidate,
    trial: Trial,
    served: Vec<Served<'a>>,
    /// The statements that lack it, by their places, and what they would use it for.
    statements: Vec<(usize, Need)>,
}

/// A statement that becomes cheaper.
#[derive(Debug, Clone, Copy)]
struct Served<'a> {
    place: usize,
    statement: &'a Counted,
    before: f64,
    after: f64,
}

impl Served<'_> {
    /// The part of its time that is saved, if time is as cost.
    fn saved(&self) -> f64 {
        1.0 - self.after / self.before
    }
}

impl Tried<'_> {
    /// Share of the time of all statements that those take which would use it, in percent.
    fn percent(&self) -> f64 {
        self.served.iter().map(|one| one.statement.percent).sum()
    }

    /// The same now, if that is known.
    fn percent_now(&self) -> f64 {
        self.served.iter().map(|one| one.statement.percent_now()).sum()
    }

    /// Share of the time of all statements that it would save, in percent.
    fn gain(&self) -> f64 {
        self.served.iter().map(|one| one.statement.percent * one.saved()).sum()
    }

    /// Leaves out the keys that make none of its statements, which have these texts, cheaper.
    async fn shorten(&mut self, client: &mut Client, texts: &[String], wish: Wish) -> Result<(), Error> {
        let need_of = |served: &Served<'_>| {
            let (place, need) = self.statements.iter().find(|(place, _)| *place == served.place)?;
            Some((texts[*place].as_str(), need))
        };
        let needs: Vec<(&str, &Need)> = self.served.iter().filter_map(need_of).collect();
        let costs = self.served.iter().map(|served| Some(served.after)).collect();
        let trial = Trial { costs, ..self.trial.clone() };
        let Some((candidate, trial)) = shortened(client, &self.candidate, &trial, &needs, wish).await? else {
            return Ok(());
        };
        for (served, after) in self.served.iter_mut().zip(&trial.costs) {
            served.after = after.unwrap_or(served.after);
        }
        (self.candidate, self.trial) = (candidate, trial);
        Ok(())
    }
}

/// A shorter index is better than one that saves more, if it saves this part of it.
const NEARLY_AS_GOOD: f64 = 0.9;

async fn look(server: &Server, database: &Database, task: Task) -> Looked {
    match &server.planner {
        None => suspected(database, &task, database.statements().await?).await,
        Some(planner) => Box::pin(proven(planner, database, &task)).await,
    }
}

/// What the counters alone show: tables that are read as a whole, and the statement that most likely does so.
async fn suspected(database: &Database, task: &Task, statements: &Statements) -> Looked {
    database.counts.clone()?;
    let (rows, reads) = (task.threshold("rows"), task.threshold("reads"));
    let found = database.worst(include_str!("missing_index.sql"), &[&rows, &reads]).await?;
    let suspicions = found.iter().filter_map(|row| suspicion(row, task, statements));
    Ok(suspicions.map(|finding| finding.counted(database.counted_seconds)).collect())
}

fn suspicion(row: &Row, task: &Task, statements: &Statements) -> Option<Finding> {
    let (name, word): (String, String) = (row.get("table_name"), row.get::<_, String>("table_word").to_lowercase());
    let reads_it = |one: &&Counted| {
        let words = one.words();
        one.percent >= task.threshold("percent")
            && words.contains(&word)
            && words.iter().any(|word| word == "where")
            && !one.is_named_for(&name)
    };
    let statement = statements.list.iter().find(reads_it);
    // If statements are counted, one of them must be the reason.
    if statement.is_none() && !statements.list.is_empty() {
        return None;
    }
    if let Some(statement) = statement {
        statement.name_for(&name);
    }
    let sentence = format!("suspected: {name} was read as a whole {} times, for want of an index", count(row, "reads"));
    let percent = statement.map(|one| format!("{:.0} %", one.percent));
    let finding = task
        .finding(Level::Info, name, sentence)
        .with("rows read by whole reads", count(row, "rows_read"), "pg_stat_user_tables")
        .with_known("share of the time of all statements", percent, "pg_stat_statements");
    let finding = match statement {
        Some(statement) => statement.add_reads_to(finding),
        None => finding,
    };
    Some(finding.unless("the statement wants most of the rows").repaired(
        "let the doctor plan the statements with --prove, which names the index",
        "none: the statements are planned and not executed",
    ))
}

/// Plans the statements that take the time, and tries the indexes that they lack.
async fn proven(planner: &ConnInfo, database: &Database, task: &Task) -> Looked {
    let statements = task.statements(database).await?;
    let mut session = database.session_to_plan(planner).await?;
    let begun = Instant::now();
    let (planned_until, end) = (begun + PROOF_TIME_MAX / 2, begun + PROOF_TIME_MAX);
    let calls = task.threshold("calls");
    let often: Vec<&Counted> =
        statements.planned().into_iter().filter(|one| one.calls as f64 >= calls && one.percent > 0.0).collect();
    let texts: Vec<String> = often.iter().map(|one| planned(one)).collect();
    let (mut wanted, mut refused, mut late): (Vec<Wanted>, Vec<String>, usize) = (Vec::new(), Vec::new(), 0);
    let mut tables = KnownTables::default();
    let [rows, times, expression_times] = ["rows", "times", "expression_times"].map(|name| task.threshold(name));
    let wish = Wish { rows, times, expression_times };
    for (place, sql) in texts.iter().enumerate() {
        if Instant::now() >= planned_until {
            late = texts.len() - place;
            break;
        }
        match candidates(&mut session.client, sql, wish, &mut tables).await {
            Ok(found) => {
                let is_new = |(candidate, _): &(Candidate, Need)| !often[place].is_named_for(&name_of(candidate));
                for (candidate, need) in found.into_iter().filter(is_new) {
                    match wanted.iter_mut().find(|known| known.candidate.same(&candidate)) {
                        Some(known) => known.statements.push((place, need)),
                        None => wanted.push(Wanted { candidate, statements: vec![(place, need)] }),
                    }
                }
            }
            Err(error) if session.client.is_closed() => return Err(error.into()),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let share = |one: &Wanted| one.statements.iter().map(|(place, _)| often[*place].percent).sum::<f64>();
    wanted.retain(|one| share(one) >= task.threshold("percent"));
    wanted.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let (mut tried, mut untried) = (Vec::new(), None);
    let mut left = wanted.len().saturating_sub(CANDIDATES_MAX);
    let count = wanted.len() - left;
    for (place, Wanted { candidate, statements }) in wanted.into_iter().take(CANDIDATES_MAX).enumerate() {
        if Instant::now() >= end {
            left += count - place;
            break;
        }
        let needs: Vec<(&str, &Need)> = statements.iter().map(|(place, need)| (texts[*place].as_str(), need)).collect();
        match try_candidate(&mut session.client, &candidate, &needs, wish.times(&candidate)).await {
            Ok(trial) => {
                let served = statements.iter().zip(&trial.costs).filter_map(|((place, need), after)| {
                    Some(Served { place: *place, statement: often[*place], before: need.cost, after: (*after)? })
                });
                let served = served.collect();
                tried.push(Tried { candidate, trial, served, statements });
            }
            Err(stop) if session.client.is_closed() => return Err(stop),
            Err(Stop::Unseen(why)) => untried = untried.or(Some(format!("indexes that cannot be tried: {why}"))),
            Err(Stop::Failed(error)) => untried = untried.or(Some(format!("indexes that cannot be tried: {error}"))),
        }
    }
    let mut chosen = Vec::new();
    for mut one in best(tried, task.threshold("percent")) {
        if Instant::now() < end {
            one.shorten(&mut session.client, &texts, wish).await?;
        }
        add(&mut chosen, one);
    }
    for one in joined(chosen) {
        let Candidate { schema, table, .. } = &one.candidate;
        if new_index::is_there(&session.client, schema, table, &one.candidate.clause()).await? {
            continue;
        }
        one.served.iter().for_each(|served| served.statement.name_for(&name_of(&one.candidate)));
        task.keep(finding(database, &session.client, &one, task).await?);
    }
    let left = (left > 0).then(|| format!("new indexes for statements that take less time: {left}"));
    let late = (late > 0).then(|| format!("statements, because others took {:?}: {late}", PROOF_TIME_MAX / 2));
    let seen = without(("statements", "that cannot be planned"), &refused, 0).but(late);
    Ok(seen.but(statements.unseen.clone()).but(untried).but(left))
}

/// Adds an index that was chosen. Two may have become the same one, without keys that are of no use.
fn add<'a>(tried: &mut Vec<Tried<'a>>, one: Tried<'a>) {
    let Some(known) = tried.iter_mut().find(|known| known.candidate.same(&one.candidate)) else {
        tried.push(one);
        return;
    };
    for served in one.served {
        if known.served.iter().all(|own| own.place != served.place) {
            known.served.push(served);
        }
    }
}

/// The table of a candidate, as SQL needs it.
fn name_of(candidate: &Candidate) -> String {
    format!("{}.{}", spelled(&candidate.schema), spelled(&candidate.table))
}

/// A statement in the form in which it is planned, with a limit of as many rows as a call returns.
fn planned(statement: &Counted) -> String {
    with_patterns(&with_limit(&statement.sql, (statement.rows / statement.calls.max(1)).max(1)))
}

/// One index for each statement: the one that saves most over all statements first. Of those that save nearly as much, it is
/// the shortest. The others count for the statements that are left.
fn best(mut tried: Vec<Tried<'_>>, percent: f64) -> Vec<Tried<'_>> {
    let mut chosen = Vec::new();
    loop {
        tried.retain(|one| !one.served.is_empty() && one.percent() >= percent);
        let most = tried.iter().map(Tried::gain).fold(0.0, f64::max);
        let good = (0..tried.len()).filter(|place| tried[*place].gain() >= NEARLY_AS_GOOD * most);
        let rank = |place: &usize| (tried[*place].candidate.width(), -tried[*place].gain());
        let Some(place) = good.min_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(Ordering::Equal)) else {
            return chosen;
        };
        let one = tried.remove(place);
        for other in &mut tried {
            other.served.retain(|served| one.served.iter().all(|own| own.place != served.place));
        }
        chosen.push(one);
    }
}

/// The same with fewer indexes: one that begins as a shorter one does serves the shorter one's statements, too. The one that
/// saves most comes first.
fn joined(mut chosen: Vec<Tried<'_>>) -> Vec<Tried<'_>> {
    chosen.sort_by_key(|one| one.candidate.width());
    let mut left: Vec<Tried<'_>> = Vec::new();
    while !chosen.is_empty() {
        let shorter = chosen.remove(0);
        let wider = chosen.iter_mut().find_map(|one| Some((one.candidate.with_first(&shorter.candidate)?, one)));
        match wider {
            Some((candidate, one)) => {
                one.candidate = candidate;
                one.served.extend(&shorter.served);
                one.served.sort_by_key(|served| served.place);
            }
            None => left.push(shorter),
        }
    }
    left.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
    left
}

async fn finding(database: &Database, client: &Client, one: &Tried<'_>, task: &Task) -> Result<Finding, Error> {
    let Tried { candidate, trial, served, .. } = one;
    let percent = one.percent();
    let table = name_of(candidate);
    let saved: f64 = served.iter().map(|one| one.statement.milliseconds * one.saved()).sum();
    let saved = task.counted_seconds().filter(|seconds| *seconds > 0.0).map(|seconds| saved / seconds);
    // On a server that has hardly anything to do, a large share is little.
    let is_much = saved.is_none_or(|saved| saved >= task.threshold("saved_ms"));
    let assumed = one.statements.iter().any(|(_, need)| need.has_pattern()).then_some(PATTERN);
    let warns = is_much && assumed.is_none() && percent >= task.threshold("warning_percent");
    let level = if warns { Level::Warning } else { Level::Info };
    let (how_many, take) = if served.len() == 1 { ("a statement", "takes") } else { ("statements", "take") };
    let sentence = format!(
        "an index on {table} {} would speed up {how_many} that {take} {percent:.0} % of the time of all statements",
        candidate.clause()
    );
    let how = match trial.hypothetical {
        true => "planned with a hypothetical index (the extension hypopg)",
        false => "used on an empty copy of the table; its cost is estimated from the number of rows",
    };
    let (now, then) =
        served.first().map(|first| (format!("{:.0}", first.before), format!("{:.0}", first.after))).unzip();
    let saved = saved.map(|ms| format!("{ms:.1} ms, {:.0} % of the time of all statements", one.gain()));
    let mut finding = task
        .finding(level, format!("{table} {}", candidate.clause()), sentence)
        .with("statements that would use it", served.len(), "their plans")
        .with_known("the planner's cost of the first, now", now, "explain")
        .with_known("with the index", then, "explain")
        .with("how it was tried", how, "the planner")
        .with_known("pattern that was assumed", assumed, "the server keeps no constants")
        .with_known("it would save in each second, about", saved, "the costs and pg_stat_statements")
        .with("size of the index, about", size(trial.bytes), "an estimate");
    let sql = include_str!("missing_index_writes.sql");
    if let Some(row) = client.query_opt(sql, &[&table, &database.counted_seconds]).await? {
        let ([writes, hot], source) =
            (["writes", "hot_updates"].map(|name| row.get::<_, f64>(name)), "pg_stat_user_tables");
        let hot = |percent: f64| format!("{hot:.1} a second, {percent:.0} % of the updates");
        finding = finding.with("writes to the table a second", format!("{writes:.1}"), source).with_known(
            "updates that touch no index now (HOT), and may then",
            row.get::<_, Option<_>>("hot_percent").map(hot),
            source,
        );
    }
    let change = new_index::change(client, &candidate.schema, &candidate.table, &candidate.clause()).await?;
    if let Some(first) = served.first() {
        finding = first.statement.add_to(finding);
    }
    Ok(finding
        .costs(one.percent_now())
        .unless(match assumed {
            Some(_) => "the patterns begin with a wildcard, and no ordered index finds such",
            None => "the values that are looked for are frequent ones, and most rows have them",
        })
        .repaired("create the index, and measure before and after", "every write to the table maintains one more index")
        .run([new_index::command(&table, &candidate.clause())])
        .changes(change))
}
