//! The SQL that derives a read model's rows from its collection.

use crate::column_type::value;
use millstream_model::{DocumentForm, KeyColumn};
use millstream_pg::{by_key, quote_identifier};
use millstream_store::{Column, Definition, Resolved, whole_document};

/// The SQL that derives a model's rows.
#[derive(Debug, Clone)]
pub(crate) struct Derivation {
    /// The collection's table, qualified and quoted.
    table: String,
    key: Vec<String>,
    /// The document of a row, as SQL over `stored`.
    document: String,
    /// The typed columns and the expressions of their values.
    columns: Vec<(Column, String)>,
    /// The query for the rows, before and after what it reads.
    rows: [String; 2],
    /// Whether that is a query of the user's own, which names itself what it reads.
    is_query: bool,
    /// The text of each index in the definition, and the clause that makes it.
    indexes: Vec<(String, String)>,
}

impl Derivation {
    /// As the definition says it, with its columns' types, over these columns of the collection, given quoted. Names are
    /// resolved by the session that runs it.
    pub(crate) fn asked(
        table: String,
        (key, form): (&[KeyColumn], DocumentForm),
        definition: &Definition,
        types: &[String],
        source: &[String],
        caster: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let document = whole_document(form, key, STORED);
        let key = quoted(key);
        let columns = typed(&definition.columns, types, caster);
        let values: Vec<&str> = columns.iter().map(|(_, value)| value.as_str()).collect();
        let rows = asked_rows(&key, definition, &values, source, &document);
        Self { table, key, document, columns, rows, is_query: false, indexes: Vec::new() }
    }

    /// As the model's owner published it. Every name is resolved, if the session finds names in `pg_catalog` alone.
    pub(crate) fn resolved(
        table: String,
        (key, form): (&[KeyColumn], DocumentForm),
        resolved: &Resolved,
        caster: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let columns = typed(&resolved.definition.columns, &resolved.types, caster);
        let indexes = resolved.definition.indexes.iter().cloned().zip(resolved.indexes.iter().cloned()).collect();
        let is_query = resolved.definition.query.is_some();
        let document = whole_document(form, key, STORED);
        let key = match is_query {
            true => resolved.definition.unique.iter().map(|column| quote_identifier(column)).collect(),
            false => quoted(key),
        };
        Self { table, key, document, columns, rows: resolved.rows.clone(), is_query, indexes }
    }

    /// The document of a row of the collection, as SQL over `stored`.
    pub(crate) fn document(&self) -> &str {
        &self.document
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

    /// Whether the rows are those of a query of the user's own.
    pub(crate) fn is_query(&self) -> bool {
        self.is_query
    }

    /// The key's columns, quoted. Of a query, the columns that tell its rows apart.
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

    /// A query for the model's rows. `filter` follows `from TABLE as stored` and selects rows of the collection. A query
    /// of the user's own takes none.
    pub(crate) fn rows(&self, filter: &str) -> String {
        self.rows_of(&format!("(select stored.* from {} as stored {filter})", self.table))
    }

    /// The query, which reads this in place of the collection's table.
    pub(crate) fn rows_of(&self, source: &str) -> String {
        let [before, after] = &self.rows;
        if self.is_query { before.clone() } else { format!("{before}{source}{after}") }
    }
}

/// The alias of what is read in the place of the collection's table.
const STORED: &str = "stored";

/// The query for the rows of a definition with these values of its columns, before and after what it reads. If the table
/// does not hold whole documents, they are made first, so that everything in the definition sees them. `document` is how.
fn asked_rows(
    key: &[String],
    definition: &Definition,
    values: &[&str],
    source: &[String],
    document: &str,
) -> [String; 2] {
    let names: Vec<String> = definition.columns.iter().map(|column| quote_identifier(&column.name)).collect();
    let values: String = values.iter().zip(&names).map(|(value, name)| format!("{value} as {name}, ")).collect();
    let rest = definition.select.as_deref().unwrap_or("doc");
    let shown: Vec<&str> = key.iter().chain(&names).map(String::as_str).chain([rest]).collect();
    let condition = definition.condition.as_deref().unwrap_or("true");
    let plain: Vec<String> = source.iter().map(|column| format!("{STORED}.{column}")).collect();
    let plain_document = format!("{STORED}.doc");
    let (mut before, mut after) = (String::new(), String::new());
    if document != plain_document {
        let whole = format!("{document} as doc");
        let made: Vec<&str> =
            plain.iter().map(|column| if *column == plain_document { &*whole } else { column }).collect();
        before = format!("(select {} from ", made.join(", "));
        after = format!(" as {STORED})");
    }
    // A line break after each text of the definition ends a comment in it.
    [
        format!("select {}\n from (select {values}{} from {before}", shown.join(", "), plain.join(", ")),
        format!("{after} as stored) as stored where ({condition}\n)"),
    ]
}

/// A query for the rows of a definition in which all typed columns are null, so that all that it casts is in the user's own
/// texts.
pub(crate) fn rows_of_given(
    table: &str,
    (key, form): (&[KeyColumn], DocumentForm),
    definition: &Definition,
    types: &[String],
    source: &[String],
) -> String {
    let values: Vec<String> = types.iter().map(|type_name| format!("null::{type_name}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let document = whole_document(form, key, STORED);
    let [before, after] = asked_rows(&quoted(key), definition, &values, source, &document);
    format!("{before}{table}{after}")
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
        let source = ["\"id\"", "\"at\"", "doc"].map(str::to_owned);
        let keys = [key("id"), key("at")];
        let (all, one) = ((&keys[..], DocumentForm::Whole), (&keys[..1], DocumentForm::Whole));
        let derivation = Derivation::asked("t".into(), all, &definition, &types, &source, caster);
        assert_eq!(
            derivation.rows("where true"),
            "select \"id\", \"at\", \"price\", doc\n from (select to_numeric((stored.doc operator(pg_catalog.#>>) \
             array['p']::text[]))::numeric as \"price\", stored.\"id\", stored.\"at\", stored.doc from (select \
             stored.* from t as stored where true) as stored) as stored where (price > 3\n)"
        );
        assert_eq!(
            derivation.join("a", "b"),
            "a.\"id\" operator(pg_catalog.=) b.\"id\" and a.\"at\" operator(pg_catalog.=) b.\"at\""
        );
        assert_eq!(
            rows_of_given("t", one, &definition, &types, &source),
            "select \"id\", \"price\", doc\n from (select null::numeric as \"price\", stored.\"id\", stored.\"at\", \
             stored.doc from t as stored) as stored where (price > 3\n)"
        );
        let newer = Derivation::asked("t".into(), one, &definition, &types, &source, |_| None);
        assert!(newer.rows("").contains("pg_input_is_valid"), "{}", newer.rows(""));
    }

    #[test]
    fn documents_are_made_whole_before_the_definition_sees_them() {
        let definition = Definition { condition: Some("doc ->> 'id' > 'a'".into()), ..Definition::default() };
        let (keys, source) = ([key("id"), key("at")], ["\"id\"", "\"at\"", "doc"].map(str::to_owned));
        let without = (&keys[..], DocumentForm::WithoutKey);
        let derivation = Derivation::asked("t".into(), without, &definition, &[], &source, |_| None);
        let document = "(case pg_catalog.jsonb_typeof(stored.doc) when 'object' then \
                        pg_catalog.jsonb_build_object('id'::pg_catalog.text, stored.\"id\", 'at'::pg_catalog.text, \
                        stored.\"at\") operator(pg_catalog.||) stored.doc else stored.doc end)";
        assert_eq!(derivation.document(), document);
        assert_eq!(
            derivation.rows("where true"),
            format!(
                "select \"id\", \"at\", doc\n from (select stored.\"id\", stored.\"at\", stored.doc from (select stored.\"id\", \
                 stored.\"at\", {document} as doc from (select stored.* from t as stored where true) as stored) as stored) \
                 as stored where (doc ->> 'id' > 'a'\n)"
            )
        );
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
    fn the_unique_columns_of_a_query_do_not_change_its_rows() {
        let made = |query: &str, unique: &[&str]| Definition {
            materialized: true,
            query: Some(query.into()),
            unique: unique.iter().map(|column| (*column).to_owned()).collect(),
            ..Definition::default()
        };
        let shown = made("select 1 as a", &["a"]);
        assert!(shown.has_rows_of(&made("select 1 as a", &[])) && shown.has_rows_of(&made("select 1 as a", &["b"])));
        for other in [made("select 2 as a", &["a"]), Definition::default()] {
            assert!(!shown.has_rows_of(&other), "{other:?}");
        }
        assert!(shown.is_recorded() && !Definition { query: None, ..shown }.is_recorded());
    }

    #[test]
    fn a_query_is_read_as_it_is() {
        let definition = Definition { query: Some("q".into()), unique: vec!["a\"b".into()], ..Definition::default() };
        let resolved = Resolved {
            definition,
            table_oid: 1,
            table: "t".parse().unwrap(),
            types: Vec::new(),
            rows: ["select 1".into(), String::new()],
            indexes: Vec::new(),
            schemas: Vec::new(),
        };
        let keys = [key("id")];
        let derivation = Derivation::resolved("t".into(), (&keys, DocumentForm::Whole), &resolved, |_| None);
        assert_eq!((derivation.rows("where true").as_str(), derivation.key().as_str()), ("select 1", "\"a\"\"b\""));
    }

    #[test]
    fn an_index_may_be_a_clause_a_list_or_an_expression() {
        assert_eq!(index_clauses("using gin (doc)"), ["using gin (doc)"]);
        assert_eq!(index_clauses("doc->>'a'")[..2], ["(doc->>'a')", "((doc->>'a'))"]);
        assert_eq!(index_clauses("a -- b")[0], "(a -- b\n)", "a comment ends with its line");
    }
}
