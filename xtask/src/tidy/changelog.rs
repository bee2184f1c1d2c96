//! Rule `changelog`: the change log begins with what is not released yet.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "changelog", says: "CHANGELOG.md begins with an Unreleased section that says something", check };

const PATH: &str = "CHANGELOG.md";

fn check(tree: &Tree, report: &mut Report) {
    let Some(file) = tree.file(PATH) else {
        report.broken(PATH, 1, "there is no change log, write one");
        return;
    };
    let mut sections = file.lines().filter(|(_, line)| line.starts_with("## "));
    match sections.next() {
        Some((line, "## Unreleased")) => {
            let end = sections.next().map_or(usize::MAX, |(next, _)| next);
            let said = file.lines().any(|(n, text)| n > line && n < end && text.starts_with("- "));
            if !said {
                report.broken(PATH, line, "Unreleased is empty, say what changed for users");
            }
        }
        Some((line, _)) => report.broken(PATH, line, "the first section must be \"## Unreleased\""),
        None => report.broken(PATH, 1, "there is no section, begin with \"## Unreleased\""),
    }
}
