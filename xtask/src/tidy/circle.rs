//! Rule `circle`: inside a room no file uses one that uses it.

use super::room::{DECLARING, module, way};
use super::{Report, Rule};
use crate::paths::{Named, imports, paths};
use crate::tree::{Crate, File, Tree};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule =
    Rule { name: "circle", says: "the files of a room use each other without circles", check };

/// How often a name is looked up that one module takes from another one. A circle of `use` items ends there.
const STEPS: usize = 8;

/// Where a module stands below its crate, such as `write` and `lane`; the root stands nowhere.
type Place = Vec<String>;

/// Which files each file uses, and where it does so first.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<String, usize>>;

/// The modules of a crate that are files, and what each names by `use`.
struct Modules(BTreeMap<Place, BTreeMap<String, Vec<String>>>);

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        check_crate(tree, package, report);
    }
}

fn check_crate(tree: &Tree, package: &Crate, report: &mut Report) {
    let src = format!("{}/src/", package.folder);
    let rust = tree.with_extension("rs");
    let files: Vec<(Place, &File)> =
        rust.filter_map(|file| Some((place(file.path.strip_prefix(&src)?)?, file))).collect();
    let modules = Modules::of(&files);
    let names: BTreeMap<String, &File> = files.iter().map(|(place, file)| (place.join("/"), *file)).collect();
    let mut uses = Uses::new();
    for (name, file) in &names {
        let from: Place = name.split('/').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        for Named { line, words } in paths(&file.text) {
            if let Some(to) = modules.find(&from, &words, STEPS).filter(|to| are_beside(&from, to)) {
                uses.entry(name).or_default().entry(to.join("/")).or_insert(line);
            }
        }
    }
    for circle in circles(&uses) {
        for from in &circle {
            for (to, line) in uses[from].iter().filter(|(to, _)| circle.contains(to.as_str())) {
                let way = way(&uses, to, from).unwrap_or_default();
                let says = format!("{from} uses {way}: a circle, move what both need to a file below");
                report.broken(&names[*from].path, *line, says);
            }
        }
    }
}

/// The module that a file holds; `None` for tests and for other programs of the crate.
fn place(path: &str) -> Option<Place> {
    let module = module(path)?;
    let words: &[&str] = match module[0] {
        "bin" => return None,
        root if DECLARING.contains(&root) => &[],
        _ => &module[..],
    };
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Whether two modules are files of one room, and neither holds the other. A file may name those that it declares, and
/// these may use what is in it.
fn are_beside(one: &[String], other: &[String]) -> bool {
    one.first() == other.first() && !one.starts_with(other) && !other.starts_with(one)
}

/// The files that use each other, in groups: from each file of a group a way leads to every other one and back.
fn circles<'a>(uses: &'a Uses<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|from| (*from, reached(uses, from))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for (from, all) in &reached {
        if reaches(from, from) && !circles.iter().any(|circle| circle.contains(from)) {
            circles.push(all.iter().copied().filter(|other| reaches(other, from)).collect());
        }
    }
    circles
}

/// The files to which a way leads from a file.
fn reached<'a>(uses: &'a Uses<'_>, from: &str) -> BTreeSet<&'a str> {
    let next = |from: &str| uses.get(from).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
    let mut all = BTreeSet::new();
    let mut left: Vec<&str> = next(from).collect();
    while let Some(one) = left.pop() {
        if all.insert(one) {
            left.extend(next(one));
        }
    }
    all
}

impl Modules {
    fn of(files: &[(Place, &File)]) -> Self {
        let named = |file: &File| imports(&file.text).into_iter().map(|one| (one.name, one.words)).collect();
        Self(files.iter().map(|(place, file)| (place.clone(), named(file))).collect())
    }

    /// The module of what a path names in the file of a module; `None` if that is in another crate.
    fn find(&self, from: &[String], path: &[String], steps: usize) -> Option<Place> {
        let mut at = from.to_vec();
        let mut words = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                words = &path[1..];
            }
            "self" => words = &path[1..],
            "super" => {
                while words.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    words = &words[1..];
                }
            }
            name if self.holds(&at, name) => {}
            _ => return None,
        }
        while let Some((name, after)) = words.split_first() {
            if self.holds(&at, name) {
                at.push(name.clone());
                words = after;
                continue;
            }
            let named = self.0.get(&at).and_then(|names| names.get(name)).filter(|_| steps > 0);
            let Some(named) = named else { break };
            let whole = [named.as_slice(), after].concat();
            return self.find(&at, &whole, steps - 1).or(Some(at));
        }
        Some(at)
    }

    /// Whether a file is the module of that name in a module.
    fn holds(&self, module: &[String], name: &str) -> bool {
        self.0.contains_key(&[module, &[name.to_owned()]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str) -> Vec<String> {
        path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_path_leads_to_the_file_of_what_it_names() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("lib.rs", "pub use a::One;\nmod a;\nmod b;"),
            file("a/mod.rs", "mod b;\nmod c;\npub use self::b::One;\nuse c::Two as Other;\nuse std::fmt;"),
            file("a/b.rs", "pub use super::x;"),
            file("a/c.rs", ""),
            file("a/tests.rs", ""),
            file("bin/other.rs", ""),
        ];
        let placed: Vec<(Place, &File)> = files.iter().filter_map(|file| Some((place(&file.path)?, file))).collect();
        assert_eq!(placed.len(), 4, "tests and other programs are left out");
        let modules = Modules::of(&placed);
        let found = |from: &str, path: &str| Some(modules.find(&words(from), &words(path), STEPS)?.join("::"));
        for (from, path, to) in [
            ("a::c", "super::b::One", Some("a::b")),
            ("a::c", "super::One", Some("a::b")),
            ("a::c", "crate::One", Some("a::b")),
            ("a::b", "super::Other::new", Some("a::c")),
            ("a::b", "super::Own", Some("a")),
            ("a::b", "self::Own", Some("a::b")),
            ("a::b", "super::fmt::Display", Some("a")),
            ("a", "b::One", Some("a::b")),
            ("a::b", "super::super::limits::X", Some("")),
            ("a", "super::super::x", None),
            ("a", "std::fmt", None),
        ] {
            assert_eq!(found(from, path).as_deref(), to, "{path} in {from}");
        }
    }

    #[test]
    fn names_that_lead_in_a_circle_come_to_an_end() {
        let file = File { path: "a.rs".to_owned(), text: "use self::x as y;\nuse self::y as x;".to_owned() };
        let modules = Modules::of(&[(words("a"), &file)]);
        assert_eq!(modules.find(&words("a"), &words("self::x"), STEPS), Some(words("a")));
    }

    #[test]
    fn a_circle_holds_the_files_that_lead_to_each_other() {
        let to = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let uses = Uses::from([
            ("a", to(&["b", "x"])),
            ("b", to(&["c"])),
            ("c", to(&["a"])),
            ("d", to(&["a", "e"])),
            ("e", to(&["d"])),
            ("x", to(&["y"])),
        ]);
        assert_eq!(circles(&uses), [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["d", "e"])]);
    }
}
