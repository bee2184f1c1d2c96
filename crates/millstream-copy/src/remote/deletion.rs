//! Deletes what a destination on another machine has and the source has not: one process of rsync, tried first.

use super::address::{By, joined, quoted_path};
use super::rsync::{Change, NameList, Ran, Repeat};
use super::there::There;
use crate::end::Wanted;
use crate::entry::Inode;
use crate::error::Error;
use crate::extra::{self, Deletion, Extra};
use crate::folding::Folding;
use crate::limits::{FAILURES_LISTED_MAX, FOLDED_NAMES_MAX};
use crate::manifest::{Sorted, Sorter};
use crate::path::{order, shown, shown_path};
use crate::place::without_links;
use crate::policy::Gone;
use crate::request::{Delete, Request};
use crate::state;
use crate::tally::Tally;
use crate::task::Task;
use crate::tree::Tree;
use crate::walk::Filter;
use millstream_model::Refusal;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Refuses a trash that the other machine has not, or that would be deleted itself.
///
/// # Errors
/// The trash is no absolute path, does not exist, or lies in the destination.
pub(super) fn check(wanted: &Wanted<'_>, there: &There) -> Result<(), Error> {
    let Some(trash) = &wanted.delete.trash else { return Ok(()) };
    if trash.is_relative() || trash.components().any(|part| part == Component::ParentDir) {
        let says =
            format!("the trash {} is no absolute path of the other machine", shown(trash.as_os_str().as_bytes()));
        return Err(Error::refused(says, "begin it with a slash, and write it without .."));
    }
    let (root, trash) = match &there.root.by {
        By::Shell(host) => match canonical(there, host, trash, wanted.tally)? {
            Some(found) => found,
            None => return Ok(()),
        },
        // A daemon counts it from the module, which is the first name of the path.
        By::Daemon => {
            let path = &there.root.path;
            let path = path.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |at| &path[at..]);
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
pub(super) fn refuse_overlap(wanted: &Wanted<'_>, there: &There, here: &Path) -> Result<HashSet<Inode>, Error> {
    let (mut marks, boot) = (HashSet::new(), state::boot());
    let By::Shell(host) = &there.root.by else { return Ok(marks) };
    // What does not exist holds nothing.
    let Some(here) = without_links(here).ok().filter(|_| !boot.is_empty()) else { return Ok(marks) };
    let inode = |found: fs::Metadata| Inode { device: found.dev(), number: found.ino() };
    let of_here: Vec<Inode> = here.ancestors().filter_map(|above| fs::metadata(above).ok()).map(inode).collect();
    let mounted = Tree::open_plain(&here).map(|tree| extra::mounted(&tree)).unwrap_or_default();
    let (request, is_source) = (wanted.request, there.is_source());
    let excludes = !wanted.delete.excluded || is_source;
    let filter = if excludes { Filter::new(&request.rules, &wanted.place.before) } else { Filter::default() };
    let follows = if request.copy_links && is_source { " -L" } else { "" };
    let is_here = " 2>/dev/null || exit 0; [ \"$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)\" = ";
    let folders = format!(" ] || exit 0; find{follows} . -type d -printf 'folder %D %i %P\\0' 2>/dev/null; ");
    let script = joined([&"cd -P ", &quoted_path(&there.root.path), &is_here, &boot, &folders, &MARKS]);
    let (mut of_there, mut shared) = (Vec::new(), None);
    there.rsync.script(host, &script, b"", wanted.tally, &mut |record| {
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
    let shown_root = || shown_path(there.root.text());
    if is_in(&of_here, &of_there) || is_in(&of_there, &of_here) {
        let says = format!("{} is on this machine, and one end of the copy lies in the other", shown_root());
        return Err(Error::refused(says, "choose a destination beside the source"));
    }
    if let Some(path) = shared {
        let folder = shown_path(there.root.join(&path).text());
        let says = format!(
            "{} is on this machine, and the source and the destination both hold the folder {folder}, perhaps by a mount",
            shown_root()
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
fn canonical(there: &There, host: &OsStr, trash: &Path, tally: &Tally) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let (root, trash) = (quoted_path(&there.root.path), quoted_path(trash.as_os_str().as_bytes()));
    let between = " 2>/dev/null && pwd -P); printf '\\0'; cd ";
    let script = joined([&"(cd ", &root, &between, &trash, &" && pwd -P; printf '\\0'"]);
    let mut found = Vec::new();
    there.rsync.script(host, &script, b"", tally, &mut |record| {
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

/// How rsync deletes.
pub(super) struct Deleting<'a> {
    task: &'a Task<'a>,
    there: &'a There,
    folding: Folding,
    args: Vec<OsString>,
    /// What it must not delete. rsync reads the file.
    _spelled: Option<NameList>,
}

impl<'a> Deleting<'a> {
    /// # Errors
    /// The other machine cannot be reached.
    pub(super) fn new(task: &'a Task<'a>, there: &'a There, folding: Folding) -> Result<Self, Error> {
        let mut deleting = Self { task, there, folding, args: arguments(task, there), _spelled: None };
        if let Some(spelled) = deleting.spelled_differently()? {
            // The first rule that fits decides.
            deleting.args = [&spelled.protection()[..], &deleting.args].concat();
            deleting._spelled = Some(spelled);
        }
        Ok(deleting)
    }

    /// Finds what would be deleted.
    ///
    /// # Errors
    /// The other machine cannot be reached, or the destination not be listed whole.
    pub(super) fn find(&self) -> Result<Extra, Error> {
        let mut deletion = Deletion { entries: 0, bytes: None, first: Vec::new() };
        let failed = Error::file("write to", self.task.state.folder());
        let mut names = Sorter::new(self.task.state.folder());
        let mut kept = Ok(());
        let ran = self.look(&mut |path| {
            deletion.entries += 1;
            if kept.is_ok() {
                kept = names.push(self.below(path), b"");
            }
            if deletion.first.len() < FAILURES_LISTED_MAX {
                deletion.first.push(shown(path));
            }
        })?;
        if !ran.is_whole && !self.task.tally.is_stopped() {
            let first = ran.said.lines().next().unwrap_or_default();
            return Err(Refusal::new(format!("the destination cannot be compared whole: {first}")).into());
        }
        kept.map_err(&failed)?;
        let sorted = self.without_listed(names.finish().map_err(&failed)?)?;
        Ok(Extra { deletion, sorted })
    }

    /// Lets rsync say what it would delete.
    fn look(&self, each: &mut dyn FnMut(&[u8])) -> Result<Ran, Error> {
        let args = [&[OsString::from("-n")], &self.args[..]].concat();
        self.there.rsync.run(&args, self.task.tally, &mut |line| {
            if line.change == Change::Deleted {
                each(&line.path);
            }
        })
    }

    /// A path that rsync prints as one of the tree: where the tree has the source's name, that stands before it. The folder
    /// that holds the tree is not deleted from.
    fn below<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let path = path.strip_prefix(&self.task.place.before[..]).unwrap_or(path);
        path.strip_prefix(b"/").unwrap_or(path)
    }

    /// What rsync would delete although the destination takes it for something of the source: rsync compares names byte by
    /// byte, and would delete what it has just written under the name that was there.
    fn spelled_differently(&self) -> Result<Option<NameList>, Error> {
        let Self { task, folding, .. } = self;
        if !folding.is_any() {
            return Ok(None);
        }
        let failed = Error::file("write to", task.state.folder());
        let (mut names, mut kept) = (Sorter::new(task.state.folder()), Ok(()));
        self.look(&mut |path| {
            if kept.is_ok() {
                kept = names.push(&folding.key(self.below(path)), path);
            }
        })?;
        kept.map_err(&failed)?;
        let mut list = task.open_list()?;
        let mut wanted = Sorter::new(task.state.folder());
        while let Some(entry) = list.next().map_err(Error::manifest(&task.state.list()))? {
            wanted.push(&folding.key(&entry.path), b"").map_err(&failed)?;
        }
        let (mut names, mut wanted) = (names.finish().map_err(&failed)?, wanted.finish().map_err(&failed)?);
        let mut next = wanted.next().map_err(&failed)?;
        let mut spelled = Vec::new();
        let filter = match &task.request.delete {
            Some(delete) if delete.excluded => Filter::default(),
            _ => Filter::new(&task.request.rules, &task.place.before).folding(*folding),
        };
        // Whether it is a folder is not known.
        let is_excluded =
            |path: &[u8]| [true, false].iter().any(|is_folder| !filter.takes_with_folders(path, *is_folder));
        while let Some((key, name)) = names.next().map_err(&failed)? {
            while next.as_ref().is_some_and(|(next, _)| order(next, &key) == Ordering::Less) {
                next = wanted.next().map_err(&failed)?;
            }
            if next.as_ref().is_none_or(|(next, _)| *next != key) && !is_excluded(self.below(&name)) {
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
        (!spelled.is_empty()).then(|| NameList::of_protected(task.state.folder(), &spelled)).transpose()
    }

    /// Refuses to delete what the source had when it was listed: it was emptied since, or is no longer mounted. Returns the
    /// names.
    fn without_listed(&self, mut names: Sorted) -> Result<Sorted, Error> {
        let state = &self.task.state;
        let (failed, of_list) = (Error::file("read", state.folder()), Error::manifest(&state.list()));
        let mut checked = Sorter::new(state.folder());
        let mut list = self.task.open_list()?;
        let mut listed = list.next().map_err(&of_list)?;
        while let Some((path, _)) = names.next().map_err(&failed)? {
            while listed.as_ref().is_some_and(|listed| order(&listed.path, &path) == Ordering::Less) {
                listed = list.next().map_err(&of_list)?;
            }
            if self.task.policy.gone == Gone::Stays && listed.as_ref().is_some_and(|listed| listed.path == path) {
                let says = format!("{} was in the source when it was listed, and is not any more", shown(&path));
                return Err(Error::refused(says, "nothing was deleted; is the source still mounted? run it again"));
            }
            checked.push(&path, b"").map_err(&failed)?;
        }
        checked.finish().map_err(&failed)
    }

    /// Deletes what was found, or moves it to the trash. Returns how many entries went.
    ///
    /// # Errors
    /// The other machine cannot be reached; it would be others now than those that were shown.
    pub(super) fn run(&self, delete: &Delete, shown: Extra) -> Result<u64, Error> {
        let Self { task, .. } = self;
        let mut args = self.args.clone();
        // It may be long ago that somebody was asked. A source that is no longer mounted must not count as one that is empty.
        if task.policy.gone == Gone::Stays {
            let now = self.find()?;
            if task.tally.is_stopped() {
                return Ok(0);
            }
            let most = now.deletion.entries;
            if !is_same(now.sorted, shown.sorted).map_err(Error::file("read", task.state.folder()))? {
                let says = "what would be deleted is not what it was when it was shown";
                return Err(Error::refused(says, "nothing was deleted; is the source still mounted? run it again"));
            }
            // What has appeared since is not deleted.
            args.push(format!("--max-delete={most}").into());
        }
        if let Some(trash) = &delete.trash {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let folder = trash.join(format!("deleted-{now}"));
            args.extend(["--backup".into(), joined([&"--backup-dir=", &folder])]);
        }
        let mut deleted = 0;
        // Started again, it would count anew how much it may delete.
        let ran = self.there.rsync.run_with(&args, Repeat::UntilBegun, task.tally, &mut |line| {
            deleted += u64::from(line.change == Change::Deleted);
        })?;
        if !ran.is_whole && !task.tally.is_stopped() {
            for why in undeleted(&ran.said) {
                task.failures.add(b"", format!("not everything was deleted: {why}"));
            }
        }
        Ok(deleted)
    }
}

/// Whether both hold the same names.
fn is_same(mut one: Sorted, mut other: Sorted) -> io::Result<bool> {
    loop {
        match (one.next()?, other.next()?) {
            (None, None) => return Ok(true),
            (one, other) if one != other => return Ok(false),
            _ => {}
        }
    }
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

fn arguments(task: &Task<'_>, there: &There) -> Vec<OsString> {
    let Request { rules, source, delete, copy_links, one_file_system, .. } = task.request;
    let mut args: Vec<OsString> = ["-r", "--delete", "--existing", "--ignore-existing"].map(OsString::from).to_vec();
    args.extend(copy_links.then(|| "-L".into()));
    args.extend(one_file_system.then(|| "-x".into()));
    args.extend(delete.as_ref().is_some_and(|delete| delete.excluded).then(|| "--delete-excluded".into()));
    // Unfinished files of other copies are theirs.
    args.extend(["--filter", "P .millstream-copy.*"].map(OsString::from));
    for rule in rules {
        let sign = if rule.includes { "+ " } else { "- " };
        args.extend(["--filter".into(), joined([&sign, &OsStr::from_bytes(rule.pattern.text())])]);
    }
    if task.place.before.is_empty() {
        args.extend(there.roots(&task.place.source));
    } else {
        // Patterns count from the folder that holds the tree.
        let named = source.as_os_str();
        let named = if source.is_relative() { joined([&"./", &named]) } else { named.to_owned() };
        args.extend([named, there.root.parent().content()]);
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
