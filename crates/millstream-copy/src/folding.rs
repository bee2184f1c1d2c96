//! Destinations that take names for the same if they differ in upper and lower case alone, such as exFAT.

use crate::error::Error;
use crate::limits::{FOLDED_NAMES_MAX, PROBED_NAMES_MAX};
use crate::manifest::{Reader, Sorter};
use crate::path::shown;
use crate::tree::{self, Tree, named};
use millstream_model::words::option;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;

/// Whether a folder takes such names for the same. `probe`: the name of a file in lower case that is made there to find out;
/// without one, and where none can be made, the names that are there show it.
pub(crate) fn folds(tree: &Tree, probe: Option<&str>) -> bool {
    let Ok(folder) = tree.folder(b"") else { return false };
    let probed = probe.and_then(|name| by_file(&folder, name).ok());
    probed.unwrap_or_else(|| by_names(&folder).unwrap_or(false))
}

fn by_file(folder: &OwnedFd, name: &str) -> io::Result<bool> {
    let (own, other) = (named(name.as_bytes())?, named(name.to_ascii_uppercase().as_bytes())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match openat(folder, &own, flags, Mode::RUSR | Mode::WUSR) {
        // A killed run has left it.
        Ok(_) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let found = tree::stat(folder, &other);
    tree::remove(folder, &own)?;
    Ok(found?.is_some())
}

fn by_names(folder: &OwnedFd) -> io::Result<bool> {
    let mut names = HashSet::new();
    for entry in Dir::read_from(folder)?.take(PROBED_NAMES_MAX) {
        names.insert(entry?.file_name().to_bytes().to_vec());
    }
    let swapped =
        |byte: &u8| if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    let mut others = names.iter().map(|name| name.iter().map(swapped).collect::<Vec<u8>>());
    match others.find(|other| !names.contains(other)) {
        Some(other) => Ok(tree::stat(folder, &named(&other)?)?.is_some()),
        None => Ok(false),
    }
}

/// A path as such a destination compares it.
pub(crate) fn fold(path: &[u8]) -> Vec<u8> {
    path.split(|byte| *byte == b'/').map(fold_name).collect::<Vec<_>>().join(&b'/')
}

fn fold_name(name: &[u8]) -> Vec<u8> {
    // Letters of which only the capital is the same, too.
    let fold = |c: char| {
        let mut upper = c.to_uppercase();
        let single = upper.next().filter(|_| upper.next().is_none()).unwrap_or(c);
        single.to_lowercase()
    };
    match std::str::from_utf8(name) {
        Ok(text) => text.chars().flat_map(fold).collect::<String>().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// Entries of a list whose names such a destination takes for those of other entries, each with the one that comes first.
///
/// # Errors
/// The list cannot be read; there are more than so many.
pub(crate) fn same_names(list: &Path, folder: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let failed = Error::file("write to", folder);
    let mut sorter = Sorter::new(folder);
    let mut entries = Reader::open(list).map_err(Error::manifest(list))?;
    while let Some(entry) = entries.next().map_err(Error::manifest(list))? {
        sorter.push(&fold(&entry.path), &entry.path).map_err(&failed)?;
    }
    let mut sorted = sorter.finish().map_err(&failed)?;
    let mut same = BTreeMap::new();
    let mut first: (Vec<u8>, Vec<u8>) = Default::default();
    while let Some((key, path)) = sorted.next().map_err(&failed)? {
        // The root has the empty path, and comes first.
        if key != first.0 || path.is_empty() {
            first = (key, path);
            continue;
        }
        if same.len() == FOLDED_NAMES_MAX {
            let says = format!(
                "the destination takes more than {FOLDED_NAMES_MAX} names for others, such as {} for {}",
                shown(&path),
                shown(&first.1)
            );
            return Err(Error::refused(says, format!("leave them out with {}, or rename them", option("exclude"))));
        }
        same.insert(path, first.1.clone());
    }
    Ok(same)
}

/// Why an entry is left out, if it or a folder that it is in is one of [`same_names`].
pub(crate) fn why_left_out(same: &BTreeMap<Vec<u8>, Vec<u8>>, path: &[u8]) -> Option<String> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let (name, other) = ends.chain([path.len()]).find_map(|end| same.get_key_value(&path[..end]))?;
    Some(format!("the destination takes the names {} and {} for the same", shown(other), shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Facts};
    use crate::manifest::{Header, Writer};
    use std::fs;

    #[test]
    fn names_fold_letter_by_letter() {
        for (path, folded) in
            [("Dir/A.TXT", "dir/a.txt"), ("ÄÖ/ς", "äö/σ"), ("weiß", "weiß"), ("", ""), ("a//B", "a//b")]
        {
            assert_eq!(fold(path.as_bytes()), folded.as_bytes(), "{path}");
        }
        assert_eq!(fold(b"\xc3\x84/\xffA"), b"\xc3\xa4/\xffa");
    }

    #[test]
    fn names_that_become_one_are_found_with_what_is_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        let facts = Facts::of(&rustix::fs::stat(dir.path()).unwrap());
        let mut writer = Writer::create(&list, &Header::default()).unwrap();
        for path in ["", "Dir", "Dir/a", "X", "dir", "dir/b", "x", "x-y"] {
            writer.push_entry(&Entry { path: path.into(), facts: facts.clone() }).unwrap();
        }
        writer.finish().unwrap();
        let same = same_names(&list, dir.path()).unwrap();
        let why = |path: &str| why_left_out(&same, path.as_bytes());
        assert_eq!(same.len(), 2);
        assert_eq!(why("x").unwrap(), "the destination takes the names X and x for the same");
        assert_eq!(why("dir/b").unwrap(), "the destination takes the names Dir and dir for the same");
        assert!(["", "X", "Dir/a", "x-y"].iter().all(|path| why(path).is_none()));
    }

    #[test]
    fn an_ordinary_folder_keeps_names_apart_and_the_probe_goes() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path(), false).unwrap();
        assert!(!folds(&tree, Some("probe")) && !folds(&tree, None));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(dir.path().join("a"), "").unwrap();
        assert!(!folds(&tree, None));
        fs::write(dir.path().join("A"), "").unwrap();
        assert!(!folds(&tree, None));
    }
}
