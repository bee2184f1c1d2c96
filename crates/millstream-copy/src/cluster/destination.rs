//! A folder that gets a cluster or a tablespace: it must be empty, or hold an earlier copy of the same.

use super::ClusterRequest;
use super::backup_manifest::Arrived;
use crate::at_work::{self, WORK};
use crate::entry::EntryKind;
use crate::error::Error;
use crate::flow;
use crate::manifest::Reader;
use crate::owner::{Content, Look, NOTE, Owner};
use crate::path::shown_path;
use crate::remote::FarFolder;
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
    there: Option<FarFolder>,
    /// Where a slot is noted that a copy of this server to here has made.
    slot: PathBuf,
    /// The copy to which it belongs from now on.
    pub(super) owner: Owner,
    /// Whether nothing was in it.
    pub(super) was_empty: bool,
    /// The note of this process that works there, once it does.
    held: OnceLock<String>,
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
        let there = FarFolder::of(&request, &target)?;
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
        // All copies of a cluster share its number, and another server may have a slot of the same name.
        let server = format!("{}-{:016x}", owner.cluster, xxh3_64(source.as_os_str().as_bytes()));
        let slot = notes.join(format!("{SLOTS}{server}"));
        let was_empty = look.content == Content::Empty;
        let (asked, root, path, held) = (destination.to_owned(), OnceLock::new(), look.path, OnceLock::new());
        Ok(Self { notes, asked, target, root, path, there, slot, owner, was_empty, held })
    }

    /// The folder on this machine, which is made if it is missing. It is opened once.
    fn root(&self) -> Result<&Arc<Tree>, Error> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let (root, _) = Tree::make_plain(&self.target, Mode::RWXU)?;
        Ok(self.root.get_or_init(|| Arc::new(root)))
    }

    /// Keeps other copies away from it until this one has ended. From now on, this folder alone is written to.
    ///
    /// # Errors
    /// Another copy works there; the folder cannot be made or written.
    pub(super) fn hold(&self, tally: &Tally) -> Result<(), Error> {
        let own = at_work::note(&self.target);
        let mut stale: Option<String> = None;
        // What a killed copy has left is replaced. If somebody else was faster, that one works there.
        for _ in 0..2 {
            let found = match &self.there {
                Some(there) => there.hold(&own, stale.as_deref(), tally)?,
                None => self.hold_here(&own, stale.is_some())?,
            };
            if found == own {
                // It is ours to remove.
                let _ = self.held.set(own);
                return Ok(());
            }
            if tally.is_stopped() {
                return Ok(());
            }
            if at_work::is_alive(&found) {
                break;
            }
            stale = Some(found);
        }
        Err(Error::Busy { path: self.target.clone() })
    }

    /// The same on this machine. Returns the note that is there.
    fn hold_here(&self, own: &str, replaces: bool) -> Result<String, Error> {
        let root = self.root()?;
        if !root.try_lock().map_err(Error::file("lock", &self.target))? {
            return Err(Error::Busy { path: self.target.clone() });
        }
        let (note, failed) = (root.opened().join(WORK), Error::file("write", &self.target.join(WORK)));
        if replaces {
            remove_below(root, WORK).map_err(&failed)?;
        }
        match own_file(0o600).write(true).create_new(true).open(&note) {
            Ok(mut file) => file.write_all(own.as_bytes()).map(|()| own.to_owned()).map_err(failed),
            // Over ssh, a copy may come from this machine, too.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(read_note(&note).map_err(failed)?.unwrap_or_default().trim_end().to_owned())
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Lets other copies in again.
    ///
    /// # Errors
    /// The note cannot be removed, which PostgreSQL's programs would take for a file of the cluster.
    pub(super) fn release(&self) -> Result<(), Error> {
        if self.held.get().is_none() {
            return Ok(());
        }
        match &self.there {
            // A copy that was stopped releases it, too.
            Some(there) => there.remove(WORK, &Tally::default()),
            None => remove_below(self.root()?, WORK).map_err(Error::file("remove", &self.target.join(WORK))),
        }
    }

    /// Checks again that a copy may go there: another one may have been made meanwhile, or a server begun. Returns to which
    /// copy it belongs.
    ///
    /// # Errors
    /// It belongs to another one, is no longer empty, or a server runs in it; somebody has moved it.
    pub(super) fn check(&self, tally: &Tally) -> Result<Option<Owner>, Error> {
        let look = match &self.there {
            Some(there) => there.look(tally)?,
            None => {
                let root = self.root()?;
                root.check_place()?;
                Look::of(root)?
            }
        };
        refuse(&look, &self.owner, &shown_path(&self.target))?;
        Ok(look.owner)
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

    /// Writes the note to which copy it belongs, unless there is one. `is_stale`: that of a copy of which nothing is left is
    /// replaced.
    ///
    /// # Errors
    /// There is one; the folder cannot be written.
    pub(super) fn take(&self, is_stale: bool, tally: &Tally) -> Result<(), Error> {
        let text = self.owner.text();
        if let Some(there) = &self.there {
            return there.take(&text, is_stale, tally);
        }
        let (root, failed) = (self.root()?, Error::file("write", &self.target.join(NOTE)));
        if is_stale {
            remove_below(root, NOTE).map_err(&failed)?;
        }
        let made = own_file(0o600).write(true).create_new(true).open(root.opened().join(NOTE));
        made.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
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
        let is_left_out =
            |path: &[u8]| path.starts_with(b"pg_wal/") || [NOTE, WORK].iter().any(|note| path == note.as_bytes());
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
        // Nothing of that copy is left, and no process works on it once this one holds the folder.
        Some(_) if look.content == Content::Empty => Ok(()),
        Some(other) if other.cluster == owner.cluster && other.data == shown_path(&look.path) => {
            let says = format!("another copy to {root} has begun meanwhile");
            Err(Error::refused(says, "wait until it has ended, and run the same command again"))
        }
        Some(other) if other.cluster == owner.cluster && other.data == owner.data => {
            let says = format!(
                "{root} belongs to another copy to {}: one that has just begun, or an earlier one that was removed, moved or \
                 replaced",
                other.data
            );
            let hint = format!(
                "wait for a copy that has begun; or choose another folder; or, if no server uses {root}, remove what is in it, \
                 and its file {NOTE}"
            );
            Err(Error::refused(says, hint))
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
        let (owner, root, was_empty, held) = (Owner::new(1, &target), OnceLock::new(), false, OnceLock::new());
        Destination { notes, asked, target, root, path, there, slot, owner, was_empty, held }
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
        one.hold(&tally).unwrap();
        assert!(matches!(other.hold(&tally), Err(Error::Busy { .. })));
        for both in [&one, &other] {
            assert_eq!(both.check(&tally).unwrap(), None);
        }
        one.take(false, &tally).unwrap();
        assert!(other.take(false, &tally).is_err() && one.take(false, &tally).is_err());
        assert_eq!(one.check(&tally).unwrap().as_ref(), Some(&one.owner));
        // The note alone is nothing that must be kept.
        assert_eq!(other.check(&tally).unwrap().as_ref(), Some(&one.owner));
        fs::write(target.join("PG_VERSION"), "18").unwrap();
        let refused = other.check(&tally).unwrap_err().to_string();
        assert!(refused.contains("has begun meanwhile"), "{refused}");
        fs::remove_file(target.join("PG_VERSION")).unwrap();
        one.release().unwrap();
        assert!(!target.join(WORK).exists());
        drop(one);
        other.hold(&tally).unwrap();
        other.take(true, &tally).unwrap();
        assert_eq!(other.check(&tally).unwrap().as_ref(), Some(&other.owner));
    }

    #[test]
    fn a_note_of_a_killed_copy_keeps_nobody_out_and_one_of_a_living_process_does() {
        let dir = tempfile::tempdir().unwrap();
        let (target, tally) = (dir.path().canonicalize().unwrap(), Tally::default());
        let hold = |note: &str| {
            fs::write(target.join(WORK), note).unwrap();
            let destination = new(&target);
            let held = destination.hold(&tally);
            destination.release().unwrap();
            held
        };
        for killed in ["", "boot 1 1 0\n"] {
            hold(killed).unwrap();
            assert!(!target.join(WORK).exists());
        }
        assert!(matches!(hold(&at_work::note(&target)), Err(Error::Busy { .. })));
        assert!(target.join(WORK).exists(), "it is another copy's");
    }

    #[test]
    fn a_folder_of_a_copy_that_is_gone_is_named_with_a_way_out() {
        let (data, space) = (Path::new("/data"), Path::new("/space"));
        let look = |content| Look { content, path: space.to_owned(), owner: Some(Owner::new(1, data)), within: None };
        let refused = |content| refuse(&look(content), &Owner::new(1, data), "/space");
        let Err(Error::Refused(refusal)) = refused(Content::Full) else { panic!("not refused") };
        assert!(refusal.problem.contains("one that has just begun, or an earlier one"), "{}", refusal.problem);
        assert!(refusal.hint.unwrap().contains(NOTE));
        refused(Content::Empty).unwrap();
    }
}
