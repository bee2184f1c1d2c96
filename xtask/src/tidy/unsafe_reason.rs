//! Rule `unsafe_reason`: unsafe code says why it is sound.

use super::{Report, Rule};
use crate::pieces::{PieceKind, has_word, lines_of};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "unsafe_reason", says: "every `unsafe` stands under a `// SAFETY:` comment", check };

/// How a reason begins.
const REASON: &str = "// SAFETY:";

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let lines: Vec<&str> = file.text.lines().collect();
        for (line, code) in lines_of(&file.text, PieceKind::Code) {
            if has_word(code, "unsafe") && !reasoned(&lines, line) {
                let says = format!("unsafe without a reason, put `{REASON} ..` above it");
                report.broken(&file.path, line, says);
            }
        }
    }
}

/// Whether the comment right above the line (from 1) gives a reason.
fn reasoned(lines: &[&str], line: usize) -> bool {
    lines[..line - 1]
        .iter()
        .rev()
        .map(|above| above.trim_start())
        .take_while(|above| above.starts_with("//") || above.starts_with("#["))
        .any(|above| above.starts_with(REASON))
}
