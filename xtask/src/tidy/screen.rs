//! Rule `screen`: one file of the program writes to stdout and stderr.

use super::{Report, Rule};
use crate::pieces::{PieceKind, has_word, pieces, tests_begin};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "screen",
    says: "outside tests, only screen.rs of the program, and xtask, open stdout and stderr",
    check,
};

/// What may open them.
const ALLOWED: &[&str] = &[
    "crates/millstream/src/screen.rs",
    // `/dev/stdout` as the place of a file.
    "crates/millstream-host/src/target_file.rs",
    "crates/millstream-testkit/",
    "xtask/",
];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        if !file.path.contains("/src/") || ALLOWED.iter().any(|one| file.path.starts_with(one)) {
            continue;
        }
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text).iter().filter(|piece| piece.kind == PieceKind::Code) {
            for (at, module) in piece.text.match_indices("io::") {
                let line = piece.line + piece.text[..at].matches('\n').count();
                if line < tests && names_output(&piece.text[at + module.len()..]) {
                    let says =
                        "prints past the program's writer, use crate::screen, which shows what steers a terminal";
                    report.broken(&file.path, line, says);
                }
            }
        }
    }
}

/// Whether the path after `io::` names `stdout` or `stderr`, alone or in braces.
fn names_output(rest: &str) -> bool {
    let end = if rest.starts_with('{') { rest.find('}') } else { rest.find(|c: char| !c.is_alphanumeric()) };
    let named = &rest[..end.unwrap_or(rest.len())];
    has_word(named, "stdout") || has_word(named, "stderr")
}
