//! Patterns of names fit as they do in rsync.

use millstream_copy::{Pattern, Request, Rule, Tally, copy};
use millstream_testkit::{Cases, Need, machine_has};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Parts of patterns and names.
const PARTS: &[&str] = &["a", "b", "ab", "*", "**", "?", "[ab]", "[!a]", "/", "\\*", "***", "a*", "*b"];
const NAMES: &[&str] = &["a", "b", "ab", "ba", "*", "c"];

/// Relative paths of everything below a folder.
fn listed(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn rules_choose_what_rsync_chooses() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    for mut random in Cases::new(40) {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for _ in 0..25 {
            let mut folder = path("tree");
            for _ in 0..random.usize(0..3) {
                folder.push(NAMES[random.usize(..NAMES.len())]);
                if folder.is_file() {
                    break;
                }
            }
            if fs::create_dir_all(&folder).is_ok() {
                let file = folder.join(NAMES[random.usize(..NAMES.len())]);
                if !file.is_dir() {
                    fs::write(file, "").unwrap();
                }
            }
        }
        let rules: Vec<(String, bool)> = (0..random.usize(1..4))
            .map(|_| {
                let parts = (0..random.usize(1..5)).map(|_| PARTS[random.usize(..PARTS.len())]);
                (parts.collect::<String>(), random.bool())
            })
            // rsync takes an empty pattern and a single slash for something else.
            .filter(|(pattern, _)| !pattern.trim_matches('/').is_empty())
            .collect();
        let tail = if random.bool() { "/" } else { "" };
        let source = format!("{}{tail}", path("tree").display());
        let mut rsync = Command::new("rsync");
        for (pattern, includes) in &rules {
            rsync.arg(format!("--{}={pattern}", if *includes { "include" } else { "exclude" }));
        }
        // Of a longer path, rsync also asks the folders that are not copied.
        rsync.current_dir(place.path()).arg("-a").arg(format!("tree{tail}"));
        // A single folder would get the name of a destination that is not there.
        ["ours", "theirs"].into_iter().for_each(|name| fs::create_dir(path(name)).unwrap());
        assert!(rsync.arg(path("theirs")).status().unwrap().success());
        let mut request = Request::new(&source, path("ours"), path("home"));
        request.rules = rules
            .iter()
            .map(|(pattern, includes)| Rule { pattern: Pattern::parse(pattern.as_bytes()), includes: *includes })
            .collect();
        match copy(&request, &Tally::default(), &|_| false) {
            Ok(receipt) => assert_eq!(receipt.failed, 0),
            Err(error) => assert!(error.to_string().ends_with("tree itself"), "{error}"),
        }
        assert_eq!(listed(&path("ours")), listed(&path("theirs")), "{rules:?} {source}");
    }
}
