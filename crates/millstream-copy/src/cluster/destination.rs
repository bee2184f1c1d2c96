//! A folder that gets a cluster or a tablespace: it must be empty, or hold an earlier copy of the same.

use super::ClusterRequest;
use super::backup_manifest::Arrived;
use crate::entry::EntryKind;
use crate::error::Error;
use crate::flow;
use crate::manifest::Reader;
use crate::path::shown_path;
use crate::remote::{Content, There};
use crate::request::Request;
use crate::state::State;
use crate::tally::Tally;
use crate::tree::{self, Tree};
use millstream_host::{PRIVATE, check_ours, make_ours, read_note, write_private};
use millstream_model::Refusal;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file in the notes of a copy that says of which cluster it is.
const SYSTEM: &str = "cluster";
/// The file in the notes of a copy that names the slot that it has made.
const SLOT: &str = "slot";
/// Without this file, no server starts.
const CONTROL: &str = "global/pg_control";

pub(super) struct Destination {
    /// Where copies to it keep their notes.
    notes: PathBuf,
    /// The folder itself.
    target: PathBuf,
    system: u64,
    there: Option<There>,
    /// Whether nothing was in it.
    pub(super) was_empty: bool,
}

impl Destination {
    /// Checks that a copy of `source` may go there.
    ///
    /// # Errors
    /// It holds something else; a server runs in it; the folder that it is in does not exist.
    pub(super) fn open(
        source: &Path,
        destination: &Path,
        cluster: &ClusterRequest,
        system: u64,
        tally: &Tally,
    ) -> Result<Self, Error> {
        let mut request = Request::new(source.join(""), destination, &cluster.home);
        request.shell.clone_from(&cluster.shell);
        let target = flow::target(&request, tally)?;
        let notes = State::folder_of(&cluster.home, &target);
        check_ours(&notes)?;
        let there = There::of(&request, &target)?;
        let content = match &there {
            Some(there) => there.content(tally)?,
            None => content_here(&target)?,
        };
        let root = shown_path(&target);
        let opened = Self { notes, target, system, there, was_empty: content == Content::Empty };
        match content {
            Content::Empty => Ok(opened),
            Content::Running => {
                let says = format!("a server runs in {root}, or has crashed there: it has a postmaster.pid");
                Err(Error::refused(says, "stop it, or choose another folder"))
            }
            Content::Full if opened.is_of_this_cluster() => Ok(opened),
            Content::Full => {
                let says = format!("{root} is not empty, and holds no earlier copy of this cluster");
                Err(Error::refused(says, "choose an empty folder"))
            }
        }
    }

    /// Whether it lies on another machine.
    pub(super) fn is_there(&self) -> bool {
        self.there.is_some()
    }

    /// A path of the machine on which this lies.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        match &self.there {
            Some(there) => there.beside(path),
            None => path.to_owned(),
        }
    }

    /// Notes that it is about to hold a copy of this cluster. What is noted of a folder that is empty now is forgotten: its
    /// files would stand in the new copy's manifest.
    pub(super) fn claim(&self) -> Result<(), Error> {
        if self.was_empty {
            State::forget(&self.notes, &self.target)?;
        }
        make_ours(&self.notes, PRIVATE)?;
        let path = self.notes.join(SYSTEM);
        write_private(&path, &self.system.to_string()).map_err(Error::file("write", &path))
    }

    /// Removes the control file, if there is one, so that no server starts on what is not whole.
    pub(super) fn disarm(&self, tally: &Tally) -> Result<(), Error> {
        match &self.there {
            Some(there) => there.remove(CONTROL, tally),
            None => {
                let path = self.target.join(CONTROL);
                remove_below(&self.target, CONTROL).map_err(Error::file("remove", &path))
            }
        }
    }

    /// Whether one of both lies in the other, or they are the same folder.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.target.starts_with(&other.target) || other.target.starts_with(&self.target)
    }

    /// The slot that an unfinished copy to here has made on the server.
    pub(super) fn own_slot(&self) -> Option<String> {
        read_note(&self.notes.join(SLOT)).ok().flatten()
    }

    /// Notes that a slot on the server was made by a copy to here.
    pub(super) fn note_slot(&self, name: &str) -> Result<(), Error> {
        make_ours(&self.notes, PRIVATE)?;
        let path = self.notes.join(SLOT);
        write_private(&path, name).map_err(Error::file("write", &path))
    }

    /// Forgets that slot: it is gone, or it belongs to a standby now.
    pub(super) fn forget_slot(&self) -> Result<(), Error> {
        let path = self.notes.join(SLOT);
        millstream_host::remove_whole(&path).map_err(Error::file("remove", &path))
    }

    fn is_of_this_cluster(&self) -> bool {
        let noted = read_note(&self.notes.join(SYSTEM)).ok().flatten();
        noted.is_some_and(|noted| noted == self.system.to_string())
    }

    /// The files that have arrived, with their hashes, as files below the data directory. WAL is left out.
    pub(super) fn arrived(&self, before: &str, cluster: &ClusterRequest, tally: &Tally) -> Result<Vec<Arrived>, Error> {
        let named = |path: &[u8]| [before.as_bytes(), path].concat();
        let is_wal = |path: &[u8]| path.starts_with(b"pg_wal/");
        if let Some(there) = &self.there {
            let mut files = Vec::new();
            there.files(&cluster.home, tally, &mut |entry, hash| {
                if !is_wal(&entry.path) {
                    let (size, modified) = (entry.facts.size(), entry.facts.modified.seconds);
                    files.push(Arrived { path: named(&entry.path), size, modified, hash });
                }
            })?;
            return Ok(files);
        }
        let manifest = State::manifest_in(&self.notes);
        let mut list = Reader::open(&manifest).map_err(Error::manifest(&manifest))?;
        let mut files = Vec::new();
        while let Some(entry) = list.next().map_err(Error::manifest(&manifest))? {
            let EntryKind::File { size, hash } = entry.facts.kind else { continue };
            let path = named(&entry.path);
            let Some(hash) = hash else {
                return Err(Refusal::new(format!("{} has no hash", crate::path::shown(&path))).into());
            };
            files.push(Arrived { path, size, modified: entry.facts.modified.seconds, hash });
        }
        Ok(files)
    }
}

/// Removes a file below a folder, if it is there. The folder may belong to another account, which can put a link to another
/// folder in the file's way.
fn remove_below(root: &Path, path: &str) -> io::Result<()> {
    match Tree::open(root, false).and_then(|tree| tree.parent(path.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => {
            let (folder, name) = found?;
            tree::remove(&folder, &name)?;
            Ok(rustix::fs::fsync(&folder)?)
        }
    }
}

fn content_here(path: &Path) -> Result<Content, Error> {
    if path.join("postmaster.pid").exists() {
        return Ok(Content::Running);
    }
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Empty),
        entries => {
            let mut entries = entries.map_err(Error::file("list", path))?;
            Ok(if entries.next().is_none() { Content::Empty } else { Content::Full })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_control_file_of_another_folder_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [target, other] = ["target", "other"].map(|name| dir.path().join(name));
        let (global, control) = (target.join("global"), other.join("pg_control"));
        for folder in [&target, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(&control, "control").unwrap();
        let notes = dir.path().to_owned();
        let destination = Destination { notes, target: target.clone(), system: 1, there: None, was_empty: false };
        let tally = Tally::default();
        destination.disarm(&tally).unwrap();
        symlink(&other, &global).unwrap();
        assert!(destination.disarm(&tally).is_err() && control.exists());
        fs::remove_file(&global).unwrap();
        fs::rename(&other, &global).unwrap();
        destination.disarm(&tally).unwrap();
        assert!(!target.join(CONTROL).exists() && global.exists());
    }
}
