//! Rule `sql_names`: our SQL names the functions of PostgreSQL by their schema.

use super::{Report, Rule};
use crate::pieces::{PieceKind, pieces, tests_begin};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "sql_names",
    says: "SQL calls pg_catalog.FUNCTION, because anybody may put another function into the search path",
    check,
};

/// Where SQL may run with the search path of the user. All sessions of the doctor have a path of their own.
const ROOMS: &[&str] = &[
    "crates/millstream-copy/src/",
    "crates/millstream-engine/src/",
    "crates/millstream-lab/src/",
    "crates/millstream-pg/src/",
    "crates/millstream-publish/src/",
    "crates/millstream-ranges/src/",
    "crates/millstream-store/src/",
    "crates/millstream/src/",
];

/// SQL that has a search path of its own: functions that set it, and the questions of the demo, which people read.
const SAFE: &[&str] = &[
    "crates/millstream-ranges/src/export/range_of.sql",
    "crates/millstream-store/src/schema.sql",
    "crates/millstream/src/demo/cities.sql",
    "crates/millstream/src/demo/telemetry.sql",
];

/// What looks like a call and is syntax.
const SYNTAX: &[&str] = &[
    "any", "array", "coalesce", "exists", "extract", "greatest", "in", "least", "nullif", "operator", "row", "values",
];

/// Words that begin a statement.
const STATEMENTS: &[&str] = &["alter", "create", "delete", "insert", "merge", "select", "update", "with"];

fn check(tree: &Tree, report: &mut Report) {
    let in_room = |path: &str| ROOMS.iter().any(|room| path.starts_with(room)) && !SAFE.contains(&path);
    for file in tree.with_extension("sql").filter(|file| in_room(&file.path)) {
        for (line, text) in file.lines() {
            let code = text.split("--").next().unwrap_or_default();
            for name in calls(&unquoted(code)) {
                report.broken(&file.path, line, says(name));
            }
        }
    }
    for file in tree.with_extension("rs").filter(|file| in_room(&file.path)) {
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text) {
            if piece.kind == PieceKind::Text && piece.line < tests && begins_statement(piece.text) {
                for name in calls(&unquoted(piece.text)) {
                    report.broken(&file.path, piece.line, says(name));
                }
            }
        }
    }
}

/// Names that a parenthesis follows at once, without a schema before them.
fn calls(code: &str) -> Vec<&str> {
    let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut found = Vec::new();
    for (end, _) in code.match_indices('(') {
        let begin = code[..end].rfind(|c| !of_name(c)).map_or(0, |before| before + 1);
        let name = &code[begin..end];
        let is_bare = !code[..begin].ends_with(['.', ':', '{', '}', '"', '$']);
        if is_bare && name.starts_with(|c: char| c.is_ascii_lowercase()) && !SYNTAX.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn begins_statement(text: &str) -> bool {
    let first = text.trim_start_matches(['\\', '\n', ' ', '(']).split_whitespace().next().unwrap_or_default();
    STATEMENTS.contains(&first)
}

/// The line without what stands between quotes.
fn unquoted(line: &str) -> String {
    line.split('\'').step_by(2).collect::<Vec<_>>().join(" ")
}

fn says(name: &str) -> String {
    format!("{name}() may be anybody's function, write pg_catalog.{name}()")
}
