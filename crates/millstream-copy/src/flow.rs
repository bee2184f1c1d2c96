//! A copy from beginning to end.

use crate::counts::Counts;
use crate::data_directory::DataDirectories;
use crate::entry::Inode;
use crate::error::Error;
use crate::extra::{self, Deletion};
use crate::folding::{self, Folding};
use crate::jobs::{Found, Gate};
use crate::local::{self, Job};
use crate::manifest::{Header, Reader};
use crate::path::{join, shown, shown_path};
use crate::place::Ends;
use crate::receipt::Receipt;
use crate::remote::{self, Remote, RemoteJob, Way};
use crate::request::{Delete, Request};
use crate::servers::{self, InUse};
use crate::state::{self, State};
use crate::tally::{Failures, Phase, Tally};
use crate::tree::{self, Tree};
use crate::verification::{self, Verification};
use crate::walk::{Filter, Listed, Walk};
use millstream_failpoint::hit_on_thread;
use millstream_host::cpus;
use millstream_model::Refusal;
use millstream_model::words::{option, set, shell_word};
use rustix::fs::{Mode, syncfs};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What a copy would do.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// What the slash at the end of the source means here.
    pub rule: String,
    /// The root of the copy, with escapes where it is not UTF-8.
    pub destination: String,
    /// Entries of the source.
    pub entries: u64,
    /// Folders among them.
    pub folders: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Files that several workers copy at once.
    pub large: u64,
    /// Names of files that have several.
    pub shared: u64,
    /// What cannot be listed.
    pub failures: Vec<crate::tally::Failure>,
    /// What would be deleted, if that was asked for and the destination exists.
    pub deletion: Option<Deletion>,
}

/// Asked before anything is deleted.
pub type MayDelete<'a> = &'a (dyn Fn(&Deletion) -> bool + Sync);

/// Lists the source, and what would be deleted. Writes nothing at the destination.
///
/// # Errors
/// The request is refused, or the source cannot be listed.
pub fn plan(request: &Request, tally: &Tally) -> Result<Plan, Error> {
    let begun = Begun::new(request, tally)?;
    let (_, mut listed) = begun.list()?;
    begun.refuse(&listed)?;
    begun.find_folding(&mut listed, Tree::open_plain(&begun.root).ok().as_ref(), false)?;
    begun.leave_out_same_names(&listed, None)?;
    let deletion = begun.planned_deletion(&listed)?;
    let failed = Error::file("write to", begun.state.folder());
    // Nobody resumes a plan.
    millstream_host::remove_whole(&begun.state.list()).map_err(&failed)?;
    let (failures, _) = begun.failures.finish().map_err(&failed)?;
    Ok(Plan {
        rule: begun.place.rule.clone(),
        destination: shown_path(&begun.target),
        entries: listed.entries,
        folders: listed.folders,
        bytes: listed.bytes,
        large: listed.large,
        shared: listed.shared,
        failures,
        deletion,
    })
}

/// Copies a tree or a file.
///
/// # Errors
/// The request is refused; the source cannot be listed; the destination takes nothing more. What was copied stays, and the
/// same request resumes.
pub fn copy(request: &Request, tally: &Tally, may_delete: MayDelete<'_>) -> Result<Receipt, Error> {
    let started = Instant::now();
    // Several copies may be counted together.
    let seen_before = tally.seen.load(Relaxed);
    let mut begun = Begun::new(request, tally)?;
    let failed = Error::file("write to", begun.state.folder());
    begun.failures = Failures::in_file(&begun.state.failures()).map_err(&failed)?;
    let Begun { place, state, target, failures, .. } = &begun;
    let (header, mut listed) = begun.list()?;
    begun.refuse(&listed)?;
    // Whatever happens at the path of the destination from now on, nothing else is written to.
    let (opened, was_missing) = begun.open_here()?;
    let here: &Tree = &opened;
    let was_empty = begun.ends_here() && here.is_empty();
    begun.find_folding(&mut listed, Some(here), true)?;
    begun.leave_out_same_names(&listed, Some(here))?;
    begun.leave_out_rights(&mut listed)?;
    if request.live {
        // SHA-256 cannot be computed in pieces.
        listed.large = 0;
    }
    // What could not be listed was seen, and nothing else will count it.
    let unlisted = failures.count();
    hit_on_thread("copy-listed");
    state.begin()?;
    tally.begin(Phase::Copying);
    let gate = Gate::new(request.jobs, cpus(), begun.remote.is_some());
    let moved = match &begun.remote {
        None => begun.move_here((here, was_missing), &listed, &gate, may_delete)?,
        Some(remote) => begun.move_there((remote, here, was_missing), &listed, &gate, may_delete)?,
    };
    if begun.ends_here() {
        here.check_place()?;
    }
    let Moved { mut counts, found, deleted, kept_because, verified, root_was_missing } = moved;
    counts.failed += unlisted;
    let is_stopped = tally.is_stopped();
    // What was not deleted is still to be compared, unless it has gone with the whole destination.
    let forgets = was_empty || root_was_missing || request.delete.is_some() && kept_because.is_none();
    let finished = if is_stopped { state::Finished::default() } else { state.finish(&header, forgets)? };
    hit_on_thread("manifest-written");
    let verified = match begun.remote {
        None if request.verify && !is_stopped => Some(verification::compare(&state.manifest(), gate.jobs(), tally)?),
        _ => verified,
    };
    let seen = tally.seen.load(Relaxed) - seen_before;
    assert!(is_stopped || counts.sum() == seen, "{counts:?} of {seen}");
    let (listed_failures, all) = failures.finish().map_err(failed)?;
    Ok(Receipt {
        source: shown_path(&place.source),
        destination: shown_path(target),
        seen,
        copied: counts.copied,
        same: counts.same,
        linked: counts.linked,
        skipped: counts.skipped,
        failed: counts.failed,
        changed: counts.changed,
        copied_bytes: counts.copied_bytes,
        hashed: finished.hashed,
        unhashed: finished.unhashed,
        deleted,
        kept_because,
        resumed: state.is_resumed,
        stopped: is_stopped,
        jobs: gate.jobs(),
        found,
        seconds: started.elapsed().as_secs_f64(),
        manifest: shown_path(state.manifest()),
        failures: listed_failures,
        failures_file: (all > 0).then(|| shown_path(state.failures())),
        verified,
    })
}

/// The root of the copy that a request would make.
///
/// # Errors
/// As [`plan`].
pub(crate) fn target(request: &Request, tally: &Tally) -> Result<PathBuf, Error> {
    if let Some((_, place)) = Remote::of(request, tally)? {
        return Ok(place.destination);
    }
    let place = Ends::of(request)?;
    Ok(place.target(&place.canonical_destination()?))
}

/// Compares every copy that was made to this place, or below it, with what was noted of it. If the place is on another
/// machine, `shell` reaches it.
///
/// # Errors
/// There is no manifest of such a copy, it is damaged, or the destination cannot be read at all.
pub fn verify(
    destination: &Path,
    shell: Option<OsString>,
    home: &Path,
    jobs: usize,
    tally: &Tally,
) -> Result<Vec<Verification>, Error> {
    match remote::verify(destination, shell, home, jobs, tally)? {
        Some(found) => Ok(found),
        None => verification::verify(destination, home, jobs, tally),
    }
}

/// How many entries were deleted, or why none were.
type Tidied = (u64, Option<String>);

/// What a copy has done to the destination.
struct Moved {
    counts: Counts,
    found: Option<Found>,
    deleted: u64,
    kept_because: Option<String>,
    /// What comparing both ends has shown, if they lie on two machines.
    verified: Option<Verification>,
    root_was_missing: bool,
}

/// A request that was found to be possible.
struct Begun<'a> {
    request: &'a Request,
    tally: &'a Tally,
    failures: Failures,
    place: Ends,
    /// The other machine, if one end lies there.
    remote: Option<Remote>,
    state: State,
    /// The folder of the destination.
    root: PathBuf,
    /// The root of the copy, or the file that it is.
    target: PathBuf,
    /// If a remote shell reaches this machine, folders of that end which must not be in the one here.
    of_other: HashSet<Inode>,
}

impl<'a> Begun<'a> {
    fn new(request: &'a Request, tally: &'a Tally) -> Result<Self, Error> {
        let (remote, place) = match Remote::of(request, tally)? {
            Some((remote, place)) => (Some(remote), place),
            None => (None, Ends::of(request)?),
        };
        let way = remote.as_ref().map(|remote| remote.way);
        let root = match (way, &request.within) {
            (Some(Way::ToThere), _) => place.destination.clone(),
            (_, Some(within)) => within.full(),
            (_, None) => place.canonical_destination()?,
        };
        let (target, mut of_other) = (place.target(&root), HashSet::new());
        if let Some(delete) = &request.delete {
            if place.file.is_some() {
                return Err(Refusal::new("the source is a single file: there is nothing to delete").into());
            }
            match &remote {
                Some(remote) if remote.way == Way::ToThere => remote::check_deletion(delete, remote, tally)?,
                _ => extra::check(delete, &place, &root, remote.is_none())?,
            }
            if let Some(remote) = remote.as_ref().filter(|_| !request.live) {
                let here = if remote.way == Way::ToThere { &place.source } else { &root };
                of_other = remote::refuse_overlap((request, &place), remote, here, tally)?;
            }
        }
        let state = State::open(&request.home, &target, request.hashing())?;
        let failures = Failures::default();
        Ok(Self { request, tally, failures, place, remote, state, root, target, of_other })
    }

    fn source(&self) -> Result<Tree, Error> {
        Tree::open(&self.place.source, self.request.copy_links).map_err(Error::file("open", &self.place.source))
    }

    fn list(&self) -> Result<(Header, Listed), Error> {
        let Self { request, tally, failures, .. } = self;
        let attributes = request.attributes && self.remote.is_none();
        let header = state::header(&self.place, &self.target, attributes, request.hashing());
        let (scope, list, folder) = (self.place.scope(request), self.state.list(), self.state.folder());
        let listed = match self.remote.as_ref().filter(|remote| remote.way == Way::FromThere) {
            Some(remote) => remote.listing(scope, tally, failures).list(&header, &list, folder)?,
            None => {
                let (source, skip, threads) = (self.source()?, self.state.home(), cpus());
                let destination =
                    Tree::open_plain(&self.root).ok().filter(|_| request.delete.is_some() && self.ends_here());
                let mounted = destination.map(|tree| extra::mounted(&tree));
                let others = mounted.as_ref().unwrap_or(&self.of_other);
                let walk = Walk { tree: &source, scope, attributes, skip, others, threads, tally, failures };
                walk.list(&header, &list, folder)?
            }
        };
        Ok((header, listed))
    }

    /// Copies on this machine.
    fn move_here(
        &self,
        (destination, was_missing): (&Tree, bool),
        listed: &Listed,
        gate: &Gate,
        may_delete: MayDelete<'_>,
    ) -> Result<Moved, Error> {
        let Self { request, tally, failures, place, state, root, .. } = self;
        let source = self.source()?;
        let job = Job::new(request, (place, state), (&source, destination), (tally, failures));
        let (made, of_folders) = local::make(&job, was_missing)?;
        let (of_files, found) = local::run(&job, listed, gate)?;
        if state.is_resumed {
            local::sweep(destination, &local::unfinished(state), tally)?;
        }
        let (deleted, kept_because) = self.tidy_here(destination, listed, may_delete)?;
        // Whatever is made or deleted in a folder changes its time.
        let counts = of_folders.plus(of_files).plus(local::dress(&job, made)?);
        if request.fsync && !tally.is_stopped() {
            sync(destination, root)?;
        }
        Ok(Moved { counts, found, deleted, kept_because, verified: None, root_was_missing: was_missing })
    }

    /// Copies to another machine, or from there.
    fn move_there(
        &self,
        (remote, here, was_missing): (&Remote, &Tree, bool),
        listed: &Listed,
        gate: &Gate,
        may_delete: MayDelete<'_>,
    ) -> Result<Moved, Error> {
        let Self { request, tally, root, .. } = self;
        let job = self.remote_job(remote, here, listed);
        let remote::Copied { mut counts, found, unmade, root_was_missing } = remote::run(&job, gate, was_missing)?;
        let (deleted, kept_because) = match remote.way {
            Way::FromThere => self.tidy_here(here, listed, may_delete)?,
            Way::ToThere => {
                let run = |delete: &Delete, names| remote::delete(&job, delete, &names);
                self.tidy(listed, may_delete, || remote::find_extra(&job), run)?
            }
        };
        let failed = if tally.is_stopped() { 0 } else { remote::dress(&job, &unmade)? };
        counts.fail(failed);
        if request.fsync && !tally.is_stopped() {
            match remote.way {
                Way::FromThere => sync(here, root)?,
                Way::ToThere => remote.sync(tally)?,
            }
        }
        let compares = request.verify && !tally.is_stopped();
        let verified = compares.then(|| remote::compare(&job, gate, shown_path(&self.target))).transpose()?;
        Ok(Moved { counts, found, deleted, kept_because, verified, root_was_missing })
    }

    fn remote_job<'b>(&'b self, remote: &'b Remote, here: &'b Tree, listed: &'b Listed) -> RemoteJob<'b> {
        let Self { request, tally, failures, place, state, .. } = self;
        RemoteJob { request, place, state, remote, here, listed, tally, failures }
    }

    /// Deletes what a destination on this machine has and the source has not.
    fn tidy_here(&self, destination: &Tree, listed: &Listed, may_delete: MayDelete<'_>) -> Result<Tidied, Error> {
        let Self { request, tally, failures, place, state, .. } = self;
        let find = || {
            let extra = extra::find((place, state, destination), request, listed.folding, &self.of_other)?;
            Ok((extra.deletion.clone(), extra))
        };
        let run = |delete: &Delete, extra| extra::run((state, destination), (tally, failures), delete, extra);
        self.tidy(listed, may_delete, find, run)
    }

    /// Deletes what the source has not, if that was asked for. `find` finds it, and `run` deletes it.
    fn tidy<X>(
        &self,
        listed: &Listed,
        may_delete: MayDelete<'_>,
        find: impl FnOnce() -> Result<(Deletion, X), Error>,
        run: impl FnOnce(&Delete, X) -> Result<u64, Error>,
    ) -> Result<Tidied, Error> {
        let delete = self.request.delete.as_ref().filter(|_| !self.tally.is_stopped());
        let Some(delete) = delete else { return Ok((0, None)) };
        if !listed.is_whole {
            return Ok((0, Some("the source could not be listed whole".to_owned())));
        }
        let tidied = find().and_then(|(deletion, extra)| {
            if deletion.entries == 0 {
                return Ok((0, None));
            }
            if let Some(most) = delete.most.filter(|most| deletion.entries > *most) {
                let says = format!("it would be {} entries, more than {}", deletion.entries, set("max-delete", most));
                return Ok((0, Some(says)));
            }
            if !may_delete(&deletion) {
                return Ok((0, Some("it was not confirmed".to_owned())));
            }
            hit_on_thread("deletion-found");
            Ok((run(delete, extra)?, None))
        });
        match tidied {
            // What was copied is complete all the same.
            Err(Error::Refused(Refusal { problem, hint })) => {
                Ok((0, Some(hint.map_or(problem.clone(), |hint| format!("{problem}; {hint}")))))
            }
            tidied => tidied,
        }
    }

    /// What would be deleted, if that was asked for and the destination exists.
    fn planned_deletion(&self, listed: &Listed) -> Result<Option<Deletion>, Error> {
        if self.request.delete.is_none() {
            return Ok(None);
        }
        Ok(match self.remote.as_ref().filter(|remote| remote.way == Way::ToThere) {
            Some(remote) => Some(remote::find_extra(&self.remote_job(remote, &self.source()?, listed))?.0),
            None => match Tree::open_plain(&self.root) {
                Ok(there) => Some(
                    extra::find((&self.place, &self.state, &there), self.request, listed.folding, &self.of_other)?
                        .deletion,
                ),
                Err(_) => None,
            },
        })
    }

    /// Whether the destination lies on this machine.
    fn ends_here(&self) -> bool {
        self.remote.as_ref().is_none_or(|remote| remote.way == Way::FromThere)
    }

    /// Opens the end on this machine: the source, or the destination, which is made if it is missing. Returns whether it was.
    fn open_here(&self) -> Result<(Arc<Tree>, bool), Error> {
        if !self.ends_here() {
            return Ok((Arc::new(self.source()?), false));
        }
        let others = Mode::from_raw_mode(0o755);
        // The root of a tree gets its rights once everything is in it.
        let own = if self.place.file.is_some() { others } else { Mode::RWXU };
        if let Some(within) = &self.request.within {
            return within.open(own);
        }
        // The folder that is named like the source may be the second one that is missing.
        if let Some(above) = self.root.parent() {
            tree::make_folder(above, others)?;
        }
        let (tree, was_missing) = Tree::make_plain(&self.root, own)?;
        Ok((Arc::new(tree), was_missing))
    }

    /// Finds out which names the destination takes for the same. `here`: the destination, if it is there, and on this machine.
    /// `probes`: something may be made there for that.
    fn find_folding(&self, listed: &mut Listed, here: Option<&Tree>, probes: bool) -> Result<(), Error> {
        if self.place.file.is_some() {
            return Ok(());
        }
        let probe = probes.then(|| self.probe());
        listed.folding = match self.remote.as_ref().filter(|_| !self.ends_here()) {
            // A connection costs as much as many files, and there may be nothing that the answer would change.
            Some(remote) if self.asks_for_folding()? => {
                Folding::of(&remote.folder(&self.place, self.tally), probe.as_deref())?
            }
            Some(_) => Folding::default(),
            None => here.and_then(|here| Folding::of(here, probe.as_deref()).ok()).unwrap_or_default(),
        };
        Ok(())
    }

    /// The name of what may be made at the destination to ask which names are the same.
    fn probe(&self) -> String {
        format!("{}.case", local::unfinished(&self.state))
    }

    /// Whether it matters which names the other machine takes for the same. Those of a cluster are the same nowhere.
    fn asks_for_folding(&self) -> Result<bool, Error> {
        if self.request.live {
            return Ok(false);
        }
        Ok(self.request.delete.is_some() || folding::has_same_names(&self.state.list(), self.state.folder())?)
    }

    /// Leaves out entries whose names the destination takes for those of others: one would replace the other. `here`: the end
    /// on this machine, if something may be made at the destination to ask it about each.
    fn leave_out_same_names(&self, listed: &Listed, here: Option<&Tree>) -> Result<(), Error> {
        if !listed.folding.is_any() {
            return Ok(());
        }
        let mut same = folding::same_names(&self.state.list(), self.state.folder(), listed.folding)?;
        if let Some(here) = here {
            let probe = self.probe();
            same = match self.remote.as_ref().filter(|_| !self.ends_here()) {
                Some(remote) => folding::really_same(&same, &remote.folder(&self.place, self.tally), &probe)?,
                None => folding::really_same(&same, here, &probe)?,
            };
        }
        if same.is_empty() {
            return Ok(());
        }
        self.state.rewrite_list(|entry| {
            let why = folding::why_left_out(&same, &entry.path);
            let stays = why.is_none();
            if let Some(why) = why {
                self.failures.add(&entry.path, why);
                self.tally.failed.fetch_add(1, Relaxed);
                self.tally.done(entry.facts.size());
            }
            stays
        })
    }

    /// Leaves out the right to act as the owner or group of a file, if the copy lies on the other side of a network and may get
    /// another owner.
    fn leave_out_rights(&self, listed: &mut Listed) -> Result<(), Error> {
        let Some(remote) = self.remote.as_ref().filter(|_| listed.privileged > 0) else { return Ok(()) };
        let probe = format!("{}.owner", local::unfinished(&self.state));
        if remote.keeps_owners(&self.place, &probe, self.tally)? {
            return Ok(());
        }
        listed.leaves_out_rights = true;
        self.state.rewrite_list(|entry| {
            if entry.facts.is_privileged() {
                entry.facts.mode &= !0o6000;
            }
            true
        })
    }

    /// Refuses a source that nobody can want to copy like this.
    fn refuse(&self, listed: &Listed) -> Result<(), Error> {
        self.refuse_empty(listed)?;
        // Of a running cluster, this was looked for before.
        if self.request.live {
            return Ok(());
        }
        if listed.may_hold_clusters() {
            let list = self.state.list();
            DataDirectories::of(&list)?.refuse_links(&list, &self.place.source, &self.place.before)?;
        }
        self.refuse_running()
    }

    /// Refuses to write to folders that a running server uses.
    fn refuse_running(&self) -> Result<(), Error> {
        // A single file may be a setting of the server.
        if self.place.file.is_some() {
            return Ok(());
        }
        let (root, used) = match self.remote.as_ref().filter(|_| !self.ends_here()) {
            Some(remote) => remote.servers(self.tally)?,
            None => (self.root.clone(), servers::around(&self.root)),
        };
        for in_use in used {
            let Some(below) = in_use.below(&root).map(|below| below.as_os_str().as_bytes()) else { continue };
            if !below.is_empty() && !self.reaches(below)? {
                continue;
            }
            let InUse { data, folder } = &in_use;
            let uses = if folder == data { String::new() } else { format!(" and uses {}", shown_path(folder)) };
            let out = match below.is_empty() {
                true => "choose another folder".to_owned(),
                false => {
                    let excluded = format!("/{}", shown(&join(&self.place.before, below)));
                    format!("leave it out with {}", set("exclude", shell_word(&excluded)))
                }
            };
            return Err(Error::refused(
                format!("a server runs in {}{uses}", shown_path(data)),
                format!("stop it, or {out}"),
            ));
        }
        Ok(())
    }

    /// Whether something may be written or deleted in a folder of the destination.
    fn reaches(&self, folder: &[u8]) -> Result<bool, Error> {
        let Self { request, place, state, .. } = self;
        let takes = || Filter::new(&request.rules, &place.before).takes_with_folders(folder, true);
        if request.delete.as_ref().is_some_and(|delete| delete.excluded || takes()) {
            return Ok(true);
        }
        let path = state.list();
        let mut list = Reader::open(&path).map_err(Error::manifest(&path))?;
        while let Some(entry) = list.next().map_err(Error::manifest(&path))? {
            if entry.path == folder {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses to delete everything because a source is empty, perhaps not mounted.
    fn refuse_empty(&self, listed: &Listed) -> Result<(), Error> {
        let is_empty = listed.entries <= 1;
        match &self.request.delete {
            Some(delete) if is_empty && !delete.even_all => {
                let says = format!(
                    "{} is empty: everything at the destination would be deleted",
                    shown_path(&self.place.source)
                );
                Err(Error::refused(says, format!("if you mean it, add {}", option("yes-empty"))))
            }
            _ => Ok(()),
        }
    }
}

/// Waits until everything is on the disk: the file system of the root, and the name of the root itself.
fn sync(destination: &Tree, root: &Path) -> Result<(), Error> {
    let failed = Error::file("flush", root);
    let flush = |path: &Path| {
        let folder = Tree::open_plain(path)?.folder(b"")?;
        Ok(syncfs(folder)?)
    };
    let folder = destination.folder(b"").map_err(&failed)?;
    syncfs(folder).map_err(std::io::Error::from).map_err(&failed)?;
    root.parent().map_or(Ok(()), flush).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn where_case_means_nothing_two_names_are_one_and_what_has_another_case_is_not_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["from/dir/b", "from/X", "from/x", "to/Dir/b", "to/Old/file", "to/x"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "text").unwrap();
        }
        let mut request = Request::new(path("from/"), path("to"), path("home"));
        request.delete = Some(Delete::default());
        let tally = Tally::default();
        let begun = Begun::new(&request, &tally).unwrap();
        let (_, mut listed) = begun.list().unwrap();
        let deleted = |listed: &Listed| begun.planned_deletion(listed).unwrap().unwrap().first;
        assert_eq!(deleted(&listed), ["Dir", "Dir/b", "Old", "Old/file"]);
        listed.folding.case = true;
        begun.leave_out_same_names(&listed, None).unwrap();
        assert_eq!(deleted(&listed), ["Old", "Old/file"]);
        let (failures, count) = begun.failures.finish().unwrap();
        assert_eq!((count, failures[0].path.as_str()), (1, "x"));
        assert_eq!(failures[0].reason, "the destination takes the names X and x for the same");
    }
}
