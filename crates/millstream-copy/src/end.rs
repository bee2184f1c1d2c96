//! An end of a copy, on this machine or on another one.

use crate::entry::Inode;
use crate::error::Error;
use crate::extra::Extra;
use crate::folding::Folder;
use crate::manifest::Header;
use crate::place::Place;
use crate::policy::Policy;
use crate::request::{Delete, Request};
use crate::servers::InUse;
use crate::tally::Tally;
use crate::task::Task;
use crate::walk::Listed;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The source of a copy, or its destination. What only one of them does is said.
pub(crate) trait End {
    /// Its root: the folder that is copied, or that gets it; of a single file, the folder that the file is in.
    fn root(&self) -> PathBuf;

    /// The path of the root, if it lies on this machine.
    fn here(&self) -> Option<&Path>;

    /// Refuses a deletion that nobody can want. Both ends are asked before anything is done.
    ///
    /// # Errors
    /// It would delete the source or the trash; the machine cannot be reached.
    fn refuse_deletion(&self, wanted: &Wanted<'_>, other: &dyn End) -> Result<(), Error>;

    /// Folders by which this end may hold some of the other one, too: its root, and those at which something is mounted.
    fn marks(&self) -> HashSet<Inode>;

    /// Lists the source. `others`: folders of the other end that must not be below it.
    ///
    /// # Errors
    /// It cannot be listed, or the list cannot be written.
    fn list(&self, task: &Task<'_>, header: &Header, others: &HashSet<Inode>) -> Result<Listed, Error>;

    /// The root of the destination without links, and the folders in use by servers of its machine that have to do with it.
    ///
    /// # Errors
    /// The machine cannot be reached.
    fn servers(&self, tally: &Tally) -> Result<(PathBuf, Vec<InUse>), Error>;

    /// Opens the root of the destination, which is made if it is missing. Nothing else is written to from now on, whatever
    /// happens at its path.
    ///
    /// # Errors
    /// It cannot be made or opened.
    fn open(&self, task: &Task<'_>) -> Result<Opened, Error>;

    /// The root of the destination, to ask it which names it takes for the same. `None` if it is not there.
    fn folder<'a>(&'a self, task: &'a Task<'_>) -> Option<Box<dyn Folder + 'a>>;

    /// Whether whoever writes the destination keeps the owners of files. `probe`: the name of a file which may be made there to
    /// find out.
    ///
    /// # Errors
    /// The machine cannot be reached.
    fn keeps_owners(&self, task: &Task<'_>, probe: &str) -> Result<bool, Error>;

    /// Finds what the destination has and the source has not. `others`: folders of the source that must not be below it. `None`
    /// if it is not there.
    ///
    /// # Errors
    /// It cannot be listed whole.
    fn find_extra(&self, task: &Task<'_>, listed: &Listed, others: &HashSet<Inode>) -> Result<Option<Extra>, Error>;

    /// Deletes what was found, or moves it to the trash. Returns how many entries went.
    ///
    /// # Errors
    /// It would be others now; the trash takes nothing; the machine cannot be reached.
    fn delete(&self, task: &Task<'_>, listed: &Listed, delete: &Delete, extra: Extra) -> Result<u64, Error>;

    /// Waits until everything is on the disk of the destination.
    ///
    /// # Errors
    /// It cannot be written.
    fn sync(&self, tally: &Tally) -> Result<(), Error>;

    /// Checks that the path of the destination still leads to what was opened.
    ///
    /// # Errors
    /// Something else is there.
    fn check_place(&self) -> Result<(), Error>;
}

/// A request with a deletion, before it was found to be possible.
pub(crate) struct Wanted<'a> {
    pub(crate) request: &'a Request,
    pub(crate) delete: &'a Delete,
    pub(crate) policy: &'a Policy,
    pub(crate) place: &'a Place,
    pub(crate) tally: &'a Tally,
}

/// Which end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Destination,
}

/// How the root of a destination was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) was_missing: bool,
    /// Nothing was in it.
    pub(crate) was_empty: bool,
}
