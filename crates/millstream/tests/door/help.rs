//! The help of every command, against the texts in `snapshots/`.
//!
//! `MILLSTREAM_UPDATE_SNAPSHOTS=1 cargo test -p millstream` writes them again.

use crate::process::millstream;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[test]
fn help_of_every_command_is_as_recorded() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/door/snapshots");
    let mut found = BTreeMap::new();
    collect(&mut Vec::new(), &mut found);
    assert!(found.len() > 1, "the list of commands could not be read");
    if std::env::var_os("MILLSTREAM_UPDATE_SNAPSHOTS").is_some() {
        for stale in recorded(&dir) {
            std::fs::remove_file(stale).unwrap();
        }
        for (name, text) in &found {
            std::fs::write(dir.join(name), text).unwrap();
        }
    }
    for (name, text) in &found {
        let expected = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        assert_eq!(*text, expected, "{name}; MILLSTREAM_UPDATE_SNAPSHOTS=1 records it");
    }
    for path in recorded(&dir) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(found.contains_key(name), "{name} belongs to no command");
    }
}

#[test]
fn help_fits_80_columns() {
    let mut found = BTreeMap::new();
    collect(&mut Vec::new(), &mut found);
    for (name, text) in found {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

/// Adds the help of a command, found by its words, and of everything below it.
fn collect(words: &mut Vec<String>, found: &mut BTreeMap<String, String>) {
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    args.push("--help");
    let run = millstream(&args).ends(0);
    assert_eq!(run.stderr, "");
    for name in commands(&run.stdout) {
        words.push(name);
        collect(words, found);
        words.pop();
    }
    let name = if words.is_empty() { "millstream".to_owned() } else { words.join("-") };
    found.insert(format!("help-{name}.txt"), run.stdout);
}

/// The names under `Commands:`.
fn commands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

fn recorded(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("help-")).collect()
}
