//! Rule `map`: the documents' tables of crates agree with the workspace.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "map",
    says: "ARCHITECTURE.md has a table row for every crate, and no table names a crate that is not",
    check,
};

/// The document whose table is complete.
const MAP: &str = "ARCHITECTURE.md";
/// Documents that may name crates in tables.
const DOCUMENTS: &[&str] = &[MAP, "README.md", "CONTRIBUTING.md"];

fn check(tree: &Tree, report: &mut Report) {
    for path in DOCUMENTS {
        let Some(file) = tree.file(path) else {
            report.broken(path, 1, "the document is missing, write it");
            continue;
        };
        let rows = || file.lines().filter_map(|(n, line)| Some((n, row_crate(line)?)));
        for (line, name) in rows() {
            if !tree.crates.iter().any(|package| package.name == name) {
                let says = format!("there is no crate {name}, remove its row or create it");
                report.broken(path, line, says);
            }
        }
        for package in &tree.crates {
            if *path == MAP && !rows().any(|(_, name)| name == package.name) {
                let says = format!("crate {} has no row in the map, add it", package.name);
                report.broken(path, 1, says);
            }
        }
    }
}

/// The crate that a table row begins with, such as "| `millstream-pg` | ..".
fn row_crate(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
    let ours = name == "xtask" || name == "millstream" || name.starts_with("millstream-");
    ours.then_some(name)
}
