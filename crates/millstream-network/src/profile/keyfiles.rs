//! The files of profiles: read, planned and replaced.

use crate::output::{Words, files as files_of};
use crate::topology::Topology;
use crate::warning::profile;
use millstream_host::{NEW, remove_whole, write_private};
use millstream_model::Refusal;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Where profiles are that last.
pub const DIRECTORY: &str = "/etc/NetworkManager/system-connections";

/// Profiles by the names of their files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    files: BTreeMap<String, String>,
}

impl Profiles {
    /// The profiles of a directory. Hidden files and links are none.
    ///
    /// # Errors
    /// Only root can read them, or a file is not text.
    pub fn read(dir: &Path) -> Result<Self, Refusal> {
        let failed = |path: &Path, error: std::io::Error| {
            let refusal = Refusal::file("read", path, &error);
            if error.kind() == ErrorKind::PermissionDenied {
                refusal.hint("only root can read profiles")
            } else {
                refusal
            }
        };
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries.map_err(|error| failed(dir, error))?,
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|error| failed(dir, error))?.path();
            let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if is_file && !name.starts_with('.') && !name.ends_with(NEW) {
                files.insert(name.to_owned(), fs::read_to_string(&path).map_err(|error| failed(&path, error))?);
            }
        }
        Ok(Self { files })
    }

    /// Profiles as [`Profiles::text`] writes them.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let files = serde_json::from_str(text).map_err(|error| Refusal::new(format!("not profiles: {error}")))?;
        Ok(Self { files })
    }

    /// All of them as one text. `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let text = || serde_json::to_string(&self.files).unwrap_or_default();
        (!self.files.is_empty()).then(text)
    }

    /// What tells them from others, in a few words.
    pub fn digest(&self) -> String {
        let count = self.files.len();
        let noun = if count == 1 { "profile" } else { "profiles" };
        format!("{count} {noun} ({:016x})", xxh3_64(self.text().unwrap_or_default().as_bytes()))
    }

    /// The profiles after a topology has taken effect: its own, and those of others that claim none of its links.
    #[must_use]
    pub fn with(&self, topology: &Topology, words: Words) -> Self {
        let is_free = |text: &str| profile(text).is_none_or(|one| topology.link(&one.interface).is_none());
        let mut files: BTreeMap<_, _> = self
            .files
            .iter()
            .filter(|(_, text)| is_free(text))
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect();
        files.extend(files_of(topology, words).into_iter().map(|file| (file.name, file.text)));
        Self { files }
    }

    /// What would be done to files, as sentences.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let written = after.files.iter().filter_map(|(name, text)| match self.files.get(name) {
            None => Some(format!("writes {name}")),
            Some(before) if before != text => Some(format!("replaces {name}")),
            Some(_) => None,
        });
        let removed = self.files.keys().filter(|name| !after.files.contains_key(*name));
        written.chain(removed.map(|name| format!("removes {name}"))).collect()
    }

    /// Makes a directory hold these profiles instead of others. Returns the names of the files that it has touched.
    pub(super) fn replace(&self, before: &Self, dir: &Path) -> Result<Vec<String>, Refusal> {
        let mut touched = Vec::new();
        for (name, text) in self.files.iter().filter(|(name, text)| before.files.get(*name) != Some(text)) {
            let path = dir.join(name);
            // NetworkManager ignores a file that others may read.
            write_private(&path, text).map_err(|error| Refusal::file("write", &path, &error))?;
            touched.push(name.clone());
        }
        for name in before.files.keys().filter(|name| !self.files.contains_key(*name)) {
            let path = dir.join(name);
            match remove_whole(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Refusal::file("remove", &path, &error));
                }
                Ok(()) | Err(_) => touched.push(name.clone()),
            }
        }
        Ok(touched)
    }

    /// Whether there is a profile in a file, and NetworkManager starts it.
    pub(super) fn starts_by_itself(&self, file: &str) -> bool {
        self.files.get(file).is_some_and(|text| profile(text).is_some())
    }
}
