//! A copy from beginning to end.

use crate::error::Error;
use crate::extra::{self, Deletion};
use crate::local::{self, Gate, Job};
use crate::manifest::Header;
use crate::path::shown;
use crate::place::Place;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::state::{self, State};
use crate::tally::{Failures, Phase, Tally};
use crate::tree::Tree;
use crate::verification;
use crate::walk::{Filter, Listed, Walk};
use millstream_failpoint::hit_on_thread;
use millstream_model::Refusal;
use millstream_model::words::{option, set};
use rustix::fs::{CWD, Mode, mkdirat, syncfs};
use rustix::io::Errno;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    pub deletion: Option<Planned>,
}

/// A deletion of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct Planned {
    /// Entries that the destination has and the source has not.
    pub entries: u64,
    /// Bytes of the files among them.
    pub bytes: u64,
    /// The first of them.
    pub first: Vec<String>,
}

/// Asked before anything is deleted.
pub type MayDelete<'a> = &'a (dyn Fn(&Deletion) -> bool + Sync);

/// Lists the source, and what would be deleted. Writes nothing at the destination.
///
/// # Errors
/// The request is refused, or the source cannot be listed.
pub fn plan(request: &Request, tally: &Tally) -> Result<Plan, Error> {
    let begun = Begun::new(request)?;
    let failures = Failures::open(None).map_err(Error::file("write to", begun.state.folder()))?;
    let (_, listed) = begun.list(request, tally, &failures)?;
    begun.refuse_empty(request, &listed)?;
    let mut deletion = None;
    if let (Some(_), Ok(destination)) = (&request.delete, Tree::open(&begun.root, false)) {
        let source = begun.source(request)?;
        let job = Job::new(request, (&begun.place, &begun.state), (&source, &destination), (tally, &failures));
        let Deletion { entries, bytes, first } = extra::find(&job, request)?.deletion;
        deletion = Some(Planned { entries, bytes, first });
    }
    // Nobody resumes a plan.
    millstream_host::remove_whole(&begun.state.list()).map_err(Error::file("write to", begun.state.folder()))?;
    let (listed_failures, _) = failures.finish().map_err(Error::file("write to", begun.state.folder()))?;
    Ok(Plan {
        rule: begun.place.rule.clone(),
        destination: text_of(&begun.target),
        entries: listed.entries,
        folders: listed.folders,
        bytes: listed.bytes,
        large: listed.large,
        shared: listed.shared,
        failures: listed_failures,
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
    let begun = Begun::new(request)?;
    let Begun { place, state, root, target } = &begun;
    state.begin()?;
    let failures = Failures::open(Some(&state.failures())).map_err(Error::file("write to", state.folder()))?;
    let (header, listed) = begun.list(request, tally, &failures)?;
    begun.refuse_empty(request, &listed)?;
    // What could not be listed was seen, and nothing else will count it.
    let unlisted = failures.count();
    hit_on_thread("copy-listed");
    tally.begin(Phase::Copying);
    let was_missing = make_root(root)?;
    let destination = Tree::open(root, false).map_err(Error::file("open", root))?;
    let source = begun.source(request)?;
    let job = Job::new(request, (place, state), (&source, &destination), (tally, &failures));
    let gate = Gate::new(request.jobs, cpus());
    let (made, of_folders) = local::make(&job, was_missing)?;
    let (of_files, found) = local::run(&job, &listed, &gate)?;
    if state.is_resumed {
        local::sweep(&job)?;
    }
    let (deleted, kept_because) = tidy(&job, request, &listed, may_delete)?;
    // Whatever is made or deleted in a folder changes its time.
    let mut counts = of_folders.plus(of_files).plus(local::dress(&job, made)?);
    counts.failed += unlisted;
    let is_stopped = tally.is_stopped();
    if request.fsync && !is_stopped {
        sync(&destination, root)?;
    }
    let finished =
        if is_stopped { state::Finished::default() } else { state.finish(&header, request.delete.is_some())? };
    hit_on_thread("manifest-written");
    let verify = request.verify && !is_stopped;
    let verified = verify.then(|| verification::compare(&state.manifest(), gate.jobs(), tally)).transpose()?;
    let seen = tally.seen.load(std::sync::atomic::Ordering::Relaxed);
    assert!(is_stopped || counts.sum() == seen, "{counts:?} of {seen}");
    let (listed_failures, all) = failures.finish().map_err(Error::file("write to", state.folder()))?;
    Ok(Receipt {
        source: text_of(&place.source),
        destination: text_of(target),
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
        manifest: text_of(&state.manifest()),
        failures: listed_failures,
        failures_file: (all > 0).then(|| text_of(&state.failures())),
        verified,
    })
}

/// Deletes what the source has not, if that was asked for.
fn tidy(
    job: &Job<'_>,
    request: &Request,
    listed: &Listed,
    may_delete: MayDelete<'_>,
) -> Result<(u64, Option<String>), Error> {
    let Some(delete) = request.delete.as_ref().filter(|_| !job.tally.is_stopped()) else { return Ok((0, None)) };
    if !listed.is_whole {
        return Ok((0, Some("the source could not be listed whole".to_owned())));
    }
    let extra = extra::find(job, request)?;
    if extra.deletion.entries == 0 {
        return Ok((0, None));
    }
    if let Some(most) = delete.most.filter(|most| extra.deletion.entries > *most) {
        let says = format!("it would be {} entries, more than {}", extra.deletion.entries, set("max-delete", most));
        return Ok((0, Some(says)));
    }
    if !may_delete(&extra.deletion) {
        return Ok((0, Some("it was not confirmed".to_owned())));
    }
    hit_on_thread("deletion-found");
    Ok((extra::run(job, delete, extra)?, None))
}

/// A request that was found to be possible.
struct Begun {
    place: Place,
    state: State,
    /// The folder of the destination.
    root: PathBuf,
    /// The root of the copy, or the file that it is.
    target: PathBuf,
}

impl Begun {
    fn new(request: &Request) -> Result<Self, Error> {
        let place = Place::of(request)?;
        let root = place.canonical_destination()?;
        let target = place.target(&root);
        if let Some(delete) = &request.delete {
            extra::check(delete, &place, &root)?;
        }
        let state = State::open(&request.home, &target)?;
        Ok(Self { place, state, root, target })
    }

    fn source(&self, request: &Request) -> Result<Tree, Error> {
        Tree::open(&self.place.source, request.copy_links).map_err(Error::file("open", &self.place.source))
    }

    fn list(&self, request: &Request, tally: &Tally, failures: &Failures) -> Result<(Header, Listed), Error> {
        let source = self.source(request)?;
        let filter = Filter::new(&request.rules, &self.place.before);
        let walk = Walk {
            tree: &source,
            filter: &filter,
            copy_links: request.copy_links,
            one_file_system: request.one_file_system,
            attributes: request.attributes,
            skip: self.state.home(),
            only: self.place.file.as_ref().map(|single| (&single.from[..], &single.to[..])),
            threads: cpus(),
            tally,
            failures,
        };
        let header = state::header(&self.place, &self.target, request.attributes);
        let listed = walk.list(&header, &self.state.list(), self.state.folder())?;
        Ok((header, listed))
    }

    /// Refuses to delete everything because a source is empty, perhaps not mounted.
    fn refuse_empty(&self, request: &Request, listed: &Listed) -> Result<(), Error> {
        let is_empty = listed.entries <= 1;
        match &request.delete {
            Some(delete) if is_empty && !delete.even_all => {
                let says =
                    format!("{} is empty: everything at the destination would be deleted", self.place.source.display());
                Err(Refusal::new(says).hint(format!("if you mean it, add {}", option("yes-empty"))).into())
            }
            _ => Ok(()),
        }
    }
}

/// Makes the folder of the destination. Returns whether it was missing.
fn make_root(root: &Path) -> Result<bool, Error> {
    // The folder that is named like the source may be the second one that is missing.
    for path in [root.parent().unwrap_or(root), root] {
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) if path == root => return Ok(true),
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(Error::file("make", path)(error.into())),
        }
    }
    Ok(false)
}

/// Waits until everything is on the disk: the file system of the root, and the name of the root itself.
fn sync(destination: &Tree, root: &Path) -> Result<(), Error> {
    let failed = Error::file("flush", root);
    let flush = |path: &Path| {
        let folder = Tree::open(path, false)?.folder(b"")?;
        Ok(syncfs(folder)?)
    };
    let folder = destination.folder(b"").map_err(&failed)?;
    syncfs(folder).map_err(std::io::Error::from).map_err(&failed)?;
    root.parent().map_or(Ok(()), flush).map_err(failed)
}

/// A path for people and for JSON.
fn text_of(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

/// Processors of this process.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
