//! Ordered scans: a query follows the order of an index until it has enough rows, although another index finds them.
//!
//! For `where a = 1 order by b limit 10`, the planner believes that the rows with `a = 1` are spread evenly over the order
//! of `b`. If they are at its end, the query reads the whole index before it finds one.

use super::condition::{Condition, Scope};
use super::definition::{Definition, Key};
use super::plan::Scan;
use super::probe::{is_found_cheaply, planned_with};
use super::sql::Sql;
use super::weight::{Weight, reading_cost};
use super::{ExaminedTable, Facts, actual_plan, facts};
use crate::limits::PROVEN_TABLES_MAX;
use crate::refusal::Stop;
use millstream_pg::{Error, quote_qualified};
use tokio_postgres::{Client, Transaction};

/// A table that a query reads in the order of an index, and whose rows it discards until it has enough.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedScan {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// Its rows, as the planner estimates; `None` if the table was never vacuumed or analyzed.
    pub rows: Option<f64>,
    /// Seconds since the last analyze of the table, if one is known.
    pub analyze_age: Option<f64>,
    /// The index whose order is followed.
    pub index: String,
    /// What is checked on each row, as the server prints it.
    pub condition: String,
    /// An index that begins with what the condition compares.
    pub other: String,
    /// What follows the table's name in `create index`, for one that finds the rows and has them in order. `None` if there is
    /// one, or if the planner would not use it.
    pub new_index: Option<String>,
    /// There is an index that finds the rows and has them in order.
    pub has_index: bool,
    /// The columns that such conditions compare, as SQL.
    pub columns: Vec<String>,
    /// The same order as an expression that the index does not hold. `None` if its type has no simple one.
    pub other_order: Option<String>,
}

/// The ordered scans in the plan of a query whose parameters can have any value, if an index that finds the rows first would read
/// fewer, by the statistics of the table. Tables of the system are left out.
///
/// # Errors
/// [`Error::Query`] if the text is not a single query, or changes rows; the server's if it refuses the query.
pub async fn ordered_scans(client: &mut Client, query: &str) -> Result<Vec<OrderedScan>, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let plan = actual_plan(&transaction, query).await?;
    transaction.rollback().await?;
    let scans = plan.scans();
    let is_of_the_system = |scan: &Scan| matches!(scan.schema.as_str(), "pg_catalog" | "information_schema");
    let ordered: Vec<(&Scan, f64)> =
        scans.iter().filter(|scan| !is_of_the_system(scan)).filter_map(|scan| Some((scan, scan.limit?))).collect();
    let mut found = Vec::new();
    for (scan, wanted) in ordered.into_iter().take(PROVEN_TABLES_MAX) {
        let table = ExaminedTable { schema: scan.schema.clone(), table: scan.relation.clone(), hidden_column: None };
        let facts = facts(client, &table).await?;
        let Some((one, condition)) = examined(scan, &scans, &facts) else { continue };
        // It ends when it has as many rows as are wanted.
        let share = (wanted / scan.returned.max(1.0)).min(1.0);
        let part = reading_cost(f64::from(facts.rows) * share);
        let weight = Weight { query, whole: plan.cost, part, lookups: 1.0, share };
        // What waits in it is large.
        let saving = Box::pin(saving(client, &table, one.new_index.as_deref(), &condition, &weight)).await?;
        match saving {
            Saving::None => {}
            Saving::NotUsed => found.push(OrderedScan { new_index: None, ..one }),
            Saving::Used => found.push(one),
        }
    }
    Ok(found)
}

/// What an index saves that finds the rows in their order.
enum Saving {
    /// Nothing: most rows are wanted.
    None,
    /// The planner would not use it.
    NotUsed,
    /// It makes the query cheaper.
    Used,
}

/// Whether an index makes the query cheaper that finds the rows of a condition in their order: by their number, and, where the
/// server has hypopg, by the plan with a new index of this clause.
async fn saving(
    client: &mut Client,
    table: &ExaminedTable,
    clause: Option<&str>,
    condition: &str,
    weight: &Weight<'_>,
) -> Result<Saving, Error> {
    let transaction = client.transaction().await?;
    let name = quote_qualified(&table.schema, &table.table);
    let answer = saving_in(&transaction, &name, clause, condition, weight).await;
    transaction.rollback().await?;
    match answer {
        Ok(saving) => Ok(saving),
        Err(Stop::Unseen(_)) => Ok(Saving::None),
        Err(Stop::Failed(error)) => Err(error),
    }
}

async fn saving_in(
    transaction: &Transaction<'_>,
    table: &str,
    clause: Option<&str>,
    condition: &str,
    weight: &Weight<'_>,
) -> Result<Saving, Stop> {
    transaction.batch_execute("savepoint weight").await?;
    if !is_found_cheaply(transaction, table, condition, weight).await? {
        return Ok(Saving::None);
    }
    let planned = match clause {
        Some(clause) => planned_with(transaction, table, clause, weight).await?,
        None => None,
    };
    Ok(if planned == Some(false) { Saving::NotUsed } else { Saving::Used })
}

/// The scan, and what a condition must say that finds its rows.
fn examined(scan: &Scan, all: &[Scan], facts: &Facts) -> Option<(OrderedScan, String)> {
    let [one] = scan.uses.as_slice() else { return None };
    let followed = facts.indexes.iter().find(|index| index.name == one.index && index.is_ordered())?;
    let first = followed.keys.first()?;
    let mut scope = Scope::new(&facts.columns, None, scan, all);
    let mut conditions = one.condition.as_ref().map(|text| scope.conditions(text)).unwrap_or_default();
    conditions.retain(|condition| condition.operator == "=");
    if conditions.iter().any(|condition| is_compared(first, &condition.left)) {
        // It reads only the rows of one value.
        return None;
    }
    // What is compared with a later key is checked on each entry of the index.
    conditions.extend(scan.filter.iter().flat_map(|text| scope.conditions(text)));
    let equal: Vec<&Condition> = conditions.iter().filter(|condition| is_equality(condition, &scope)).collect();
    let (condition, other) = equal.iter().find_map(|condition| {
        let begins = |index: &&Definition| {
            let first = index.keys.first().filter(|_| index.is_ordered() && index.predicate.is_none());
            index.name != followed.name && first.is_some_and(|key| is_compared(key, &condition.left))
        };
        Some((*condition, facts.indexes.iter().find(begins)?))
    })?;
    let others = equal.iter().filter(|one| !std::ptr::eq(**one, condition)).map(|one| &one.left);
    let compared: Vec<&Sql> = other.keys.first().map(|key| &key.expression).into_iter().chain(others).collect();
    let all_equal: Vec<&str> = equal.iter().map(|one| one.sql.text()).collect();
    let wanted = format!("({})", all_equal.join(") and ("));
    let new_index = new_index(&compared, followed, &facts.indexes);
    let ordered = OrderedScan {
        schema: scan.schema.clone(),
        table: scan.relation.clone(),
        rows: (facts.rows >= 0.0).then(|| facts.rows.into()),
        analyze_age: facts.analyze_age,
        index: followed.name.clone(),
        condition: scope.shown(&condition.sql),
        other: other.name.clone(),
        has_index: new_index.is_none(),
        new_index,
        columns: compared.iter().filter(|sql| sql.pieces().count() == 1).map(|sql| sql.text().to_owned()).collect(),
        other_order: other_order(followed),
    };
    Some((ordered, wanted))
}

/// Whether a condition compares something of the table with one value that the query gives. The name of a JSON member may
/// be a parameter too, and then nobody knows what is compared.
fn is_equality(condition: &Condition, scope: &Scope<'_>) -> bool {
    let is_one =
        |right: &Sql| !scope.is_about(right) && right.pieces().next().is_none_or(|word| !matches!(word, "ANY" | "ALL"));
    let is_known = condition.left.pieces().all(|piece| !piece.starts_with('$'));
    condition.operator == "=" && is_known && condition.right.as_ref().is_some_and(is_one)
}

/// Whether an index finds what is compared by this key. The server compares a `varchar` as text.
fn is_compared(key: &Key, left: &Sql) -> bool {
    let is_varchar = key.type_name.starts_with("character varying");
    left.same(&key.expression) || (is_varchar && left.same_uncast(&key.expression))
}

/// The clause of an index that begins with what is compared and goes on as the one that is followed.
fn new_index(compared: &[&Sql], followed: &Definition, indexes: &[Definition]) -> Option<String> {
    let order = Sql::new(&followed.clause).bracketed()?.listed();
    // A key that has one value only is in any order.
    let is_new = |key: &Key| !compared.iter().any(|sql| is_compared(key, sql));
    let rest = order.iter().zip(&followed.keys).filter(|(_, key)| is_new(key)).map(|(item, _)| item.text().to_owned());
    let keys: Vec<String> = compared.iter().map(|sql| sql.as_key()).chain(rest).collect();
    let clause = format!("({})", keys.join(", "));
    let keys = Sql::new(&clause).bare();
    let has_it = |index: &Definition| Sql::new(&index.clause).bracketed().is_some_and(|held| held.same(&keys));
    (!indexes.iter().any(has_it)).then_some(clause)
}

/// The expression of an order, and an equal one that no index has.
fn other_order(followed: &Definition) -> Option<String> {
    let key = followed.keys.first()?;
    let shown = key.shown();
    let shown = if key.expression.has_operator() { format!("({shown})") } else { shown };
    let changed = match key.type_name.as_str() {
        "smallint" | "integer" | "bigint" | "real" | "double precision" | "date" => "+ 0",
        name if name.starts_with("numeric") => "+ 0",
        name if name.starts_with("timestamp") => "+ interval '0'",
        name if name == "text" || name.starts_with("character varying") => "|| ''",
        _ => return None,
    };
    Some(format!("{shown} {changed} in place of {shown}"))
}
