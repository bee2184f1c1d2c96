//! A copy from beginning to end.

use crate::counts::Counts;
use crate::data_directory::DataDirectories;
use crate::end::{End, Wanted};
use crate::ends::Ends;
use crate::error::Error;
use crate::extra::{Deletion, Extra};
use crate::folding::{self, Folding};
use crate::local::unfinished;
use crate::manifest::Header;
use crate::path::{join, shown, shown_path};
use crate::receipt::{Receipt, Verification};
use crate::remote;
use crate::request::{Delete, Request};
use crate::road::Carried;
use crate::servers::InUse;
use crate::state::{self, Finished, State};
use crate::tally::{Failures, Phase, Tally};
use crate::task::Task;
use crate::verification;
use crate::walk::{Filter, Listed};
use crate::workers::{Found, Gate};
use millstream_failpoint::hit_on_thread;
use millstream_host::cpus;
use millstream_model::{Refusal, shell_word};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    let Task { place, state, failures, target, .. } = &begun.task;
    let (_, mut listed) = begun.list(begun.ends.from(), begun.ends.to())?;
    begun.refuse(&listed)?;
    begun.find_folding(&mut listed, false)?;
    begun.leave_out_same_names(&listed, false)?;
    let extra = if request.delete.is_some() { begun.find_extra(&listed)? } else { None };
    let failed = Error::file("write to", state.folder());
    // Nobody resumes a plan.
    millstream_host::remove_whole(&state.list()).map_err(&failed)?;
    let (failures, _) = failures.finish().map_err(&failed)?;
    Ok(Plan {
        rule: place.rule.clone(),
        destination: shown_path(target),
        entries: listed.entries,
        folders: listed.folders,
        bytes: listed.bytes,
        large: listed.large,
        shared: listed.shared,
        failures,
        deletion: extra.map(|extra| extra.deletion),
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
    let failed = Error::file("write to", begun.task.state.folder());
    begun.task.failures = Failures::in_file(&begun.task.state.failures()).map_err(&failed)?;
    let done = begun.copy(begun.ends.from(), begun.ends.to(), may_delete)?;
    let Done { counts, found, deleted, kept_because, finished, workers, stopped, verified } = done;
    let Task { place, state, failures, target, .. } = &begun.task;
    let seen = tally.seen.load(Relaxed) - seen_before;
    assert!(stopped || counts.sum() == seen, "{counts:?} of {seen}");
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
        stopped,
        workers,
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
    let (ends, place) = Ends::of(request, tally)?;
    Ok(place.target(&ends.to().root()))
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
    workers: usize,
    tally: &Tally,
) -> Result<Vec<Verification>, Error> {
    match remote::verify(destination, shell, home, workers, tally)? {
        Some(found) => Ok(found),
        None => verification::verify(destination, home, workers, tally),
    }
}

/// How many entries were deleted, or why none were.
type Tidied = (u64, Option<String>);

/// What a copy has done.
struct Done {
    counts: Counts,
    found: Option<Found>,
    deleted: u64,
    kept_because: Option<String>,
    finished: Finished,
    /// Workers at the end.
    workers: usize,
    stopped: bool,
    verified: Option<Verification>,
}

/// A request that was found to be possible.
struct Begun<'a> {
    task: Task<'a>,
    ends: Ends,
}

impl<'a> Begun<'a> {
    fn new(request: &'a Request, tally: &'a Tally) -> Result<Self, Error> {
        let (ends, place) = Ends::of(request, tally)?;
        let (policy, target) = (request.policy(), place.target(&ends.to().root()));
        let piece_bytes = policy.hashing.takes_pieces().then(|| request.piece_bytes()).transpose()?;
        if let Some(delete) = &request.delete {
            if place.file.is_some() {
                return Err(Refusal::new("the source is a single file: there is nothing to delete").into());
            }
            let wanted = Wanted { request, delete, policy: &policy, place: &place, tally };
            ends.to().refuse_deletion(&wanted, ends.from())?;
            ends.from().refuse_deletion(&wanted, ends.to())?;
        }
        let state = State::open(&request.home, &target, policy.hashing)?;
        let failures = Failures::default();
        let task = Task { request, policy, piece_bytes, place, target, state, tally, failures };
        Ok(Self { task, ends })
    }

    /// The way of a copy, from one end to the other.
    fn copy(&self, from: &dyn End, to: &dyn End, may_delete: MayDelete<'_>) -> Result<Done, Error> {
        let Self { task, ends } = self;
        let Task { request, state, tally, .. } = task;
        let (header, mut listed) = self.list(from, to)?;
        self.refuse(&listed)?;
        let opened = to.open(task)?;
        self.find_folding(&mut listed, true)?;
        self.leave_out_same_names(&listed, true)?;
        self.leave_out_rights(&mut listed)?;
        // What could not be listed was seen, and nothing else will count it.
        let unlisted = task.failures.count();
        hit_on_thread("copy-listed");
        state.begin()?;
        tally.begin(Phase::Copying);
        let gate = Gate::new(request.workers, cpus(), ends.are_apart());
        let mut road = ends.road(task, &listed)?;
        let Carried { counts, found, root_was_missing } = road.carry(&gate, opened.was_missing)?;
        let (deleted, kept_because) = self.tidy(&listed, may_delete)?;
        let mut counts = road.dress(counts)?;
        counts.failed += unlisted;
        if request.fsync && !tally.is_stopped() {
            to.sync(tally)?;
        }
        let verified = if request.verify && !tally.is_stopped() { road.compare(&gate)? } else { None };
        to.check_place()?;
        let stopped = tally.is_stopped();
        // What was not deleted is still to be compared, unless it has gone with the whole destination.
        let is_deleted = request.delete.is_some() && kept_because.is_none();
        let forgets = opened.was_empty || root_was_missing || is_deleted;
        let finished = if stopped { Finished::default() } else { state.finish(&header, forgets)? };
        hit_on_thread("manifest-written");
        let verified = match verified {
            None if request.verify && !stopped => {
                Some(verification::compare(&state.manifest(), gate.workers(), tally)?)
            }
            verified => verified,
        };
        Ok(Done { counts, found, deleted, kept_because, finished, workers: gate.workers(), stopped, verified })
    }

    fn list(&self, from: &dyn End, to: &dyn End) -> Result<(Header, Listed), Error> {
        let Self { task, ends } = self;
        let attributes = task.request.attributes && !ends.are_apart();
        let header = state::header(&task.place, &task.target, attributes, task.policy.hashing);
        let others = if task.request.delete.is_some() { to.marks() } else { HashSet::new() };
        let listed = from.list(task, &header, &others)?;
        Ok((header, listed))
    }

    /// What the destination has and the source has not. `None` if the destination is not there.
    fn find_extra(&self, listed: &Listed) -> Result<Option<Extra>, Error> {
        self.ends.to().find_extra(&self.task, listed, &self.ends.from().marks())
    }

    /// Deletes what the source has not, if that was asked for.
    fn tidy(&self, listed: &Listed, may_delete: MayDelete<'_>) -> Result<Tidied, Error> {
        let Task { request, tally, .. } = &self.task;
        let Some(delete) = request.delete.as_ref().filter(|_| !tally.is_stopped()) else { return Ok((0, None)) };
        if !listed.is_whole {
            return Ok((0, Some("the source could not be listed whole".to_owned())));
        }
        match self.delete(delete, listed, may_delete) {
            // What was copied is complete all the same.
            Err(Error::Refused(Refusal { problem, hint })) => {
                Ok((0, Some(hint.map_or(problem.clone(), |hint| format!("{problem}; {hint}")))))
            }
            tidied => tidied,
        }
    }

    fn delete(&self, delete: &Delete, listed: &Listed, may_delete: MayDelete<'_>) -> Result<Tidied, Error> {
        let Some(extra) = self.find_extra(listed)?.filter(|extra| extra.deletion.entries > 0) else {
            return Ok((0, None));
        };
        let entries = extra.deletion.entries;
        if let Some(most) = delete.most.filter(|most| entries > *most) {
            let says = format!("it would be {entries} entries, more than --max-delete {most}");
            return Ok((0, Some(says)));
        }
        if !may_delete(&extra.deletion) {
            return Ok((0, Some("it was not confirmed".to_owned())));
        }
        hit_on_thread("deletion-found");
        Ok((self.ends.to().delete(&self.task, listed, delete, extra)?, None))
    }

    /// Finds out which names the destination takes for the same. `probes`: something may be made there for that.
    fn find_folding(&self, listed: &mut Listed, probes: bool) -> Result<(), Error> {
        if self.task.place.file.is_some() {
            return Ok(());
        }
        let (to, probe) = (self.ends.to(), probes.then(|| self.probe()));
        let is_far = to.here().is_none();
        // A connection costs as much as many files, and there may be nothing that the answer would change.
        if is_far && !self.asks_for_folding()? {
            return Ok(());
        }
        let Some(folder) = to.folder(&self.task) else { return Ok(()) };
        listed.folding = match Folding::of(&*folder, probe.as_deref()) {
            // One that cannot be asked will say so when something is written to it.
            Err(_) if !is_far => Folding::default(),
            found => found?,
        };
        Ok(())
    }

    /// The name of what may be made at the destination to ask which names are the same.
    fn probe(&self) -> String {
        format!("{}.case", unfinished(&self.task.state))
    }

    /// Whether it matters which names the other machine takes for the same. Those of a cluster are the same nowhere.
    fn asks_for_folding(&self) -> Result<bool, Error> {
        let Task { request, policy, state, .. } = &self.task;
        if !policy.judges_ends {
            return Ok(false);
        }
        Ok(request.delete.is_some() || folding::has_same_names(&state.list(), state.folder())?)
    }

    /// Leaves out entries whose names the destination takes for those of others: one would replace the other. `probes`:
    /// something may be made at the destination to ask it about each.
    fn leave_out_same_names(&self, listed: &Listed, probes: bool) -> Result<(), Error> {
        if !listed.folding.is_any() {
            return Ok(());
        }
        let Task { state, tally, failures, .. } = &self.task;
        let mut same = folding::same_names(&state.list(), state.folder(), listed.folding)?;
        if let Some(folder) = self.ends.to().folder(&self.task).filter(|_| probes) {
            same = folding::really_same(&same, &*folder, &self.probe())?;
        }
        if same.is_empty() {
            return Ok(());
        }
        state.rewrite_list(|entry| {
            let why = folding::why_left_out(&same, &entry.path);
            let stays = why.is_none();
            if let Some(why) = why {
                failures.add(&entry.path, why);
                tally.failed.fetch_add(1, Relaxed);
                tally.done(entry.facts.size());
            }
            stays
        })
    }

    /// Leaves out the right to act as the owner or group of a file, if the copy lies on the other side of a network and may get
    /// another owner.
    fn leave_out_rights(&self, listed: &mut Listed) -> Result<(), Error> {
        let Self { task, ends } = self;
        let is_asked = ends.are_apart() && listed.privileged > 0;
        if !is_asked || ends.to().keeps_owners(task, &format!("{}.owner", unfinished(&task.state)))? {
            return Ok(());
        }
        listed.leaves_out_rights = true;
        task.state.rewrite_list(|entry| {
            if entry.facts.is_privileged() {
                entry.facts.mode &= !0o6000;
            }
            true
        })
    }

    /// Refuses a source that nobody can want to copy like this.
    fn refuse(&self, listed: &Listed) -> Result<(), Error> {
        let Task { policy, place, state, .. } = &self.task;
        self.refuse_empty(listed)?;
        if !policy.judges_ends {
            return Ok(());
        }
        if listed.may_hold_clusters() {
            let list = state.list();
            DataDirectories::of(&list)?.refuse_links(&list, &place.source, &place.before)?;
        }
        self.refuse_running()
    }

    /// Refuses to write to folders that a running server uses.
    fn refuse_running(&self) -> Result<(), Error> {
        // A single file may be a setting of the server.
        let Task { place, tally, .. } = &self.task;
        if place.file.is_some() {
            return Ok(());
        }
        let (root, used) = self.ends.to().servers(tally)?;
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
                    let excluded = format!("/{}", shown(&join(&place.before, below)));
                    format!("leave it out with --exclude {}", shell_word(&excluded))
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
        let Task { request, place, state, .. } = &self.task;
        let takes = || Filter::new(&request.rules, &place.before).takes_with_folders(folder, true);
        if request.delete.as_ref().is_some_and(|delete| delete.excluded || takes()) {
            return Ok(true);
        }
        let mut list = self.task.open_list()?;
        while let Some(entry) = list.next().map_err(Error::manifest(&state.list()))? {
            if entry.path == folder {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses to delete everything because a source is empty, perhaps not mounted.
    fn refuse_empty(&self, listed: &Listed) -> Result<(), Error> {
        let is_empty = listed.entries <= 1;
        match &self.task.request.delete {
            Some(delete) if is_empty && !delete.even_all => {
                let says = format!(
                    "{} is empty: everything at the destination would be deleted",
                    shown_path(&self.task.place.source)
                );
                Err(Error::refused(says, "if you mean it, add --yes-empty"))
            }
            _ => Ok(()),
        }
    }
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
        let (_, mut listed) = begun.list(begun.ends.from(), begun.ends.to()).unwrap();
        let deleted = |listed: &Listed| begun.find_extra(listed).unwrap().unwrap().deletion.first;
        assert_eq!(deleted(&listed), ["Dir", "Dir/b", "Old", "Old/file"]);
        listed.folding.case = true;
        begun.leave_out_same_names(&listed, false).unwrap();
        assert_eq!(deleted(&listed), ["Old", "Old/file"]);
        let (failures, count) = begun.task.failures.finish().unwrap();
        assert_eq!((count, failures[0].path.as_str()), (1, "x"));
        assert_eq!(failures[0].reason, "the destination takes the names X and x for the same");
    }
}
