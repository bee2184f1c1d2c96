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

#[cfg(test)]
mod tests {
    use super::*;

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
