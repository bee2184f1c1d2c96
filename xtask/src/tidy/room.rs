//! Rule `room`: inside a crate, code uses only what `ARCHITECTURE.md` lists below it.

use super::{Report, Rule};
use crate::pieces::{Kind, pieces, tests_begin};
use crate::tree::{Crate, File, Tree};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    name: "room",
    says: "inside a crate a folder or top-level file uses only those listed below it under Rooms in ARCHITECTURE.md",
    check,
};

const MAP: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Rooms";

/// Files that may use every room, because they declare the rooms.
const DECLARING: &[&str] = &["lib", "main"];

/// The rooms of a crate as the document lists them, from the top down.
struct Listed {
    line: usize,
    rooms: Vec<String>,
}

/// A name that code takes from its crate.
struct Used {
    line: usize,
    name: String,
}

fn check(tree: &Tree, report: &mut Report) {
    // Rule `map` reports a missing document.
    let Some(map) = tree.file(MAP) else { return };
    let mut listed = listed(map);
    for package in &tree.crates {
        let own = listed.remove(&package.name);
        check_crate(tree, package, own.as_ref(), report);
    }
    for (name, Listed { line, .. }) in listed {
        report.broken(MAP, line, format!("there is no crate {name}, remove its rooms"));
    }
}

fn check_crate(tree: &Tree, package: &Crate, listed: Option<&Listed>, report: &mut Report) {
    let src = format!("{}/src/", package.folder);
    let files: Vec<(&File, Vec<&str>)> = tree
        .with_extension("rs")
        .filter_map(|file| Some((file, module(file.path.strip_prefix(&src)?)?)))
        .filter(|(_, module)| !DECLARING.contains(&module[0]) && module[0] != "bin")
        .collect();
    let is_room = |name: &str| files.iter().any(|(_, module)| module[0] == name);
    if let Some(Listed { line, rooms }) = listed {
        for room in rooms.iter().filter(|room| !is_room(room)) {
            report.broken(MAP, *line, format!("{} has no room {room}, remove it from its list", package.name));
        }
    }
    let place = |room: &str| listed.and_then(|listed| listed.rooms.iter().position(|one| one == room));
    let root = DECLARING.iter().find_map(|name| tree.file(&format!("{src}{name}.rs")));
    let exported = root.map(|root| exported(&root.text)).unwrap_or_default();
    let mut unlisted = BTreeSet::new();
    for (file, module) in &files {
        for Used { line, name } in used(&file.text, module.len()) {
            let target = if is_room(&name) { Some(&name) } else { exported.get(&name) };
            let Some(target) = target.filter(|target| *target != module[0]) else { continue };
            for room in [module[0], target] {
                if place(room).is_none() && unlisted.insert(room.to_owned()) {
                    let says = format!("{} has no place for {room} under Rooms, list it", package.name);
                    report.broken(&file.path, line, says);
                }
            }
            if let (Some(here), Some(there)) = (place(module[0]), place(target))
                && there < here
            {
                let says = format!(
                    "{} may not use {target}, which stands above it: move what it needs below, or pass a value in",
                    module[0]
                );
                report.broken(&file.path, line, says);
            }
        }
    }
}

/// The module that a file below `src/` holds, such as `["write", "lane"]`; `None` for tests.
fn module(path: &str) -> Option<Vec<&str>> {
    let mut parts: Vec<&str> = path.strip_suffix(".rs")?.split('/').collect();
    if parts.len() > 1 && parts.last() == Some(&"mod") {
        parts.pop();
    }
    (!parts.contains(&"tests")).then_some(parts)
}

/// The lists of the document, by crate: ``- `CRATE`: `room`, `room`, ..``, which may go over several lines.
fn listed(map: &File) -> BTreeMap<String, Listed> {
    let mut all: BTreeMap<String, Listed> = BTreeMap::new();
    let mut last = None;
    let lines = map.lines().skip_while(|(_, line)| *line != HEADING).skip(1);
    for (line, text) in lines.take_while(|(_, text)| !text.starts_with("## ")) {
        let rooms = if let Some((name, rooms)) = text.strip_prefix("- `").and_then(|rest| rest.split_once("`:")) {
            last = Some(name.to_owned());
            all.insert(name.to_owned(), Listed { line, rooms: Vec::new() });
            rooms
        } else if text.starts_with("  ") {
            text
        } else {
            last = None;
            continue;
        };
        if let Some(listed) = last.as_ref().and_then(|name| all.get_mut(name)) {
            listed.rooms.extend(rooms.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    all
}

/// Names that the crate's root takes out of its rooms, and the rooms.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let code = code(root);
    for (at, _) in code.match_indices("pub") {
        let rest = code[at..].trim_start_matches("pub").trim_start_matches("(crate)").trim_start();
        let Some(rest) = rest.strip_prefix("use ") else { continue };
        let tree = rest.split(';').next().unwrap_or_default().trim_start_matches("crate::");
        let Some((room, names)) = tree.split_once("::") else { continue };
        for name in names.split(['{', '}', ',']).map(str::trim).filter(|name| !name.is_empty()) {
            let name = name.rsplit([' ', ':']).next().unwrap_or(name);
            all.insert(name.to_owned(), room.trim().to_owned());
        }
    }
    all
}

/// What a file at this depth of modules takes from the root of its crate, tests left out.
fn used(text: &str, depth: usize) -> Vec<Used> {
    let end = tests_begin(text).unwrap_or(usize::MAX);
    let code = code(text);
    let roots = ["crate::".to_owned(), "super::".repeat(depth)];
    let mut all = Vec::new();
    for root in &roots {
        for (at, _) in code.match_indices(root.as_str()) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            if line < end {
                let rest = &code[at + root.len()..];
                all.extend(first_names(rest).into_iter().map(|name| Used { line, name }));
            }
        }
    }
    all
}

/// The first names of a path, or of the paths of a group.
fn first_names(path: &str) -> Vec<String> {
    let word = |text: &str| {
        let text = text.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(word(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The text with comments and strings blanked out, line for line.
fn code(text: &str) -> String {
    let mut code = String::new();
    for piece in pieces(text) {
        match piece.kind {
            Kind::Code => code.push_str(piece.text),
            Kind::Comment | Kind::Text => {
                code.push(' ');
                code.extend(piece.text.matches('\n'));
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_found_in_paths_groups_and_super_paths() {
        let text = "use crate::{a::{b, c}, d};\nfn f() { crate::e::g(); \"crate::no\"; }\n// crate::no\nuse super::super::h;\n\
                    use super::no;\n#[cfg(test)]\nmod tests { use crate::no; }\n";
        let found: Vec<(usize, String)> = used(text, 2).into_iter().map(|used| (used.line, used.name)).collect();
        let expected = [(1, "a"), (1, "d"), (2, "e"), (4, "h")].map(|(line, name)| (line, name.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn exported_names_belong_to_their_room() {
        let found = exported("pub use error::{Error, Kind as K};\npub(crate) use crate::a::b;\nuse c::no;\n");
        let expected = [("Error", "error"), ("K", "error"), ("b", "a")];
        assert_eq!(found, expected.map(|(name, room)| (name.to_owned(), room.to_owned())).into());
    }
}
