//! What all processes of rsync of a copy share.

use super::address::By;
use super::there::There;
use crate::hasher::Hashing;
use crate::local::unfinished;
use crate::task::Task;
use crate::tree::Tree;
use crate::walk::Listed;
use std::ffi::OsString;
use std::sync::Arc;

/// A copy to or from another machine, as its workers see it.
pub(super) struct RemoteJob<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) there: &'a There,
    /// The end on this machine.
    pub(super) here: Arc<Tree>,
    pub(super) listed: &'a Listed,
}

impl RemoteJob<'_> {
    /// Options that keep everything that a copy keeps. `makes_links`: links, too.
    pub(super) fn options(&self, makes_links: bool) -> Vec<OsString> {
        let request = self.task.request;
        // Times to the nanosecond: a file that is changed in the second in which it was copied is copied again.
        let mut args = ["-ptgoDHS", "--modify-window=-1"].map(OsString::from).to_vec();
        args.extend(makes_links.then(|| "-l".into()));
        args.extend(self.compares_bytes().then(|| "-c".into()));
        args.extend(request.attributes.then(|| "-XA".into()));
        args.extend(request.copy_links.then(|| "-L".into()));
        args.extend(self.listed.leaves_out_rights.then(|| "--chmod=Fug-s".into()));
        args
    }

    /// Whether the bytes of files decide if they are copied.
    pub(super) fn compares_bytes(&self) -> bool {
        self.task.policy.compares_bytes(self.task.state.is_doubtful)
    }

    /// Where files are while they are not whole.
    pub(super) fn temporary(&self) -> String {
        unfinished(&self.task.state)
    }

    /// Whether a shell there makes the folder of unfinished files and removes it, in connections that are made anyway.
    pub(super) fn prepares_by_shell(&self) -> bool {
        let has_shell = matches!(self.there.root.by, By::Shell(_));
        !self.arrives_here() && has_shell && self.task.place.file.is_none()
    }

    /// Whether the tree has no other folder.
    pub(super) fn has_root_only(&self) -> bool {
        self.listed.folders <= 1
    }

    /// The root at both ends.
    pub(super) fn roots(&self) -> [OsString; 2] {
        self.there.roots(self.here.path())
    }

    /// Whether it comes from the other machine, which is not trusted to send what it has listed.
    pub(super) fn arrives_here(&self) -> bool {
        self.there.is_source()
    }

    /// Where an entry is on this machine.
    pub(super) fn path_here<'a>(&'a self, path: &'a [u8]) -> &'a [u8] {
        if self.arrives_here() { path } else { self.task.place.source_path(path) }
    }

    /// How a file is hashed that is read here. The other machine has sha256sum, and seldom anything faster.
    pub(super) fn hashing(&self) -> Hashing {
        if self.arrives_here() { Hashing::Blake3 } else { Hashing::Sha256 }
    }
}
