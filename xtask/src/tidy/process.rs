//! Rule `process`: one crate starts programs.

use super::{Report, Rule};
use crate::pieces::{PieceKind, has_word, pieces, tests_begin};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "process",
    says: "outside tests, only millstream-host and xtask start programs by the standard library or tokio",
    check,
};

/// Folders whose code may start programs. The testkit is for tests alone.
const ALLOWED: &[&str] = &["crates/millstream-host/", "crates/millstream-testkit/", "xtask/"];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        if !file.path.contains("/src/") || ALLOWED.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text).iter().filter(|piece| piece.kind == PieceKind::Code) {
            for (at, module) in piece.text.match_indices("process::") {
                let line = piece.line + piece.text[..at].matches('\n').count();
                if line < tests && names_command(&piece.text[at + module.len()..]) {
                    let says = "starts a program, use millstream_host::Command, which watches and ends it";
                    report.broken(&file.path, line, says);
                }
            }
        }
    }
}

/// Whether the path after `process::` names `Command`, alone or in braces.
fn names_command(rest: &str) -> bool {
    let end = if rest.starts_with('{') { rest.find('}') } else { rest.find(|c: char| !c.is_alphanumeric()) };
    has_word(&rest[..end.unwrap_or(rest.len())], "Command")
}
