//! Rule `limit`: limits have one home per crate.

use super::{Report, Rule};
use crate::pieces::tests_begin;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "limit", says: "constants whose names end like limits stand in their crate's limits.rs", check };

/// How the name of a limit ends: of queues, batches, bodies, retries and waits.
const SUFFIXES: &[&str] =
    &["_BYTES_MAX", "_ROWS_MAX", "_TRIES_MAX", "_QUEUE", "_LIMIT", "_MS", "_SECONDS", "_S", "_TIMEOUT", "_WAIT"];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let in_crate = file.path.starts_with("crates/") && file.path.contains("/src/");
        if !in_crate || file.path.ends_with("/src/limits.rs") {
            continue;
        }
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for (line, text) in file.lines().take_while(|(line, _)| *line < tests) {
            if let Some(name) = constant(text).filter(|name| is_limit(name)) {
                report.broken(&file.path, line, format!("{name} is a limit, move it to the crate's src/limits.rs"));
            }
        }
    }
}

/// The name of the constant that the line declares at the top level of its file.
fn constant(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub(super) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("const ")?.split(':').next()
}

fn is_limit(name: &str) -> bool {
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}
