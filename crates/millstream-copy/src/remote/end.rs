//! How an end on another machine does what a copy asks of it.

use super::address::By;
use super::deletion::{self, Deleting};
use super::probe::Root;
use super::there::There;
use crate::end::{End, Opened, Wanted};
use crate::entry::Inode;
use crate::error::Error;
use crate::extra::Extra;
use crate::folding::Folder;
use crate::manifest::Header;
use crate::request::Delete;
use crate::servers::InUse;
use crate::tally::Tally;
use crate::task::Task;
use crate::walk::Listed;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

impl End for There {
    fn root(&self) -> PathBuf {
        self.root.text().into()
    }

    fn here(&self) -> Option<&Path> {
        None
    }

    fn refuse_deletion(&self, wanted: &Wanted<'_>, other: &dyn End) -> Result<(), Error> {
        if !self.is_source() {
            deletion::check(wanted, self)?;
        }
        let Some(here) = other.here().filter(|_| wanted.policy.judges_ends) else { return Ok(()) };
        let marks = deletion::refuse_overlap(wanted, self, here)?;
        let _ = self.marks.set(marks);
        Ok(())
    }

    fn marks(&self) -> HashSet<Inode> {
        self.marks.get().cloned().unwrap_or_default()
    }

    /// A walk over this machine cannot know what is mounted there, so it is looked for before.
    fn list(&self, task: &Task<'_>, header: &Header, _: &HashSet<Inode>) -> Result<Listed, Error> {
        self.listing(task.scope(), task.tally, &task.failures).list(header, &task.state.list(), task.state.folder())
    }

    fn servers(&self, tally: &Tally) -> Result<(PathBuf, Vec<InUse>), Error> {
        self.servers_in_use(tally)
    }

    /// rsync makes the root.
    fn open(&self, _: &Task<'_>) -> Result<Opened, Error> {
        Ok(Opened::default())
    }

    fn folder<'a>(&'a self, task: &'a Task<'_>) -> Option<Box<dyn Folder + 'a>> {
        Some(Box::new(Root { there: self, place: &task.place, tally: task.tally }))
    }

    /// Root keeps the owners. A daemon has its own rules for that.
    fn keeps_owners(&self, task: &Task<'_>, probe: &str) -> Result<bool, Error> {
        let By::Shell(host) = &self.root.by else {
            return Root { there: self, place: &task.place, tally: task.tally }.keeps_owner(probe);
        };
        let mut is_root = false;
        self.rsync.script(host, OsStr::new("id -u | tr '\\n' '\\0'"), b"", task.tally, &mut |record| {
            is_root |= record == b"0";
            Ok(())
        })?;
        Ok(is_root)
    }

    fn find_extra(&self, task: &Task<'_>, listed: &Listed, _: &HashSet<Inode>) -> Result<Option<Extra>, Error> {
        Deleting::new(task, self, listed.folding)?.find().map(Some)
    }

    fn delete(&self, task: &Task<'_>, listed: &Listed, delete: &Delete, extra: Extra) -> Result<u64, Error> {
        Deleting::new(task, self, listed.folding)?.run(delete, extra)
    }

    fn sync(&self, tally: &Tally) -> Result<(), Error> {
        self.flush(tally)
    }

    /// Nobody here knows what is at a path there.
    fn check_place(&self) -> Result<(), Error> {
        Ok(())
    }
}
