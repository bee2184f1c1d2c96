//! Folders of a copy: made before the files in them, and given their rights and times after them.

use super::Job;
use super::worker::{Trouble, Worker};
use crate::counts::Counts;
use crate::entry::{Entry, EntryKind, Facts};
use crate::error::Error;
use crate::manifest::{Sorted, Sorter, decode, encode};
use crate::path::{deepest_first, join, path_of};
use crate::tally::Tally;
use crate::tree::{self, Thing, Tree};
use millstream_failpoint::hit_on_thread;
use rustix::fd::AsFd;
use rustix::fs::{Dir, FileType};
use std::io;

/// Folders that are there, the deepest first, each with its facts and whether it was missing before.
pub(super) struct Made(Sorted);

/// Makes the folders of the source. `root_was_missing`: whether the root was just made.
///
/// # Errors
/// Nothing more can be made.
pub(super) fn make(job: &Job<'_>, root_was_missing: bool) -> Result<(Made, Counts), Error> {
    let failed = Error::file("write to", job.task.state.folder());
    let mut worker = Worker::new(job, 0)?;
    let mut sorter = Sorter::new(job.task.state.folder());
    let mut list = job.task.open_list()?;
    while let Some(entry) = list.next().map_err(Error::manifest(&job.task.state.list()))? {
        if entry.facts.kind != EntryKind::Folder {
            continue;
        }
        if job.task.tally.is_stopped() {
            break;
        }
        let made = match entry.path.is_empty() {
            true => worker.open_root().map(|()| root_was_missing),
            false => worker.folder(&entry.path),
        };
        match made {
            Ok(was_missing) => {
                // A folder is sorted before those that it is in.
                let body = encode(&(&entry.facts, was_missing));
                body.and_then(|body| sorter.push(&deepest_first(&entry.path), &body)).map_err(&failed)?;
            }
            Err(trouble) => worker.account_folder(&entry, Err(trouble))?,
        }
    }
    hit_on_thread("folders-made");
    Ok((Made(sorter.finish().map_err(&failed)?), worker.counts))
}

/// Gives the folders their owners, rights and times.
///
/// # Errors
/// Nothing more can be written.
pub(super) fn dress(job: &Job<'_>, made: Made) -> Result<Counts, Error> {
    let failed = Error::file("read", job.task.state.folder());
    let mut worker = Worker::new(job, 0)?;
    let Made(mut sorted) = made;
    while let Some((key, body)) = sorted.next().map_err(&failed)? {
        let path = path_of(&key).to_vec();
        let (facts, was_missing) = decode(&body, "a folder cannot be read").map_err(&failed)?;
        if job.task.tally.is_stopped() {
            break;
        }
        let entry = Entry { path, facts };
        let dressed = dress_one(job, &entry);
        let ended = dressed.map(|()| was_missing).map_err(|error| Trouble::Reason(error.to_string()));
        worker.account_folder(&entry, ended)?;
    }
    hit_on_thread("folders-dressed");
    Ok(worker.counts)
}

fn dress_one(job: &Job<'_>, entry: &Entry) -> io::Result<()> {
    let folder = job.destination.folder(&entry.path)?;
    let Some(stat) = tree::stat(&folder, c".")? else { return Err(io::ErrorKind::NotFound.into()) };
    Thing::Open(folder.as_fd()).dress(&entry.facts, &Facts::of(&stat), job.dress)
}

/// Removes the unfinished files that killed runs have left, wherever they are: everything whose name begins like theirs. No
/// worker may write any more. What we may not list or change is left alone: it is not ours.
///
/// # Errors
/// A folder cannot be listed, or a file not be removed, for another reason.
pub(crate) fn sweep(destination: &Tree, temporary: &str, tally: &Tally) -> Result<(), Error> {
    let mut folders = vec![Vec::new()];
    while let Some(path) = folders.pop() {
        if tally.is_stopped() {
            break;
        }
        match sweep_one(destination, temporary, &path, &mut folders) {
            Err(error) if [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound].contains(&error.kind()) => {}
            swept => swept.map_err(Error::file("tidy", &destination.full(&path)))?,
        }
    }
    Ok(())
}

fn sweep_one(tree: &Tree, temporary: &str, path: &[u8], folders: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let folder = tree.folder(path)?;
    let mut left = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_folder = match entry.file_type() {
            FileType::Unknown => {
                let stat = tree::stat(&folder, name)?;
                stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
            }
            kind => kind == FileType::Directory,
        };
        if name.to_bytes().starts_with(temporary.as_bytes()) {
            left.push((name.to_owned(), is_folder));
        } else if is_folder && name != c"." && name != c".." {
            folders.push(join(path, name.to_bytes()));
        }
    }
    left.iter().try_for_each(|(name, is_folder)| match is_folder {
        true => tree::remove_folder(&folder, name),
        false => tree::remove(&folder, name),
    })
}
