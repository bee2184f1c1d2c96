//! Rule `verb`: files are nouns; what the program does are its commands.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "verb", says: "a file is named after a noun; verbs stand only under commands/", check };

/// Verbs that must not begin a file name. They are hardly ever nouns. Words that are both (`run`, `build`) and the
/// stages of the path (`decode`, `merge`, `write`) are allowed.
const VERBS: &[&str] = &[
    "apply",
    "collect",
    "compute",
    "connect",
    "convert",
    "create",
    "delete",
    "do",
    "encode",
    "execute",
    "fetch",
    "find",
    "get",
    "handle",
    "init",
    "initialize",
    "insert",
    "make",
    "parse",
    "prepare",
    "print",
    "read",
    "receive",
    "remove",
    "render",
    "resolve",
    "send",
    "setup",
    "update",
    "validate",
    "verify",
];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let named = file.path.contains("/src/") && !file.path.contains("/commands/");
        let first = file.stem().split('_').next().unwrap_or_default();
        if named && VERBS.contains(&first) {
            let says = format!("\"{first}\" is a verb, name the file after the noun it holds");
            report.broken(&file.path, 1, says);
        }
    }
}
