//! The files of profiles: read, planned and replaced.

use crate::claim::Profile;
use crate::difference::Live;
use crate::output::{Words, files as files_of};
use crate::topology::Topology;
use millstream_host::kernel::link::NetKind;
use millstream_host::{NEW, remove_whole, write_private};
use millstream_model::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Profiles by the names of their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiles {
    pub(super) files: BTreeMap<String, String>,
    /// The files of those that run, or are to run.
    pub(super) running: BTreeSet<String>,
}

impl Profiles {
    /// The profiles of a directory. What NetworkManager ignores is none: hidden files, backups, links, and files that others may
    /// read.
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
            let is_profile = |metadata: Metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 == 0;
            let is_file = fs::symlink_metadata(&path).is_ok_and(is_profile);
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if is_file && !name.starts_with('.') && ![NEW, "~"].iter().any(|end| name.ends_with(end)) {
                files.insert(name.to_owned(), fs::read_to_string(&path).map_err(|error| failed(&path, error))?);
            }
        }
        Ok(Self { files, ..Self::default() })
    }

    /// Profiles as [`Profiles::text`] writes them.
    ///
    /// # Errors
    /// The text is something else, or the name of a file leads to another directory.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let profiles: Self =
            serde_json::from_str(text).map_err(|error| Refusal::new(format!("not profiles: {error}")))?;
        profiles.files.keys().chain(&profiles.running).try_for_each(|name| check_name(name))?;
        Ok(profiles)
    }

    /// All of them as one text. `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.files.is_empty()).then(text)
    }

    /// What tells their texts from others, in a few words.
    pub fn digest(&self) -> String {
        let count = self.files.len();
        let noun = if count == 1 { "profile" } else { "profiles" };
        let text = serde_json::to_string(&self.files).unwrap_or_default();
        format!("{count} {noun} ({:016x})", xxh3_64(text.as_bytes()))
    }

    /// The names of their files.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.files.keys().cloned().collect()
    }

    /// Those in files with such names.
    #[must_use]
    pub(super) fn among(mut self, names: &BTreeSet<String>) -> Self {
        self.files.retain(|name, _| names.contains(name));
        self
    }

    /// Those in files with other names.
    #[must_use]
    pub(super) fn beyond(mut self, names: &BTreeSet<String>) -> Self {
        self.files.retain(|name, _| !names.contains(name));
        self
    }

    /// Whether one of those that run is for this link.
    pub fn runs_on(&self, link: &str, live: &Live) -> bool {
        let is_card = live.links.iter().any(|one| one.name == link && one.kind == NetKind::Card);
        let mut texts = self.running.iter().filter_map(|name| self.files.get(name));
        texts.any(|text| Profile::parse(text).is_some_and(|one| one.is_for(link, is_card, live)))
    }

    /// Refuses if a file would be replaced that is none of these profiles: NetworkManager ignores it, or it is a link.
    ///
    /// # Errors
    /// There is one.
    pub fn may_become(&self, after: &Self, dir: &Path) -> Result<(), Refusal> {
        let new = after.files.keys().filter(|name| !self.files.contains_key(*name));
        match new.map(|name| dir.join(name)).find(|path| fs::symlink_metadata(path).is_ok()) {
            None => Ok(()),
            Some(path) => Err(Refusal::new(format!("{} is a link, or others may read it", path.display()))
                .hint("make it a file that root alone may read, or move it away")),
        }
    }

    /// The profiles after a topology has taken effect: its own, and those of others that claim none of its links, or links beside
    /// these.
    #[must_use]
    pub fn with(&self, topology: &Topology, words: Words, live: &Live) -> Self {
        let is_in_the_way = |one: &Profile| {
            one.starts && one.claimed(topology, live).is_some() && one.is_for_these_alone(topology, live)
        };
        let is_free = |text: &str| Profile::parse(text).is_none_or(|one| !is_in_the_way(&one));
        let mut files: BTreeMap<_, _> = self
            .files
            .iter()
            .filter(|(_, text)| is_free(text))
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect();
        let mut running: BTreeSet<String> =
            self.running.iter().filter(|name| files.contains_key(*name)).cloned().collect();
        for file in files_of(topology, words) {
            running.insert(file.name.clone());
            files.insert(file.name, file.text);
        }
        Self { files, running }
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

    /// The names of the files that differ.
    pub(super) fn differing(&self, other: &Self) -> BTreeSet<String> {
        let names = self.files.keys().chain(other.files.keys());
        names.filter(|name| self.files.get(*name) != other.files.get(*name)).cloned().collect()
    }

    /// Writes files of these names into a directory, or removes those that are not among the profiles.
    pub(super) fn write(&self, names: &BTreeSet<String>, dir: &Path) -> Result<(), Refusal> {
        names.iter().try_for_each(|name| check_name(name))?;
        for name in names {
            let path = dir.join(name);
            match self.files.get(name) {
                Some(text) => write_private(&path, text).map_err(|error| Refusal::file("write", &path, &error))?,
                None => remove_whole(&path).map_err(|error| Refusal::file("remove", &path, &error))?,
            }
        }
        Ok(())
    }
}

/// Refuses the name of a file that is not one of a profile, but leads out of the directory or is hidden.
fn check_name(name: &str) -> Result<(), Refusal> {
    match name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) {
        true => Err(Refusal::new(format!("{name:?} is not the name of a file of a profile"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::card;

    #[test]
    fn what_claims_a_card_of_the_topology_goes_unless_it_is_for_others_too() {
        let topology = Topology::parse("[cards.eth0]\nipv4 = 'auto'").unwrap();
        let live = Live {
            links: vec![card("eth0"), card("ens1")],
            hardware: [("eth0".to_owned(), "52:54:00:00:00:01".to_owned())].into(),
            ..Live::default()
        };
        let files = [
            ("named", "interface-name=eth0"),
            ("address", "[ethernet]\nmac-address=52:54:00:00:00:01"),
            ("pattern", "[match]\ninterface-name=eth*;"),
            ("off", "autoconnect=false\n[match]\ninterface-name=eth*;"),
            ("all", ""),
            ("other", "[match]\ninterface-name=ens*;"),
        ];
        let text = |rest: &str| format!("[connection]\nid=x\ntype=ethernet\n{rest}\n");
        let files: BTreeMap<String, String> =
            files.iter().map(|(name, rest)| ((*name).to_owned(), text(rest))).collect();
        let running = BTreeSet::from(["address".to_owned()]);
        let before = Profiles { files, running };
        let after = before.with(&topology, Words::OLD, &live);
        let names: Vec<&str> = after.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["all", "eth0.nmconnection", "off", "other"]);
        assert!(before.runs_on("eth0", &live) && !before.runs_on("ens1", &live));
    }

    #[test]
    fn no_profile_is_written_outside_of_its_directory() {
        for name in ["../passwd", "/etc/passwd", "a/b", ".hidden", "..", ""] {
            let text = serde_json::json!({ "files": { name: "text" }, "running": [] }).to_string();
            let refused = Profiles::parse(&text).unwrap_err();
            assert!(refused.to_string().ends_with("is not the name of a file of a profile"), "{refused}");
            let dir = tempfile::tempdir().unwrap();
            assert!(Profiles::default().write(&BTreeSet::from([name.to_owned()]), dir.path()).is_err(), "{name}");
        }
        assert!(Profiles::parse(r#"{"files":{"my card.nmconnection":""},"running":["my card.nmconnection"]}"#).is_ok());
    }
}
