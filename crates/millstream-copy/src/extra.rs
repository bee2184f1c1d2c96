//! Deletes what the destination has and the source has not.

use crate::entry::{Entry, EntryKind, Inode, inode};
use crate::error::Error;
use crate::folding::Folding;
use crate::limits::FAILURES_LISTED_MAX;
use crate::local::UNFINISHED;
use crate::manifest::{Header, Reader, Sorted, Sorter, decode, encode};
use crate::path::{deepest_first, is_in, order, path_of, shown, shown_path, split};
use crate::place::without_links;
use crate::request::Delete;
use crate::tally::{Failures, Tally};
use crate::task::Task;
use crate::tree::{self, Tree};
use crate::walk::{Filter, Scope, Walk};
use millstream_host::kernel::mount::mounts;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, fchmod, fstat, mkdirat, renameat, stat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What would be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deletion {
    /// Entries, folders included.
    pub entries: u64,
    /// Bytes of the files among them. `None` on another machine, which does not tell them.
    pub bytes: Option<u64>,
    /// The first of them.
    pub first: Vec<String>,
}

/// What would be deleted, and all its paths, in the order and with the notes of the end that has found them.
pub(crate) struct Extra {
    pub(crate) deletion: Deletion,
    pub(crate) sorted: Sorted,
}

/// Refuses deletions that nobody can want. `source`: its path, if it lies on this machine.
///
/// # Errors
/// The source lies in the destination, or the trash does.
pub(crate) fn check(delete: &Delete, destination: &Path, source: Option<&Path>) -> Result<(), Error> {
    let source = source.map(without_links).transpose()?;
    if let Some(source) = source.filter(|source| source.starts_with(destination)) {
        let says = format!("the source {} lies in the destination, and would be deleted", shown_path(source));
        return Err(Error::refused(says, "choose a destination beside the source"));
    }
    if let Some(trash) = &delete.trash {
        let found = fs::canonicalize(trash).map_err(Error::file("find the trash", trash))?;
        if found.starts_with(destination) {
            let says = format!("the trash {} lies in the destination", shown_path(found));
            return Err(Error::refused(says, "choose a folder beside the destination"));
        }
    }
    Ok(())
}

/// Lists what the destination has and the source has not. What rules exclude is protected. `folding`: which names the
/// destination takes for the same. `others`: folders of the source that must not be below the destination.
///
/// So is what is in a folder that stands in the place of a file of the source: that file has failed.
///
/// # Errors
/// The destination cannot be listed whole.
pub(crate) fn find(
    task: &Task<'_>,
    destination: &Tree,
    folding: Folding,
    others: &HashSet<Inode>,
) -> Result<Extra, Error> {
    let Task { request, place, state, .. } = task;
    let failed = Error::file("write to", state.folder());
    let there = state.folder().join("there");
    let filter = match &request.delete {
        Some(delete) if delete.excluded => Filter::default(),
        _ => Filter::new(&request.rules, &place.before).folding(folding),
    };
    let scope = Scope { filter, one_file_system: request.one_file_system, ..Scope::default() };
    let (tally, failures) = (&Tally::default(), &Failures::default());
    let (skip, threads) = (state.home(), 1);
    let walk = Walk { tree: destination, scope, attributes: false, skip, others, threads, tally, failures };
    let listed = walk.list(&Header::default(), &there, state.folder())?;
    if !listed.is_whole {
        let (first, _) = failures.finish().map_err(&failed)?;
        let named = first.first().map_or(String::new(), |failure| format!(": {}: {}", failure.path, failure.reason));
        let hint = "let it be listed, or leave it out with --exclude";
        return Err(Error::refused(format!("the destination cannot be listed whole{named}"), hint));
    }
    let of_source = Error::manifest(&state.list());
    let mut source = Entries::open(&state.list(), state.folder(), folding)?;
    let mut destination = Entries::open(&there, state.folder(), folding)?;
    let mut sorter = Sorter::new(state.folder());
    let mut deletion = Deletion { entries: 0, bytes: None, first: Vec::new() };
    let mut bytes = 0;
    let mut wanted = source.next().map_err(&of_source)?;
    let mut protected: Option<Vec<u8>> = None;
    while let Some((key, entry)) = destination.next().map_err(Error::manifest(&there))? {
        if protected.as_ref().is_some_and(|folder| is_in(&key, folder)) {
            continue;
        }
        if is_unfinished(&entry.path) {
            // It is another copy's.
            protected = Some(key);
            continue;
        }
        while wanted.as_ref().is_some_and(|(wanted, _)| order(wanted, &key) == Ordering::Less) {
            wanted = source.next().map_err(&of_source)?;
        }
        if let Some((_, wanted)) = wanted.as_ref().filter(|(wanted, _)| *wanted == key) {
            let is_blocked = entry.facts.kind == EntryKind::Folder && wanted.facts.kind != EntryKind::Folder;
            protected = (is_blocked || wanted.facts.is_closed).then_some(key);
            continue;
        }
        if entry.facts.is_closed {
            // Another file system is mounted there.
            protected = Some(key);
            continue;
        }
        deletion.entries += 1;
        bytes += entry.facts.size();
        if deletion.first.len() < FAILURES_LISTED_MAX {
            deletion.first.push(shown(&entry.path));
        }
        sorter
            .push(&deepest_first(&entry.path), &[u8::from(entry.facts.kind == EntryKind::Folder)])
            .map_err(&failed)?;
    }
    millstream_host::remove_whole(&there).map_err(&failed)?;
    deletion.bytes = Some(bytes);
    Ok(Extra { deletion, sorted: sorter.finish().map_err(&failed)? })
}

/// The root of a tree of this machine, and its folders at which file systems are mounted, parts of others among them. Only they
/// can be below another tree, too, whose path is not theirs.
pub(crate) fn mounted(tree: &Tree) -> HashSet<Inode> {
    let Ok(root) = fs::canonicalize(tree.path()) else { return HashSet::new() };
    let mounts = mounts().into_iter().map(|mount| mount.point);
    let below = mounts.filter(|point| point.starts_with(&root) && *point != root);
    // What cannot be looked at cannot be listed either.
    let own = below.filter_map(|point| stat(&point).ok());
    own.chain(tree.root_stat().ok()).map(|stat| inode(&stat)).collect()
}

/// The entries of a list with the keys by which they are compared, in their order: their paths, or what the destination makes
/// of these.
enum Entries {
    Plain(Box<Reader>),
    Folded(Sorted),
}

impl Entries {
    fn open(list: &Path, folder: &Path, folding: Folding) -> Result<Self, Error> {
        let mut reader = Reader::open(list).map_err(Error::manifest(list))?;
        if !folding.is_any() {
            return Ok(Self::Plain(Box::new(reader)));
        }
        let failed = Error::file("write to", folder);
        let mut sorter = Sorter::new(folder);
        while let Some(Entry { path, facts }) = reader.next().map_err(Error::manifest(list))? {
            let body = encode(&(&path, &facts));
            body.and_then(|body| sorter.push(&folding.key(&path), &body)).map_err(&failed)?;
        }
        Ok(Self::Folded(sorter.finish().map_err(&failed)?))
    }

    fn next(&mut self) -> io::Result<Option<(Vec<u8>, Entry)>> {
        match self {
            Self::Plain(reader) => Ok(reader.next()?.map(|entry| (entry.path.clone(), entry))),
            Self::Folded(sorted) => {
                let Some((key, body)) = sorted.next()? else { return Ok(None) };
                let (path, facts) = decode(&body, "an entry cannot be read")?;
                Ok(Some((key, Entry { path, facts })))
            }
        }
    }
}

/// Deletes the entries, or moves them to the trash. Returns how many. A folder that holds something protected stays, and so
/// does one at which a file system is mounted.
///
/// # Errors
/// The list of them cannot be read; the trash takes nothing, which is a refusal.
pub(crate) fn run(task: &Task<'_>, destination: &Tree, delete: &Delete, mut extra: Extra) -> Result<u64, Error> {
    let failed = Error::file("read", task.state.folder());
    let trash = delete.trash.as_deref().map(new_trash).transpose()?;
    let mut deleted = 0;
    while let Some((key, body)) = extra.sorted.next().map_err(&failed)? {
        if task.tally.is_stopped() {
            break;
        }
        let path = path_of(&key);
        let is_folder = body == [1];
        match remove(destination, path, is_folder, trash.as_ref()) {
            Ok(was_removed) => deleted += u64::from(was_removed),
            Err(error) => task.failures.add(path, format!("it cannot be deleted: {error}")),
        }
    }
    Ok(deleted)
}

/// Whether a name is that of an unfinished file, or of a folder of such ones.
fn is_unfinished(path: &[u8]) -> bool {
    split(path).1.starts_with(UNFINISHED.as_bytes())
}

/// A new folder in the trash, in which nothing can be in the way.
fn new_trash(trash: &Path) -> Result<Tree, Error> {
    let failed = |error: io::Error| {
        let says = format!("no folder can be made in the trash {}: {error}", shown_path(trash));
        Error::refused(says, "let it be written, or choose another one")
    };
    let trash = fs::canonicalize(trash).map_err(&failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made = (now..).map(|name| trash.join(format!("deleted-{name}"))).find_map(|path| {
        match mkdirat(CWD, &path, Mode::RWXU) {
            Err(Errno::EXIST) => None,
            made => Some(made.map(|()| path)),
        }
    });
    let path = made.transpose().map_err(io::Error::from).map_err(&failed)?.unwrap_or(trash);
    // Whoever may change what is above it could put a link there.
    Tree::open_plain(&path).map_err(failed)
}

/// The folder of the trash that gets what was in a folder of the destination.
fn folder_in(trash: &Tree, path: &[u8]) -> io::Result<OwnedFd> {
    match trash.folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_empty() => {
            let (above, name) = split(path);
            mkdirat(folder_in(trash, above)?, tree::named(name)?, Mode::RWXU)?;
            trash.folder(path)
        }
        folder => folder,
    }
}

fn remove(tree: &Tree, path: &[u8], is_folder: bool, trash: Option<&Tree>) -> io::Result<bool> {
    let (folder, name) = tree.parent(path)?;
    let into = trash.filter(|_| !is_folder).map(|trash| folder_in(trash, split(path).0)).transpose()?;
    let attempt = || match &into {
        _ if is_folder => unlinkat(&folder, &name, AtFlags::REMOVEDIR),
        None => unlinkat(&folder, &name, AtFlags::empty()),
        Some(into) => renameat(&folder, &name, into, &name),
    };
    let mut removed = attempt();
    if removed == Err(Errno::ACCESS) {
        // Whoever owns a folder may let himself write in it. It may stay, so it gets its rights again.
        let mode = fstat(&folder)?.st_mode & 0o7777;
        if fchmod(&folder, Mode::from_raw_mode(mode | 0o700)).is_ok() {
            removed = attempt();
            fchmod(&folder, Mode::from_raw_mode(mode))?;
        }
    }
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) if into.is_none() => Ok(!is_folder),
        // Something protected is in it, or a file system is mounted there.
        Err(Errno::NOTEMPTY | Errno::BUSY) if is_folder => Ok(false),
        Err(Errno::XDEV) => Err(io::Error::other("the trash lies in another file system")),
        Err(error) => Err(error.into()),
    }
}
