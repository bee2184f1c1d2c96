//! Rule `arrow`: crates depend on each other only as the table allows, and some on nothing that is async.

use super::{Report, Rule};
use crate::arrows::{ARROWS, DEV_ONLY, FOR_ALL, OF_SERVERS, WITHOUT_SERVER};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "arrow",
    says: "crates depend on each other, and on what only servers need, as xtask/src/arrows.rs allows",
    check,
};

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        let line_of = |part: &str| tree.file(&package.manifest).map_or(1, |file| file.line_of(part));
        let Some((_, to)) = ARROWS.iter().find(|(from, _)| *from == package.name) else {
            let says = format!("crate {} is not in the table, add its row to xtask/src/arrows.rs", package.name);
            report.broken(&package.manifest, line_of("name ="), says);
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let ours = ARROWS.iter().any(|(from, _)| *from == name);
            let is_arrow = name.strip_prefix("millstream-").is_some_and(|short| to.contains(&short));
            let allowed = is_arrow || FOR_ALL.contains(&name) || (dependency.is_dev() && DEV_ONLY.contains(&name));
            if ours && !allowed {
                let allowed: Vec<String> = to.iter().map(|short| format!("millstream-{short}")).collect();
                let allowed = if to.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
                let says = format!(
                    "{} may not use {name}, it may use {allowed}: move the code or pass a value in",
                    package.name
                );
                report.broken(&package.manifest, line_of(name), says);
            }
            let knows_none = WITHOUT_SERVER.contains(&package.name.as_str());
            if knows_none && OF_SERVERS.contains(&name) && !dependency.is_dev() {
                let says = format!("{} knows no server, it may not use {name}: move the code up", package.name);
                report.broken(&package.manifest, line_of(name), says);
            }
        }
    }
}
