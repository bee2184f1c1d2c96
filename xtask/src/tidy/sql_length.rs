//! Rule `sql_length`: long SQL has a file of its own.

use super::{Report, Rule};
use crate::pieces::{PieceKind, pieces, tests_begin};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "sql_length",
    says: "static SQL of more than three lines stands in a .sql file beside the Rust file",
    check,
};

/// Most lines of SQL in a string.
const SQL_LINES_MAX: usize = 3;

/// Words that begin a statement.
const STATEMENTS: &[&str] = &["alter", "create", "delete", "do", "drop", "insert", "merge", "select", "update", "with"];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        if file.path.contains("/tests/") {
            continue;
        }
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text) {
            let lines = piece.text.trim().lines().count();
            let static_sql = piece.kind == PieceKind::Text
                && piece.line < tests
                && !piece.text.contains('{')
                && begins_statement(piece.text);
            if static_sql && lines > SQL_LINES_MAX {
                report.broken(
                    &file.path,
                    piece.line,
                    format!("{lines} lines of SQL, move them to a .sql file and include_str! it"),
                );
            }
        }
    }
}

fn begins_statement(text: &str) -> bool {
    // A line that ends in `\` continues on the next one; the backslash is not a word.
    let text = text.trim_start_matches(['\\', '\n', ' ']);
    let first = text.split_whitespace().next().unwrap_or_default();
    STATEMENTS.contains(&first.to_lowercase().as_str())
}
