//! Cuts a listed source into the work that workers take.

use crate::entry::{Entry, EntryKind, Facts};
use crate::error::Error;
use crate::limits::LARGE_FILES_MAX;
use crate::manifest::{NO_NOTE, Note, Reader, Sorter, decode, encode};
use crate::path::path_of;
use crate::state::{Known, State};
use crate::walk::Listed;
use std::io;

/// An entry of the source, with what an earlier run knows of it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    pub(crate) known: Option<Note>,
}

/// A piece of work.
pub(crate) enum Fed {
    /// A file that several workers could copy at once.
    Large(Box<Item>),
    /// Entries in the order of their paths.
    Block(Vec<Item>),
    /// Names of files with several names, all names of a file together.
    Groups(Vec<Vec<Item>>),
}

/// Sends the large files, then the others in the order of their paths, then those with several names. Folders are left
/// out.
///
/// `is_full` is asked with the number of entries and bytes of a block; `send` says whether work is still taken.
///
/// # Errors
/// That of `send`; a list cannot be read.
pub(crate) fn feed(
    state: &State,
    listed: &Listed,
    mut is_full: impl FnMut(usize, u64) -> bool,
    mut send: impl FnMut(Fed) -> Result<bool, Error>,
) -> Result<(), Error> {
    let has_large = listed.large > 0;
    if has_large && !feed_large(state, listed, &mut send)? {
        return Ok(());
    }
    let mut shared = Sorter::new(state.folder());
    let failed = Error::file("write to", state.folder());
    let (mut block, mut bytes, mut large) = (Vec::new(), 0, 0);
    let mut entries = Entries::open(state)?;
    while let Some(item) = entries.next()? {
        let facts = &item.entry.facts;
        if facts.kind == EntryKind::Folder {
            continue;
        }
        if facts.shared.is_some() {
            keep_shared(&mut shared, &item).map_err(&failed)?;
            continue;
        }
        if has_large && listed.is_large(facts) && large < LARGE_FILES_MAX {
            large += 1;
            continue;
        }
        bytes += facts.size();
        block.push(item);
        if is_full(block.len(), bytes) {
            bytes = 0;
            if !send(Fed::Block(std::mem::take(&mut block)))? {
                return Ok(());
            }
        }
    }
    if !block.is_empty() && !send(Fed::Block(block))? {
        return Ok(());
    }
    feed_shared(state, shared, is_full, send)
}

fn feed_large(
    state: &State,
    listed: &Listed,
    send: &mut impl FnMut(Fed) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let mut entries = Entries::open(state)?;
    let mut large = 0;
    while let Some(item) = entries.next()? {
        if !listed.is_large(&item.entry.facts) || large == LARGE_FILES_MAX {
            continue;
        }
        large += 1;
        if !send(Fed::Large(Box::new(item)))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn keep_shared(sorter: &mut Sorter, item: &Item) -> io::Result<()> {
    let Some(inode) = item.entry.facts.shared else { return Ok(()) };
    let key = [format!("{:x}-{:x}/", inode.device, inode.number).as_bytes(), &item.entry.path].concat();
    sorter.push(&key, &encode(&(&item.entry.facts, &item.known))?)
}

fn feed_shared(
    state: &State,
    sorter: Sorter,
    mut is_full: impl FnMut(usize, u64) -> bool,
    mut send: impl FnMut(Fed) -> Result<bool, Error>,
) -> Result<(), Error> {
    let failed = Error::file("read", state.folder());
    let mut sorted = sorter.finish().map_err(&failed)?;
    let (mut groups, mut now, mut group) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut bytes) = (0, 0);
    while let Some((key, body)) = sorted.next().map_err(&failed)? {
        let path = path_of(&key).to_vec();
        let inode = &key[..key.len() - path.len()];
        if inode != now {
            now = inode.to_vec();
            groups.extend(Some(std::mem::take(&mut group)).filter(|group: &Vec<Item>| !group.is_empty()));
            if is_full(count, bytes) {
                (count, bytes) = (0, 0);
                if !send(Fed::Groups(std::mem::take(&mut groups)))? {
                    return Ok(());
                }
            }
        }
        let (facts, known): (Facts, _) = decode(&body, NO_NOTE).map_err(&failed)?;
        bytes += facts.size();
        group.push(Item { entry: Entry { path, facts }, known });
        count += 1;
    }
    groups.extend(Some(group).filter(|group| !group.is_empty()));
    if !groups.is_empty() {
        send(Fed::Groups(groups))?;
    }
    Ok(())
}

/// The entries of the source, with what earlier runs know of them.
struct Entries<'a> {
    state: &'a State,
    list: Reader,
    known: Known,
}

impl<'a> Entries<'a> {
    fn open(state: &'a State) -> Result<Self, Error> {
        let list = Reader::open(&state.list()).map_err(Error::manifest(&state.list()))?;
        Ok(Self { state, list, known: state.known()? })
    }

    fn next(&mut self) -> Result<Option<Item>, Error> {
        let Some(entry) = self.list.next().map_err(Error::manifest(&self.state.list()))? else { return Ok(None) };
        let known = self.known.at(&entry.path).map_err(Error::file("read", self.state.folder()))?;
        Ok(Some(Item { entry, known }))
    }
}
