//! A probe on an empty copy of the table: whether the planner uses an index for a condition.
//!
//! The copy is a temporary table in a transaction that is rolled back. It has one index at a time, and sequential
//! scans are disabled. So whether an index is used is the server's own answer, whatever the table holds. Nothing is
//! executed.

use super::definition::Definition;
use super::plan::Use;
use super::sql::Sql;
use super::statement::{Statement, USABLE};
use millstream_pg::Error;
use millstream_pg::quote_qualified;
use tokio_postgres::{Client, Transaction};

/// The copy. Its name is our own, so that it hides nothing of the user's.
const COPY: &str = "pg_temp.millstream_copy";

/// An empty copy of a table.
pub(super) struct Probe<'a> {
    transaction: Transaction<'a>,
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
    /// Creates the copy. The inner `Err` says why this server or role does not allow it.
    pub(super) async fn open(client: &'a mut Client, schema: &str, table: &str) -> Result<Result<Self, String>, Error> {
        let transaction = client.transaction().await?;
        let like = format!("create temporary table millstream_copy (like {})", quote_qualified(schema, table));
        match or_refusal(transaction.execute(&like, &[]).await)? {
            Ok(_) => {}
            Err(message) => return Ok(Err(message)),
        }
        for (name, value) in USABLE {
            transaction.execute(&format!("set local {name} = {value}"), &[]).await?;
        }
        Ok(Ok(Self { transaction }))
    }

    /// Whether an index, given as what follows the table's name in `create index`, serves a question.
    pub(super) async fn ask(&self, clause: &str, question: Question<'_>) -> Result<Answer, Error> {
        self.transaction.batch_execute("savepoint probe").await?;
        let answer = self.answer(clause, question).await;
        self.transaction.batch_execute("rollback to probe; release probe").await?;
        answer
    }

    async fn answer(&self, clause: &str, question: Question<'_>) -> Result<Answer, Error> {
        let create = format!("create index millstream_probe on {COPY} {clause}");
        if let Err(message) = or_refusal(self.transaction.execute(&create, &[]).await)? {
            return Ok(Answer::Refused(message));
        }
        let (sql, is_order) = match question {
            Question::Find(conditions) => (format!("select from {COPY} where ({})", conditions.join(") and (")), false),
            Question::Order(keys) => (format!("select from {COPY} order by {keys} limit 1"), true),
        };
        let plan = match (Statement { sql: &numbered(&sql) }).plan(&self.transaction).await {
            Ok(plan) => plan,
            Err(Error::Server { message, .. }) => return Ok(Answer::Refused(message)),
            Err(error) => return Err(error),
        };
        let indexes = Definition::list(&self.transaction, self.copy_oid().await?).await?;
        let used = plan.scans().iter().flat_map(|scan| &scan.uses).any(|one| serves(one, &indexes));
        let is_used = if is_order { plan.sorts() == 0 } else { used };
        Ok(if is_used { Answer::Used } else { Answer::NotUsed })
    }

    async fn copy_oid(&self) -> Result<u32, Error> {
        let sql = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
        Ok(self.transaction.query_one(sql, &[&COPY]).await?.try_get(0)?)
    }
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

/// Makes the server's refusal an answer. A lost connection stays an error.
fn or_refusal<T>(result: Result<T, tokio_postgres::Error>) -> Result<Result<T, String>, Error> {
    match result.map_err(Error::from) {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Server { message, .. }) => Ok(Err(message)),
        Err(error) => Err(error),
    }
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
