//! Whether a query uses an index of a table and, if it does not, why.
//!
//! The planner decides. To see whether an index could be used, we plan the query with sequential scans disabled. To
//! see how a condition and an index would have to change, we plan on an empty copy of the table, or with hypothetical
//! indexes where no copy can be made. Every repair in the report has used its index there. The query itself is planned
//! and never executed.

mod candidate;
mod condition;
mod definition;
mod exact;
mod examination;
mod finding;
mod json_path;
mod json_read;
mod mismatch;
mod normalized;
mod ordered_scan;
mod plan;
mod probe;
mod sql;
mod statement;
mod trial;
mod weight;

pub(crate) use candidate::{Candidate, KnownTables, Need, Wish, candidates};
pub(crate) use definition::is_defined_as;
pub use finding::{Explanation, Mismatch, Missed, NewIndex, Rewrite, TableRead, Verdict};
pub(crate) use json_path::json_paths;
pub(crate) use json_read::{JsonRead, json_reads};
pub(crate) use normalized::{PATTERN, is_uncertain, with_limit, with_patterns};
pub use ordered_scan::{OrderedScan, ordered_scans};
pub(crate) use trial::{Trial, shortened, try_candidate};

use definition::Definition;
use examination::Examination;
use millstream_pg::Error;
use plan::{Node, Scan};
use probe::{Probe, serves};
use statement::{Statement, USABLE, USABLE_BY_JOINS};
use tokio_postgres::{Client, Transaction};

/// The table whose indexes are examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExaminedTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// A column that the query itself cannot name. Conditions on it are not the query's own.
    pub hidden_column: Option<String>,
}

/// The first server version that can look up a later key of an index by a skip scan.
const SKIPPING_VERSION_NUM: i32 = 180_000;

/// What the catalog says about the table.
#[derive(Debug)]
struct Facts {
    rows: f32,
    /// Seconds since the last analyze, if one is known.
    analyze_age: Option<f64>,
    version_num: i32,
    columns: Vec<String>,
    /// Those of them that hold text.
    texts: Vec<String>,
    /// Those in the order of their bytes, in which an index finds the beginning of a text.
    byte_ordered: Vec<String>,
    indexes: Vec<Definition>,
}

/// The plans of a query.
#[derive(Debug)]
struct Plans {
    actual: Node,
    /// With sequential scans, and joins that need them, disabled wherever there is another way.
    usable: Vec<Node>,
}

/// The tables that the plan of a query reads, each once.
///
/// # Errors
/// As [`explain`].
pub(crate) async fn tables(client: &mut Client, query: &str) -> Result<Vec<ExaminedTable>, Error> {
    let mut found: Vec<ExaminedTable> = Vec::new();
    for Scan { schema, relation, .. } in plans(client, query).await?.actual.scans() {
        let table = ExaminedTable { schema, table: relation, hidden_column: None };
        if !found.contains(&table) {
            found.push(table);
        }
    }
    Ok(found)
}

/// Explains which indexes of a table a query uses, and why it does not use the others.
///
/// Parameters (`$1`) can have any value. For the time of the call it creates an empty temporary table, which is
/// rolled back. If the role or the server does not allow that, it plans with hypothetical indexes of the extension
/// `hypopg`. Without it, repairs are reported untested.
///
/// # Errors
/// [`Error::Query`] if the text is not a single query, or changes rows; the server's if it refuses the query.
pub async fn explain(client: &mut Client, examined: &ExaminedTable, query: &str) -> Result<Explanation, Error> {
    // What waits in it is large.
    Box::pin(explained(client, examined, query, false)).await
}

/// The same, with only those repairs that make the query cheaper by the statistics of the table. A condition that most rows
/// fulfil misses no index.
///
/// # Errors
/// As [`explain`].
pub(crate) async fn explain_by_statistics(
    client: &mut Client,
    examined: &ExaminedTable,
    query: &str,
) -> Result<Explanation, Error> {
    Box::pin(explained(client, examined, query, true)).await
}

async fn explained(
    client: &mut Client,
    examined: &ExaminedTable,
    query: &str,
    is_weighed: bool,
) -> Result<Explanation, Error> {
    let plans = plans(client, query).await?;
    let scans = plans.actual.scans();
    let own: Vec<&Scan> =
        scans.iter().filter(|scan| scan.schema == examined.schema && scan.relation == examined.table).collect();
    let facts = facts(client, examined).await?;
    let verdicts: Vec<Verdict> = own.iter().map(|scan| verdict(scan, &plans, &facts)).collect();
    let mut readings = Vec::new();
    let (probe, untried) = match verdicts.contains(&Verdict::Unusable) {
        true => match Probe::open(client, examined, &facts.indexes).await? {
            Ok(probe) => (Some(probe), None),
            Err(message) => (None, Some(message)),
        },
        false => (None, None),
    };
    let weighed = is_weighed.then_some((query, plans.actual.cost));
    for (scan, verdict) in own.iter().zip(verdicts) {
        readings.push(match verdict {
            Verdict::Unusable => {
                let examination = Examination::new(examined, &facts, probe.as_ref(), scan, &scans, weighed);
                let (missed, fitting) = Box::pin(examination.missed()).await?;
                let verdict = if fitting.is_empty() { Verdict::Unusable } else { Verdict::Usable };
                TableRead { verdict, indexes: fitting.into_iter().collect(), missed }
            }
            Verdict::Used | Verdict::Usable => {
                TableRead { verdict, indexes: indexes(scan, verdict, &plans), missed: Vec::new() }
            }
        });
    }
    let hypothetical = probe.is_some_and(|probe| probe.is_hypothetical());
    Ok(Explanation { rows: (facts.rows >= 0.0).then(|| facts.rows.into()), readings, untried, hypothetical })
}

async fn plans(client: &mut Client, query: &str) -> Result<Plans, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let actual = actual_plan(&transaction, query).await?;
    let mut usable = Vec::new();
    for settings in [USABLE, USABLE_BY_JOINS] {
        for (name, value) in settings {
            transaction.execute(&format!("set local {name} = {value}"), &[]).await?;
        }
        usable.push(Statement { sql: query }.plan(&transaction).await?);
    }
    Ok(Plans { actual, usable })
}

/// The plan that the server chooses for a single query.
async fn actual_plan(transaction: &Transaction<'_>, query: &str) -> Result<Node, Error> {
    let statement = Statement { sql: query };
    statement.check()?;
    let plan = statement.plan(transaction).await.map_err(statement::of_query)?;
    if plan.any("ModifyTable") {
        return Err(Error::Query {
            message: "the query changes rows".into(),
            hint: "give a select with the same conditions".into(),
        });
    }
    Ok(plan)
}

async fn facts(client: &Client, examined: &ExaminedTable) -> Result<Facts, Error> {
    let row = client.query_one(include_str!("facts.sql"), &[&examined.schema, &examined.table]).await?;
    let indexes = Definition::list(client, row.try_get("oid")?).await?;
    Ok(Facts {
        rows: row.try_get("rows")?,
        analyze_age: row.try_get("analyze_age")?,
        version_num: row.try_get("version_num")?,
        columns: row.try_get("columns")?,
        texts: row.try_get("texts")?,
        byte_ordered: row.try_get("byte_ordered")?,
        indexes,
    })
}

fn verdict(scan: &Scan, plans: &Plans, facts: &Facts) -> Verdict {
    // A scan of a whole index counts if it discards no row: it gives an order, or the index holds all the columns. A
    // condition on a later key alone counts from PostgreSQL 18 on, which skips from value to value of the keys before
    // it.
    let skips = facts.version_num >= SKIPPING_VERSION_NUM && facts.rows > 0.0;
    let is_used = |one: &plan::Use| match one.condition {
        None => scan.filter.is_none(),
        Some(_) => skips,
    };
    if scan.uses.iter().any(|one| is_used(one) || serves(one, &facts.indexes)) {
        return Verdict::Used;
    }
    let is_usable = plans.usable.iter().any(|plan| {
        let sorts_less = plan.sorts() < plans.actual.sorts();
        same(plan, scan).any(|other| {
            let orders = sorts_less && other.filter.is_none();
            other.uses.iter().any(|one| orders || serves(one, &facts.indexes))
        })
    });
    if is_usable { Verdict::Usable } else { Verdict::Unusable }
}

/// The same scan in another plan.
fn same<'a>(plan: &Node, scan: &'a Scan) -> impl Iterator<Item = Scan> + use<'a> {
    plan.scans().into_iter().filter(|other| other.alias == scan.alias)
}

/// The indexes that the same scan uses in another plan.
fn used(plan: &Node, scan: &Scan) -> Vec<plan::Use> {
    same(plan, scan).flat_map(|other| other.uses).collect()
}

fn indexes(scan: &Scan, verdict: Verdict, plans: &Plans) -> Vec<String> {
    let uses = match verdict {
        Verdict::Used => scan.uses.clone(),
        Verdict::Usable => {
            plans.usable.iter().map(|plan| used(plan, scan)).find(|uses| !uses.is_empty()).unwrap_or_default()
        }
        Verdict::Unusable => Vec::new(),
    };
    let mut names: Vec<String> = uses.into_iter().map(|one| one.index).collect();
    names.dedup();
    names
}
