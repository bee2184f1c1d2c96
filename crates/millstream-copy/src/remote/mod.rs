//! Copies a tree to or from another machine, by several processes of rsync.
//!
//! Which entries there are, what becomes of each, and what is kept for later is ours, as on one machine. How bytes get
//! through is rsync's.

mod address;
mod bucket;
mod deletion;
mod folders;
mod listing;
mod place;
mod probe;
mod rsync;
mod there;
mod verification;

use address::{Address, By, joined, quoted_path};
pub(crate) use deletion::{check as check_deletion, delete, find as find_extra, refuse_overlap};
pub(crate) use folders::{Unmade, dress};
use rsync::Rsync;
pub(crate) use there::There;
pub(crate) use verification::{compare, verify};

use crate::counts::Counts;
use crate::error::Error;
use crate::jobs::{Found, Gate};
use crate::local::unfinished;
use crate::path::{shown, shown_path};
use crate::place::Ends;
use crate::request::Request;
use crate::servers::{self, InUse};
use crate::state::State;
use crate::tally::{Failures, Tally};
use crate::tree::Tree;
use crate::walk::{Listed, Scope};
use listing::Listing;
use millstream_failpoint::hit_on_thread;
use millstream_host::scratch_folder;
use millstream_model::Refusal;
use millstream_model::words::option;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The end of a copy that lies on another machine.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The folder there: the root of the tree.
    root: Address,
    pub(crate) way: Way,
    rsync: Rsync,
}

/// Which end of a copy lies on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The destination.
    ToThere,
    /// The source.
    FromThere,
}

/// A copy to or from another machine, as its workers see it.
pub(crate) struct RemoteJob<'a> {
    pub(crate) request: &'a Request,
    pub(crate) place: &'a Ends,
    pub(crate) state: &'a State,
    pub(crate) remote: &'a Remote,
    /// The end on this machine.
    pub(crate) here: &'a Tree,
    pub(crate) listed: &'a Listed,
    pub(crate) tally: &'a Tally,
    pub(crate) failures: &'a Failures,
}

impl Remote {
    /// Finds both ends of a copy. `None` if both lie on this machine.
    ///
    /// # Errors
    /// Both lie on others; what is asked for is not possible between machines; the other one cannot be reached.
    pub(crate) fn of(request: &Request, tally: &Tally) -> Result<Option<(Self, Ends)>, Error> {
        let way = match [Address::parse(&request.source)?, Address::parse(&request.destination)?] {
            [None, None] => return Self::refuse_what_needs_another(request).map(|()| None),
            [None, Some(there)] => (Way::ToThere, there),
            [Some(there), None] => (Way::FromThere, there),
            [Some(_), Some(_)] => {
                let says = "both ends lie on other machines";
                return Err(Error::refused(says, "run the copy on one of them"));
            }
        };
        let (way, there) = way;
        if there.by == By::Daemon && there.path.iter().all(|byte| *byte == b'/') {
            let says = format!("{} names no module of the daemon", shown_path(there.text()));
            return Err(Error::refused(says, "write HOST::MODULE/PATH or rsync://HOST/MODULE/PATH"));
        }
        if request.fsync && way == Way::ToThere && there.by == By::Daemon {
            let says = format!("{} needs a shell on the other machine, and only a daemon answers", option("fsync"));
            return Err(Refusal::new(says).into());
        }
        if request.one_file_system && request.delete.is_some() && way == Way::FromThere && there.by == By::Daemon {
            let [stays, deletes] = ["one-file-system", "delete"].map(option);
            let says = format!("a daemon does not tell what {stays} leaves out, so {deletes} would delete it");
            return Err(Error::refused(says, format!("copy over ssh: HOST:PATH, or leave out {stays}")));
        }
        let rsync = Rsync::new(request)?;
        let (place, root) = match way {
            Way::ToThere => place::to_there(request, &there, (&rsync, tally))?,
            Way::FromThere => place::from_there(request, &there, (&rsync, tally))?,
        };
        refuse_patterns(&root.path)?;
        if let Some(single) = &place.file {
            refuse_patterns(if way == Way::ToThere { &single.to } else { &single.from })?;
        }
        Ok(Some((Self { root, way, rsync }, place)))
    }

    fn refuse_what_needs_another(request: &Request) -> Result<(), Error> {
        for (name, is_given) in [("ssh", request.shell.is_some()), ("compress", request.compress)] {
            if is_given {
                let says = format!("{} is for copies to other machines, and both ends are on this one", option(name));
                return Err(Error::refused(says, "a path on another machine begins with its name: HOST:PATH"));
            }
        }
        Ok(())
    }

    /// Whether whoever writes the copy keeps the owners of its files, as root does. A daemon has its own rules for that.
    /// `probe`: the name of a file which may be made there to find out.
    ///
    /// # Errors
    /// The other machine cannot be reached.
    pub(crate) fn keeps_owners(&self, place: &Ends, probe: &str, tally: &Tally) -> Result<bool, Error> {
        let host = match (self.way, &self.root.by) {
            (Way::FromThere, _) => return Ok(rustix::process::geteuid().is_root()),
            (Way::ToThere, By::Daemon) => return self.folder(place, tally).keeps_owner(probe),
            (Way::ToThere, By::Shell(host)) => host,
        };
        let mut is_root = false;
        self.rsync.script(host, OsStr::new("id -u | tr '\\n' '\\0'"), b"", tally, &mut |record| {
            is_root |= record == b"0";
            Ok(())
        })?;
        Ok(is_root)
    }

    /// The root without links, and the folders there that servers use, wherever they are. A daemon does not tell.
    ///
    /// # Errors
    /// The other machine cannot be reached.
    pub(crate) fn servers(&self, tally: &Tally) -> Result<(PathBuf, Vec<InUse>), Error> {
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
    pub(crate) fn listing<'a>(&'a self, scope: Scope<'a>, tally: &'a Tally, failures: &'a Failures) -> Listing<'a> {
        Listing { rsync: &self.rsync, root: &self.root, scope, tally, failures, is_source: true }
    }

    /// Waits until everything is on the disk there. A daemon cannot be asked for that, which [`Remote::of`] refuses.
    ///
    /// # Errors
    /// The other machine cannot be reached, or has no `sync`.
    pub(crate) fn sync(&self, tally: &Tally) -> Result<(), Error> {
        let By::Shell(host) = &self.root.by else { return Ok(()) };
        self.rsync.order(host, &joined([&"exec sync -f ", &quoted_path(&self.root.path)]), tally)
    }

    /// The root of the tree at both ends, as arguments of rsync: the source first.
    pub(crate) fn roots(&self, here: &Path) -> [OsString; 2] {
        // A path without a slash in front could be taken for an option, or for one of another machine.
        let here = if here.is_relative() { Path::new(".").join(here) } else { here.to_owned() };
        let here = here.join("").into_os_string();
        match self.way {
            Way::ToThere => [here, self.root.content()],
            Way::FromThere => [self.root.content(), here],
        }
    }
}

/// How the name of a folder ends in which files are that a broken connection has left, behind that of unfinished files.
const PARTIAL: &str = ".part";

/// A temporary folder of this machine. A folder that rsync makes of it gets its rights.
fn empty_folder() -> Result<TempDir, Error> {
    let above = std::env::temp_dir();
    scratch_folder(&above, ".tmp", 0o755).map_err(Error::file("make a folder in", &above))
}

/// Refuses paths that rsync on the other machine would take for patterns, and copy to or from what fits them.
fn refuse_patterns(path: &[u8]) -> Result<(), Error> {
    if !path.iter().any(|byte| b"*?[\\\n".contains(byte)) {
        return Ok(());
    }
    let says = format!("rsync would take the path {} of the other machine for a pattern", shown(path));
    Err(Error::refused(says, "name the folder above it: names in a tree may hold anything"))
}

impl RemoteJob<'_> {
    /// Options that keep everything that a copy keeps. `makes_links`: links, too.
    fn options(&self, makes_links: bool) -> Vec<OsString> {
        let request = self.request;
        // Times to the nanosecond: a file that is changed in the second in which it was copied is copied again.
        let mut args = ["-ptgoDHS", "--modify-window=-1"].map(OsString::from).to_vec();
        args.extend(makes_links.then(|| "-l".into()));
        args.extend(self.compares_bytes().then(|| "-c".into()));
        args.extend(request.attributes.then(|| "-XA".into()));
        args.extend(request.copy_links.then(|| "-L".into()));
        args.extend(self.listed.leaves_out_rights.then(|| "--chmod=Fug-s".into()));
        args
    }

    /// Whether the bytes of files decide if they are copied: that was asked for, or what an earlier run has copied perhaps never
    /// reached the disk.
    fn compares_bytes(&self) -> bool {
        self.request.compares || self.request.hash || self.state.is_doubtful
    }

    /// Where files are while they are not whole.
    fn temporary(&self) -> String {
        unfinished(self.state)
    }

    /// Whether a shell there makes the folder of unfinished files and removes it, in connections that are made anyway.
    fn prepares_by_shell(&self) -> bool {
        let has_shell = matches!(self.remote.root.by, By::Shell(_));
        self.remote.way == Way::ToThere && has_shell && self.place.file.is_none()
    }

    /// Whether the tree has no other folder.
    fn has_root_only(&self) -> bool {
        self.listed.folders <= 1
    }

    /// The root at both ends.
    fn roots(&self) -> [OsString; 2] {
        self.remote.roots(self.here.path())
    }
}

/// What a copy between machines has done.
pub(crate) struct Copied {
    pub(crate) counts: Counts,
    /// Which number of workers was found to be best.
    pub(crate) found: Option<Found>,
    /// Folders that could not be made.
    pub(crate) unmade: Unmade,
    pub(crate) root_was_missing: bool,
}

/// Copies everything. `root_was_missing`: whether the root was just made.
///
/// # Errors
/// Nothing more can be copied.
pub(crate) fn run(job: &RemoteJob<'_>, gate: &Gate, root_was_missing: bool) -> Result<Copied, Error> {
    folders::check_list(job)?;
    let root_was_missing = folders::make_temporary(job)? || root_was_missing;
    let (made, unmade, root_was_missing) = folders::make(job, root_was_missing)?;
    hit_on_thread("folders-made");
    let (counts, found) = bucket::run(job, &unmade, gate)?;
    hit_on_thread("buckets-copied");
    folders::remove_temporary(job)?;
    Ok(Copied { counts: counts.plus(made), found, unmade, root_was_missing })
}
