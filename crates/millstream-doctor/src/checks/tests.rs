//! Tests over the list of checks.

mod high_swappiness;

use super::*;
use crate::check::{Look, Task};
use crate::host::Host;
use crate::report::manual;
use millstream_model::{Finding, Level};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What holds for every check of a list.
fn check(checks: &[&'static Check]) {
    let ids: BTreeSet<_> = checks.iter().map(|check| check.id).collect();
    assert_eq!(ids.len(), checks.len(), "names are unique");
    for check in checks {
        assert!(check.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", check.id);
        assert!(!check.about.is_empty() && !check.about.ends_with('.'), "{}", check.id);
        assert!(!check.looks.is_empty(), "{} looks nowhere", check.id);
        assert!(check.manual.starts_with(&format!("# {}\n", check.id)), "{}", check.id);
        for part in ["## What it means", "## How it is found", "## What to do"] {
            assert!(check.manual.contains(part), "{}: {part}", check.id);
        }
        for (name, value) in check.thresholds {
            let row = format!("| `{name}` | {value} | ");
            let row = check.manual.lines().find_map(|line| line.strip_prefix(row.as_str()));
            let cells = row.and_then(|row| row.strip_suffix(" |")?.split_once(" | "));
            let (meaning, source) = cells.unwrap_or_default();
            assert!(!meaning.is_empty() && !source.is_empty(), "{}: {name}", check.id);
        }
    }
}

#[test]
fn every_check_of_the_list_is_whole() {
    check(&CHECKS.iter().collect::<Vec<_>>());
    assert!(CHECKS.is_sorted_by(|one, other| one.id < other.id));
}

/// What the check of a fixture finds on a machine, and what it cannot see.
fn looked(root: &Path, thresholds: BTreeMap<String, f64>) -> (Vec<Finding>, Option<String>) {
    let [Look::Host(look)] = high_swappiness::CHECK.looks else { panic!("it looks at the machine") };
    let seen = look(&Host::in_folder(root), &Task::of(&high_swappiness::CHECK, thresholds)).unwrap();
    (seen.findings, seen.unseen)
}

#[test]
fn a_check_is_one_file_with_its_page_and_two_lines() {
    check(&CHECKS.iter().chain([&high_swappiness::CHECK]).collect::<Vec<_>>());
    assert!(manual(&high_swappiness::CHECK).contains("## How it is found"));

    let root = tempfile::tempdir().unwrap();
    let (found, unseen) = looked(root.path(), BTreeMap::new());
    assert_eq!(found.first(), None);
    assert!(unseen.is_some(), "what cannot be read is not passed");
    let folder = root.path().join("proc/sys/vm");
    fs::create_dir_all(&folder).unwrap();
    for (value, percent, expected) in
        [("59\n", None, None), ("60\n", None, Some(Level::Info)), ("60\n", Some(61.0), None)]
    {
        fs::write(folder.join("swappiness"), value).unwrap();
        let own = percent.map(|percent| ("percent".to_owned(), percent));
        let (found, unseen) = looked(root.path(), own.into_iter().collect());
        assert_eq!((found.first().map(|one| one.level), unseen), (expected, None), "{value:?}");
        for one in found {
            assert_eq!((one.key.as_str(), one.evidence.len()), ("high-swappiness:vm.swappiness", 1));
        }
    }
}
