//! An index as the catalog defines it.

use super::sql::Sql;
use crate::limits::EXPLAINED_INDEXES_MAX;
use millstream_pg::Error;
use tokio_postgres::{GenericClient, Row};

/// An index that a plan may use.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) method: String,
    /// What follows the table's name in `create index`.
    pub(super) clause: String,
    pub(super) keys: Vec<Key>,
    /// The operators by which its first key finds rows, as the catalog says.
    pub(super) operators: Vec<String>,
    /// Its first key finds nulls, and what is not null.
    pub(super) finds_nulls: bool,
    /// The index holds only the rows for which this is true.
    pub(super) predicate: Option<Sql>,
}

/// A key of an index.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) expression: Sql,
    pub(super) type_name: String,
    /// Its collation, as SQL, if the type has one.
    pub(super) collation: Option<String>,
    pub(super) class: String,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

impl Key {
    /// Its expression as the report shows it.
    pub(super) fn shown(&self) -> String {
        self.expression.tidy().text().to_owned()
    }
}

impl Definition {
    /// The indexes of a table.
    pub(super) async fn list(client: &impl GenericClient, table_oid: u32) -> Result<Vec<Self>, Error> {
        let rows = client.query(include_str!("definition.sql"), &[&table_oid]).await?;
        rows.iter().take(EXPLAINED_INDEXES_MAX).map(Self::read).collect()
    }

    /// An index of one key that only the planner knows. Whatever it looks up, it looks up by that key.
    pub(super) fn hypothetical(name: String, clause: &str) -> Self {
        let predicate = Sql::new(clause).since_word("where");
        Self {
            name,
            method: String::new(),
            clause: clause.to_owned(),
            keys: Vec::new(),
            operators: Vec::new(),
            finds_nulls: false,
            predicate: predicate.map(|text| Sql::new(text.trim_start_matches("where"))),
        }
    }

    fn read(row: &Row) -> Result<Self, Error> {
        let types: Vec<String> = row.try_get("types")?;
        let collations: Vec<Option<String>> = row.try_get("collations")?;
        let classes: Vec<String> = row.try_get("classes")?;
        let options: Vec<i16> = row.try_get("options")?;
        let expressions: Vec<String> = row.try_get("keys")?;
        let key = |(n, text): (usize, &String)| Key {
            expression: Sql::new(text).bare(),
            type_name: types.get(n).cloned().unwrap_or_default(),
            collation: collations.get(n).cloned().flatten(),
            class: classes.get(n).cloned().unwrap_or_default(),
            // Bits of `pg_index.indoption`: catalog/pg_index.h.
            descending: options.get(n).is_some_and(|bits| bits & 1 != 0),
            nulls_first: options.get(n).is_some_and(|bits| bits & 2 != 0),
        };
        Ok(Self {
            name: row.try_get("name")?,
            method: row.try_get("method")?,
            clause: clause(&Sql::new(row.try_get("definition")?)),
            keys: expressions.iter().enumerate().map(key).collect(),
            operators: row.try_get("operators")?,
            finds_nulls: row.try_get("finds_nulls")?,
            predicate: row.try_get::<_, Option<String>>("predicate")?.map(|text| Sql::new(&text).bare()),
        })
    }

    /// Whether it is a B-tree, which serves a condition on its first key.
    pub(super) fn is_ordered(&self) -> bool {
        self.method == "btree"
    }

    /// Its first `keys` keys, as `order by` expects them.
    pub(super) fn order(&self, keys: usize) -> String {
        let one = |key: &Key| {
            let direction = if key.descending { " desc" } else { "" };
            let nulls = match (key.descending, key.nulls_first) {
                (false, true) => " nulls first",
                (true, false) => " nulls last",
                _ => "",
            };
            format!("{}{direction}{nulls}", key.shown())
        };
        self.keys.iter().take(keys).map(one).collect::<Vec<_>>().join(", ")
    }
}

/// What follows the table's name.
fn clause(definition: &Sql) -> String {
    definition.since_word("USING").unwrap_or_default()
}

/// Whether an index with this definition is the one that a clause would make, but for its name.
pub(crate) fn is_defined_as(definition: &str, wanted: &str) -> bool {
    let words = |clause: &str| {
        let sql = Sql::new(clause).tidy();
        let is_bracket = |piece: &&str| matches!(*piece, "(" | ")");
        let folded = |piece: &str| if piece.starts_with(['"', '\'']) { piece.to_owned() } else { piece.to_lowercase() };
        let words: Vec<String> = sql.pieces().filter(|piece| !is_bracket(piece)).map(folded).collect();
        // A B-tree need not be named.
        let is_named = words.starts_with(&["using".to_owned(), "btree".to_owned()]);
        if is_named { words[2..].to_vec() } else { words }
    };
    words(&clause(&Sql::new(definition))) == words(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_known_in_the_words_of_the_server() {
        let (make, using) = ("create index i".to_uppercase(), "using".to_uppercase());
        let defined =
            |clause: &str, wanted: &str| is_defined_as(&format!("{make} on public.t {using} {clause}"), wanted);
        assert!(defined("btree (a, b)", "(a, b)") && defined("btree (lower(a))", "((lower(a)))"));
        assert!(defined("btree (a) WHERE (b IS NULL)", "(a) where b IS NULL"));
        assert!(defined("btree (a) WHERE (b = 'X'::text)", "(a) where b = 'X'"));
        assert!(
            defined("gin (doc)", "using gin (doc)") && defined("btree (a text_pattern_ops)", "(a text_pattern_ops)")
        );
        for other in ["(a, b)", "(a) where b IS NULL", "(a desc)", "using gin (a)", "(\"A\")"] {
            assert!(!defined("btree (a)", other), "{other}");
        }
    }

    #[test]
    fn a_hypothetical_index_may_hold_a_part_of_the_rows() {
        let one = |clause: &str| Definition::hypothetical("i".to_owned(), clause);
        let predicate = one("(lower(mac)) where n <> 3").predicate;
        assert_eq!(predicate.as_ref().map(Sql::text), Some("n <> 3"));
        assert!(one("(\"where\")").predicate.is_none() && !one("(a)").is_ordered());
    }

    #[test]
    fn a_clause_is_what_follows_the_tables_name() {
        let text = "\"a USING b\" ON ONLY s.\"USING\" USING btree (lower(\"USING\")) WHERE (a > 1)";
        assert_eq!(clause(&Sql::new(text)), "USING btree (lower(\"USING\")) WHERE (a > 1)");
    }
}
