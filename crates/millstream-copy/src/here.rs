//! The end of a copy that lies on this machine.

use crate::end::{End, Opened, Role, Wanted};
use crate::entry::Inode;
use crate::error::Error;
use crate::extra::{self, Extra};
use crate::folding::Folder;
use crate::manifest::Header;
use crate::place::Place;
use crate::request::Delete;
use crate::servers::{self, InUse};
use crate::tally::Tally;
use crate::task::Task;
use crate::tree::{self, Tree};
use crate::walk::{Listed, Walk};
use millstream_host::cpus;
use rustix::fs::{Mode, syncfs};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A folder of this machine.
pub(crate) struct Here {
    role: Role,
    /// The path of a destination has no links.
    root: PathBuf,
    /// The destination, once it is open.
    opened: OnceLock<Arc<Tree>>,
}

impl Here {
    pub(crate) fn source(place: &Place) -> Self {
        Self { role: Role::Source, root: place.source.clone(), opened: OnceLock::new() }
    }

    pub(crate) fn destination(root: PathBuf) -> Self {
        Self { role: Role::Destination, root, opened: OnceLock::new() }
    }

    /// The tree from which or to which is copied.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn tree(&self, task: &Task<'_>) -> Result<Arc<Tree>, Error> {
        match self.opened.get() {
            Some(opened) => Ok(Arc::clone(opened)),
            None => self.look(task.request.copy_links).map(Arc::new).map_err(Error::file("open", &self.root)),
        }
    }

    /// What is at its path now. A link there is not followed if it is a destination.
    fn look(&self, follows_links: bool) -> io::Result<Tree> {
        match self.role {
            Role::Source => Tree::open(&self.root, follows_links),
            Role::Destination => Tree::open_plain(&self.root),
        }
    }

    /// The destination, if it is there.
    fn there(&self) -> Option<Arc<Tree>> {
        self.opened.get().cloned().or_else(|| self.look(false).ok().map(Arc::new))
    }
}

impl End for Here {
    fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn here(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn refuse_deletion(&self, wanted: &Wanted<'_>, other: &dyn End) -> Result<(), Error> {
        match self.role {
            Role::Source => Ok(()),
            Role::Destination => extra::check(wanted.delete, &self.root, other.here()),
        }
    }

    fn marks(&self) -> HashSet<Inode> {
        self.look(false).map(|tree| extra::mounted(&tree)).unwrap_or_default()
    }

    fn list(&self, task: &Task<'_>, header: &Header, others: &HashSet<Inode>) -> Result<Listed, Error> {
        let tree = self.tree(task)?;
        let walk = Walk {
            tree: &tree,
            scope: task.scope(),
            attributes: header.has_attributes,
            skip: task.state.home(),
            others,
            threads: cpus(),
            tally: task.tally,
            failures: &task.failures,
        };
        walk.list(header, &task.state.list(), task.state.folder())
    }

    fn servers(&self, _: &Tally) -> Result<(PathBuf, Vec<InUse>), Error> {
        Ok((self.root.clone(), servers::around(&self.root)))
    }

    fn open(&self, task: &Task<'_>) -> Result<Opened, Error> {
        let others = Mode::from_raw_mode(0o755);
        // The root of a tree gets its rights once everything is in it.
        let own = if task.place.file.is_some() { others } else { Mode::RWXU };
        let (tree, was_missing) = match &task.request.within {
            Some(within) => within.open(own)?,
            None => {
                // The folder that is named like the source may be the second one that is missing.
                if let Some(above) = self.root.parent() {
                    tree::make_folder(above, others)?;
                }
                let (tree, was_missing) = Tree::make_plain(&self.root, own)?;
                (Arc::new(tree), was_missing)
            }
        };
        let was_empty = self.opened.get_or_init(|| tree).is_empty();
        Ok(Opened { was_missing, was_empty })
    }

    fn folder<'a>(&'a self, _: &'a Task<'_>) -> Option<Box<dyn Folder + 'a>> {
        self.there().map(|tree| -> Box<dyn Folder + 'a> { Box::new(tree) })
    }

    fn keeps_owners(&self, _: &Task<'_>, _: &str) -> Result<bool, Error> {
        Ok(rustix::process::geteuid().is_root())
    }

    fn find_extra(&self, task: &Task<'_>, listed: &Listed, others: &HashSet<Inode>) -> Result<Option<Extra>, Error> {
        self.there().map(|tree| extra::find(task, &tree, listed.folding, others)).transpose()
    }

    fn delete(&self, task: &Task<'_>, _: &Listed, delete: &Delete, extra: Extra) -> Result<u64, Error> {
        let tree = self.tree(task)?;
        extra::run(task, &tree, delete, extra)
    }

    /// The file system of the root, and the name of the root itself.
    fn sync(&self, _: &Tally) -> Result<(), Error> {
        let failed = Error::file("flush", &self.root);
        let flush = |tree: &Tree| -> io::Result<()> { Ok(syncfs(tree.folder(b"")?)?) };
        let root = self.there().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        flush(&root).map_err(&failed)?;
        self.root.parent().map_or(Ok(()), |above| flush(&Tree::open_plain(above)?)).map_err(failed)
    }

    fn check_place(&self) -> Result<(), Error> {
        self.opened.get().map_or(Ok(()), |opened| opened.check_place())
    }
}
