//! A folder that gets a cluster or a tablespace: it must be empty, or hold an earlier copy of the same.

use super::ClusterRequest;
use super::backup_manifest::Arrived;
use crate::entry::EntryKind;
use crate::error::Error;
use crate::flow;
use crate::manifest::Reader;
use crate::owner::{Content, Look, NOTE, Owner};
use crate::path::shown_path;
use crate::remote::There;
use crate::request::Request;
use crate::state::{SLOTS, State};
use crate::tally::Tally;
use crate::tree::{self, Tree, Within};
use millstream_host::{PRIVATE, check_ours, make_ours, own_file, read_note, write_private};
use millstream_model::Refusal;
use rustix::fs::Mode;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64;

/// Without this file, no server starts.
const CONTROL: &str = "global/pg_control";
/// Where WAL goes, which is copied by itself.
pub(super) const WAL: &str = "pg_wal";

pub(super) struct Destination {
    /// Where copies to it keep their notes.
    notes: PathBuf,
    /// What was asked for.
    asked: PathBuf,
    /// The folder itself. On this machine, the path has no links.
    target: PathBuf,
    /// The folder itself, if it lies on this machine, once something is written there: it belongs to the server's account soon,
    /// or what is above it may belong to another account, so its path is not looked up again.
    root: OnceLock<Arc<Tree>>,
    /// Its path without links, on its machine.
    path: PathBuf,
    there: Option<There>,
    /// Where a slot is noted that a copy of this server to here has made.
    slot: PathBuf,
    /// The copy to which it belongs from now on.
    pub(super) owner: Owner,
    /// Whether its note says so already.
    pub(super) is_claimed: bool,
    /// Whether nothing was in it.
    pub(super) was_empty: bool,
}

/// Which earlier copy a folder may hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Belongs<'a> {
    /// One of this cluster that was made to the folder itself.
    ToCluster(u64),
    /// This one.
    To(&'a Owner),
}

impl Destination {
    /// Checks that a copy of `source` may go there.
    ///
    /// # Errors
    /// It holds something else, or belongs to another copy; a server runs in it; the folder that it is in does not exist.
    pub(super) fn open(
        source: &Path,
        destination: &Path,
        cluster: &ClusterRequest,
        belongs: Belongs<'_>,
        tally: &Tally,
    ) -> Result<Self, Error> {
        let mut request = Request::new(source.join(""), destination, &cluster.home);
        request.shell.clone_from(&cluster.shell);
        let target = flow::target(&request, tally)?;
        let notes = State::folder_of(&cluster.home, &target);
        check_ours(&notes)?;
        let there = There::of(&request, &target)?;
        let look = match &there {
            Some(there) => there.look(tally)?,
            None => Look::here(&target)?,
        };
        let owner = match belongs {
            Belongs::To(owner) => owner.clone(),
            Belongs::ToCluster(system) => {
                let found = look.owner.clone().filter(|found| found.is_of(system, &look.path));
                found.unwrap_or_else(|| Owner::new(system, &look.path))
            }
        };
        refuse(&look, &owner, &shown_path(&target))?;
        let is_claimed = look.owner.is_some();
        // All copies of a cluster share its number, and another server may have a slot of the same name.
        let server = format!("{}-{:016x}", owner.cluster, xxh3_64(source.as_os_str().as_bytes()));
        let slot = notes.join(format!("{SLOTS}{server}"));
        let was_empty = look.content == Content::Empty;
        let (asked, root, path) = (destination.to_owned(), OnceLock::new(), look.path);
        Ok(Self { notes, asked, target, root, path, there, slot, owner, is_claimed, was_empty })
    }

    /// The folder on this machine, which is made if it is missing. It is opened once.
    fn root(&self) -> Result<&Arc<Tree>, Error> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let (root, _) = Tree::make_plain(&self.target, Mode::RWXU)?;
        Ok(self.root.get_or_init(|| Arc::new(root)))
    }

    /// Checks again that a copy may go there: another one may have begun meanwhile, or a server. From now on, this folder alone
    /// is written to.
    ///
    /// # Errors
    /// It belongs to another one, is no longer empty, or a server runs in it; somebody has moved it.
    pub(super) fn check(&self, tally: &Tally) -> Result<(), Error> {
        let look = match &self.there {
            Some(there) => there.look(tally)?,
            None => {
                let root = self.root()?;
                root.check_place()?;
                Look::of(root)?
            }
        };
        refuse(&look, &self.owner, &shown_path(&self.target))
    }

    /// Checks that its path still leads to what was written.
    ///
    /// # Errors
    /// Something else is there.
    pub(super) fn check_place(&self) -> Result<(), Error> {
        self.root.get().map_or(Ok(()), |root| root.check_place())
    }

    /// Lets a copy go to the folder, or to one in it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn aim(&self, request: &mut Request, folder: &'static str) -> Result<(), Error> {
        request.destination = self.inside(folder);
        if self.there.is_none() {
            request.within = Some(Within { tree: Arc::clone(self.root()?), path: folder.as_bytes() });
        }
        Ok(())
    }

    /// Writes the note to which copy it belongs, unless there is one: of two copies that begin at once, one gets the folder.
    ///
    /// # Errors
    /// There is one; the folder cannot be written.
    pub(super) fn take(&self, tally: &Tally) -> Result<(), Error> {
        let text = self.owner.text();
        if let Some(there) = &self.there {
            return there.take(&text, tally);
        }
        let path = self.target.join(NOTE);
        let made = own_file(0o600).write(true).create_new(true).open(self.root()?.opened().join(NOTE));
        made.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file("write", &path))
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

    /// The path of a folder in it, or its own if that is empty.
    fn inside(&self, folder: &str) -> PathBuf {
        match &self.there {
            Some(_) if folder.is_empty() => self.asked.clone(),
            Some(there) => there.inside(folder),
            None if folder.is_empty() => self.target.clone(),
            None => self.target.join(folder),
        }
    }

    /// Forgets what is noted of a folder that is empty now: its files would stand in the new copy's manifest.
    pub(super) fn forget_what_is_gone(&self, cluster: &ClusterRequest) -> Result<(), Error> {
        if self.was_empty {
            State::forget(&self.notes, &self.target)?;
            let wal = self.inside(WAL);
            State::forget(&State::folder_of(&cluster.home, &wal), &wal)?;
        }
        Ok(())
    }

    /// Removes the control file, if there is one, so that no server starts on what is not whole.
    pub(super) fn disarm(&self, tally: &Tally) -> Result<(), Error> {
        match &self.there {
            Some(there) => there.remove(CONTROL, tally),
            None => {
                let path = self.target.join(CONTROL);
                remove_below(self.root()?, CONTROL).map_err(Error::file("remove", &path))
            }
        }
    }

    /// Whether one of both lies in the other, or they are the same folder.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.path.starts_with(&other.path) || other.path.starts_with(&self.path)
    }

    /// Whether this and a folder of this machine lie in each other, or are the same.
    pub(super) fn meets(&self, path: &Path) -> bool {
        self.there.is_none() && (self.target.starts_with(path) || path.starts_with(&self.target))
    }

    /// The slot that an unfinished copy of this server to here has made on it, and where its WAL begins.
    pub(super) fn own_slot(&self) -> Option<(String, String)> {
        let note = read_note(&self.slot).ok().flatten()?;
        let (name, lsn) = note.split_once('\n')?;
        Some((name.to_owned(), lsn.to_owned()))
    }

    /// Notes that a slot on the server, whose WAL begins there, was made by a copy to here.
    pub(super) fn note_slot(&self, name: &str, lsn: &str) -> Result<(), Error> {
        make_ours(&self.notes, PRIVATE)?;
        write_private(&self.slot, &format!("{name}\n{lsn}")).map_err(Error::file("write", &self.slot))
    }

    /// Forgets that slot: it is gone, or it belongs to a standby now.
    pub(super) fn forget_slot(&self) -> Result<(), Error> {
        millstream_host::remove_whole(&self.slot).map_err(Error::file("remove", &self.slot))
    }

    /// The files that have arrived, with their hashes, as files below the data directory. WAL and the note are left out.
    pub(super) fn arrived(&self, before: &str, cluster: &ClusterRequest, tally: &Tally) -> Result<Vec<Arrived>, Error> {
        let named = |path: &[u8]| [before.as_bytes(), path].concat();
        let is_left_out = |path: &[u8]| path.starts_with(b"pg_wal/") || path == NOTE.as_bytes();
        if let Some(there) = &self.there {
            let mut files = Vec::new();
            there.files(&cluster.home, tally, &mut |entry, hash| {
                if !is_left_out(&entry.path) {
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
            if is_left_out(&entry.path) {
                continue;
            }
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
fn remove_below(root: &Tree, path: &str) -> io::Result<()> {
    match root.parent(path.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => {
            let (folder, name) = found?;
            tree::remove(&folder, &name)?;
            Ok(rustix::fs::fsync(&folder)?)
        }
    }
}

/// Refuses a folder that is not for this copy.
fn refuse(look: &Look, owner: &Owner, root: &str) -> Result<(), Error> {
    if let Some(above) = &look.within {
        let says = format!("{root} lies in {}, which belongs to a server or to a copy of a cluster", shown_path(above));
        return Err(Error::refused(says, "choose a folder outside of it"));
    }
    if look.content == Content::Running {
        let says = format!("a server runs in {root}, or has crashed there: it has a postmaster.pid");
        return Err(Error::refused(says, "stop it, or choose another folder"));
    }
    match &look.owner {
        Some(other) if other == owner => Ok(()),
        Some(other) if other.cluster == owner.cluster && other.data == owner.data => {
            let says = format!("{root} belongs to an earlier copy to {}, which is not there any more", other.data);
            Err(Error::refused(says, "empty the folder, or choose another one"))
        }
        Some(other) => {
            let which = if other.cluster == owner.cluster { "another copy of this" } else { "a copy of another" };
            let says = format!("{root} belongs to {which} cluster, whose data directory is {}", other.data);
            Err(Error::refused(says, "choose an empty folder for this copy; a server may use the other one"))
        }
        None if look.content == Content::Full => {
            let says = format!("{root} is not empty, and holds no earlier copy of this cluster");
            Err(Error::refused(says, "choose an empty folder"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A copy to a folder of this machine, without notes.
    fn new(target: &Path) -> Destination {
        let (notes, slot, there) = (target.join("notes"), target.join("slot"), None);
        let (asked, target, path) = (target.to_owned(), target.to_owned(), target.to_owned());
        let (owner, root, is_claimed, was_empty) = (Owner::new(1, &target), OnceLock::new(), true, false);
        Destination { notes, asked, target, root, path, there, slot, owner, is_claimed, was_empty }
    }

    #[test]
    fn the_control_file_of_another_folder_stays() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().canonicalize().unwrap();
        let [target, other] = ["target", "other"].map(|name| above.join(name));
        let (global, control) = (target.join("global"), other.join("pg_control"));
        for folder in [&target, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(&control, "control").unwrap();
        let (destination, tally) = (new(&target), Tally::default());
        destination.disarm(&tally).unwrap();
        symlink(&other, &global).unwrap();
        assert!(destination.disarm(&tally).is_err() && control.exists());
        fs::remove_file(&global).unwrap();
        fs::rename(&other, &global).unwrap();
        destination.disarm(&tally).unwrap();
        assert!(!target.join(CONTROL).exists() && global.exists());
    }

    #[test]
    fn one_of_two_copies_gets_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (target, tally) = (dir.path().canonicalize().unwrap().join("target"), Tally::default());
        let [one, other] = [new(&target), new(&target)];
        for both in [&one, &other] {
            both.check(&tally).unwrap();
        }
        one.take(&tally).unwrap();
        assert!(other.take(&tally).is_err() && one.take(&tally).is_err());
        one.check(&tally).unwrap();
        let refused = other.check(&tally).unwrap_err().to_string();
        assert!(refused.contains("belongs to an earlier copy"), "{refused}");
    }
}
