//! The SQL that derives a read model's rows from its collection.

use millstream_model::KeyColumn;
use millstream_pg::{by_key, quote_identifier, quote_literal};
use millstream_store::{Column, Definition, Resolved};

/// The text of a column's value in a document.
pub(crate) fn text(column: &Column) -> String {
    let path: Vec<String> = column.path.iter().map(|segment| quote_literal(segment)).collect();
    format!("(stored.doc operator(pg_catalog.#>>) array[{}]::text[])", path.join(","))
}

/// Whether casts need a function of ours, which catches the exception for an invalid text. That is so before PostgreSQL
/// 16.
pub(crate) fn needs_caster(version_num: i32) -> bool {
    version_num < 160_000
}

/// A column's value, null if its text is not valid for the type. `caster` is the function that the type needs, if any.
/// Neither a function nor a `case` keeps a type's length, so the result is cast once more.
fn value(column: &Column, type_name: &str, caster: Option<&str>) -> String {
    let text = text(column);
    let Some(caster) = caster else {
        let literal = quote_literal(type_name);
        let valid = format!("pg_catalog.pg_input_is_valid({text}, {literal})");
        return format!("(case when {valid} then {text}::{type_name} end)::{type_name}");
    };
    format!("{caster}({text})::{type_name}")
}

/// The SQL that derives a model's rows.
#[derive(Debug, Clone)]
pub(crate) struct Derivation {
    /// The collection's table, qualified and quoted.
    table: String,
    key: Vec<String>,
    /// The typed columns and the expressions of their values.
    columns: Vec<(Column, String)>,
    /// The query for the rows, before and after what it reads.
    rows: [String; 2],
    /// The text of each index in the definition, and the clause that makes it.
    indexes: Vec<(String, String)>,
}

impl Derivation {
    /// As the definition says it, with its columns' types. Names are resolved by the session that runs it.
    pub(crate) fn asked(
        table: String,
        key: &[KeyColumn],
        definition: &Definition,
        types: &[String],
        caster: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let key = quoted(key);
        let columns = typed(&definition.columns, types, caster);
        let names: Vec<String> = columns.iter().map(|(column, _)| quote_identifier(&column.name)).collect();
        let values = columns.iter().zip(&names).map(|((_, value), name)| format!("{value} as {name}, "));
        let values: String = values.collect();
        let rest = definition.select.as_deref().unwrap_or("doc");
        let shown: Vec<&str> = key.iter().chain(&names).map(String::as_str).chain([rest]).collect();
        let condition = definition.condition.as_deref().unwrap_or("true");
        // A line break after each text of the definition ends a comment in it.
        let rows = [
            format!("select {}\n from (select {values}stored.* from ", shown.join(", ")),
            format!(" as stored) as stored where ({condition}\n)"),
        ];
        Self { table, key, columns, rows, indexes: Vec::new() }
    }

    /// As the model's owner published it. Every name is resolved, if the session finds names in `pg_catalog` alone.
    pub(crate) fn resolved(
        table: String,
        key: &[KeyColumn],
        resolved: &Resolved,
        caster: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let columns = typed(&resolved.definition.columns, &resolved.types, caster);
        let indexes = resolved.definition.indexes.iter().cloned().zip(resolved.indexes.iter().cloned()).collect();
        Self { table, key: quoted(key), columns, rows: resolved.rows.clone(), indexes }
    }

    /// The text of each index in the definition, and the clause that makes it.
    pub(crate) fn indexes(&self) -> &[(String, String)] {
        &self.indexes
    }

    /// The collection's table, qualified and quoted.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// The typed columns and the expressions of their values.
    pub(crate) fn columns(&self) -> &[(Column, String)] {
        &self.columns
    }

    /// The key's columns, quoted.
    pub(crate) fn key_columns(&self) -> &[String] {
        &self.key
    }

    /// Names of the key's columns, with commas between.
    pub(crate) fn key(&self) -> String {
        self.key.join(", ")
    }

    /// `left.KEY = right.KEY` for every column of the key.
    pub(crate) fn join(&self, left: &str, right: &str) -> String {
        let pairs: Vec<String> =
            self.key.iter().map(|key| format!("{left}.{key} operator(pg_catalog.=) {right}.{key}")).collect();
        pairs.join(" and ")
    }

    /// A condition by which the planner can only look the row `stored` up, for the key of the row `new`.
    pub(crate) fn look_up(&self, stored: &str, new: &str) -> String {
        by_key(stored, new, &self.key)
    }

    /// A query for the model's rows. `filter` follows `from TABLE as stored` and selects rows of the collection.
    pub(crate) fn rows(&self, filter: &str) -> String {
        self.rows_of(&format!("(select stored.* from {} as stored {filter})", self.table))
    }

    /// The query, which reads this in place of the collection's table.
    pub(crate) fn rows_of(&self, source: &str) -> String {
        let [before, after] = &self.rows;
        format!("{before}{source}{after}")
    }
}

fn quoted(key: &[KeyColumn]) -> Vec<String> {
    key.iter().map(|column| quote_identifier(&column.name)).collect()
}

/// Columns with the expressions of their values.
fn typed(columns: &[Column], types: &[String], caster: impl Fn(&str) -> Option<String>) -> Vec<(Column, String)> {
    let typed = |(column, type_name): (&Column, &String)| {
        (column.clone(), value(column, type_name, caster(type_name).as_deref()))
    };
    columns.iter().zip(types).map(typed).collect()
}

/// The ways to read the text of an index: as a list of columns, as an expression, as a whole clause.
pub(crate) fn index_clauses(text: &str) -> Vec<String> {
    let whole = text.trim_start().get(..6).is_some_and(|start| start.eq_ignore_ascii_case("using "));
    if whole {
        return vec![text.to_owned()];
    }
    let end = if text.contains("--") { "\n" } else { "" };
    vec![format!("({text}{end})"), format!("(({text}{end}))"), text.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;

    fn key(name: &str) -> KeyColumn {
        KeyColumn { name: name.into(), path: vec![name.into()], key_type: KeyType::Text }
    }

    #[test]
    fn columns_are_read_as_name_type_path() {
        let column: Column = "price:numeric(10,2)=offer.price".parse().unwrap();
        assert_eq!((column.name.as_str(), column.type_name.as_str()), ("price", "numeric(10,2)"));
        assert_eq!(column.path, ["offer", "price"]);
        for text in ["price", "price=a", "price:numeric", ":numeric=a", "a:=b", "a:text=", "a:text=b,c"] {
            assert!(text.parse::<Column>().is_err(), "{text}");
        }
    }

    #[test]
    fn rows_hold_key_columns_and_document() {
        let definition = Definition {
            columns: vec!["price:numeric=p".parse().unwrap()],
            condition: Some("price > 3".into()),
            ..Definition::default()
        };
        let caster = |kind: &str| Some(format!("to_{kind}"));
        let types = ["numeric".to_owned()];
        let derivation = Derivation::asked("t".into(), &[key("id"), key("at")], &definition, &types, caster);
        assert_eq!(
            derivation.rows("where true"),
            "select \"id\", \"at\", \"price\", doc\n from (select to_numeric((stored.doc operator(pg_catalog.#>>) \
             array['p']::text[]))::numeric as \"price\", stored.* from (select stored.* from t as stored where true) \
             as stored) as stored where (price > 3\n)"
        );
        assert_eq!(
            derivation.join("a", "b"),
            "a.\"id\" operator(pg_catalog.=) b.\"id\" and a.\"at\" operator(pg_catalog.=) b.\"at\""
        );
        let newer = Derivation::asked("t".into(), &[key("id")], &definition, &types, |_| None);
        assert!(newer.rows("").contains("pg_input_is_valid"), "{}", newer.rows(""));
    }

    #[test]
    fn the_order_of_columns_and_the_indexes_do_not_change_the_rows() {
        let made = |columns: &[&str], condition: Option<&str>, indexes: &[&str]| Definition {
            columns: columns.iter().map(|column| column.parse().unwrap()).collect(),
            condition: condition.map(str::to_owned),
            indexes: indexes.iter().map(|index| (*index).to_owned()).collect(),
            ..Definition::default()
        };
        let one = made(&["a:int=a", "b:text=b"], None, &["a"]);
        assert!(one.has_rows_of(&made(&["b:text=b", "a:int=a"], None, &[])));
        for other in [made(&["a:int=a"], None, &["a"]), made(&["a:int=c", "b:text=b"], None, &["a"])] {
            assert!(!one.has_rows_of(&other), "{other:?}");
        }
        assert!(!one.has_rows_of(&made(&["a:int=a", "b:text=b"], Some("a > 1"), &["a"])));
    }

    #[test]
    fn an_index_may_be_a_clause_a_list_or_an_expression() {
        assert_eq!(index_clauses("using gin (doc)"), ["using gin (doc)"]);
        assert_eq!(index_clauses("doc->>'a'")[..2], ["(doc->>'a')", "((doc->>'a'))"]);
        assert_eq!(index_clauses("a -- b")[0], "(a -- b\n)", "a comment ends with its line");
    }
}
