//! Rule `manifest`: crates take from the workspace what they share.

use super::{Report, Rule};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "manifest",
    says: "a crate inherits version, edition, licence, lints and dependencies from the workspace",
    check,
};

/// What `[package]` takes from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        let Some(file) = tree.file(&package.manifest) else {
            continue;
        };
        for key in INHERITED {
            let wanted = format!("{key}.workspace = true");
            if !section(file, "[package]").any(|(_, line)| line == wanted) {
                let says = format!("[package] must hold `{wanted}`");
                report.broken(&file.path, file.line_of("[package]"), says);
            }
        }
        if !section(file, "[package]").any(|(_, line)| line.starts_with("description = ")) {
            let says = "[package] lacks a description, say in one line what the crate is";
            report.broken(&file.path, file.line_of("[package]"), says);
        }
        if !section(file, "[lints]").any(|(_, line)| line == "workspace = true") {
            let says = "add [lints] with `workspace = true`";
            report.broken(&file.path, 1, says);
        }
        for (line, text) in file.lines() {
            let sourced = ["version = \"", "git = \"", "path = \""].iter().any(|own| text.contains(own));
            if in_dependencies(file, line) && (sourced || is_plain_version(text)) {
                let says = "put the version into [workspace.dependencies] and write `NAME.workspace = true`";
                report.broken(&file.path, line, says);
            }
        }
    }
}

/// The lines of a section, without its heading.
fn section<'a>(file: &'a File, heading: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    file.lines().skip_while(move |(_, line)| *line != heading).skip(1).take_while(|(_, line)| !line.starts_with('['))
}

fn in_dependencies(file: &File, line: usize) -> bool {
    file.lines()
        .take(line)
        .filter(|(_, text)| text.starts_with('['))
        .last()
        .is_some_and(|(_, heading)| heading.contains("dependencies"))
}

fn is_plain_version(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(_, value)| value.starts_with('"'))
}
