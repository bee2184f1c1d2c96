//! Trials: what the planner makes of candidates.

use super::candidate::{Candidate, Need, Wish, undirected};
use super::facts;
use super::probe::{Answer, Probe, Question, hypopg, numbered};
use super::statement::Statement;
use super::weight::{look_up_cost, rows_found};
use crate::refusal::{Stop, or_refusal};
use millstream_pg::Error;
use tokio_postgres::{Client, Transaction};

/// What the planner makes of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    /// The planner's cost of each statement with it; `None` if it does not use it.
    pub(crate) costs: Vec<Option<f64>>,
    /// Bytes that it would take, by estimate.
    pub(crate) bytes: f64,
    /// It was planned on the table itself, as a hypothetical index. Otherwise it was tried on an empty copy, and its cost
    /// estimated from the number of rows.
    pub(crate) hypothetical: bool,
}

/// A shorter index is as good if no statement costs more than so many times as much with it, or finds more than so many times
/// as many rows.
const AS_GOOD: f64 = 1.05;

/// Bytes of an entry of an index beside its keys: its header, its place in the page, and alignment.
const ENTRY_BYTES: f64 = 16.0;

/// How full the server makes the pages of a new index.
const FILLED: f64 = 0.9;

impl Trial {
    /// Whether every statement that uses the other candidate uses this one, for about the same cost or, where `alike` says so,
    /// for about the same rows. The planner takes the order of the first of several columns for that of all, so its costs
    /// favour a first column that is always the same.
    fn is_as_good_as(&self, other: &Self, alike: &[bool]) -> bool {
        self.costs.iter().zip(&other.costs).zip(alike).all(|((own, other), alike)| match other {
            Some(other) => own.is_some_and(|own| *alike || own <= AS_GOOD * other),
            None => true,
        })
    }
}

/// Plans statements with a candidate. One whose plan does not become `times` cheaper does not use it.
///
/// # Errors
/// Why the server or the role does not allow that; the server's.
pub(crate) async fn try_candidate(
    client: &mut Client,
    candidate: &Candidate,
    statements: &[(&str, &Need)],
    times: f64,
) -> Result<Trial, Stop> {
    let transaction = client.transaction().await?;
    let trial = match hypopg(&transaction, &candidate.table_name()).await? {
        Ok(schema) => Some(planned(&transaction, candidate, statements, &schema).await?),
        Err(_) => None,
    };
    transaction.rollback().await?;
    let mut trial = match trial {
        Some(trial) => trial,
        None => estimated(client, candidate, statements, times).await?,
    };
    for (cost, (_, need)) in trial.costs.iter_mut().zip(statements) {
        *cost = cost.filter(|cost| need.cost >= times * cost);
    }
    Ok(trial)
}

/// The candidate without the keys that make none of these statements cheaper: nearly every row fulfils their conditions, or
/// another key finds a single row. `trial` has the costs with all keys. `None` if every key is of use, or gives an order.
///
/// # Errors
/// The server's, if the connection is lost.
pub(crate) async fn shortened(
    client: &mut Client,
    candidate: &Candidate,
    trial: &Trial,
    statements: &[(&str, &Need)],
    wish: Wish,
) -> Result<Option<(Candidate, Trial)>, Error> {
    if statements.iter().any(|(_, need)| !need.order.is_empty()) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for (_, need) in statements {
        rows.push(rows_needed(client, candidate, need).await?);
    }
    let mut found: Option<(Candidate, Trial)> = None;
    let mut needs: Vec<(&str, Need)> = statements.iter().map(|(sql, need)| (*sql, (*need).clone())).collect();
    for key in candidate.equal.iter().chain(&candidate.last).rev() {
        let shorter = found.as_ref().map_or(candidate, |(shorter, _)| shorter).without(key);
        if shorter.width() == 0 {
            break;
        }
        let fewer: Vec<(&str, Need)> = needs.iter().map(|(sql, need)| (*sql, need.without(key))).collect();
        let mut alike = Vec::new();
        for ((_, need), before) in fewer.iter().zip(&rows) {
            let after = rows_needed(client, &shorter, need).await?;
            alike.push(after.zip(*before).is_some_and(|(after, before)| after <= AS_GOOD * before));
        }
        let borrowed: Vec<(&str, &Need)> = fewer.iter().map(|(sql, need)| (*sql, need)).collect();
        // What waits in it is large.
        let tried = Box::pin(try_candidate(client, &shorter, &borrowed, wish.times(&shorter))).await;
        match tried {
            Ok(tried) if tried.is_as_good_as(trial, &alike) => {
                found = Some((shorter, tried));
                needs = fewer;
            }
            Err(Stop::Failed(error)) if client.is_closed() => return Err(error),
            // The longer one could be tried.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(found)
}

/// Plans statements with a hypothetical index.
async fn planned(
    transaction: &Transaction<'_>,
    candidate: &Candidate,
    statements: &[(&str, &Need)],
    hypopg: &str,
) -> Result<Trial, Stop> {
    let made = format!("select indexrelid, indexname from {hypopg}.hypopg_create_index($1::pg_catalog.text)");
    let row = or_refusal(transaction.query_one(&made, &[&candidate.create()]).await)??;
    let (oid, index): (u32, String) = (row.try_get(0)?, row.try_get(1)?);
    let size = format!("select {hypopg}.hypopg_relation_size($1::pg_catalog.oid)::float8");
    let bytes = transaction.query_one(&size, &[&oid]).await?.try_get(0)?;
    let mut costs = Vec::new();
    for (sql, _) in statements {
        let plan = Statement { sql }.plan(transaction).await?;
        let is_used = plan.scans().iter().any(|scan| scan.uses.iter().any(|one| one.index == index));
        costs.push(is_used.then_some(plan.cost));
    }
    transaction.batch_execute(&format!("select {hypopg}.hypopg_reset()")).await?;
    Ok(Trial { costs, bytes, hypothetical: true })
}

/// Estimates what statements cost with an index, and asks on an empty copy whether it is used.
async fn estimated(
    client: &mut Client,
    candidate: &Candidate,
    statements: &[(&str, &Need)],
    times: f64,
) -> Result<Trial, Stop> {
    let mut costs = Vec::new();
    for (_, need) in statements {
        let rows = rows_needed(client, candidate, need).await?;
        let read = |rows: f64| look_up_cost(need.lookups, rows * need.share);
        let cost = rows.map(|rows| (need.cost - need.reading).max(0.0) + read(rows));
        costs.push(cost.filter(|cost| need.cost >= times * cost));
    }
    let bytes = estimated_bytes(client, candidate).await?;
    if costs.iter().any(Option::is_some) {
        let (table, facts) = (candidate.table(), facts(client, &candidate.table()).await?);
        let probe = Probe::open(client, &table, &facts.indexes).await??;
        for (cost, (_, need)) in costs.iter_mut().zip(statements).filter(|(cost, _)| cost.is_some()) {
            let conditions: Vec<&str> = need.conditions.iter().map(|(_, condition)| condition.as_str()).collect();
            let question = if candidate.equal.is_empty() && !need.order.is_empty() {
                Question::Order(&need.order)
            } else {
                Question::Find(&conditions)
            };
            match probe.ask(&candidate.clause(), question).await? {
                Answer::Used => {}
                Answer::NotUsed => *cost = None,
                Answer::Refused(message) => return Err(message.into()),
            }
        }
    }
    Ok(Trial { costs, bytes, hypothetical: false })
}

/// Rows that a look-up finds, as the planner estimates them for any value. `None` if the server refuses the question.
async fn rows_needed(client: &mut Client, candidate: &Candidate, need: &Need) -> Result<Option<f64>, Error> {
    if need.conditions.is_empty() {
        return Ok(Some(candidate.rows));
    }
    let conditions: Vec<&str> = need.conditions.iter().map(|(_, condition)| condition.as_str()).collect();
    let (name, conditions) = (candidate.table_name(), conditions.join(") and ("));
    let sql = numbered(&format!("select from only {name} where ({conditions})"));
    let transaction = client.transaction().await?;
    let rows = rows_found(&transaction, &sql).await;
    transaction.rollback().await?;
    rows
}

/// Bytes of an index by the widths of its columns.
async fn estimated_bytes(client: &Client, candidate: &Candidate) -> Result<f64, Error> {
    let columns: Vec<String> =
        candidate.equal.iter().chain(&candidate.last).map(|key| undirected(key).replace('"', "")).collect();
    let sql = "select coalesce(sum(avg_width), 8)::float8 from pg_catalog.pg_stats \
               where schemaname = $1 and tablename = $2 and attname = any($3)";
    let row = client.query_one(sql, &[&candidate.schema, &candidate.table, &columns]).await?;
    Ok(candidate.rows * (ENTRY_BYTES + row.try_get::<_, f64>(0)?) / FILLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_index_must_serve_the_same_statements_for_about_the_same_cost_or_rows() {
        let trial = |costs: &[Option<f64>]| Trial { costs: costs.to_vec(), bytes: 1.0, hypothetical: false };
        let longer = trial(&[Some(100.0), None]);
        for (costs, expected) in [
            ([Some(100.0), None], true),
            ([Some(104.0), Some(1.0)], true),
            ([Some(106.0), None], false),
            ([None, Some(1.0)], false),
        ] {
            assert_eq!(trial(&costs).is_as_good_as(&longer, &[false; 2]), expected, "{costs:?}");
        }
        let dearer = trial(&[Some(150.0), None]);
        assert!(dearer.is_as_good_as(&longer, &[true, false]), "it finds the same rows");
        assert!(!trial(&[None, None]).is_as_good_as(&longer, &[true, true]), "it is not used");
    }
}
