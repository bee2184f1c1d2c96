//! Candidates: indexes that statements lack, as their plans show.
//!
//! A candidate comes from one reading of a table. It holds what the statement compares for equality, then what it compares by
//! range or sorts by; or the columns by which the table is joined, alone or with what the statement compares for equality.

use super::condition::{Condition, FOREIGN, Scope};
use super::definition::Definition;
use super::examination::direction;
use super::plan::Scan;
use super::probe::hypopg;
use super::sql::Sql;
use super::statement::{Statement, of_query};
use super::{ExaminedTable, Facts, facts};
use crate::limits::{CANDIDATE_KEYS_MAX, PROVEN_TABLES_MAX};
use crate::refusal::or_refusal;
use millstream_pg::{Error, quote_identifier, quote_qualified};
use std::collections::BTreeSet;
use tokio_postgres::Client;

/// An index that a statement lacks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    /// Schema of the table.
    pub(crate) schema: String,
    /// Name of the table.
    pub(crate) table: String,
    /// Rows of the table, as the planner estimates.
    pub(crate) rows: f64,
    /// Keys that are compared for equality.
    pub(super) equal: Vec<String>,
    /// So many of them must come first, because a shorter candidate has them.
    fixed: usize,
    /// The last keys: one that is compared by range, or what the rows are sorted by.
    pub(super) last: Vec<String>,
    /// What must be true of the rows in the index.
    predicate: Option<String>,
}

/// What a statement would use a candidate for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Need {
    /// The planner's cost of the statement now.
    pub(crate) cost: f64,
    /// The conditions that the index serves, on the table alone, each with its key. That of the predicate has none.
    pub(super) conditions: Vec<(String, String)>,
    /// The order that it gives.
    pub(super) order: String,
    /// The part of the cost that is for reading the table as it is read now.
    pub(super) reading: f64,
    /// How often the statement would look rows up.
    pub(super) lookups: f64,
    /// The share of the rows it finds that it reads, before a limit ends it.
    pub(super) share: f64,
}

/// What the catalog says about tables, each read once.
#[derive(Debug, Default)]
pub(crate) struct KnownTables {
    known: Vec<(ExaminedTable, Facts)>,
}

/// What stands behind a key so that the index finds the beginning of a text, whatever the collation is.
const BEGINNINGS: &str = " text_pattern_ops";

/// The operators that an ordered index serves with a range.
const RANGES: &[&str] = &["<", "<=", ">", ">="];

impl Candidate {
    /// Its columns and expressions, in order.
    pub(crate) fn keys(&self) -> String {
        self.equal.iter().chain(&self.last).cloned().collect::<Vec<_>>().join(", ")
    }

    /// What follows the table's name in `create index`.
    pub(crate) fn clause(&self) -> String {
        let predicate = self.predicate.as_ref().map(|predicate| format!(" where {predicate}"));
        format!("({}){}", self.keys(), predicate.unwrap_or_default())
    }

    /// How many keys it has.
    pub(crate) fn width(&self) -> usize {
        self.equal.len() + self.last.len()
    }

    /// Whether a key is not a column. The server has no statistics of it before there is an index on it.
    fn has_expression(&self) -> bool {
        self.equal.iter().chain(&self.last).any(|key| key.contains('('))
    }

    /// Whether the other one is the same index, whatever the order of the keys that are compared for equality.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.is_of(other) && set(&self.equal) == set(&other.equal) && self.last == other.last
    }

    /// This candidate with the keys of a shorter one first, so that it serves the shorter one's statements, too. `None` if
    /// it cannot.
    pub(crate) fn with_first(&self, shorter: &Self) -> Option<Self> {
        let (own, first) = (set(&self.equal), set(&shorter.equal));
        let keeps = self.equal[..self.fixed].iter().all(|key| first.contains(key));
        let fits = self.is_of(shorter) && shorter.last.is_empty() && first.is_subset(&own) && keeps;
        fits.then(|| {
            let (mut equal, rest): (Vec<String>, Vec<String>) =
                self.equal.iter().cloned().partition(|key| first.contains(key));
            let fixed = equal.len();
            equal.extend(rest);
            Self { equal, fixed, ..self.clone() }
        })
    }

    /// This candidate without one of its keys.
    pub(super) fn without(&self, key: &str) -> Self {
        let others = |keys: &[String]| keys.iter().filter(|one| *one != key).cloned().collect();
        Self { equal: others(&self.equal), last: others(&self.last), ..self.clone() }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.schema, &self.table, &self.predicate) == (&other.schema, &other.table, &other.predicate)
    }

    /// The command that makes it, for hypopg.
    pub(super) fn create(&self) -> String {
        format!("create index on {} {}", self.table_name(), self.clause())
    }

    pub(super) fn table_name(&self) -> String {
        quote_qualified(&self.schema, &self.table)
    }

    pub(super) fn table(&self) -> ExaminedTable {
        ExaminedTable { schema: self.schema.clone(), table: self.table.clone(), hidden_column: None }
    }
}

impl Need {
    /// Whether the statement looks for the beginning of a text, by a pattern that was assumed.
    pub(crate) fn has_pattern(&self) -> bool {
        self.conditions.iter().any(|(_, condition)| condition.contains(" ~~ "))
    }

    /// What a statement would use a candidate without this key for.
    pub(super) fn without(&self, key: &str) -> Self {
        let conditions = self.conditions.iter().filter(|(own, _)| own != key).cloned().collect();
        Self { conditions, ..self.clone() }
    }
}

fn set(keys: &[String]) -> BTreeSet<&String> {
    keys.iter().collect()
}

impl KnownTables {
    async fn facts(&mut self, client: &Client, table: ExaminedTable) -> Result<&Facts, Error> {
        let place = match self.known.iter().position(|(known, _)| *known == table) {
            Some(place) => place,
            None => {
                let facts = facts(client, &table).await?;
                self.known.push((table, facts));
                self.known.len() - 1
            }
        };
        Ok(&self.known[place].1)
    }
}

/// What a candidate must be for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wish {
    /// Smaller tables are left out, in rows.
    pub(crate) rows: f64,
    /// So many times cheaper the plan must become.
    pub(crate) times: f64,
    /// The same for an index on an expression, of which the server has no statistics yet.
    pub(crate) expression_times: f64,
}

impl Wish {
    /// How many times cheaper a plan must become with a candidate.
    pub(crate) fn times(&self, candidate: &Candidate) -> f64 {
        if candidate.has_expression() { self.expression_times } else { self.times }
    }
}

/// The candidates for the tables that a statement reads, as many as [`PROVEN_TABLES_MAX`], and what it would use them for.
/// Tables of the system are left out, and candidates that cannot fulfil the wish. The statement is planned for any value of
/// its parameters, and not executed; it may change rows.
///
/// # Errors
/// The server's, if it refuses the statement.
pub(crate) async fn candidates(
    client: &mut Client,
    statement: &str,
    wish: Wish,
    known: &mut KnownTables,
) -> Result<Vec<(Candidate, Need)>, Error> {
    let transaction = client.build_transaction().read_only(true).start().await?;
    let plan = Statement { sql: statement }.plan(&transaction).await.map_err(of_query)?;
    transaction.rollback().await?;
    let scans = plan.scans();
    let is_of_the_system = |scan: &Scan| matches!(scan.schema.as_str(), "pg_catalog" | "information_schema");
    let mut found: Vec<(Candidate, Need)> = Vec::new();
    for scan in scans.iter().filter(|scan| !is_of_the_system(scan)).take(PROVEN_TABLES_MAX) {
        let table = ExaminedTable { schema: scan.schema.clone(), table: scan.relation.clone(), hidden_column: None };
        let facts = known.facts(client, table).await?;
        if f64::from(facts.rows) >= wish.rows {
            for (candidate, need) in Reading::new(scan, &scans, facts).candidates(plan.cost) {
                if !found.iter().any(|(known, _)| known.same(&candidate)) {
                    found.push((candidate, need));
                }
            }
        }
    }
    let least = with_all(client, statement, &found).await?;
    found.retain(|(candidate, need)| need.cost >= wish.times(candidate) * least.unwrap_or(need.cost - need.reading));
    Ok(found)
}

/// What a statement costs with all of its candidates: no single one makes it cheaper than that. `None` if the server has no
/// hypopg for this role, or refuses one of them.
async fn with_all(client: &mut Client, sql: &str, found: &[(Candidate, Need)]) -> Result<Option<f64>, Error> {
    let Some((first, _)) = found.first() else { return Ok(None) };
    let transaction = client.transaction().await?;
    let Ok(schema) = hypopg(&transaction, &first.table_name()).await? else { return Ok(None) };
    let all: Vec<String> = found.iter().map(|(candidate, _)| candidate.create()).collect();
    let create = format!(
        "select from pg_catalog.unnest($1::pg_catalog.text[]) as one (sql), {schema}.hypopg_create_index(one.sql) as made"
    );
    let Ok(_) = or_refusal(transaction.query(&create, &[&all]).await)? else { return Ok(None) };
    let plan = Statement { sql }.plan(&transaction).await?;
    transaction.batch_execute(&format!("select {schema}.hypopg_reset()")).await?;
    transaction.rollback().await?;
    Ok(Some(plan.cost))
}

/// A reading of a table, and what it compares.
struct Reading<'a> {
    scan: &'a Scan,
    facts: &'a Facts,
    scope: Scope<'a>,
    /// The statement reads no other table.
    is_alone: bool,
}

/// Conditions that an index can serve, by their keys.
#[derive(Debug, Default)]
struct Compared {
    /// Those that compare for equality.
    equal: Vec<(String, String)>,
    /// Those that compare by range, all with the same key.
    range: Vec<(String, String)>,
    /// A condition that holds for the same rows whatever the parameters are.
    predicate: Option<String>,
}

impl Compared {
    /// The keys that are compared for equality, and these conditions with their keys.
    fn found(&self) -> (Vec<String>, Vec<(String, String)>) {
        self.equal.iter().take(CANDIDATE_KEYS_MAX).map(|(key, sql)| (key.clone(), (key.clone(), sql.clone()))).unzip()
    }
}

impl<'a> Reading<'a> {
    fn new(scan: &'a Scan, all: &'a [Scan], facts: &'a Facts) -> Self {
        Self { scan, facts, scope: Scope::new(&facts.columns, None, scan, all), is_alone: all.len() == 1 }
    }

    fn candidates(mut self, cost: f64) -> Vec<(Candidate, Need)> {
        let scan = self.scan;
        let own = scan.filter.iter().chain(scan.uses.iter().filter_map(|one| one.condition.as_ref()));
        let conditions: Vec<Condition> = own.flat_map(|text| self.scope.conditions(text)).collect();
        let own = self.compared(&conditions);
        let of_predicate = own.predicate.clone().map(|predicate| (String::new(), predicate));
        let one = |conditions: Vec<(String, String)>| Need {
            cost,
            conditions: conditions.into_iter().chain(of_predicate.clone()).collect(),
            order: String::new(),
            reading: scan.cost,
            lookups: 1.0,
            share: 1.0,
        };
        let mut found = Vec::new();
        // With values of another table, it looks rows up for each row of that table already. What several indexes look up need
        // not all be true of a row.
        let is_looked_up = !scan.is_whole && conditions.iter().any(|condition| is_foreign(&condition.sql));
        if !is_looked_up && scan.uses.len() <= 1 {
            let (equal, mut served) = own.found();
            let order = self.order().filter(|order| equal.len() + order.len() <= CANDIDATE_KEYS_MAX);
            if let Some(last) = order.filter(|_| scan.first.is_some() || !equal.is_empty()) {
                let mut need = Need { order: last.join(", "), ..one(served.clone()) };
                if let Some(first) = scan.first {
                    need.reading = first.cost;
                    need.share = (first.rows / scan.returned.max(1.0)).min(1.0);
                }
                found.push((self.candidate(equal.clone(), last, own.predicate.clone()), need));
            }
            let mut last = Vec::new();
            if equal.len() < CANDIDATE_KEYS_MAX
                && let Some((key, _)) = own.range.first()
            {
                last.push(key.clone());
                served.extend(own.range.iter().cloned());
            }
            found.push((self.candidate(equal, last, own.predicate.clone()), one(served)));
        }
        for join in &scan.joins {
            let conditions: Vec<Condition> =
                join.conditions.iter().flat_map(|text| self.joined(text)).filter(|one| is_foreign(&one.sql)).collect();
            let (equal, served) = self.compared(&conditions).found();
            let reading = join.cost * (scan.cost / join.side_cost.max(scan.cost).max(f64::MIN_POSITIVE));
            let need = Need { reading, lookups: join.rows.max(1.0), ..one(Vec::new()) };
            let (mut wide, mut more) = (equal.clone(), served.clone());
            for (key, condition) in own.equal.iter().filter(|(key, _)| !equal.contains(key)) {
                wide.push(key.clone());
                more.push((key.clone(), condition.clone()));
            }
            wide.truncate(CANDIDATE_KEYS_MAX);
            more.truncate(CANDIDATE_KEYS_MAX);
            if equal.is_empty() {
                continue;
            }
            if wide.len() > equal.len() {
                found.push((self.candidate(wide, Vec::new(), None), Need { conditions: more, ..need.clone() }));
            }
            found.push((self.candidate(equal, Vec::new(), None), Need { conditions: served, ..need }));
        }
        found.retain(|(candidate, _)| candidate.width() > 0 && !self.is_there(candidate));
        found
    }

    fn candidate(&self, equal: Vec<String>, last: Vec<String>, predicate: Option<String>) -> Candidate {
        let (schema, table) = (self.scan.schema.clone(), self.scan.relation.clone());
        Candidate { schema, table, rows: self.facts.rows.into(), equal, fixed: 0, last, predicate }
    }

    /// The conditions of a join on this table. Some of them may be about other tables of the same side.
    fn joined(&mut self, text: &str) -> Vec<Condition> {
        let aliases = &self.scan.aliases;
        let is_own = |part: &Sql| {
            // The plan names the partitioned table, which has no scan of its own.
            let mut is_own = aliases.len() > 1;
            part.map_qualified(|table, _| {
                is_own |= aliases.iter().any(|alias| alias == table);
                None
            });
            is_own
        };
        let parts: Vec<Sql> = Sql::new(text).split("AND").into_iter().filter(is_own).collect();
        parts.iter().flat_map(|part| self.scope.conditions(part.text())).collect()
    }

    /// What an index can serve of conditions.
    fn compared(&self, conditions: &[Condition]) -> Compared {
        let mut compared = Compared::default();
        for condition in conditions {
            let is_known = condition.left.pieces().all(|piece| !piece.starts_with('$'));
            let key = key_of(&condition.left, &self.facts.columns);
            let is_value = condition.right.as_ref().is_some_and(|right| {
                !self.scope.is_about(right) && right.pieces().next().is_none_or(|word| word != "ALL")
            });
            let is_equal = compared.equal.iter().any(|(known, _)| *known == key);
            let is_only = self.is_alone && conditions.len() == 1;
            let beginning = self.beginning(condition, &key).filter(|_| is_only);
            let is_range = beginning.is_some() || RANGES.contains(&condition.operator.as_str());
            let pair = (beginning.unwrap_or(key), condition.sql.text().to_owned());
            if !(is_known && is_value && (is_range || condition.operator == "=")) {
                compared.predicate = compared.predicate.or_else(|| fixed(condition));
            } else if is_range && compared.range.first().is_none_or(|(known, _)| *known == pair.0) {
                compared.range.push(pair);
            } else if !is_range && !is_equal {
                compared.equal.push(pair);
            }
        }
        let equal = &compared.equal;
        compared.range.retain(|(key, _)| equal.iter().all(|(known, _)| known != undirected(key)));
        compared
    }

    /// The key by which an index finds the texts that begin as a pattern of `like` does. The server keeps no patterns, and one
    /// that begins with a wildcard has no such index. So it is proposed only where nothing else narrows what is read.
    fn beginning(&self, condition: &Condition, key: &str) -> Option<String> {
        let pattern = condition.right.as_ref().filter(|_| condition.operator == "~~")?.literal()?;
        let is_column = |columns: &[String]| columns.iter().any(|name| quote_identifier(name) == key || name == key);
        let is_text = is_column(&self.facts.texts) || key.starts_with("lower(") || key.starts_with("upper(");
        let class = if is_column(&self.facts.byte_ordered) { "" } else { BEGINNINGS };
        (is_text && !pattern.starts_with(['%', '_'])).then(|| format!("{key}{class}"))
    }

    /// The order into which the rows are sorted, if only this table's columns define it: its keys without those that have one
    /// value.
    fn order(&mut self) -> Option<Vec<String>> {
        let parts: Vec<(&str, &str)> = self.scan.sort_keys.iter().map(|text| direction(text)).collect();
        let first = parts.first()?.1;
        // An index can be read backwards.
        let is_one_way = matches!(first, "" | " DESC") && parts.iter().all(|(_, direction)| *direction == first);
        let mut keys = Vec::new();
        for (expression, direction) in parts {
            let key = key_of(&self.scope.own_sql(&Sql::new(expression))?, &self.facts.columns);
            keys.push(if is_one_way { key } else { key + &direction.to_lowercase() });
        }
        Some(keys)
    }

    /// Whether the table has such an index.
    fn is_there(&self, candidate: &Candidate) -> bool {
        self.facts.indexes.iter().any(|index: &Definition| {
            let keys: Vec<String> = index.keys.iter().map(|one| key_of(&one.expression, &self.facts.columns)).collect();
            let (first, rest) = keys.split_at(candidate.equal.len().min(keys.len()));
            let last = candidate.last.iter().map(|key| undirected(key));
            let classes = index.keys.iter().skip(candidate.equal.len()).map(|one| one.class.ends_with("_pattern_ops"));
            let finds_beginnings =
                candidate.last.iter().zip(classes).all(|(key, is_fit)| is_fit || !key.ends_with(BEGINNINGS));
            // An index of all rows serves a part of them, too.
            let holds = index.predicate.as_ref().is_none_or(|held| {
                candidate.predicate.as_ref().is_some_and(|wanted| Sql::new(wanted).tidy().same(&held.tidy()))
            });
            index.is_ordered()
                && holds
                && finds_beginnings
                && set(first) == set(&candidate.equal)
                && last.eq(rest.iter().take(candidate.last.len()).map(String::as_str))
        })
    }
}

/// An expression as a key: the column alone, if it is only cast, as the server does with a `varchar`.
fn key_of(sql: &Sql, columns: &[String]) -> String {
    let plain = sql.without_casts().bare();
    let is_column = plain.pieces().count() == 1 && plain.names().all(|name| columns.contains(&name));
    if is_column { plain.text().to_owned() } else { sql.as_key() }
}

/// A key without the direction of its order and its class of operators.
pub(super) fn undirected(key: &str) -> &str {
    let end = [" desc", " nulls ", BEGINNINGS].iter().filter_map(|word| key.find(word)).min();
    &key[..end.unwrap_or(key.len())]
}

/// Whether a condition compares with a value of another table.
fn is_foreign(sql: &Sql) -> bool {
    let number = |piece: &str| piece.strip_prefix('$')?.parse::<usize>().ok();
    sql.pieces().filter_map(number).any(|number| number >= FOREIGN)
}

/// A condition that holds for the same rows whatever the parameters are, such as `NOT done`.
fn fixed(condition: &Condition) -> Option<String> {
    let has_parameter = condition.sql.pieces().any(|piece| piece.starts_with('$'));
    let is_null = condition.operator == "IS" && condition.right.as_ref().is_some_and(|right| right.text() == "NULL");
    (!has_parameter && (condition.operator.is_empty() || is_null))
        .then(|| condition.sql.bare().tidy().text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::definition::Key;
    use super::super::plan::{First, Join};
    use super::*;

    fn key(column: &str) -> Key {
        Key {
            expression: Sql::new(column),
            type_name: "text".to_owned(),
            collation: None,
            class: String::new(),
            descending: false,
            nulls_first: false,
        }
    }

    fn one(equal: &[&str], last: Option<&str>) -> Candidate {
        Candidate {
            schema: "s".to_owned(),
            table: "t".to_owned(),
            rows: 1e6,
            equal: equal.iter().map(|key| (*key).to_owned()).collect(),
            fixed: 0,
            last: last.map(str::to_owned).into_iter().collect(),
            predicate: None,
        }
    }

    fn facts_of(columns: Vec<String>) -> Facts {
        let texts = columns.clone();
        let byte_ordered = vec!["site".to_owned()];
        Facts { rows: 5.0, analyze_age: None, version_num: 180_000, columns, texts, byte_ordered, indexes: Vec::new() }
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
        let columns = ["state", "at", "done", "name", "site"].map(str::to_owned).to_vec();
        let facts = facts_of(columns);
        let scan = |filter: &str| Scan {
            schema: "s".to_owned(),
            relation: "t".to_owned(),
            alias: "t".to_owned(),
            aliases: vec!["t".to_owned()],
            filter: Some(filter.to_owned()),
            is_whole: true,
            ..Scan::default()
        };
        let clauses = |scan: &Scan| {
            let found = Reading::new(scan, std::slice::from_ref(scan), &facts).candidates(1.0);
            found.iter().map(|(found, _)| found.clause()).collect::<Vec<_>>()
        };
        let clause = |filter: &str| clauses(&scan(filter)).pop();
        let filter =
            "((t.at >= $1) AND (t.at < $2) AND ((t.name)::text = $3) AND (t.state = ANY ($4)) AND (NOT t.done))";
        assert_eq!(clause(filter).unwrap(), "(name, state, at) where NOT done");
        assert_eq!(clause("(lower((t.name)::text) = $1)").unwrap(), "(lower((name)::text))");
        assert_eq!(clause("(t.at > $1)").unwrap(), "(at)");
        assert_eq!(clause("(t.at IS NULL)"), None);
        assert_eq!(clause("(t.name ~~ $1)"), None, "the pattern may begin with anything");
        for (filter, expected) in [
            ("(t.name ~~ 'a1%'::text)", Some("(name text_pattern_ops)")),
            ("((t.name)::text ~~ 'a1%'::text)", Some("(name text_pattern_ops)")),
            ("(lower(t.name) ~~ 'a1%'::text)", Some("(lower(name) text_pattern_ops)")),
            ("((t.state = $1) AND (lower(t.name) ~~ 'a1%'::text))", Some("(state)")),
            ("(t.site ~~ 'a1%'::text)", Some("(site)")),
            ("(t.name ~~ '%a1'::text)", None),
            ("(t.name !~~ 'a1%'::text)", None),
        ] {
            assert_eq!(clause(filter).as_deref(), expected, "{filter}");
        }
        let (columns, with) = (facts.columns.clone(), |class: &str| Definition {
            method: "btree".to_owned(),
            keys: vec![Key { class: class.to_owned(), ..key("name") }],
            ..Definition::hypothetical("i".to_owned(), "(name)")
        });
        for (class, is_there) in [("text_ops", false), ("text_pattern_ops", true)] {
            let facts = Facts { indexes: vec![with(class)], ..facts_of(columns.clone()) };
            let asked = scan("(t.name ~~ 'a1%'::text)");
            let found = Reading::new(&asked, std::slice::from_ref(&asked), &facts).candidates(1.0);
            assert_eq!(found.is_empty(), is_there, "{class}");
        }
    }

    #[test]
    fn a_joined_column_comes_first_and_an_order_comes_last() {
        let columns = ["id", "movie", "kind", "at"].map(str::to_owned).to_vec();
        let facts = facts_of(columns);
        let join =
            |condition: &str| Join { conditions: vec![condition.to_owned()], rows: 4.0, cost: 90.0, side_cost: 80.0 };
        let [part, movie, other] = ["p", "m", "o"].map(|alias| Scan {
            schema: "s".to_owned(),
            relation: alias.to_owned(),
            alias: alias.to_owned(),
            aliases: vec![alias.to_owned()],
            is_whole: true,
            cost: 80.0,
            ..Scan::default()
        });
        let all = [part.clone(), movie, other];
        let found = |scan: &Scan| {
            let found = Reading::new(scan, &all, &facts).candidates(100.0);
            found.into_iter().map(|(found, need)| (found.clause(), need.lookups, need.reading)).collect::<Vec<_>>()
        };
        // The second join is one of other tables.
        let joins = vec![join("(p.movie = m.id)"), join("(m.id = o.id)"), join("(p.id > o.id)")];
        let joined = Scan { joins, filter: Some("(p.kind = $1)".to_owned()), ..part.clone() };
        let expected = [("(kind)", 1.0, 80.0), ("(movie, kind)", 4.0, 90.0), ("(movie)", 4.0, 90.0)];
        assert_eq!(found(&joined), expected.map(|(clause, lookups, reading)| (clause.to_owned(), lookups, reading)));

        let sorted = |keys: &[&str], rows: Option<f64>| Scan {
            sort_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            first: rows.map(|rows| First { rows, cost: 95.0 }),
            returned: 50.0,
            ..part.clone()
        };
        let clauses = |scan: &Scan| found(scan).into_iter().map(|(clause, ..)| clause).collect::<Vec<_>>();
        assert_eq!(found(&sorted(&["p.at DESC", "p.id DESC"], Some(10.0))), [("(at, id)".to_owned(), 1.0, 95.0)]);
        assert_eq!(clauses(&sorted(&["p.at DESC", "p.id"], Some(10.0))), ["(at desc, id)"]);
        assert_eq!(clauses(&sorted(&["p.at"], None)), [""; 0], "all rows are wanted");
        assert_eq!(clauses(&sorted(&["p.id", "p.at", "p.kind", "p.movie"], Some(10.0))), [""; 0], "too many keys");
        let by_kind = Scan { filter: joined.filter, ..sorted(&["p.at"], Some(10.0)) };
        assert_eq!(clauses(&by_kind), ["(kind, at)", "(kind)"]);
    }
}
