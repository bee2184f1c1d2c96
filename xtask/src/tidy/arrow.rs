//! Rule `arrow`: crates depend on each other only as the table allows.

use super::{Report, Rule};
use crate::arrows::{ARROWS, DEV_ONLY, FOR_ALL};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "arrow", says: "crates depend on each other only as xtask/src/arrows.rs allows", check };

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        let line_of = |part: &str| tree.file(&package.manifest).map_or(1, |file| file.line_of(part));
        let Some(row) = ARROWS.iter().find(|row| row.from == package.name) else {
            let says = format!("crate {} is not in the table, add its row to xtask/src/arrows.rs", package.name);
            report.broken(&package.manifest, line_of("name ="), says);
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let ours = ARROWS.iter().any(|row| row.from == name);
            let allowed =
                row.to.contains(&name) || FOR_ALL.contains(&name) || (dependency.is_dev() && DEV_ONLY.contains(&name));
            if ours && !allowed {
                let allowed = match row.to {
                    [] => "none of ours".to_owned(),
                    to => to.join(", "),
                };
                let says = format!(
                    "{} may not use {name}, it may use {allowed}: move the code or pass a value in",
                    package.name
                );
                report.broken(&package.manifest, line_of(name), says);
            }
        }
    }
}
