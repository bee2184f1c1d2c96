//! Rule `heading`: the first line of a file says what it holds.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "heading",
    says: "the first line of a Rust file is `//! ` and one sentence that says what it holds",
    check,
};

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let first = file.text.lines().next().unwrap_or_default();
        let sentence = first.strip_prefix("//! ").unwrap_or_default();
        if sentence.trim().is_empty() {
            let says = "begin with `//! ` and one sentence that says what the file holds";
            report.broken(&file.path, 1, says);
        }
    }
}
