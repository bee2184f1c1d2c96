//! Folders that mongodump wrote: a file for each collection, and beside it what describes the collection.

use crate::failure::Failure;
use crate::file_pattern::matching;
use glob::Pattern;
use millstream_document::source::is_called;
use millstream_host::shell_word;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The format of a dump.
const FORMAT: &str = millstream_input::BSON.name;

/// Collections of a folder that a message names.
const NAMED_MAX: usize = 5;

/// The one collection of a folder, or of the folders in it.
///
/// # Errors
/// There is none, or there are several: their documents would meet in one table.
pub fn of_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let shown = folder.display();
    let none = || {
        Failure::user(format!("{shown} is a directory, and holds no dump of mongodump"))
            .hint("name the files in it, or give a pattern in quotes, such as 'DIRECTORY/*.json'")
    };
    let pattern = folder.to_str().map(|folder| format!("{}/**/*.{FORMAT}*", Pattern::escape(folder)));
    let found = pattern.and_then(|pattern| matching(&pattern).ok()).unwrap_or_default();
    let dumps: Vec<PathBuf> = found.into_iter().filter(|path| path.to_str().is_some_and(is_dump)).collect();
    match dumps.as_slice() {
        [] => Err(none()),
        [dump] => Ok(dump.clone()),
        _ => {
            let mut names: Vec<String> = dumps.iter().take(NAMED_MAX).map(|path| shell_word(&path.display())).collect();
            names.extend((dumps.len() > NAMED_MAX).then(|| "..".to_owned()));
            Err(Failure::user(format!("{shown} holds the dumps of {} collections", dumps.len()))
                .hint(format!("load each into its own table: {}", names.join(", "))))
        }
    }
}

/// Leaves out files that describe collections, if dumps lie beside them: `NAME.metadata.json` and `prelude.json`.
pub fn leave_descriptions(sources: &mut Vec<String>) {
    let folders: BTreeSet<String> =
        sources.iter().filter(|source| is_dump(source)).map(|dump| folder_of(dump)).collect();
    sources.retain(|source| !is_description(source) || !folders.contains(&folder_of(source)));
}

/// The names of the collections, if the dumps among the sources are of several.
pub fn several(sources: &[String]) -> Option<String> {
    let dumps = sources.iter().filter(|source| is_dump(source));
    let names: BTreeSet<&str> = dumps.map(|dump| collection_of(dump)).collect();
    let more = if names.len() > NAMED_MAX { ", .." } else { "" };
    let named: Vec<&str> = names.iter().copied().take(NAMED_MAX).collect();
    (names.len() > 1).then(|| named.join(", ") + more)
}

fn is_dump(source: &str) -> bool {
    is_called(source, FORMAT)
}

fn collection_of(dump: &str) -> &str {
    let name = dump.rsplit_once('/').map_or(dump, |(_, name)| name);
    name.rsplit_once(&format!(".{FORMAT}")).map_or(name, |(collection, _)| collection)
}

fn is_description(source: &str) -> bool {
    let name = source.rsplit_once('/').map_or(source, |(_, name)| name);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name == "prelude.json" || name.ends_with(".metadata.json")
}

fn folder_of(source: &str) -> String {
    source.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_one_collection() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a [dump]");
        let shop = folder.join("shop");
        std::fs::create_dir_all(&shop).unwrap();
        let write = |name: &str| std::fs::write(shop.join(name), "").unwrap();
        let refused = of_folder(&folder).unwrap_err().to_string();
        assert!(refused.contains("holds no dump"), "{refused}");
        for name in ["orders.metadata.json.gz", "prelude.json", "orders.bson.txt", "orders.bson.gz"] {
            write(name);
        }
        for place in [&folder, &shop] {
            assert_eq!(of_folder(place).unwrap(), shop.join("orders.bson.gz"));
        }
        write("users.bson");
        let refused = of_folder(&folder).unwrap_err().to_string();
        assert!(refused.contains("holds the dumps of 2 collections"), "{refused}");
    }

    #[test]
    fn several_collections_are_named() {
        let several =
            |sources: &[&str]| several(&sources.iter().map(|source| (*source).to_owned()).collect::<Vec<_>>());
        assert_eq!(several(&["a/orders.bson", "b/orders.bson.gz", "c/orders.bson.zst", "users.json"]), None);
        assert_eq!(several(&["a/users.bson", "a/or.bson.ders.bson.gz"]).as_deref(), Some("or.bson.ders, users"));
        let many: Vec<String> = (0..7).map(|n| format!("s3://b/{n}.bson")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(several(&many).as_deref(), Some("0, 1, 2, 3, 4, .."));
    }

    #[test]
    fn what_describes_a_dump_is_no_source_beside_it() {
        let left = |sources: &[&str]| {
            let mut sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
            leave_descriptions(&mut sources);
            sources
        };
        let beside = ["d/o.bson.gz", "d/o.metadata.json.gz", "d/prelude.json", "d/view.metadata.json", "d/o.json"];
        assert_eq!(left(&beside), ["d/o.bson.gz", "d/o.json"]);
        assert_eq!(left(&["o.bson", "o.metadata.json"]), ["o.bson"]);
        let elsewhere = ["d/o.bson", "e/o.metadata.json", "prelude.json"];
        assert_eq!(left(&elsewhere), elsewhere);
        assert_eq!(left(&["d/o.metadata.json"]), ["d/o.metadata.json"]);
    }
}
