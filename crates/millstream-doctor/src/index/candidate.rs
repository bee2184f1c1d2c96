//! Candidates: indexes that statements lack, as their plans show, and what the planner makes of them.
//!
//! A candidate comes from one reading of a whole table: what the statement compares for equality, then what it compares by
//! range or sorts by. Candidates of several statements are joined where one is the beginning of another.

use super::condition::{Condition, Scope};
use super::definition::Definition;
use super::plan::{Node, Scan};
use super::probe::{Answer, Probe, Question, hypopg, or_refusal};
use super::sql::Sql;
use super::statement::{Statement, of_query};
use super::{ExaminedTable, Facts, facts};
use crate::limits::{CANDIDATE_KEYS_MAX, PROVEN_TABLES_MAX};
use millstream_pg::{Error, quote_qualified};
use std::collections::BTreeSet;
use tokio_postgres::{Client, Transaction};

/// An index that a statement lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// Rows of the table, as the planner estimates.
    pub rows: f64,
    /// Keys that are compared for equality.
    equal: Vec<String>,
    /// So many of them must come first, because a shorter candidate has them.
    fixed: usize,
    /// The last key: compared by range, or what the rows are sorted by.
    last: Option<String>,
    /// What must be true of the rows in the index.
    predicate: Option<String>,
    /// The conditions that it serves, on the table alone.
    conditions: Vec<String>,
}

/// What the planner makes of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The planner's cost of each statement without it and with it; `None` if a plan does not use it.
    pub costs: Vec<Option<(f64, f64)>>,
    /// Bytes that it would take, by estimate.
    pub bytes: f64,
    /// It was planned on the table itself, as a hypothetical index. Otherwise it was tried on an empty copy, and its cost
    /// estimated from the number of rows.
    pub hypothetical: bool,
}

/// The operators that an ordered index serves with a range.
const RANGES: &[&str] = &["<", "<=", ">", ">="];

/// Cost of each row that is found by an index: `random_page_cost` of a disk without heads.
const COST_OF_ROW: f64 = 1.1;

/// Finding the first row costs as much as so many rows: an index has few levels.
const ROWS_FOR_FIRST: f64 = 10.0;

/// Bytes of an entry of an index beside its keys: its header, its place in the page, and alignment.
const ENTRY_BYTES: f64 = 16.0;

/// How full the server makes the pages of a new index.
const FILLED: f64 = 0.9;

impl Candidate {
    /// Its columns and expressions, in order.
    pub fn keys(&self) -> String {
        self.equal.iter().chain(&self.last).cloned().collect::<Vec<_>>().join(", ")
    }

    /// What follows the table's name in `create index`.
    pub fn clause(&self) -> String {
        let predicate = self.predicate.as_ref().map(|predicate| format!(" where {predicate}"));
        format!("({}){}", self.keys(), predicate.unwrap_or_default())
    }

    /// How many keys it has.
    pub fn width(&self) -> usize {
        self.equal.len() + usize::from(self.last.is_some())
    }

    /// Whether a key is not a column. The server has no statistics of it before there is an index on it.
    pub fn has_expression(&self) -> bool {
        self.equal.iter().chain(&self.last).any(|key| key.contains('('))
    }

    /// Whether the other one is the same index, whatever the order of the keys that are compared for equality.
    pub fn same(&self, other: &Self) -> bool {
        self.is_of(other) && set(&self.equal) == set(&other.equal) && self.last == other.last
    }

    /// This candidate with the keys of a shorter one first, so that it serves the shorter one's statements, too. `None` if
    /// it cannot.
    pub fn with_first(&self, shorter: &Self) -> Option<Self> {
        let (own, first) = (set(&self.equal), set(&shorter.equal));
        let keeps = self.equal[..self.fixed].iter().all(|key| first.contains(key));
        let fits = self.is_of(shorter) && shorter.last.is_none() && first.is_subset(&own) && keeps;
        fits.then(|| {
            let (mut equal, rest): (Vec<String>, Vec<String>) =
                self.equal.iter().cloned().partition(|key| first.contains(key));
            let fixed = equal.len();
            equal.extend(rest);
            Self { equal, fixed, ..self.clone() }
        })
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.schema, &self.table, &self.predicate) == (&other.schema, &other.table, &other.predicate)
    }

    fn table(&self) -> ExaminedTable {
        ExaminedTable { schema: self.schema.clone(), table: self.table.clone(), hidden_column: None }
    }
}

fn set(keys: &[String]) -> BTreeSet<&String> {
    keys.iter().collect()
}

/// The candidates for the tables that a statement reads as a whole. Tables of the system are left out. The statement is
/// planned for any value of its parameters, and not executed; it may change rows.
///
/// # Errors
/// The server's, if it refuses the statement.
pub async fn candidates(client: &mut Client, statement: &str) -> Result<Vec<Candidate>, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let plan = Statement { sql: statement }.plan(&transaction).await.map_err(of_query)?;
    transaction.rollback().await?;
    let scans = plan.scans();
    let is_of_the_system = |scan: &Scan| matches!(scan.schema.as_str(), "pg_catalog" | "information_schema");
    let whole: Vec<&Scan> = scans.iter().filter(|scan| scan.is_whole && !is_of_the_system(scan)).collect();
    let mut found = Vec::new();
    for scan in whole.into_iter().take(PROVEN_TABLES_MAX) {
        let table = ExaminedTable { schema: scan.schema.clone(), table: scan.relation.clone(), hidden_column: None };
        let facts = facts(client, &table).await?;
        found.extend(candidate(scan, &scans, &facts));
    }
    Ok(found)
}

fn candidate(scan: &Scan, all: &[Scan], facts: &Facts) -> Option<Candidate> {
    let is_alone = all.iter().filter(|other| other.is_whole && other.relation == scan.relation).count() == 1;
    let mut scope = Scope::new(&facts.columns, None, scan, all);
    let mut conditions: Vec<Condition> = Vec::new();
    for text in scan.filter.iter().chain(scan.joins.iter().filter(|_| is_alone)) {
        conditions.extend(scope.conditions(text));
    }
    let (mut equal, mut last, mut predicate, mut served) = (Vec::new(), None, None, Vec::new());
    for condition in &conditions {
        let is_known = condition.left.pieces().all(|piece| !piece.starts_with('$'));
        let key = key_of(&condition.left, &facts.columns);
        let is_value = condition
            .right
            .as_ref()
            .is_some_and(|right| !scope.is_about(right) && right.pieces().next().is_none_or(|word| word != "ALL"));
        let operator = condition.operator.as_str();
        if operator == "=" && is_known && is_value && !equal.contains(&key) {
            equal.push(key);
        } else if RANGES.contains(&operator) && is_known && is_value && last.as_ref().is_none_or(|last| *last == key) {
            last = Some(key);
        } else {
            predicate = predicate.or_else(|| fixed(condition));
            continue;
        }
        served.push(condition.sql.text().to_owned());
    }
    if let ([order], true) = (scan.sort_keys.as_slice(), last.is_none() && !equal.is_empty()) {
        let expression = order.trim_end().trim_end_matches(" DESC");
        last = scope.own_sql(&Sql::new(expression)).map(|sql| key_of(&sql, &facts.columns));
    }
    last = last.filter(|last| !equal.contains(last));
    equal.truncate(CANDIDATE_KEYS_MAX);
    last = last.filter(|_| equal.len() < CANDIDATE_KEYS_MAX);
    let is_there = |index: &Definition| {
        let keys = index.keys.iter().take(equal.len()).map(|one| key_of(&one.expression, &facts.columns));
        index.is_ordered()
            && index.predicate.is_none()
            && keys.collect::<BTreeSet<_>>() == equal.iter().cloned().collect()
    };
    let has_none = (equal.is_empty() && last.is_none()) || (!equal.is_empty() && facts.indexes.iter().any(is_there));
    (!has_none && facts.rows >= 0.0).then(|| Candidate {
        schema: scan.schema.clone(),
        table: scan.relation.clone(),
        rows: facts.rows.into(),
        equal,
        fixed: 0,
        last,
        predicate,
        conditions: served,
    })
}

/// An expression as a key: the column alone, if it is only cast, as the server does with a `varchar`.
fn key_of(sql: &Sql, columns: &[String]) -> String {
    let plain = sql.without_casts().bare();
    let is_column = plain.pieces().count() == 1 && plain.names().all(|name| columns.contains(&name));
    if is_column { plain.text().to_owned() } else { sql.as_key() }
}

/// A condition that holds for the same rows whatever the parameters are, such as `NOT done`.
fn fixed(condition: &Condition) -> Option<String> {
    let has_parameter = condition.sql.pieces().any(|piece| piece.starts_with('$'));
    let is_null = condition.operator == "IS" && condition.right.as_ref().is_some_and(|right| right.text() == "NULL");
    (!has_parameter && (condition.operator.is_empty() || is_null))
        .then(|| condition.sql.bare().tidy().text().to_owned())
}

/// Plans statements with a candidate. The inner `Err` says why the server or the role does not allow that.
///
/// # Errors
/// The server's.
pub async fn try_candidate(
    client: &mut Client,
    candidate: &Candidate,
    statements: &[&str],
) -> Result<Result<Trial, String>, Error> {
    let name = quote_qualified(&candidate.schema, &candidate.table);
    let transaction = client.transaction().await?;
    let before = plans(&transaction, statements).await?;
    if let Ok(schema) = hypopg(&transaction, &name).await? {
        let create = format!("create index on {name} {}", candidate.clause());
        let made = format!("select indexrelid, indexname from {schema}.hypopg_create_index($1)");
        let row = match or_refusal(transaction.query_one(&made, &[&create]).await)? {
            Ok(row) => row,
            Err(message) => return Ok(Err(message)),
        };
        let (oid, index): (u32, String) = (row.try_get(0)?, row.try_get(1)?);
        let size = format!("select {schema}.hypopg_relation_size($1)::float8");
        let bytes = transaction.query_one(&size, &[&oid]).await?.try_get(0)?;
        let after = plans(&transaction, statements).await?;
        let costs = before.iter().zip(&after).map(|(before, after)| {
            let is_used = after.scans().iter().any(|scan| scan.uses.iter().any(|one| one.index == index));
            is_used.then_some((before.cost, after.cost))
        });
        let costs = costs.collect();
        transaction.batch_execute(&format!("select {schema}.hypopg_reset()")).await?;
        transaction.rollback().await?;
        return Ok(Ok(Trial { costs, bytes, hypothetical: true }));
    }
    transaction.rollback().await?;
    let bytes = estimated_bytes(client, candidate).await?;
    let (table, facts) = (candidate.table(), facts(client, &candidate.table()).await?);
    let probe = match Probe::open(client, &table, &facts.indexes).await? {
        Ok(probe) => probe,
        Err(message) => return Ok(Err(message)),
    };
    let conditions: Vec<&str> = candidate.conditions.iter().map(String::as_str).collect();
    match probe.ask(&candidate.clause(), Question::Find(&conditions)).await? {
        Answer::Used => {}
        Answer::NotUsed => return Ok(Ok(Trial { costs: vec![None; statements.len()], bytes, hypothetical: false })),
        Answer::Refused(message) => return Ok(Err(message)),
    }
    let costs = before.iter().map(|plan| {
        let scans = plan.scans();
        let scan = scans.iter().find(|scan| scan.is_whole && scan.relation == candidate.table)?;
        let by_index = (COST_OF_ROW * (scan.returned + ROWS_FOR_FIRST)).min(scan.cost);
        Some((plan.cost, plan.cost - scan.cost + by_index))
    });
    Ok(Ok(Trial { costs: costs.collect(), bytes, hypothetical: false }))
}

async fn plans(transaction: &Transaction<'_>, statements: &[&str]) -> Result<Vec<Node>, Error> {
    let mut plans = Vec::new();
    for sql in statements {
        plans.push(Statement { sql }.plan(transaction).await?);
    }
    Ok(plans)
}

/// Bytes of an index by the widths of its columns.
async fn estimated_bytes(client: &Client, candidate: &Candidate) -> Result<f64, Error> {
    let columns: Vec<String> = candidate.equal.iter().chain(&candidate.last).map(|key| key.replace('"', "")).collect();
    let sql = "select coalesce(sum(avg_width), 8)::float8 from pg_catalog.pg_stats \
               where schemaname = $1 and tablename = $2 and attname = any($3)";
    let row = client.query_one(sql, &[&candidate.schema, &candidate.table, &columns]).await?;
    Ok(candidate.rows * (ENTRY_BYTES + row.try_get::<_, f64>(0)?) / FILLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(equal: &[&str], last: Option<&str>) -> Candidate {
        Candidate {
            schema: "s".to_owned(),
            table: "t".to_owned(),
            rows: 1e6,
            equal: equal.iter().map(|key| (*key).to_owned()).collect(),
            fixed: 0,
            last: last.map(str::to_owned),
            predicate: None,
            conditions: Vec::new(),
        }
    }

    #[test]
    fn a_candidate_serves_shorter_ones_whose_keys_come_first() {
        let wide = one(&["a", "b", "c"], Some("d"));
        let joined = wide.with_first(&one(&["c"], None)).unwrap();
        assert_eq!(joined.clause(), "(c, a, b, d)");
        let joined = joined.with_first(&one(&["b", "c"], None)).unwrap();
        assert_eq!(joined.clause(), "(c, b, a, d)");
        assert_eq!(joined.with_first(&one(&["a"], None)), None, "c comes first already");
        assert_eq!(wide.with_first(&one(&["e"], None)), None);
        assert_eq!(wide.with_first(&one(&["a"], Some("d"))), None, "b and c come before d");
        assert!(wide.same(&one(&["b", "c", "a"], Some("d"))) && !wide.same(&one(&["a", "b", "c"], None)));
    }

    #[test]
    fn equality_comes_before_a_range_and_what_is_always_asked_becomes_the_predicate() {
        let columns = ["state", "at", "done", "name"].map(str::to_owned).to_vec();
        let facts = Facts { rows: 5.0, analyze_age: None, version_num: 180_000, columns, indexes: Vec::new() };
        let scan = |filter: &str| Scan {
            schema: "s".to_owned(),
            relation: "t".to_owned(),
            alias: "t".to_owned(),
            aliases: vec!["t".to_owned()],
            filter: Some(filter.to_owned()),
            is_whole: true,
            ..Scan::default()
        };
        let clause = |filter: &str| {
            let scan = scan(filter);
            candidate(&scan, std::slice::from_ref(&scan), &facts).map(|found| found.clause())
        };
        let filter =
            "((t.at >= $1) AND (t.at < $2) AND ((t.name)::text = $3) AND (t.state = ANY ($4)) AND (NOT t.done))";
        assert_eq!(clause(filter).unwrap(), "(name, state, at) where NOT done");
        assert_eq!(clause("(lower((t.name)::text) = $1)").unwrap(), "(lower((name)::text))");
        assert_eq!(clause("(t.at > $1)").unwrap(), "(at)");
        assert_eq!(clause("(t.at IS NULL)"), None);
        assert_eq!(clause("(t.name ~~ $1)"), None, "missed-index knows the classes of operators");
    }
}
