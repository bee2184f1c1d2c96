//! Deletes what a destination on another machine has and the source has not: one process of rsync, tried first.

use super::address::{By, joined, quoted_path};
use super::rsync::{Change, NameList, Repeat};
use super::{Remote, RemoteJob, Way};
use crate::entry::{Hash, Inode};
use crate::error::Error;
use crate::extra::{self, Deletion};
use crate::hasher::{Hasher, Hashing};
use crate::limits::{FAILURES_LISTED_MAX, FOLDED_NAMES_MAX};
use crate::manifest::{Reader, Sorter};
use crate::path::{order, shown, shown_path};
use crate::place::{Ends, without_links};
use crate::request::{Delete, Request};
use crate::state;
use crate::tally::Tally;
use crate::tree::Tree;
use crate::walk::Filter;
use millstream_model::Refusal;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Refuses a trash that the other machine has not, or that would be deleted itself.
///
/// # Errors
/// The trash is no absolute path, does not exist, or lies in the destination.
pub(crate) fn check(delete: &Delete, remote: &Remote, tally: &Tally) -> Result<(), Error> {
    let Some(trash) = &delete.trash else { return Ok(()) };
    if trash.is_relative() || trash.components().any(|part| part == Component::ParentDir) {
        let says =
            format!("the trash {} is no absolute path of the other machine", shown(trash.as_os_str().as_bytes()));
        return Err(Error::refused(says, "begin it with a slash, and write it without .."));
    }
    let (root, trash) = match &remote.root.by {
        By::Shell(host) => match canonical(remote, host, trash, tally)? {
            Some(found) => found,
            None => return Ok(()),
        },
        // A daemon counts it from the module, which is the first name of the path.
        By::Daemon => {
            let path =
                remote.root.path.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |at| &remote.root.path[at..]);
            (OsStr::from_bytes(path).into(), trash.clone())
        }
    };
    if trash.starts_with(root) {
        let says = format!("the trash {} lies in the destination", shown(trash.as_os_str().as_bytes()));
        return Err(Error::refused(says, "choose a folder beside the destination"));
    }
    Ok(())
}

/// Refuses to delete where a remote shell reaches this machine, and a folder belongs to both ends: what is in it would be
/// deleted at both. Returns the folders there by which the other end may hold some, too: its root, and those at which something
/// is mounted. `here`: the end on this machine.
///
/// # Errors
/// There is such a folder; the other machine cannot be reached.
pub(crate) fn refuse_overlap(
    (request, place): (&Request, &Ends),
    remote: &Remote,
    here: &Path,
    tally: &Tally,
) -> Result<HashSet<Inode>, Error> {
    let (mut marks, boot) = (HashSet::new(), state::boot());
    let By::Shell(host) = &remote.root.by else { return Ok(marks) };
    // What does not exist holds nothing.
    let Some(here) = without_links(here).ok().filter(|_| !boot.is_empty()) else { return Ok(marks) };
    let inode = |found: fs::Metadata| Inode { device: found.dev(), number: found.ino() };
    let of_here: Vec<Inode> = here.ancestors().filter_map(|above| fs::metadata(above).ok()).map(inode).collect();
    let mounted = Tree::open_plain(&here).map(|tree| extra::mounted(&tree)).unwrap_or_default();
    let excludes = request.delete.as_ref().is_none_or(|delete| !delete.excluded || remote.way == Way::FromThere);
    let filter = if excludes { Filter::new(&request.rules, &place.before) } else { Filter::default() };
    let follows = if request.copy_links && remote.way == Way::FromThere { " -L" } else { "" };
    let is_here = " 2>/dev/null || exit 0; [ \"$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)\" = ";
    let folders = format!(" ] || exit 0; find{follows} . -type d -printf 'folder %D %i %P\\0' 2>/dev/null; ");
    let script = joined([&"cd -P ", &quoted_path(&remote.root.path), &is_here, &boot, &folders, &MARKS]);
    let (mut of_there, mut shared) = (Vec::new(), None);
    remote.rsync.script(host, &script, b"", tally, &mut |record| {
        let mut words = record.splitn(4, |byte| *byte == b' ');
        let kind = words.next().unwrap_or_default();
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let (Some(device), Some(number)) = (number(), number()) else { return Ok(()) };
        let (found, path) = (Inode { device, number }, words.next().unwrap_or_default());
        match kind {
            b"above" => of_there.push(found),
            b"mount" => drop(marks.insert(found)),
            _ if shared.is_none() && mounted.contains(&found) && filter.takes_with_folders(path, true) => {
                shared = Some(path.to_vec());
            }
            _ => {}
        }
        Ok(())
    })?;
    marks.extend(of_there.first());
    let is_in = |inner: &[Inode], outer: &[Inode]| outer.first().is_some_and(|outer| inner.contains(outer));
    let there = || shown_path(remote.root.text());
    if is_in(&of_here, &of_there) || is_in(&of_there, &of_here) {
        let says = format!("{} is on this machine, and one end of the copy lies in the other", there());
        return Err(Error::refused(says, "choose a destination beside the source"));
    }
    if let Some(path) = shared {
        let folder = shown_path(remote.root.join(&path).text());
        let says = format!(
            "{} is on this machine, and the source and the destination both hold the folder {folder}, perhaps by a mount",
            there()
        );
        return Err(Error::refused(says, "unmount it, or copy without deleting"));
    }
    Ok(marks)
}

/// Lets a shell say which numbers its folder and those above it have, and those in it at which something is mounted.
const MARKS: &str = "(while stat -c 'above %d %i' . && [ \"$(pwd -P)\" != / ] && cd -P ..; do :; done) 2>/dev/null | \
    tr '\\n' '\\0'; at=$(pwd -P); while read -r id parent device root point rest; do point=$(printf '%b' \"$point\"); \
    case \"$point\" in \"${at%/}\"/?*) stat -c 'mount %d %i' -- \"$point\";; esac; done 2>/dev/null < /proc/self/mountinfo | \
    tr '\\n' '\\0'";

/// The root and the trash there, without links. `None` if the root does not exist: then there is nothing to delete.
fn canonical(remote: &Remote, host: &OsStr, trash: &Path, tally: &Tally) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let (root, trash) = (quoted_path(&remote.root.path), quoted_path(trash.as_os_str().as_bytes()));
    let between = " 2>/dev/null && pwd -P); printf '\\0'; cd ";
    let script = joined([&"(cd ", &root, &between, &trash, &" && pwd -P; printf '\\0'"]);
    let mut found = Vec::new();
    remote.rsync.script(host, &script, b"", tally, &mut |record| {
        found.push(PathBuf::from(OsStr::from_bytes(record.strip_suffix(b"\n").unwrap_or(record))));
        Ok(())
    })?;
    let [root, trash] = &found[..] else { return Ok(None) };
    if trash.as_os_str().is_empty() {
        let says = "the trash is no folder of the other machine, or may not be entered";
        return Err(Error::refused(says, "make the folder there first"));
    }
    Ok((!root.as_os_str().is_empty()).then(|| (root.clone(), trash.clone())))
}

/// Finds what would be deleted, and a hash of all its names.
///
/// # Errors
/// The other machine cannot be reached, or the destination not be listed whole.
pub(crate) fn find(job: &RemoteJob<'_>) -> Result<(Deletion, Hash), Error> {
    Deleting::of(job)?.find(job)
}

/// How rsync deletes.
struct Deleting {
    args: Vec<OsString>,
    /// What it must not delete. rsync reads the file.
    _spelled: Option<NameList>,
}

impl Deleting {
    fn of(job: &RemoteJob<'_>) -> Result<Self, Error> {
        let args = arguments(job);
        let spelled = spelled_differently(job, &args)?;
        let protection = spelled.as_ref().map_or_else(Vec::new, |spelled| spelled.protection().to_vec());
        // The first rule that fits decides.
        Ok(Self { args: [protection, args].concat(), _spelled: spelled })
    }

    fn find(&self, job: &RemoteJob<'_>) -> Result<(Deletion, Hash), Error> {
        let mut deletion = Deletion { entries: 0, bytes: None, first: Vec::new() };
        let failed = Error::file("write to", job.state.folder());
        let mut names = Sorter::new(job.state.folder());
        let mut kept = Ok(());
        let args = [&[OsString::from("-n")], &self.args[..]].concat();
        let ran = job.remote.rsync.run(&args, job.tally, &mut |line| {
            if line.change == Change::Deleted {
                deletion.entries += 1;
                if kept.is_ok() {
                    kept = names.push(below(job, &line.path), b"");
                }
                if deletion.first.len() < FAILURES_LISTED_MAX {
                    deletion.first.push(shown(&line.path));
                }
            }
        })?;
        if !ran.is_whole && !job.tally.is_stopped() {
            let first = ran.said.lines().next().unwrap_or_default();
            return Err(Refusal::new(format!("the destination cannot be compared whole: {first}")).into());
        }
        kept.map_err(&failed)?;
        Ok((deletion, refuse_listed(job, names)?))
    }
}

/// A path that rsync prints as one of the tree: where the tree has the source's name, that stands before it. The folder that
/// holds the tree is not deleted from.
fn below<'a>(job: &RemoteJob<'_>, path: &'a [u8]) -> &'a [u8] {
    let path = path.strip_prefix(&job.place.before[..]).unwrap_or(path);
    path.strip_prefix(b"/").unwrap_or(path)
}

/// What rsync with these arguments would delete although the destination takes it for something of the source: rsync compares
/// names byte by byte, and would delete what it has just written under the name that was there.
fn spelled_differently(job: &RemoteJob<'_>, args: &[OsString]) -> Result<Option<NameList>, Error> {
    let folding = job.listed.folding;
    if !folding.is_any() {
        return Ok(None);
    }
    let failed = Error::file("write to", job.state.folder());
    let (mut names, mut kept) = (Sorter::new(job.state.folder()), Ok(()));
    let args = [&[OsString::from("-n")], args].concat();
    job.remote.rsync.run(&args, job.tally, &mut |line| {
        if line.change == Change::Deleted && kept.is_ok() {
            kept = names.push(&folding.key(below(job, &line.path)), &line.path);
        }
    })?;
    kept.map_err(&failed)?;
    let of_list = Error::manifest(&job.state.list());
    let mut list = Reader::open(&job.state.list()).map_err(&of_list)?;
    let mut wanted = Sorter::new(job.state.folder());
    while let Some(entry) = list.next().map_err(&of_list)? {
        wanted.push(&folding.key(&entry.path), b"").map_err(&failed)?;
    }
    let (mut names, mut wanted) = (names.finish().map_err(&failed)?, wanted.finish().map_err(&failed)?);
    let mut next = wanted.next().map_err(&failed)?;
    let mut spelled = Vec::new();
    let filter = match &job.request.delete {
        Some(delete) if delete.excluded => Filter::default(),
        _ => Filter::new(&job.request.rules, &job.place.before).folding(folding),
    };
    // Whether it is a folder is not known.
    let is_excluded = |path: &[u8]| [true, false].iter().any(|is_folder| !filter.takes_with_folders(path, *is_folder));
    while let Some((key, name)) = names.next().map_err(&failed)? {
        while next.as_ref().is_some_and(|(next, _)| order(next, &key) == Ordering::Less) {
            next = wanted.next().map_err(&failed)?;
        }
        if next.as_ref().is_none_or(|(next, _)| *next != key) && !is_excluded(below(job, &name)) {
            continue;
        }
        if spelled.len() == FOLDED_NAMES_MAX {
            let says = format!(
                "the destination spells more than {FOLDED_NAMES_MAX} names differently, such as {}",
                shown(&name)
            );
            return Err(Error::refused(says, "rename them there, or delete by hand what the source has no longer"));
        }
        spelled.push(name);
    }
    (!spelled.is_empty()).then(|| NameList::of_protected(job.state.folder(), &spelled)).transpose()
}

/// Refuses to delete what the source had when it was listed: it was emptied since, or is no longer mounted. A source that is
/// live may lose files at any time. Returns a hash of the names.
fn refuse_listed(job: &RemoteJob<'_>, names: Sorter) -> Result<Hash, Error> {
    let mut hasher = Hasher::new(Hashing::Blake3);
    let failed = Error::file("read", job.state.folder());
    let mut names = names.finish().map_err(&failed)?;
    let mut list = Reader::open(&job.state.list()).map_err(Error::manifest(&job.state.list()))?;
    let mut listed = list.next().map_err(Error::manifest(&job.state.list()))?;
    while let Some((path, _)) = names.next().map_err(&failed)? {
        hasher.update(&path);
        hasher.update(&[0]);
        while listed.as_ref().is_some_and(|listed| order(&listed.path, &path) == Ordering::Less) {
            listed = list.next().map_err(Error::manifest(&job.state.list()))?;
        }
        if !job.request.live && listed.as_ref().is_some_and(|listed| listed.path == path) {
            let says = format!("{} was in the source when it was listed, and is not any more", shown(&path));
            return Err(Error::refused(says, "nothing was deleted; is the source still mounted? run it again"));
        }
    }
    Ok(hasher.finish())
}

/// Deletes what was found, or moves it to the trash. Returns how many entries went.
///
/// # Errors
/// The other machine cannot be reached; it would be others now than those whose names have the hash `shown`.
pub(crate) fn delete(job: &RemoteJob<'_>, delete: &Delete, shown: &Hash) -> Result<u64, Error> {
    let deleting = Deleting::of(job)?;
    let mut args = deleting.args.clone();
    // It may be long ago that somebody was asked. A source that is no longer mounted must not count as one that is empty.
    if !job.request.live {
        let (found, names) = deleting.find(job)?;
        if job.tally.is_stopped() {
            return Ok(0);
        }
        if names != *shown {
            let says = "what would be deleted is not what it was when it was shown";
            return Err(Error::refused(says, "nothing was deleted; is the source still mounted? run it again"));
        }
        // What has appeared since is not deleted.
        args.push(format!("--max-delete={}", found.entries).into());
    }
    if let Some(trash) = &delete.trash {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let folder = trash.join(format!("deleted-{now}"));
        args.extend(["--backup".into(), joined([&"--backup-dir=", &folder])]);
    }
    let mut deleted = 0;
    // Started again, it would count anew how much it may delete.
    let ran = job.remote.rsync.run_with(&args, Repeat::UntilBegun, job.tally, &mut |line| {
        deleted += u64::from(line.change == Change::Deleted);
    })?;
    if !ran.is_whole && !job.tally.is_stopped() {
        for why in undeleted(&ran.said) {
            job.failures.add(b"", format!("not everything was deleted: {why}"));
        }
    }
    Ok(deleted)
}

/// Why rsync has not deleted everything: at least one line.
fn undeleted(said: &str) -> Vec<&str> {
    let is_reason = |line: &&str| ["rsync: ", "Deletions stopped"].iter().any(|begins| line.starts_with(begins));
    let reasons: Vec<_> = said.lines().filter(is_reason).collect();
    match reasons.is_empty() {
        true => vec![said.lines().last().unwrap_or("rsync does not say why")],
        false => reasons,
    }
}

fn arguments(job: &RemoteJob<'_>) -> Vec<OsString> {
    let Request { rules, source, delete, .. } = job.request;
    let mut args: Vec<OsString> = ["-r", "--delete", "--existing", "--ignore-existing"].map(OsString::from).to_vec();
    args.extend(job.request.copy_links.then(|| "-L".into()));
    args.extend(job.request.one_file_system.then(|| "-x".into()));
    args.extend(delete.as_ref().is_some_and(|delete| delete.excluded).then(|| "--delete-excluded".into()));
    // Unfinished files of other copies are theirs.
    args.extend(["--filter", "P .millstream-copy.*"].map(OsString::from));
    for rule in rules {
        let sign = if rule.includes { "+ " } else { "- " };
        args.extend(["--filter".into(), joined([&sign, &OsStr::from_bytes(rule.pattern.text())])]);
    }
    let [from, to] = job.roots();
    if job.place.before.is_empty() {
        args.extend([from, to]);
    } else {
        // Patterns count from the folder that holds the tree.
        let named = source.as_os_str();
        let named = if source.is_relative() { joined([&"./", &named]) } else { named.to_owned() };
        args.extend([named, job.remote.root.parent().content()]);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_deleted_has_a_reason() {
        let stopped = "Deletions stopped due to --max-delete limit (2 skipped)";
        let error = "rsync error: the --max-delete limit stopped deletions (code 25) at main.c(1)";
        assert_eq!(undeleted(&format!("{stopped}\n{error}\n")), [stopped]);
        assert_eq!((undeleted(error), undeleted("")), (vec![error], vec!["rsync does not say why"]));
    }
}
