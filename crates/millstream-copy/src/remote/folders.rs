//! Folders of a copy between machines, those of unfinished files included.

use super::address::{By, joined, quoted, quoted_path};
use super::job::RemoteJob;
use super::rsync::{Change, NameList};
use super::said::reason;
use super::{PARTIAL, empty_folder};
use crate::counts::Counts;
use crate::entry::{Entry, EntryKind};
use crate::error::Error;
use crate::limits::UNMADE_FOLDERS_MAX;
use crate::local::sweep;
use crate::manifest::Sorter;
use crate::path::{order, shown, split};
use crate::tree::{self, Tree};
use millstream_host::make_folder;
use millstream_model::Refusal;
use rustix::fs::{FileType, Mode};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// What a shell says if it has made the root.
const MADE: &str = "millstream: made";
/// What it says if it could not, because there is no folder to make it in.
const NO_FOLDER: &str = "there is no folder for the destination";

/// Options with which rsync says what it would do to each folder. The file system there may keep times in seconds.
const LOOKS: [&str; 3] = ["-n", "-ii", "--modify-window=0"];

/// Folders that are not there, although they should have been made. Something else may lie in the place of one.
#[derive(Debug, Default)]
pub(super) struct Unmade(HashSet<Vec<u8>>);

impl Unmade {
    /// Whether a path lies in one of them.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        !self.0.is_empty() && ends.any(|end| self.0.contains(&path[..end]))
    }
}

/// Makes the destination, and the folder in it where files are while they are not whole, unless a shell does it later. Returns
/// whether the root of the tree was missing there.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_temporary(job: &RemoteJob<'_>) -> Result<bool, Error> {
    if job.prepares_by_shell() {
        return Ok(false);
    }
    let temporary = job.temporary();
    if job.arrives_here() {
        // An earlier copy may have put a link there, which is refused.
        return job.here.make(temporary.as_bytes(), Mode::RWXU).map(|_| false);
    }
    // rsync makes no more than the last folder of a path, so the one that has the source's name is sent.
    let model = empty_folder()?;
    let before = job.task.place.before.as_slice();
    let inner = model.path().join(OsStr::from_bytes(before)).join(temporary);
    make_folder(&inner).map_err(Error::file("make", &inner))?;
    let root = if before.is_empty() { job.there.root.clone() } else { job.there.root.parent() };
    let args = [OsString::from("-r"), model.path().join("").into(), root.content()];
    let mut was_missing = false;
    job.there.rsync.run(&args, job.task.tally, &mut |line| {
        was_missing |= line.change == Change::Copied && line.path == before;
    })?;
    Ok(was_missing)
}

/// Removes the folder of unfinished files, and those that killed processes have left in other folders, unless a shell does it
/// later.
///
/// # Errors
/// The other machine cannot be reached.
pub(super) fn remove_temporary(job: &RemoteJob<'_>) -> Result<(), Error> {
    if job.prepares_by_shell() {
        return Ok(());
    }
    let temporary = job.temporary();
    if job.arrives_here() {
        if job.task.state.is_resumed {
            return sweep(&job.here, &temporary, job.task.tally);
        }
        let found = job.here.parent(temporary.as_bytes());
        let removed = found.and_then(|(folder, name)| tree::remove_folder(&folder, &name));
        return removed.map_err(Error::file("remove", &job.here.full(temporary.as_bytes())));
    }
    if let (true, By::Shell(host)) = (job.task.state.is_resumed, &job.there.root.by) {
        return job.there.rsync.script(host, &sweeping(job), b"", job.task.tally, &mut |_| Ok(())).map(drop);
    }
    let model = empty_folder()?;
    let only = [format!("--include=/{temporary}*/***"), "--exclude=*".to_owned()].map(OsString::from);
    let [_, there] = job.roots();
    let args = [&["-r".into(), "--delete".into()], &only[..], &[model.path().join("").into(), there]].concat();
    job.there.rsync.run(&args, job.task.tally, &mut |_| {}).map(drop)
}

/// Makes the folders of the source, which only their owner may change until everything is in them. Returns the counts, those that
/// are not there even so, and whether the root was missing.
///
/// # Errors
/// The other machine cannot be reached, or takes no more.
pub(super) fn make(job: &RemoteJob<'_>, root_was_missing: bool) -> Result<(Counts, Unmade, bool), Error> {
    if job.task.place.file.is_some() {
        return Ok(Default::default());
    }
    if job.has_root_only() && !job.prepares_by_shell() {
        // It is there already.
        job.task.tally.done(0);
        let copied = u64::from(root_was_missing);
        return Ok((Counts { copied, same: 1 - copied, ..Counts::default() }, Unmade::default(), root_was_missing));
    }
    let (mut counts, mut copied) = (Counts::default(), u64::from(root_was_missing));
    let names = names(job)?;
    let more = ["--chmod=Du+rwx".into(), before_rsync(job, &preparation(job))];
    let ran = job.there.rsync.run(&args(job, &names, &more), job.task.tally, &mut |line| {
        copied += u64::from(line.change == Change::Copied);
        job.task.tally.done(0);
    })?;
    let was_made = ran.said.contains(MADE);
    copied += u64::from(was_made);
    let mut list = job.task.open_list()?;
    while let Some(entry) = list.next().map_err(Error::manifest(&job.task.state.list()))? {
        counts.same += u64::from(entry.facts.kind == EntryKind::Folder);
    }
    // A process that was started again may have said it twice.
    counts.copied = counts.same.min(copied);
    counts.same -= counts.copied;
    if job.task.tally.is_stopped() {
        return Ok((counts, Unmade::default(), root_was_missing || was_made));
    }
    let mut unmade = if ran.is_whole { Unmade::default() } else { unmade(job, &names, &ran.said)? };
    if job.arrives_here() {
        add_missing(job, &mut unmade)?;
    }
    Ok((counts, unmade, root_was_missing || was_made))
}

/// Checks a list of another machine, because rsync reaches what is in folders by their paths: each entry must be in a folder
/// that is listed, and be listed once. Then no link that is made is on the way to something else. Links that are in the place
/// of folders here go.
///
/// # Errors
/// The list is none of a tree; a link cannot be removed.
pub(super) fn check_list(job: &RemoteJob<'_>) -> Result<(), Error> {
    if job.task.place.file.is_some() {
        return Ok(());
    }
    let temporary = job.temporary();
    let (mut above, mut last): (Vec<Vec<u8>>, Option<Vec<u8>>) = (Vec::new(), None);
    let mut list = job.task.open_list()?;
    while let Some(Entry { path, facts }) = list.next().map_err(Error::manifest(&job.task.state.list()))? {
        if job.task.tally.is_stopped() {
            return Ok(());
        }
        if !path.is_empty() {
            let (folder, name) = split(&path);
            while above.last().is_some_and(|known| known != folder) {
                above.pop();
            }
            let rest = name.strip_prefix(temporary.as_bytes());
            let is_ours = rest.is_some_and(|rest| rest.is_empty() || rest == PARTIAL.as_bytes());
            let is_name = !is_ours && ![&b""[..], b".", b".."].contains(&name);
            if above.is_empty() || !is_name || last.as_ref() == Some(&path) {
                let says = format!("the other machine lists {} in a way in which no tree has it", shown(&path));
                return Err(Refusal::new(says).into());
            }
        }
        if facts.kind == EntryKind::Folder {
            if !path.is_empty() {
                remove_link(&job.here, &path)?;
            }
            above.push(path.clone());
        }
        last = Some(path);
    }
    Ok(())
}

/// Removes what has this path here if it is a link.
pub(super) fn remove_link(here: &Tree, path: &[u8]) -> Result<(), Error> {
    // What it is in may be missing.
    let Ok((folder, name)) = here.parent(path) else { return Ok(()) };
    let failed = Error::file("remove", &here.full(path));
    match tree::stat(&folder, &name).map_err(&failed)? {
        Some(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
            tree::remove(&folder, &name).map_err(&failed)
        }
        _ => Ok(()),
    }
}

/// Adds the folders that are not here, or to which a link leads, whatever rsync has said.
fn add_missing(job: &RemoteJob<'_>, unmade: &mut Unmade) -> Result<(), Error> {
    let mut list = job.task.open_list()?;
    while let Some(Entry { path, facts }) = list.next().map_err(Error::manifest(&job.task.state.list()))? {
        if facts.kind != EntryKind::Folder || path.is_empty() || unmade.holds(&path) {
            continue;
        }
        // One that may not be read is there.
        let is_there = match job.here.folder(&path) {
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
            Ok(_) => true,
        };
        if is_there {
            continue;
        }
        if unmade.0.len() >= UNMADE_FOLDERS_MAX {
            let says = format!("more than {UNMADE_FOLDERS_MAX} folders cannot be made, such as {}", shown(&path));
            return Err(Error::refused(says, "choose another destination"));
        }
        unmade.0.insert(path);
    }
    Ok(())
}

/// Folders that would still have to be made.
fn unmade(job: &RemoteJob<'_>, names: &NameList, said: &str) -> Result<Unmade, Error> {
    let mut unmade = Unmade::default();
    job.there.rsync.run(&args(job, names, &LOOKS.map(OsString::from)), job.task.tally, &mut |line| {
        // A folder is named before what is in it, which is not there either.
        let is_known = line.change != Change::Copied || unmade.holds(&line.path);
        if !is_known && !line.path.is_empty() && unmade.0.len() <= UNMADE_FOLDERS_MAX {
            unmade.0.insert(line.path);
        }
    })?;
    match unmade.0.iter().next() {
        Some(path) if unmade.0.len() > UNMADE_FOLDERS_MAX => {
            let says = format!("more than {UNMADE_FOLDERS_MAX} folders cannot be made, such as {}", shown(path));
            let why = reason(path, said);
            Err(Error::refused(format!("{says}: {why}"), "choose another destination"))
        }
        _ => Ok(unmade),
    }
}

/// Gives the folders their owners, rights and times. Returns how many could not be made, or not be changed.
///
/// # Errors
/// The other machine cannot be reached; a folder that was made has not stayed.
pub(super) fn dress(job: &RemoteJob<'_>, unmade: &Unmade) -> Result<u64, Error> {
    if job.task.place.file.is_some() {
        return Ok(0);
    }
    let names = names(job)?;
    let more = [before_rsync(job, &tidying(job))];
    let mut lost = None;
    let ran = job.there.rsync.run(&args(job, &names, &more), job.task.tally, &mut |line| {
        let is_known = unmade.0.contains(&line.path) || unmade.holds(&line.path);
        lost = lost.take().or_else(|| (line.change == Change::Copied && !is_known).then_some(line.path));
    })?;
    if let Some(path) = lost {
        let says = format!("the folder {} at the destination was removed or replaced during the copy", shown(&path));
        let hint = "what was copied to it may lie elsewhere; run the same command again";
        return Err(Error::refused(says, hint));
    }
    if ran.is_whole || job.task.tally.is_stopped() {
        return Ok(0);
    }
    // What would still be changed, or is not even named, has failed.
    let failed = Error::file("write to", job.task.state.folder());
    let mut settled = Sorter::new(job.task.state.folder());
    let mut kept = Ok(());
    let dry = job.there.rsync.run(&args(job, &names, &LOOKS.map(OsString::from)), job.task.tally, &mut |line| {
        if line.is_untouched && kept.is_ok() {
            kept = settled.push(&line.path, b"");
        }
    })?;
    if job.task.tally.is_stopped() {
        return Ok(0);
    }
    kept.map_err(&failed)?;
    let said = format!("{}\n{}", ran.said, dry.said);
    let mut settled = settled.finish().map_err(&failed)?;
    let mut next = settled.next().map_err(&failed)?;
    let mut count = 0;
    let mut list = job.task.open_list()?;
    while let Some(entry) = list.next().map_err(Error::manifest(&job.task.state.list()))? {
        if entry.facts.kind != EntryKind::Folder {
            continue;
        }
        while next.as_ref().is_some_and(|(next, _)| order(next, &entry.path) == Ordering::Less) {
            next = settled.next().map_err(&failed)?;
        }
        // Behind a link that is still in the place of a folder, there may be one that looks as it should.
        let is_settled = next.as_ref().is_some_and(|(next, _)| *next == entry.path) && !unmade.holds(&entry.path);
        if !is_settled {
            job.task.failures.add(&entry.path, reason(&entry.path, &said));
            count += 1;
        }
    }
    Ok(count)
}

/// The option that runs a script there before rsync, if a shell answers: a connection less.
fn before_rsync(job: &RemoteJob<'_>, script: &OsStr) -> OsString {
    match job.prepares_by_shell() {
        true => joined([&"--rsync-path=", &"sh -c ", &quoted(script.as_bytes()), &"; rsync"]),
        false => "--rsync-path=rsync".into(),
    }
}

/// Makes the root, the folder that it is in if that has the source's name, and the folder of unfinished files.
fn preparation(job: &RemoteJob<'_>) -> OsString {
    let root = &job.there.root;
    let (path, temporary) = (quoted_path(&root.path), quoted_path(&root.join(job.temporary().as_bytes()).path));
    let above = match job.task.place.before.is_empty() {
        true => OsString::new(),
        false => joined([&"mkdir ", &quoted_path(&root.parent().path), &" 2>/dev/null; "]),
    };
    let made = format!(" 2>/dev/null && echo '{MADE}' >&2; mkdir ");
    // rsync says so, too, but its last words may be lost.
    let missing = format!(" ] || echo '{NO_FOLDER}' >&2");
    joined([&above, &"mkdir ", &path, &made, &temporary, &" 2>/dev/null; [ -d ", &path, &missing])
}

/// Removes the folders of unfinished files.
fn tidying(job: &RemoteJob<'_>) -> OsString {
    let root = &job.there.root;
    let script = joined([&"rm -rf ", &quoted_path(&root.join(job.temporary().as_bytes()).path)]);
    if job.task.state.is_resumed { joined([&script, &"; ", &sweeping(job)]) } else { script }
}

/// Removes the folders of unfinished files wherever they are.
fn sweeping(job: &RemoteJob<'_>) -> OsString {
    let (root, name) = (quoted_path(&job.there.root.path), quoted(format!("{}*", job.temporary()).as_bytes()));
    joined([&"find ", &root, &" -depth -type d -name ", &name, &" -exec rm -rf {} +"])
}

fn args(job: &RemoteJob<'_>, names: &NameList, more: &[OsString]) -> Vec<OsString> {
    // Whoever sends a link in the place of a folder would write elsewhere with the folders in it.
    let mut args = job.options(!job.arrives_here());
    args.extend(names.options());
    args.extend_from_slice(more);
    if job.has_root_only() {
        args.push("--exclude=*".into());
    }
    args.extend(job.roots());
    args
}

/// The names of all folders. The root comes with the others; alone it counts as a folder with content, which is left out.
fn names(job: &RemoteJob<'_>) -> Result<NameList, Error> {
    let mut list = job.task.open_list()?;
    let paths = std::iter::from_fn(|| list.next().map_err(Error::manifest(&job.task.state.list())).transpose());
    let is_listed =
        |entry: &Entry| entry.facts.kind == EntryKind::Folder && (!entry.path.is_empty() || job.has_root_only());
    let folders = paths.filter(|entry| entry.as_ref().map_or(true, is_listed));
    NameList::new(job.task.state.folder(), folders.map(|entry| entry.map(|entry| entry.path)))
}
