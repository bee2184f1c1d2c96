//! Typed columns of a collection: generated columns, which PostgreSQL fills from the documents.
//!
//! The table itself remembers them: [`TypedColumn::read`] knows the expressions that [`TypedColumn::generated`] makes. So
//! they outlive our schema, and a column that somebody adds with the same expression is no other.

use crate::definition::{Column, column_name_text};
use crate::error::Error;
use millstream_model::limits::IDENTIFIER_BYTES_MAX;
use millstream_model::{is_reserved_column, path_text};
use millstream_pg::{fill, json_rows, quote_identifier, quote_literal};
use serde::{Deserialize, Serialize};
use std::fmt;
use tokio_postgres::GenericClient;

/// A typed column of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedColumn {
    /// Its name.
    pub name: String,
    /// Path of its value in the document, as for `#>>`.
    pub path: Vec<String>,
    kind: &'static ColumnKind,
}

/// A type that a typed column of a collection can have.
#[derive(Debug)]
struct ColumnKind {
    /// Its name, as we print it.
    name: &'static str,
    /// Its other names.
    others: &'static [&'static str],
    /// As the server prints it.
    printed: &'static str,
    cast: Cast,
}

/// What makes a text a value of a type.
#[derive(Debug)]
enum Cast {
    /// It is one.
    Nothing,
    /// The server's own cast.
    Own,
    /// An expression of functions that are immutable, where the server's own cast depends on settings or the clock.
    Expression(fn(&str) -> String),
}

/// What a text is that an expression of ours refuses, as the message of the server's error ends.
const REFUSED_TIME: &str = " is no RFC 3339 ";

/// Stands for the text in an expression of ours until the expression is on one line.
const TEXT_PLACE: &str = "\u{1}";

/// Every type, in the order of the help text.
static KINDS: &[ColumnKind] = &[
    ColumnKind { name: "text", others: &[], printed: "text", cast: Cast::Nothing },
    ColumnKind { name: "bigint", others: &["int8"], printed: "bigint", cast: Cast::Own },
    ColumnKind { name: "integer", others: &["int", "int4"], printed: "integer", cast: Cast::Own },
    ColumnKind { name: "numeric", others: &["decimal"], printed: "numeric", cast: Cast::Own },
    ColumnKind { name: "double precision", others: &["float8", "float"], printed: "double precision", cast: Cast::Own },
    ColumnKind { name: "boolean", others: &["bool"], printed: "boolean", cast: Cast::Own },
    ColumnKind { name: "uuid", others: &[], printed: "uuid", cast: Cast::Own },
    ColumnKind { name: "jsonb", others: &[], printed: "jsonb", cast: Cast::Own },
    ColumnKind {
        name: "timestamptz",
        others: &["timestamp with time zone"],
        printed: "timestamp with time zone",
        cast: Cast::Expression(|text| {
            let Time { usual, whole, clock } = Time::of(text);
            fill!(include_str!("typed_timestamptz.sql"), text, usual, whole, clock)
        }),
    },
    ColumnKind {
        name: "timestamp",
        others: &["timestamp without time zone"],
        printed: "timestamp without time zone",
        cast: Cast::Expression(|text| {
            let Time { usual, whole, clock } = Time::of(text);
            fill!(include_str!("typed_timestamp.sql"), text, usual, whole, clock)
        }),
    },
    ColumnKind {
        name: "date",
        others: &[],
        printed: "date",
        cast: Cast::Expression(|text| fill!(include_str!("typed_date.sql"), text)),
    },
];

/// What reads a time in RFC 3339, as SQL over its text.
///
/// A match of a regular expression takes two microseconds, longer than all the rest. So it is left to times with a part of
/// a second or an offset. Of those without, the casts refuse what passes here and is no time, such as a month of `-1`.
struct Time {
    /// Whether a text of the usual length and with the usual separators holds digits between them, and an hour.
    usual: String,
    /// Date and time of day in whole seconds.
    whole: String,
    /// The same with the part of a second.
    clock: String,
}

impl Time {
    fn of(text: &str) -> Self {
        let whole = fill!(include_str!("typed_whole.sql"), text);
        let clock = fill!(include_str!("typed_clock.sql"), text, whole);
        Self { usual: fill!(include_str!("typed_usual.sql"), text), whole, clock }
    }
}

impl PartialEq for ColumnKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ColumnKind {}

impl TypedColumn {
    /// A column, if a collection can have it.
    ///
    /// # Errors
    /// [`Error::Refused`] for a type or a name that it cannot have.
    pub fn new(column: Column) -> Result<Self, Error> {
        let Column { name, type_name, path } = column;
        let words: Vec<String> = type_name.split_whitespace().map(str::to_lowercase).collect();
        let spelled = words.join(" ");
        let found = KINDS.iter().find(|kind| kind.name == spelled || kind.others.contains(&spelled.as_str()));
        let Some(kind) = found else {
            let problem = format!("column {name}: a typed column of a collection cannot be {type_name}");
            let hint = format!("choose one of {}; a read model takes any type (millstream publish)", type_names());
            return Err(Error::refused(problem, hint));
        };
        if let Some(problem) = column_name_problem(&name) {
            let hint = "give it another name, as in other_name:TYPE=PATH";
            return Err(Error::refused(format!("a column cannot be named \"{name}\": {problem}"), hint));
        }
        Ok(Self { name, path, kind })
    }

    /// The column of a table that has this generation expression, as the server prints it; `None` if it is not one that
    /// we would have made.
    pub fn read(name: &str, printed_type: &str, expression: &str) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.printed == printed_type)?;
        let (path, text) = printed_path(expression)?;
        let is_ours = match kind.cast {
            Cast::Nothing => expression == text,
            Cast::Own => expression == format!("({text})::{printed_type}"),
            Cast::Expression(_) => expression.contains(REFUSED_TIME),
        };
        is_ours.then(|| Self { name: name.to_owned(), path, kind })
    }

    /// The name of its type, as we print it.
    pub fn type_name(&self) -> &'static str {
        self.kind.name
    }

    /// The same column for a read model.
    pub fn column(&self) -> Column {
        Column { name: self.name.clone(), type_name: self.kind.name.to_owned(), path: self.path.clone() }
    }

    /// Its definition in `create table` or behind `add column`.
    pub fn generated(&self) -> String {
        let (name, value) = (quote_identifier(&self.name), self.value("doc"));
        format!("{name} {} generated always as ({value}) stored", self.kind.printed)
    }

    /// Its value, as SQL over a document.
    pub fn value(&self, document: &str) -> String {
        let names: Vec<String> = self.path.iter().map(|name| quote_literal(name)).collect();
        // Of one member, `->>` is faster than a path.
        let text = match names.as_slice() {
            [name] => format!("({document} ->> {name})"),
            names => format!("({document} #>> array[{}])", names.join(", ")),
        };
        match self.kind.cast {
            Cast::Nothing => text,
            Cast::Own => format!("{text}::{}", self.kind.printed),
            Cast::Expression(value) => {
                // On one line, so that a statement with it can be pasted. What the path holds stays as it is.
                let words = value(TEXT_PLACE);
                let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("({})", line.replace(TEXT_PLACE, &text))
            }
        }
    }
}

/// As `load --column` takes it.
impl fmt::Display for TypedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", column_name_text(&self.name), self.kind.name, path_text(&self.path))
    }
}

impl std::str::FromStr for TypedColumn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::new(text.parse()?)
    }
}

/// Names of the types, with commas.
fn type_names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

/// Why a typed column cannot have this name, as the end of a sentence.
pub fn column_name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        _ if is_reserved_column(name) => Some("the name is taken"),
        // PostgreSQL would cut it, so that two names could become one.
        _ if name.len() > IDENTIFIER_BYTES_MAX => Some("it is longer than 63 bytes"),
        _ if name.contains('\0') => Some("it holds a NUL character"),
        _ => None,
    }
}

/// A stored generated column of a table, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the server prints it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What generates it, as the server prints it.
    pub expression: String,
    /// Path of its value in the document, if it is a typed column.
    #[serde(default)]
    pub path: Option<Vec<String>>,
}

impl GeneratedColumn {
    /// The typed column that it is, if it is one.
    pub fn typed(&self) -> Option<TypedColumn> {
        TypedColumn::read(&self.name, &self.type_name, &self.expression)
    }

    /// The same with its path.
    pub(crate) fn with_path(self) -> Self {
        Self { path: self.typed().map(|typed| typed.path), ..self }
    }
}

/// A typed column as `load --column` takes it, any other by its name and type.
impl fmt::Display for GeneratedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.typed() {
            Some(typed) => typed.fmt(f),
            None => write!(f, "{} {}", self.name, self.type_name),
        }
    }
}

/// The typed columns of a table, in its order.
///
/// # Errors
/// The server's.
pub async fn typed_columns(client: &impl GenericClient, table_oid: u32) -> Result<Vec<TypedColumn>, Error> {
    let sql = include_str!("typed_columns.sql");
    let generated: Vec<GeneratedColumn> = json_rows(client, "a generated column", sql, &[&table_oid]).await?;
    Ok(generated.iter().filter_map(GeneratedColumn::typed).collect())
}

/// The path in the first text of a document that an expression takes, and that part of the expression in its brackets.
fn printed_path(expression: &str) -> Option<(Vec<String>, &str)> {
    let at = expression.find("(doc ")?;
    let taken = &expression[at + "(doc ".len()..];
    let (path, rest) = if let Some(name) = taken.strip_prefix("->> ") {
        let (name, rest) = printed_literal(name)?;
        (vec![name], rest)
    } else {
        let mut rest = taken.strip_prefix("#>> ARRAY[")?;
        let mut path = Vec::new();
        loop {
            let (name, after) = printed_literal(rest)?;
            path.push(name);
            match after.strip_prefix(", ") {
                Some(next) => rest = next,
                None => break (path, after.strip_prefix(']')?),
            }
        }
    };
    let rest = rest.strip_prefix(')')?;
    Some((path, &expression[at..expression.len() - rest.len()]))
}

/// The text of a literal of type text at the beginning, and what follows.
fn printed_literal(text: &str) -> Option<(String, &str)> {
    let (escapes, text) = match text.strip_prefix('E') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let body = text.strip_prefix('\'')?;
    let (mut literal, mut chars) = (String::new(), body.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let is_special = c == '\'' || c == '\\' && escapes;
        if is_special && chars.next_if(|(_, next)| *next == c).is_none() {
            return if c == '\'' { Some((literal, body[at + 1..].strip_prefix("::text")?)) } else { None };
        }
        literal.push(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str) -> TypedColumn {
        text.parse().expect("a column")
    }

    #[test]
    fn types_have_the_names_of_publish() {
        for (text, printed) in [
            ("a:int8=b", "a:bigint=b"),
            ("a:INTEGER=b.c", "a:integer=b.c"),
            ("a:double  precision=b", "a:double precision=b"),
            ("a:timestamp with time zone=b", "a:timestamptz=b"),
            ("a:timestamp=/b~1c", "a:timestamp=/b~1c"),
            ("a:text=b=c", "a:text=/\"b=c\""),
            ("a:text=/", "a:text=/"),
            ("\"dc:title\":text=/\"dc:title\"", "\"dc:title\":text=/\"dc:title\""),
            ("\"a=b\":int=a", "\"a=b\":integer=a"),
            ("\"say \"\"hi\"\"\":text=a", "\"say \"\"hi\"\"\":text=a"),
            ("\"a\":text=a", "a:text=a"),
            ("a b:text=a", "a b:text=a"),
        ] {
            assert_eq!(column(text).to_string(), printed);
            assert_eq!(column(&column(text).to_string()), column(text));
        }
        for (text, part) in [
            ("a:money=b", "cannot be money"),
            ("a:numeric(10,2)=b", "cannot be numeric(10,2)"),
            ("doc:text=b", "the name is taken"),
            ("xmin:text=b", "the name is taken"),
            ("a:text", "has no path"),
            ("a", "has no path"),
            ("a=b:text", "has no type"),
            ("\"a:text=b", "not closed"),
            ("\"a\"=b", "has no type"),
            ("\"\":text=b", "name, type and one path"),
        ] {
            let error = text.parse::<TypedColumn>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(column_name_problem(&"é".repeat(32)).is_some() && column_name_problem(&"é".repeat(31)).is_none());
    }

    #[test]
    fn columns_are_generated_from_the_document() {
        assert_eq!(column("n:text=n").generated(), "\"n\" text generated always as ((doc ->> 'n')) stored");
        assert_eq!(
            column("N:numeric=a.b'c").generated(),
            "\"N\" numeric generated always as ((doc #>> array['a', 'b''c'])::numeric) stored"
        );
        let times = ["timestamptz", "timestamp", "date"];
        for name in times {
            let value = column(&format!("at:{name}=at")).value("new.doc");
            assert!(value.contains("(new.doc ->> 'at')") && value.contains(REFUSED_TIME), "{value}");
            assert!(!value.contains(['\n', '\u{1}']) && value.contains("[Tt ]") == (name != "date"), "{value}");
        }
    }

    #[test]
    fn a_printed_expression_is_read_as_the_column_that_made_it() {
        for (printed_type, expression, expected) in [
            ("text", "(doc ->> 'a'::text)", Some("c:text=a")),
            ("bigint", "((doc ->> 'a'::text))::bigint", Some("c:bigint=a")),
            ("double precision", "((doc ->> 'a'::text))::double precision", Some("c:double precision=a")),
            ("numeric", "((doc #>> ARRAY['a'::text, 'b''c'::text]))::numeric", Some("c:numeric=a.b'c")),
            ("text", "(doc ->> E'a\\\\b'::text)", Some("c:text=a\\b")),
            ("text", "(doc ->> 'a\"::text)'::text)", Some("c:text=/\"a\"\"::text)\"")),
            (
                "date",
                "CASE WHEN ((doc ->> 'at'::text) ~ '^x$'::text) THEN d ELSE ' is no RFC 3339 date' END",
                Some("c:date=at"),
            ),
            // Others have made these.
            ("date", "make_date(((doc ->> 'y'::text))::integer, 1, 1)", None),
            ("text", "lower((doc ->> 'a'::text))", None),
            ("text", "((doc -> 'a'::text) ->> 'b'::text)", None),
            ("integer", "((doc ->> 'a'::text))::bigint", None),
            ("bigint", "(((doc ->> 'a'::text))::bigint + 1)", None),
            ("character varying(2)", "(doc ->> 'a'::text)", None),
            ("text", "(doc #>> '{a}'::text[])", None),
            ("text", "(doc ->> 'a", None),
            ("text", "doc", None),
        ] {
            let read = TypedColumn::read("c", printed_type, expression);
            assert_eq!(read.map(|column| column.to_string()).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn every_type_has_one_name() {
        let names: Vec<&str> = KINDS.iter().flat_map(|kind| kind.others.iter().copied().chain([kind.name])).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
