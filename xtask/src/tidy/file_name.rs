//! Rule `file_name`: a file or module is named after what it holds.

use super::{Report, Rule};
use crate::pieces::{PieceKind, lines_of};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "file_name", says: "no file, folder or module is named after nothing in particular", check };

/// Names without a meaning, alone or after an underscore.
const FORBIDDEN: &[&str] = &["common", "helper", "helpers", "manager", "misc", "types", "util", "utils"];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs").chain(tree.with_extension("sql")) {
        let folders = file.folder().split('/');
        if let Some(bad) = folders.chain([file.stem()]).find(|name| is_forbidden(name)) {
            report.broken(&file.path, 1, says(bad));
        }
    }
    for file in tree.with_extension("rs") {
        for (line, code) in lines_of(&file.text, PieceKind::Code) {
            // For `mod name;` the rule checks the file that it names.
            let module = code.split_once('{').and_then(|(before, _)| before.trim_end().rsplit_once("mod "));
            if let Some((_, name)) = module.filter(|(_, name)| is_forbidden(name)) {
                report.broken(&file.path, line, says(name));
            }
        }
    }
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.contains(&name) || name.rsplit_once('_').is_some_and(|(_, last)| FORBIDDEN.contains(&last))
}

fn says(name: &str) -> String {
    format!("the name \"{name}\" says nothing, name it after the one noun it holds")
}
