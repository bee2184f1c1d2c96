//! The end of a copy that lies on another machine.

use super::address::{Address, By, joined, quoted_path};
use super::listing::Listing;
use super::rsync::Rsync;
use crate::end::Role;
use crate::entry::Inode;
use crate::error::Error;
use crate::servers::{self, InUse};
use crate::tally::{Failures, Tally};
use crate::walk::Scope;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder of another machine.
#[derive(Debug)]
pub(crate) struct There {
    pub(super) role: Role,
    /// The folder: the root of the tree.
    pub(super) root: Address,
    pub(super) rsync: Rsync,
    /// If a remote shell reaches this machine, folders by which it may hold some of the end here.
    pub(super) marks: OnceLock<HashSet<Inode>>,
}

impl There {
    pub(super) fn new(role: Role, root: Address, rsync: Rsync) -> Self {
        Self { role, root, rsync, marks: OnceLock::new() }
    }

    /// Whether it is the source.
    pub(crate) fn is_source(&self) -> bool {
        self.role == Role::Source
    }

    /// The root without links, and the folders there that servers use, wherever they are. A daemon does not tell.
    ///
    /// # Errors
    /// The other machine cannot be reached.
    pub(super) fn servers_in_use(&self, tally: &Tally) -> Result<(PathBuf, Vec<InUse>), Error> {
        let (mut root, mut used) = (PathBuf::new(), Vec::new());
        let By::Shell(host) = &self.root.by else { return Ok((root, used)) };
        let [own, above] = [&self.root, &self.root.parent()].map(|folder| quoted_path(&folder.path));
        let enters = " 2>/dev/null && is=at || { is=above; cd ";
        let script = joined([&"cd ", &own, &enters, &above, &" 2>/dev/null || exit 0; }; ", &servers::SCRIPT]);
        self.rsync.script(host, &script, b"", tally, &mut |record| {
            let path_behind =
                |word: &[u8]| record.strip_prefix(word).map(|path| PathBuf::from(OsStr::from_bytes(path)));
            if let Some(path) = path_behind(b"at ") {
                root = path;
            } else if let Some(path) = path_behind(b"above ") {
                root = path.join(OsStr::from_bytes(self.root.name().unwrap_or_default()));
            } else if let Some(data) = path_behind(b"server ") {
                used.push(InUse { data: data.clone(), folder: data });
            } else if let Some(folder) = path_behind(b"uses ")
                && let Some(InUse { data, .. }) = used.last().cloned()
            {
                used.push(InUse { data, folder });
            }
            Ok(())
        })?;
        Ok((root, used))
    }

    /// How the source is listed, which lies there.
    pub(super) fn listing<'a>(&'a self, scope: Scope<'a>, tally: &'a Tally, failures: &'a Failures) -> Listing<'a> {
        Listing { rsync: &self.rsync, root: &self.root, scope, tally, failures, is_source: true }
    }

    /// Waits until everything is on the disk there. A daemon cannot be asked for that, which [`super::ends::find`] refuses.
    ///
    /// # Errors
    /// The other machine cannot be reached, or has no `sync`.
    pub(super) fn flush(&self, tally: &Tally) -> Result<(), Error> {
        let By::Shell(host) = &self.root.by else { return Ok(()) };
        self.rsync.order(host, &joined([&"exec sync -f ", &quoted_path(&self.root.path)]), tally)
    }

    /// The root of the tree at both ends, as arguments of rsync: the source first.
    pub(super) fn roots(&self, here: &Path) -> [OsString; 2] {
        // A path without a slash in front could be taken for an option, or for one of another machine.
        let here = if here.is_relative() { Path::new(".").join(here) } else { here.to_owned() };
        let here = here.join("").into_os_string();
        match self.role {
            Role::Destination => [here, self.root.content()],
            Role::Source => [self.root.content(), here],
        }
    }
}
