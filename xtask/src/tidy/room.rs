//! Rule `room`: inside a crate no folder or top-level file uses one that uses it, and what must be absent is absent.

use super::{Report, Rule};
use crate::paths::{Named, imports, paths};
use crate::tree::{Crate, File, Tree};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    name: "room",
    says: "inside a crate the folders and top-level files use each other without circles, and not what ARCHITECTURE.md excludes",
    check,
};

const MAP: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Rooms";

/// Files that may use every room, because they declare the rooms.
pub(super) const DECLARING: &[&str] = &["lib", "main"];

/// What the document excludes: a room of a crate, and the rooms that it does not use.
struct Absent {
    line: usize,
    package: String,
    room: String,
    unused: Vec<String>,
}

/// A name that code takes from its crate.
struct Used {
    line: usize,
    name: String,
}

/// Which rooms each room uses, and where it does so first.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<String, (&'a str, usize)>>;

fn check(tree: &Tree, report: &mut Report) {
    let absences = tree.file(MAP).map(absences).unwrap_or_default();
    for package in &tree.crates {
        let own: Vec<&Absent> = absences.iter().filter(|absent| absent.package == package.name).collect();
        check_crate(tree, package, &own, report);
    }
    for Absent { line, package, .. } in &absences {
        if !tree.crates.iter().any(|one| one.name == *package) {
            report.broken(MAP, *line, format!("there is no crate {package}, remove its rooms"));
        }
    }
}

fn check_crate(tree: &Tree, package: &Crate, absences: &[&Absent], report: &mut Report) {
    let src = format!("{}/src/", package.folder);
    let files: Vec<(&File, Vec<&str>)> = tree
        .with_extension("rs")
        .filter_map(|file| Some((file, module(file.path.strip_prefix(&src)?)?)))
        .filter(|(_, module)| !DECLARING.contains(&module[0]) && module[0] != "bin")
        .collect();
    let rooms: BTreeSet<&str> = files.iter().map(|(_, module)| module[0]).collect();
    for Absent { line, room, unused, .. } in absences {
        for missing in [room].into_iter().chain(unused).filter(|name| !rooms.contains(name.as_str())) {
            report.broken(MAP, *line, format!("{} has no room {missing}, correct the line", package.name));
        }
    }
    let root = DECLARING.iter().find_map(|name| tree.file(&format!("{src}{name}.rs")));
    let exported = root.map(|root| exported(&root.text)).unwrap_or_default();
    let mut uses = Uses::new();
    for (file, module) in &files {
        for Used { line, name } in used(&file.text, module.len()) {
            let target = if rooms.contains(name.as_str()) { Some(&name) } else { exported.get(&name) };
            let Some(target) = target.filter(|target| *target != module[0]) else { continue };
            let first = uses.entry(module[0]).or_default();
            first.entry(target.clone()).or_insert((&file.path, line));
        }
    }
    for (room, targets) in &uses {
        for (target, (path, line)) in targets {
            if let Some(circle) = way(&uses, target, room) {
                let says = format!("{room} uses {circle}: a circle, move what both need below, or pass a value in");
                report.broken(path, *line, says);
            }
            if absences.iter().any(|absent| absent.room == *room && absent.unused.contains(target)) {
                let says = format!("{room} may not use {target}, by Rooms in {MAP}: pass a value in");
                report.broken(path, *line, says);
            }
        }
    }
}

/// The shortest way from a room or file to another one, as words; `None` if there is none.
pub(super) fn way<T>(uses: &BTreeMap<&str, BTreeMap<String, T>>, from: &str, to: &str) -> Option<String> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().map_or("", String::as_str);
            if last == to {
                return Some(way.join(", which uses "));
            }
            for next in uses.get(last).into_iter().flat_map(BTreeMap::keys).filter(|next| seen.insert((*next).clone()))
            {
                longer.push([way.clone(), vec![next.clone()]].concat());
            }
        }
        ways = longer;
    }
    None
}

/// The module that a file below `src/` holds, such as `["write", "lane"]`; `None` for tests.
pub(super) fn module(path: &str) -> Option<Vec<&str>> {
    let mut parts: Vec<&str> = path.strip_suffix(".rs")?.split('/').collect();
    if parts.len() > 1 && parts.last() == Some(&"mod") {
        parts.pop();
    }
    (!parts.contains(&"tests")).then_some(parts)
}

/// What the document excludes: lines such as ``- `CRATE`: `room` uses neither `one` nor `other` ``.
fn absences(map: &File) -> Vec<Absent> {
    let lines = map.lines().skip_while(|(_, line)| *line != HEADING).skip(1);
    let lines = lines.take_while(|(_, text)| !text.starts_with("## ")).filter(|(_, text)| text.starts_with("- `"));
    let absent = |(line, text): (usize, &str)| {
        let mut names = text.split('`').skip(1).step_by(2).map(str::to_owned);
        Some(Absent { line, package: names.next()?, room: names.next()?, unused: names.collect() })
    };
    lines.filter_map(absent).collect()
}

/// Names that the crate's root takes out of its rooms, and the rooms.
fn exported(root: &str) -> BTreeMap<String, String> {
    let of_room = |words: &[String]| match words {
        [root, room, _, ..] if root == "crate" => Some(room.clone()),
        [room, _, ..] => Some(room.clone()),
        _ => None,
    };
    let public = imports(root).into_iter().filter(|one| one.is_public);
    public.filter_map(|one| Some((one.name, of_room(&one.words)?))).collect()
}

/// What a file at this depth of modules takes from the root of its crate, tests left out.
fn used(text: &str, depth: usize) -> Vec<Used> {
    let of_root = |Named { line, words }: Named| {
        let up = words.iter().take_while(|word| *word == "super").count();
        let at_root = if up == depth { depth } else { usize::from(words[0] == "crate") };
        let name = words.get(at_root).filter(|_| at_root > 0)?;
        Some(Used { line, name: name.clone() })
    };
    paths(text).into_iter().filter_map(of_root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_the_shortest() {
        let to = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), ("f", 1))).collect();
        let uses = Uses::from([("a", to(&["b", "c"])), ("b", to(&["c"])), ("c", to(&["d"]))]);
        assert_eq!(way(&uses, "a", "d").unwrap(), "a, which uses c, which uses d");
        assert_eq!(way(&uses, "d", "a"), None);
    }

    #[test]
    fn rooms_are_found_in_paths_groups_and_super_paths() {
        let text = "use crate::{a::{b, c}, d};\nfn f() { crate::e::g(); }\nuse super::super::h;\nuse super::no;\n";
        let found: Vec<(usize, String)> = used(text, 2).into_iter().map(|used| (used.line, used.name)).collect();
        let expected = [(1, "a"), (1, "a"), (1, "d"), (2, "e"), (3, "h")];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
    }

    #[test]
    fn exported_names_belong_to_their_room() {
        let found = exported("pub use error::{Error, PieceKind as K};\npub(crate) use crate::a::b;\nuse c::no;\n");
        let expected = [("Error", "error"), ("K", "error"), ("b", "a")];
        assert_eq!(found, expected.map(|(name, room)| (name.to_owned(), room.to_owned())).into());
    }
}
