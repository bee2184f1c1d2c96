//! A probe: whether the planner uses an index for a condition.
//!
//! It asks on an empty copy of the table. The copy is a temporary table in a transaction that is rolled back. It has one
//! index at a time, and sequential scans are disabled. So whether an index is used is the server's own answer, whatever
//! the table holds. Nothing is executed.
//!
//! Where no temporary table can be made, such as on a standby, it asks on the table itself. The extension `hypopg` then
//! adds an index that exists only for the planner, and only in this session:
//! <https://hypopg.readthedocs.io>.

use super::ExaminedTable;
use super::definition::Definition;
use super::plan::Use;
use super::sql::Sql;
use super::statement::{Statement, USABLE};
use super::weight::{Weight, look_up_cost, rows_found};
use crate::refusal::{Stop, or_refusal};
use millstream_pg::{Error, quote_identifier, quote_qualified};
use std::future::Future;
use tokio_postgres::{Client, Transaction};

/// The copy. Its name is our own, so that it hides nothing of the user's.
const COPY: &str = "pg_temp.millstream_copy";

/// Ends what was refused, and plans again as the server does for others.
const AGAIN: &str = "rollback to weight; set local enable_seqscan to default";

/// A table on which indexes are tried.
pub(super) struct Probe<'a> {
    transaction: Transaction<'a>,
    /// The table itself, quoted.
    table: String,
    place: TrialTable<'a>,
}

/// Where indexes are tried.
enum TrialTable<'a> {
    /// On an empty copy of the table.
    Copy,
    /// On the table itself.
    Table {
        /// Its indexes.
        indexes: &'a [Definition],
        /// The schema of the extension `hypopg`, quoted.
        hypopg: String,
    },
}

/// The server's answer about an index and a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Used,
    NotUsed,
    /// The server refuses the index or the question.
    Refused(String),
}

/// What an index must do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question<'q> {
    /// Find the rows for which all of this is true.
    Find(&'q [&'q str]),
    /// Return the rows in this order.
    Order(&'q str),
}

impl<'a> Probe<'a> {
    /// Creates the copy, or finds another way. The inner `Err` says why this server or role does not allow any.
    pub(super) async fn open(
        client: &'a mut Client,
        examined: &ExaminedTable,
        indexes: &'a [Definition],
    ) -> Result<Result<Self, String>, Error> {
        let transaction = client.transaction().await?;
        transaction.batch_execute("savepoint probe").await?;
        let name = quote_qualified(&examined.schema, &examined.table);
        let like = format!("create temporary table millstream_copy (like {name})");
        let place = match or_refusal(transaction.execute(&like, &[]).await)? {
            Ok(_) => TrialTable::Copy,
            Err(message) => {
                transaction.batch_execute("rollback to probe").await?;
                match hypopg(&transaction, &name).await? {
                    Ok(hypopg) => TrialTable::Table { indexes, hypopg },
                    Err(more) => return Ok(Err(format!("{message}{more}"))),
                }
            }
        };
        transaction.batch_execute("release probe").await?;
        for (name, value) in USABLE {
            transaction.execute(&format!("set local {name} = {value}"), &[]).await?;
        }
        Ok(Ok(Self { transaction, table: name, place }))
    }

    /// Whether it asks on the table itself, with hypothetical indexes.
    pub(super) fn is_hypothetical(&self) -> bool {
        matches!(self.place, TrialTable::Table { .. })
    }

    /// Whether an index, given as what follows the table's name in `create index`, serves a question.
    pub(super) async fn ask(&self, clause: &str, question: Question<'_>) -> Result<Answer, Error> {
        self.transaction.batch_execute("savepoint probe").await?;
        let answer = self.is_used(clause, question).await;
        self.transaction.batch_execute("rollback to probe; release probe").await?;
        if let TrialTable::Table { hypopg, .. } = &self.place {
            // A hypothetical index outlives a rollback.
            self.transaction.batch_execute(&format!("select {hypopg}.hypopg_reset()")).await?;
        }
        match answer {
            Ok(true) => Ok(Answer::Used),
            Ok(false) => Ok(Answer::NotUsed),
            Err(Stop::Unseen(message)) => Ok(Answer::Refused(message)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Whether an index of the table makes the query cheaper if it is asked for all of these conditions, by the statistics.
    pub(super) async fn pays(
        &self,
        index: &Definition,
        conditions: &[&str],
        weight: &Weight<'_>,
    ) -> Result<bool, Error> {
        self.as_it_is(Box::pin(self.is_used_cheaply(index, conditions, weight))).await
    }

    /// Whether a new index makes the query cheaper, by the statistics of the table: as a hypothetical index of the extension
    /// hypopg, or by the rows that it would find for the condition.
    pub(super) async fn pays_as_new(&self, clause: &str, condition: &str, weight: &Weight<'_>) -> Result<bool, Error> {
        self.as_it_is(Box::pin(self.is_cheaper_with(clause, condition, weight))).await
    }

    /// Whether some index would make the query cheaper that finds the rows of a condition, by their number.
    pub(super) async fn would_pay(&self, condition: &str, weight: &Weight<'_>) -> Result<bool, Error> {
        self.as_it_is(Box::pin(self.is_found_cheaply(condition, weight))).await
    }

    async fn is_used_cheaply(
        &self,
        index: &Definition,
        conditions: &[&str],
        weight: &Weight<'_>,
    ) -> Result<bool, Stop> {
        let sql = finding(&self.table, conditions);
        let plan = or_refusal(Statement { sql: &sql }.plan(&self.transaction).await)??;
        let scans = plan.scans();
        let is_used = scans.iter().flat_map(|scan| &scan.uses).any(|one| serves(one, std::slice::from_ref(index)));
        Ok(is_used && weight.lookups * plan.cost < weight.part)
    }

    async fn is_cheaper_with(&self, clause: &str, condition: &str, weight: &Weight<'_>) -> Result<bool, Stop> {
        match planned_with(&self.transaction, &self.table, clause, weight).await? {
            Some(is_cheaper) => Ok(is_cheaper),
            None => self.is_found_cheaply(condition, weight).await,
        }
    }

    async fn is_found_cheaply(&self, condition: &str, weight: &Weight<'_>) -> Result<bool, Stop> {
        Ok(is_found_cheaply(&self.transaction, &self.table, condition, weight).await?)
    }

    /// Plans as the server does for others, who may read a table as a whole. What the server refuses does not pay.
    async fn as_it_is(&self, answer: impl Future<Output = Result<bool, Stop>>) -> Result<bool, Error> {
        self.transaction.batch_execute("savepoint weight; set local enable_seqscan to default").await?;
        let answer = answer.await;
        self.transaction.batch_execute("rollback to weight; release weight").await?;
        match answer {
            Ok(pays) => Ok(pays),
            Err(Stop::Unseen(_)) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    async fn is_used(&self, clause: &str, question: Question<'_>) -> Result<bool, Stop> {
        let indexes = self.index(clause).await?;
        let table: &str = match &self.place {
            TrialTable::Copy => COPY,
            TrialTable::Table { .. } => &self.table,
        };
        let (sql, is_order) = match question {
            Question::Find(conditions) => {
                (format!("select from only {table} where ({})", conditions.join(") and (")), false)
            }
            Question::Order(keys) => (format!("select from only {table} order by {keys} limit 1"), true),
        };
        let plan = or_refusal(Statement { sql: &numbered(&sql) }.plan(&self.transaction).await)??;
        let scans = plan.scans();
        let mut uses = scans.iter().flat_map(|scan| &scan.uses);
        Ok(match is_order {
            true => plan.sorts() == 0 && uses.any(|one| indexes.iter().any(|index| index.name == one.index)),
            false => uses.any(|one| serves(one, &indexes)),
        })
    }

    /// Makes the index, and returns it. On the table itself, it returns the indexes with the same clause if there are any:
    /// then the planner needs no other.
    async fn index(&self, clause: &str) -> Result<Vec<Definition>, Stop> {
        match &self.place {
            TrialTable::Copy => {
                let create = format!("create index millstream_probe on {COPY} {clause}");
                or_refusal(self.transaction.execute(&create, &[]).await)??;
                let copy = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
                let oid: u32 = self.transaction.query_one(copy, &[&COPY]).await?.try_get(0)?;
                Ok(Definition::list(&self.transaction, oid).await?)
            }
            TrialTable::Table { indexes, hypopg } => {
                let same: Vec<Definition> = indexes.iter().filter(|index| index.clause == clause).cloned().collect();
                if !same.is_empty() {
                    return Ok(same);
                }
                let create = format!("create index on {} {clause}", self.table);
                let sql = format!("select indexname from {hypopg}.hypopg_create_index($1)");
                let row = or_refusal(self.transaction.query_one(&sql, &[&create]).await)??;
                Ok(vec![Definition::hypothetical(row.try_get(0)?, clause)])
            }
        }
    }
}

/// Whether the query uses a hypothetical index of a table and costs less with it. `None` if the server has no hypopg for this
/// role, or if that knows no such index. The transaction has a savepoint `weight`.
pub(super) async fn planned_with(
    transaction: &Transaction<'_>,
    table: &str,
    clause: &str,
    weight: &Weight<'_>,
) -> Result<Option<bool>, Stop> {
    let Ok(schema) = hypopg(transaction, table).await? else {
        transaction.batch_execute(AGAIN).await?;
        return Ok(None);
    };
    let create = format!("create index on {table} {clause}");
    let sql = format!("select indexname from {schema}.hypopg_create_index($1)");
    let Ok(row) = or_refusal(transaction.query_one(&sql, &[&create]).await)? else {
        transaction.batch_execute(AGAIN).await?;
        return Ok(None);
    };
    let index: String = row.try_get(0)?;
    let plan = Statement { sql: weight.query }.plan(transaction).await;
    // A hypothetical index outlives a rollback.
    let reset = format!("rollback to weight; select {schema}.hypopg_reset()");
    transaction.batch_execute(&reset).await?;
    let plan = plan?;
    let is_used = plan.scans().iter().any(|scan| scan.uses.iter().any(|one| one.index == index));
    Ok(Some(is_used && plan.cost < weight.whole))
}

/// Whether an index that finds the rows of a condition makes a query cheaper, by their number.
pub(super) async fn is_found_cheaply(
    transaction: &Transaction<'_>,
    table: &str,
    condition: &str,
    weight: &Weight<'_>,
) -> Result<bool, Error> {
    let rows = rows_found(transaction, &finding(table, &[condition])).await?;
    Ok(rows.is_some_and(|rows| look_up_cost(weight.lookups, rows * weight.share) < weight.part))
}

/// A query of a table alone.
fn finding(table: &str, conditions: &[&str]) -> String {
    numbered(&format!("select from only {table} where ({})", conditions.join(") and (")))
}

/// The schema of the extension `hypopg`, quoted, if this role may use it for a table. Otherwise the inner `Err` says what
/// would allow it, as the rest of a sentence.
pub(super) async fn hypopg(transaction: &Transaction<'_>, table: &str) -> Result<Result<String, String>, Error> {
    let Some(row) = transaction.query_opt(include_str!("hypopg.sql"), &[&table]).await? else {
        return Ok(Err("; the extension hypopg in this database would help".to_owned()));
    };
    // The server would refuse each question.
    if !row.try_get::<_, bool>("may_read")? {
        return Ok(Err(String::new()));
    }
    let schema = quote_identifier(row.try_get("schema")?);
    let reset = format!("select {schema}.hypopg_reset()");
    if let Err(message) = or_refusal(transaction.query(&reset, &[]).await)? {
        return Ok(Err(format!("; and hypopg: {message}")));
    }
    // The library is loaded now, and has these settings. Real numbers of objects cannot be had on a standby.
    transaction.batch_execute("set local hypopg.enabled = on; set local hypopg.use_real_oids = off").await?;
    Ok(Ok(schema))
}

/// Whether a used index narrows what is read: by its first key if it is ordered, by its predicate, or by
/// distance. An index that is read as a whole can only serve an order.
pub(super) fn serves(one: &Use, indexes: &[Definition]) -> bool {
    let Some(index) = indexes.iter().find(|index| index.name == one.index) else { return false };
    let narrows = one.condition.as_ref().is_some_and(|condition| {
        let condition = Sql::new(condition).map_qualified(|_, column| Some(column.to_owned()));
        let first = index.keys.first();
        !index.is_ordered() || first.is_some_and(|key| condition.contains(&key.expression))
    });
    narrows || index.predicate.is_some() || one.by_distance
}

/// Renumbers the parameters from 1 on, as a statement needs them.
pub(super) fn numbered(sql: &str) -> String {
    let mut known = Vec::new();
    let numbered = Sql::new(sql).map_parameters(|n| {
        let place = known.iter().position(|one| *one == n).unwrap_or_else(|| {
            known.push(n);
            known.len() - 1
        });
        format!("${}", place + 1)
    });
    numbered.text().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_renumbered_from_one() {
        assert_eq!(
            numbered("a = $1003 and b = $7 and c = $1003 and d = '$9'"),
            "a = $1 and b = $2 and c = $1 and d = '$9'"
        );
    }
}
