//! The licences and notices of what is linked into the program. They ask to go with every copy.

use super::components::Components;
use super::programs::cannot;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// How the names of such files begin, in capitals.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Folders of a crate below this depth hold nothing of the kind.
const DEPTH_MAX: usize = 4;

/// The text: every part and every crate of others with its licence, then every text once, with the crates that have it.
pub(super) fn text(components: &Components) -> Result<String, String> {
    let mut text = String::from(
        "The program millstream holds what is below: what Rust and zig link, and crates, with the libraries of C that some of\n\
         them bring. Behind the list stand the licences and notices, each with those that have it.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for linked in &components.linked {
        let name = format!("{} {}", linked.name, linked.version);
        text.push_str(&format!("  {name}: {}\n", linked.license));
        texts.entry(plain(linked.notice.as_bytes())).or_default().push(name);
    }
    for component in components.all.iter().filter(|component| component.is_foreign) {
        let name = format!("{} {}", component.name, component.version);
        text.push_str(&format!("  {name}: {}\n", component.license.as_deref().unwrap_or("see its file")));
        for file in notices(&component.folder, DEPTH_MAX)? {
            let bytes = fs::read(&file).map_err(cannot("read", &file))?;
            let names = texts.entry(plain(&bytes)).or_default();
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
    }
    for (notice, names) in &texts {
        let line = "-".repeat(80);
        text.push_str(&format!("\n{line}\n{}\n{line}\n\n{notice}\n", names.join(", ")));
    }
    Ok(text)
}

/// The same text whatever ends its lines.
fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").trim().to_owned()
}

/// The files of a folder whose names say that they are licences or notices, in order.
fn notices(folder: &Path, depth: usize) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = listed.map_err(cannot("list", folder))?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut found = Vec::new();
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(cannot("look at", folder))?);
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if kind.is_dir() && depth > 1 {
            found.extend(notices(&path, depth - 1)?);
        } else if kind.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".RS") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::components::tests::three;

    #[test]
    fn what_is_no_crate_is_named_with_its_notice() {
        let mut components = three();
        // Their folders are not there.
        components.all.clear();
        let text = text(&components).unwrap();
        assert!(text.contains("\n  rust-std 1.2.3: MIT\n"), "{text}");
        assert!(text.contains("\nrust-std 1.2.3\n-") && text.ends_with("\n\nUse it.\n"), "{text}");
    }

    #[test]
    fn licences_are_found_by_name() {
        let root = crate::workspace_root();
        let found = notices(&root, 1).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["LICENSE-APACHE", "LICENSE-MIT"]);
        assert_eq!(plain(b"\r\na\r\nb\xff\n"), "a\nb\u{fffd}");
    }
}
