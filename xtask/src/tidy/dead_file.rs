//! Rule `dead_file`: every Rust file is part of the program.

use super::{Report, Rule};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "dead_file",
    says: "every Rust file is a module of the file or folder above it, every .sql file is included, or named beside it",
    check,
};

/// Files that cargo finds by itself.
const ROOTS: &[&str] = &["lib.rs", "main.rs", "build.rs"];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let in_source = file.path.contains("/src/") || file.path.contains("/tests/");
        if in_source && !ROOTS.contains(&file.name()) && !declared(tree, file) {
            let module = module_name(file);
            report.broken(&file.path, 1, format!("no file declares it, add `mod {module};` above it or remove it"));
        }
    }
    for file in tree.with_extension("sql") {
        let names = |other: &File| other.text.contains(&format!("{}\"", file.name()));
        let included = tree.with_extension("rs").any(names);
        // An experiment is a file that names its scripts.
        let beside = tree.with_extension("toml").any(|toml| toml.folder() == file.folder() && names(toml));
        if !included && !beside {
            let says = "no Rust file includes it, use it with `include_str!` or remove it";
            report.broken(&file.path, 1, says);
        }
    }
}

fn module_name(file: &File) -> &str {
    match file.name() {
        "mod.rs" => file.folder().rsplit('/').next().unwrap_or_default(),
        _ => file.stem(),
    }
}

fn declared(tree: &Tree, file: &File) -> bool {
    let above = match file.name() {
        "mod.rs" => file.folder().rsplit_once('/').map_or("", |(above, _)| above),
        _ => file.folder(),
    };
    let parents =
        [format!("{above}/mod.rs"), format!("{above}/lib.rs"), format!("{above}/main.rs"), format!("{above}.rs")];
    let declaration = format!("mod {};", module_name(file));
    let declares = |line: &str| {
        let line = line.trim_start();
        line == declaration || (line.starts_with("pub") && line.ends_with(&format!(" {declaration}")))
    };
    parents.iter().any(|parent| tree.file(parent).is_some_and(|parent| parent.lines().any(|(_, line)| declares(line))))
}
