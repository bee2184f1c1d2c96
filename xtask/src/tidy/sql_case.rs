//! Rule `sql_case`: SQL is written in lower case.

use super::{Report, Rule};
use crate::pieces::{PieceKind, has_word, pieces};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule { name: "sql_case", says: "SQL is in lower case", check };

/// Keywords looked for in `.sql` files.
const KEYWORDS: &[&str] = &[
    "ALTER",
    "AND",
    "AS",
    "BEGIN",
    "BY",
    "COMMIT",
    "CONFLICT",
    "COPY",
    "CREATE",
    "DEFAULT",
    "DELETE",
    "DROP",
    "EXISTS",
    "FROM",
    "GRANT",
    "INDEX",
    "INSERT",
    "INTO",
    "JOIN",
    "KEY",
    "NOT",
    "NULL",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "REFERENCES",
    "RETURNING",
    "REVOKE",
    "SCHEMA",
    "SELECT",
    "SET",
    "TABLE",
    "TEMP",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "WHERE",
    "WITH",
];

/// Words that begin a statement; a string of Rust code that begins so is SQL.
const STATEMENTS: &[&str] = &[
    "ALTER", "COMMENT", "COPY", "CREATE", "DELETE", "DROP", "EXPLAIN", "GRANT", "INSERT", "REVOKE", "SELECT", "SET",
    "SHOW", "TRUNCATE", "UPDATE", "VACUUM", "WITH",
];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("sql") {
        for (line, text) in file.lines() {
            let code = text.split("--").next().unwrap_or_default();
            if let Some(word) = KEYWORDS.iter().find(|word| has_word(&unquoted(code), word)) {
                report.broken(&file.path, line, says(word));
            }
        }
    }
    for file in tree.with_extension("rs") {
        for piece in pieces(&file.text) {
            if piece.kind == PieceKind::Text
                && let Some(word) = statement(piece.text)
            {
                report.broken(&file.path, piece.line, says(word));
            }
        }
    }
}

/// The upper-case word that begins a statement. A command tag such as `INSERT 0 5` is none.
fn statement(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let (first, rest) = text.split_once(char::is_whitespace)?;
    let next = rest.trim_start().chars().next()?;
    let tag = next.is_ascii_digit();
    STATEMENTS.iter().find(|word| **word == first && !tag).copied()
}

/// The line without what stands between quotes.
fn unquoted(line: &str) -> String {
    line.split(['\'', '"']).step_by(2).collect::<Vec<_>>().join(" ")
}

fn says(word: &str) -> String {
    format!("{word} is in upper case, write SQL in lower case")
}
