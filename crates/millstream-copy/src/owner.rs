//! To which copy of a cluster a folder belongs: a note in the folder says so.
//!
//! The data directory of a copy and the folders of its tablespaces hold the same note. Another copy must not write there: it
//! would replace the files that a server uses which was started on the first one.

use crate::at_work::WORK;
use crate::error::Error;
use crate::local::UNFINISHED;
use crate::path::shown_path;
use crate::state::random;
use crate::tree::Tree;
use millstream_host::read_note;
use serde::Deserialize;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of the note. It begins like those of unfinished files, which no copy deletes.
pub(crate) const NOTE: &str = ".millstream-copy.owner";

/// A copy of a cluster, as the note says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Owner {
    /// The number that all copies of a cluster share.
    pub(crate) cluster: u64,
    /// The data directory, on the machine on which it lies.
    pub(crate) data: String,
    /// Digits that no other copy has: a copy at the same place may be another one.
    copy: String,
}

/// What is in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing but notes of a copy, or the folder does not exist.
    Empty,
    /// The data of a server that runs, or has crashed.
    Running,
    /// Only unfinished files of copies.
    Unfinished,
    /// Something else.
    Full,
}

/// A folder as it was found.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) content: Content,
    /// Its path without links, on its machine.
    pub(crate) path: PathBuf,
    /// To which copy it belongs.
    pub(crate) owner: Option<Owner>,
    /// A folder above it that belongs to a copy, or to a server.
    pub(crate) within: Option<PathBuf>,
}

impl Owner {
    /// A new copy of a cluster.
    pub(crate) fn new(cluster: u64, data: &Path) -> Self {
        Self { cluster, data: shown_path(data), copy: format!("{:016x}", random(data)) }
    }

    /// Whether this is a copy of this cluster that was made to this data directory.
    pub(crate) fn is_of(&self, cluster: u64, data: &Path) -> bool {
        self.cluster == cluster && self.data == shown_path(data)
    }

    /// The note.
    pub(crate) fn text(&self) -> String {
        let Self { cluster, data, copy } = self;
        format!("{}\n", serde_json::json!({ "cluster": cluster, "data": data, "copy": copy }))
    }

    /// Reads a note. `None` if it is none of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Look {
    /// Looks at a folder of this machine, whose path has no links.
    ///
    /// # Errors
    /// It cannot be listed.
    pub(crate) fn here(path: &Path) -> Result<Self, Error> {
        Self::seen(path, path)
    }

    /// Looks at a folder of this machine that is open, whatever is at its path now.
    ///
    /// # Errors
    /// It cannot be listed.
    pub(crate) fn of(tree: &Tree) -> Result<Self, Error> {
        Self::seen(tree.path(), &tree.opened())
    }

    /// `folder`: a path that leads to it.
    fn seen(path: &Path, folder: &Path) -> Result<Self, Error> {
        let failed = Error::file("list", path);
        let mut content = Content::Empty;
        match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            entries => {
                for entry in entries.map_err(&failed)? {
                    let name = entry.map_err(&failed)?.file_name();
                    if name == NOTE || name == WORK {
                        continue;
                    }
                    if !name.as_bytes().starts_with(UNFINISHED.as_bytes()) {
                        content = Content::Full;
                        break;
                    }
                    content = Content::Unfinished;
                }
            }
        }
        if folder.join("postmaster.pid").exists() {
            content = Content::Running;
        }
        // What is no note of ours owns nothing; the folder counts as full.
        let owner = read_note(&folder.join(NOTE)).ok().flatten().and_then(|text| Owner::parse(&text));
        let within = path.ancestors().skip(1).find(|above| is_taken(above)).map(Path::to_owned);
        Ok(Self { content, path: path.to_owned(), owner, within })
    }
}

/// Whether a folder is a data directory, holds WAL or a tablespace, or belongs to a copy of a cluster.
fn is_taken(folder: &Path) -> bool {
    if ["PG_VERSION", "archive_status", NOTE].iter().any(|name| folder.join(name).exists()) {
        return true;
    }
    // What may not be listed is not ours to judge.
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    entries.any(|entry| entry.is_ok_and(|entry| is_of_version(entry.file_name().as_bytes())))
}

/// Whether a name is that of a server's folder in a tablespace, such as `PG_15_202209061`.
fn is_of_version(name: &[u8]) -> bool {
    let Some((major, catalog)) = name.strip_prefix(b"PG_").and_then(|rest| rest.split_at_checked(2)) else {
        return false;
    };
    major.iter().all(u8::is_ascii_digit) && catalog.starts_with(b"_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_is_protected_like_unfinished_files() {
        let (here, there) = (Path::new("/b/\u{e9} \\"), Path::new("/b/c"));
        let owner = Owner::new(u64::MAX, here);
        assert_eq!(Owner::parse(&owner.text()), Some(owner.clone()));
        assert!(owner.is_of(u64::MAX, here) && !owner.is_of(1, here) && !owner.is_of(u64::MAX, there));
        assert_ne!(Owner::new(u64::MAX, here), owner, "a copy at the same place is another one");
        assert_eq!(Owner::parse("{}"), None);
        assert!(NOTE.starts_with(UNFINISHED));
    }

    #[test]
    fn a_folder_is_empty_full_unfinished_owned_or_within_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a");
        let content = || Look::here(&path).unwrap().content;
        assert_eq!(content(), Content::Empty);
        fs::create_dir(&path).unwrap();
        assert_eq!(content(), Content::Empty);
        for note in [NOTE, WORK] {
            fs::write(path.join(note), "").unwrap();
            assert_eq!(content(), Content::Empty, "{note}");
        }
        fs::write(path.join(".millstream-copy.0123.0"), "").unwrap();
        assert_eq!(content(), Content::Unfinished);
        let owner = Owner::new(7, &path);
        fs::write(path.join(NOTE), owner.text()).unwrap();
        let look = Look::here(&path).unwrap();
        assert_eq!((look.content, look.owner, look.within), (Content::Unfinished, Some(owner), None));
        assert_eq!(Look::here(&path.join("b/c")).unwrap().within, Some(path.clone()));
        fs::remove_file(path.join(NOTE)).unwrap();
        for mark in ["PG_VERSION", "PG_15_202209061", "archive_status"] {
            fs::write(path.join(mark), "").unwrap();
            assert_eq!(Look::here(&path.join("b/c")).unwrap().within, Some(path.clone()), "{mark}");
            fs::remove_file(path.join(mark)).unwrap();
        }
        fs::write(path.join("PG_dump"), "").unwrap();
        assert_eq!(Look::here(&path.join("b/c")).unwrap().within, None);
        fs::write(path.join("file"), "").unwrap();
        assert_eq!(content(), Content::Full);
        fs::write(path.join("postmaster.pid"), "").unwrap();
        assert_eq!(content(), Content::Running);
    }
}
