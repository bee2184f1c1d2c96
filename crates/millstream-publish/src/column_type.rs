//! The type of a typed column, and how a text of a document becomes a value of it.

use millstream_pg::quote_literal;
use millstream_store::Column;

/// Words for which the input of a type takes the time from the clock, alone or in a longer text. They stand for another
/// time at each refresh. To be matched without case.
pub(crate) const CLOCK_WORDS: &str = "(^|[^a-z])(now|today|tomorrow|yesterday)($|[^a-z])";

/// How the names of PostgreSQL's own types begin whose input may look at the clock, as `format_type` spells them. Types of
/// others have a cast function, which knows it.
const CLOCKED: &[&str] = &["date", "time", "tsmultirange", "tsrange", "tstz"];

/// A type, found in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnType {
    /// As in SQL, with its schema.
    pub(crate) sql: String,
    /// Whether PostgreSQL's own input functions read all of it. From 16 on they say that a text is not valid. Those of
    /// others may raise any error.
    pub(crate) is_soft: bool,
}

impl ColumnType {
    /// Whether casts need a function of ours, which catches the errors of the type's input.
    pub(crate) fn needs_caster(&self, version_num: i32) -> bool {
        version_num < 160_000 || !self.is_soft
    }
}

/// The text of a column's value in a document.
pub(crate) fn text(column: &Column) -> String {
    let path: Vec<String> = column.path.iter().map(|segment| quote_literal(segment)).collect();
    format!("(stored.doc operator(pg_catalog.#>>) array[{}]::text[])", path.join(","))
}

/// A column's value, null if its text is not valid for the type or follows the clock. `caster` is the function that the
/// type needs, if any. Neither a function nor a `case` keeps a type's length, so the result is cast once more.
pub(crate) fn value(column: &Column, type_name: &str, caster: Option<&str>) -> String {
    let text = text(column);
    let Some(caster) = caster else {
        let mut valid = format!("pg_catalog.pg_input_is_valid({text}, {})", quote_literal(type_name));
        if CLOCKED.iter().any(|start| type_name.starts_with(start)) {
            valid = format!("{} and {valid}", free_of_clock(&text));
        }
        return format!("(case when {valid} then {text}::{type_name} end)::{type_name}");
    };
    format!("{caster}({text})::{type_name}")
}

/// Whether a text has none of the words. An array, a range and a row may have escapes in them.
fn free_of_clock(text: &str) -> String {
    format!(
        "(pg_catalog.translate({text}, '\\\"', '') collate pg_catalog.\"C\") operator(pg_catalog.!~*) '{CLOCK_WORDS}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_with_a_clock_are_searched_for_its_words() {
        let searched = |kind: &str| {
            let column: Column = "at:text=at".parse().expect("a column");
            value(&column, kind, None).contains("tomorrow")
        };
        for kind in
            ["date", "date[]", "daterange", "time without time zone", "timestamp(0) with time zone[]", "tstzrange"]
        {
            assert!(searched(kind), "{kind}");
        }
        for kind in ["text", "tsvector", "tsquery", "numeric(10,2)", "uuid", "interval", "\"char\""] {
            assert!(!searched(kind), "{kind}");
        }
    }
}
