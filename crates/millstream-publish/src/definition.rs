//! The SQL that derives a read model's rows from its collection.

use millstream_model::KeyColumn;
use millstream_pg::{by_key, quote_identifier, quote_literal};
use millstream_store::{Column, Definition};

/// Built-in types of PostgreSQL, as people write them, with commas between.
const OWN_TYPES: &str = "bigint, bool, boolean, bytea, char, character, character varying, cidr, date, decimal, \
    double precision, float, float4, float8, inet, int, int2, int4, int8, integer, interval, json, jsonb, macaddr, \
    numeric, real, smallint, text, time, timestamp, timestamp with time zone, timestamp without time zone, \
    timestamptz, uuid, varchar";

/// The text of a column's value in a document.
pub(crate) fn text(column: &Column) -> String {
    let path: Vec<String> = column.path.iter().map(|segment| quote_literal(segment)).collect();
    format!("(stored.doc operator(pg_catalog.#>>) array[{}]::text[])", path.join(","))
}

/// Whether the cast to a column's type needs a function of ours, which catches the exception for an invalid text. That
/// is so before PostgreSQL 16. It is also so in a materialized view for types that are not built in, because a refresh
/// does not find them by their names.
pub(crate) fn needs_caster(column: &Column, version_num: i32, materialized: bool) -> bool {
    let mut words = column.type_name.to_ascii_lowercase();
    while let Some((open, close)) = words.find('(').zip(words.find(')')).filter(|(open, close)| open < close) {
        words.replace_range(open..=close, " ");
    }
    let words = words.trim_end_matches(['[', ']']).split_whitespace().collect::<Vec<_>>().join(" ");
    version_num < 160_000 || materialized && !OWN_TYPES.split(", ").any(|own| own == words)
}

/// A column's value, null if its text is not valid for the type. `caster` is the function that the type needs, if any.
/// Neither a function nor a `case` keeps a type's length, so the result is cast once more.
fn value(column: &Column, caster: Option<&str>) -> String {
    let (text, type_name) = (text(column), &column.type_name);
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
    rest: String,
    condition: String,
}

impl Derivation {
    pub(crate) fn new(
        table: String,
        key: &[KeyColumn],
        definition: &Definition,
        version_num: i32,
        caster: impl Fn(&str) -> String,
    ) -> Self {
        let typed = |column: &Column| {
            let needs_caster = needs_caster(column, version_num, definition.materialized);
            (column.clone(), value(column, needs_caster.then(|| caster(&column.type_name)).as_deref()))
        };
        Self {
            table,
            key: key.iter().map(|column| quote_identifier(&column.name)).collect(),
            columns: definition.columns.iter().map(typed).collect(),
            rest: definition.select.clone().unwrap_or_else(|| "doc".into()),
            condition: definition.condition.clone().unwrap_or_else(|| "true".into()),
        }
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

    /// A query for the model's rows. `filter` follows `from TABLE as stored` and selects rows of the collection. A line
    /// break after each text of the definition ends a comment in it.
    pub(crate) fn rows(&self, filter: &str) -> String {
        let list = |first: &[String], more: &[String], last: &str| {
            let all: Vec<&str> = first.iter().chain(more).map(String::as_str).chain([last]).collect();
            all.join(", ")
        };
        let named = |(column, value): &(Column, String)| (quote_identifier(&column.name), value.clone());
        let (names, values): (Vec<String>, Vec<String>) = self.columns.iter().map(named).unzip();
        let values: Vec<String> = names.iter().zip(values).map(|(name, value)| format!("{value} as {name}")).collect();
        let inner = list(&[], &values, "stored.*");
        format!(
            "select {}\n from (select {inner} from {} as stored {filter}) as stored where ({}\n)",
            list(&self.key, &names, &self.rest),
            self.table,
            self.condition
        )
    }
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
        let derivation =
            Derivation::new("t".into(), &[key("id"), key("at")], &definition, 150_000, |kind| format!("to_{kind}"));
        assert_eq!(
            derivation.rows("where true"),
            "select \"id\", \"at\", \"price\", doc\n from (select to_numeric((stored.doc operator(pg_catalog.#>>) \
             array['p']::text[]))::numeric as \"price\", stored.* from t as stored where true) as stored \
             where (price > 3\n)"
        );
        assert_eq!(
            derivation.join("a", "b"),
            "a.\"id\" operator(pg_catalog.=) b.\"id\" and a.\"at\" operator(pg_catalog.=) b.\"at\""
        );
        let newer = Derivation::new("t".into(), &[key("id")], &definition, 160_000, str::to_owned);
        assert!(newer.rows("").contains("pg_input_is_valid"), "{}", newer.rows(""));
    }

    #[test]
    fn since_16_only_materialized_views_of_user_types_need_casters() {
        let needs = |type_name: &str, version_num, materialized| {
            let column: Column = format!("x:{type_name}=x").parse().unwrap();
            needs_caster(&column, version_num, materialized)
        };
        for own in ["int", "NUMERIC (10, 2)", "timestamp(3) with time zone", "varchar(10)[]", "double  precision"] {
            assert!(!needs(own, 160_000, true) && needs(own, 150_000, false), "{own}");
        }
        for other in ["mood", "public.text", "\"int\"", "geometry(Point)", "mood[]", "x)("] {
            assert!(needs(other, 180_000, true) && !needs(other, 180_000, false), "{other}");
        }
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
