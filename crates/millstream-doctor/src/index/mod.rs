//! Whether a query goes through an index of a table and, where it does not, what is between the two.
//!
//! The planner is the judge. Whether an index could be used is asked with reading from end to end turned
//! off; what a condition and an index would have to look like is tried on an empty copy of the table, where
//! every repair that is told has found its index. The query itself is planned and never executed.

mod condition;
mod definition;
mod examination;
mod finding;
mod json_path;
mod mismatch;
mod plan;
mod probe;
mod sql;
mod statement;

pub use finding::{Explanation, Mismatch, Missed, NewIndex, Reading, Rewrite, Verdict};

use definition::Definition;
use examination::Examination;
use millstream_pg::Error;
use plan::{Node, Scan};
use probe::{Probe, serves};
use statement::{Statement, USABLE, USABLE_BY_JOINS};
use tokio_postgres::Client;

/// The table whose indexes count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// A column that the query itself cannot name; what is asked of it is not the query's doing.
    pub hidden_column: Option<String>,
}

/// The first server that looks up a later key of an index by skipping.
const SKIPPING_VERSION_NUM: i32 = 180_000;

/// What the catalog says about it.
#[derive(Debug)]
struct Facts {
    rows: f32,
    version_num: i32,
    columns: Vec<String>,
    indexes: Vec<Definition>,
}

/// The plans of a query.
#[derive(Debug)]
struct Plans {
    actual: Node,
    /// With tables read from end to end, and joins that do so, only where nothing else is possible.
    usable: Vec<Node>,
}

/// Explains which indexes of a table a query uses, and how it misses the others.
///
/// Parameters (`$1`) can have any value. What it changes for the time of a call, an empty temporary table, is
/// rolled back; where the role or the server allows none, repairs are told untried.
///
/// # Errors
/// [`Error::Query`] where the text is no single query, or changes rows; the server's where it refuses the query.
pub async fn explain(client: &mut Client, subject: &Subject, query: &str) -> Result<Explanation, Error> {
    let statement = Statement { sql: query };
    statement.check()?;
    let plans = plans(client, &statement).await?;
    let scans = plans.actual.scans();
    let own: Vec<&Scan> =
        scans.iter().filter(|scan| scan.schema == subject.schema && scan.relation == subject.table).collect();
    let facts = facts(client, subject).await?;
    let verdicts: Vec<Verdict> = own.iter().map(|scan| verdict(scan, &plans, &facts)).collect();
    let mut readings = Vec::new();
    let mut untried = None;
    let probe = match verdicts.contains(&Verdict::Unusable) {
        true => match Probe::open(client, &subject.schema, &subject.table).await? {
            Ok(probe) => Some(probe),
            Err(message) => {
                untried = Some(message);
                None
            }
        },
        false => None,
    };
    for (scan, verdict) in own.iter().zip(verdicts) {
        let missed = match verdict {
            Verdict::Unusable => {
                let alone = own.len() == 1;
                Examination::new(subject, &facts, probe.as_ref(), scan, &scans, alone).missed().await?
            }
            Verdict::Used | Verdict::Usable => Vec::new(),
        };
        readings.push(Reading { verdict, indexes: indexes(scan, verdict, &plans), missed });
    }
    Ok(Explanation { rows: (facts.rows >= 0.0).then(|| facts.rows.into()), readings, untried })
}

async fn plans(client: &mut Client, statement: &Statement<'_>) -> Result<Plans, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let actual = statement.plan(&transaction).await.map_err(statement::of_query)?;
    if actual.any("ModifyTable") {
        return Err(Error::Query {
            message: "the query changes rows".into(),
            hint: "give a select with the same conditions".into(),
        });
    }
    let mut usable = Vec::new();
    for settings in [USABLE, USABLE_BY_JOINS] {
        for (name, value) in settings {
            transaction.execute(&format!("set local {name} = {value}"), &[]).await?;
        }
        usable.push(statement.plan(&transaction).await?);
    }
    Ok(Plans { actual, usable })
}

async fn facts(client: &Client, subject: &Subject) -> Result<Facts, Error> {
    let row = client.query_one(include_str!("facts.sql"), &[&subject.schema, &subject.table]).await?;
    let indexes = Definition::list(client, row.try_get("oid")?).await?;
    Ok(Facts {
        rows: row.try_get("rows")?,
        version_num: row.try_get("version_num")?,
        columns: row.try_get("columns")?,
        indexes,
    })
}

fn verdict(scan: &Scan, plans: &Plans, facts: &Facts) -> Verdict {
    // An order, or columns that are all in the index, is a reason to read one from end to end where no row is read
    // in vain; a later key of it alone is none before PostgreSQL 18, which skips from value to value of the keys
    // before.
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

/// The indexes that the same scan goes through in another plan.
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
