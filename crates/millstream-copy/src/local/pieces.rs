//! What a worker does with a large file: it begins it, copies pieces of it, and completes it.

use super::large::{Large, Pieces};
use super::transfer::Transfer;
use super::worker::{Copied, Outcome, Trouble, Worker, create, has_changed, of_source};
use crate::entry::{Entry, Facts, Hash, changed, inode, is_sparse, modified, size_of};
use crate::error::Error;
use crate::feed::Item;
use crate::manifest::{Note, Piece};
use crate::path::split;
use crate::state::random;
use crate::tree::{self, named};
use millstream_failpoint::hit_on_thread;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags, Stat};
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A large file, and the pieces of it that are missing.
pub(super) type Begun = (Arc<Large>, Vec<u32>);

/// How a large file begins.
enum Start {
    /// It is there whole.
    Over(Outcome, Facts),
    Pieces(Begun),
}

/// The file in which a large one is until it is whole.
struct Temporary {
    number: u64,
    name: CString,
    file: OwnedFd,
    /// Pieces that an earlier run has written to it.
    copied: Vec<Piece>,
}

impl Worker<'_> {
    /// Opens a large file at both ends. Returns the pieces that are missing, unless it is over at once.
    pub(super) fn start_large(&mut self, item: &Item) -> Result<Option<Begun>, Error> {
        let ended = match self.open_large(item) {
            Ok(Start::Pieces(begun)) => return Ok(Some(begun)),
            Ok(Start::Over(outcome, facts)) => Ok((outcome, facts)),
            Err(trouble) => Err(trouble),
        };
        self.account(&item.entry.path, item.entry.facts.size(), ended).map(|_| None)
    }

    fn open_large(&mut self, item: &Item) -> Result<Start, Trouble> {
        let path = &item.entry.path;
        let folders = self.folders(path)?;
        let name = named(split(path).1).map_err(self.of_destination())?;
        if let Some(facts) = self.unchanged(item, &folders, &name)? {
            return Ok(Start::Over(Outcome::Same, facts));
        }
        let (source, stat) = self.open_source(path, &folders)?;
        let facts = self.facts_of(&source, &stat)?;
        let Some(piece_bytes) = self.job.listed.piece_bytes_of(&facts) else {
            // It was large when it was listed.
            return self.copy_file(path, &folders, &name).map(|(outcome, facts)| Start::Over(outcome, facts));
        };
        let folder = self.job.destination.folder(split(path).0).map_err(self.of_destination())?;
        let temporary = self.open_temporary(path, &folder, &stat).map_err(self.of_destination())?;
        let Temporary { number: temporary_number, name: temporary, file: destination, copied } = temporary;
        let (pieces, missing) = Pieces::new(facts.size(), piece_bytes, &copied);
        let large = Large {
            entry: Entry { path: path.clone(), facts },
            is_sparse: is_sparse(&stat),
            source,
            stat,
            folder,
            name,
            temporary,
            temporary_number,
            destination,
            piece_bytes,
            pieces,
        };
        let begun = self.begin(&large, folders.is_one_device && copied.is_empty());
        if matches!(begun, Err(Trouble::Reason(_) | Trouble::Gone)) {
            // No later run would look for it.
            let _ = tree::remove(&large.folder, &large.temporary);
        }
        if begun? {
            return Ok(Start::Over(Outcome::Copied, large.entry.facts));
        }
        if missing.is_empty() {
            self.finish_large(&large).map_err(Trouble::Final)?;
        }
        let bytes: u64 =
            copied.iter().map(|piece| large.range(piece.number)).map(|range| range.end - range.start).sum();
        self.job.task.tally.done_bytes.fetch_add(bytes, Relaxed);
        Ok(Start::Pieces((Arc::new(large), missing)))
    }

    /// Opens the temporary file in which an earlier run has left pieces of the source as it is now, or makes one.
    fn open_temporary(&self, path: &[u8], folder: &OwnedFd, stat: &Stat) -> io::Result<Temporary> {
        let name_of = |number: u64| named(format!("{}large-{number:016x}", self.job.temporary).as_bytes());
        let known = self.job.task.state.pieces.get(path).map(Vec::as_slice).unwrap_or_default();
        if let Some(Piece { temporary: number, .. }) = known.last() {
            let name = name_of(*number)?;
            // Pieces in other files, which earlier runs have begun, are not in this one.
            let is_in_it = |piece: &&Piece| piece.temporary == *number && is_of(piece, stat);
            let copied: Vec<Piece> = known.iter().filter(is_in_it).cloned().collect();
            let left = tree::stat(folder, &name)?;
            if !copied.is_empty() && left.is_some_and(|left| size_of(&left) == size_of(stat)) {
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = fs::openat(folder, &name, flags, Mode::empty())?;
                return Ok(Temporary { number: *number, name, file, copied });
            }
            tree::remove(folder, &name)?;
        }
        let number = random(path);
        let name = name_of(number)?;
        let file = create(folder, &name)?;
        Ok(Temporary { number, name, file, copied: Vec::new() })
    }

    /// Lets the file system share the bytes of a new file, or gives the file its size. Returns whether it is complete.
    fn begin(&mut self, large: &Large, may_clone: bool) -> Result<bool, Trouble> {
        let Large { entry, source, destination, .. } = large;
        if may_clone && self.is_cloned(source, destination)? {
            self.complete(&entry.path, &entry.facts, destination, &large.names())?;
            return Ok(true);
        }
        let sized = fs::ftruncate(destination, entry.facts.size());
        sized.map_err(io::Error::from).map_err(self.of_destination())?;
        Ok(false)
    }

    /// Copies a piece of a large file, and completes the file if no other is left.
    pub(super) fn piece(&mut self, large: &Large, number: u32) -> Result<(), Error> {
        if large.pieces.trouble().is_none() {
            match self.copy_piece(large, number) {
                Ok(()) => {}
                Err(Trouble::Stopped) => return Ok(()),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Gone) => large.pieces.fail("it is gone".to_owned()),
                Err(Trouble::Reason(reason)) => large.pieces.fail(reason),
            }
        }
        if large.pieces.was_last() { self.finish_large(large) } else { Ok(()) }
    }

    fn copy_piece(&mut self, large: &Large, number: u32) -> Result<(), Trouble> {
        let (range, mut hasher) = (large.range(number), large.hasher(number));
        let len = range.end - range.start;
        let (pace, tally) = (&self.job.pace, self.job.task.tally);
        let Large { source, destination, is_sparse, .. } = large;
        let transfer = Transfer { source, destination, is_sparse: *is_sparse, pace, tally };
        let moved = transfer.run(range, |bytes| _ = hasher.update(bytes), &mut self.buffer);
        let moved = moved.map_err(|ended| self.trouble(ended))?;
        if moved < len {
            return Err(Trouble::Reason("it became shorter while it was read".to_owned()));
        }
        let hash = blake3::hazmat::HasherExt::finalize_non_root(&hasher);
        let Facts { modified, .. } = large.entry.facts;
        let (inode, size, changed) = (inode(&large.stat), large.entry.facts.size(), changed(&large.stat));
        let piece = Piece { temporary: large.temporary_number, inode, size, modified, changed, number, hash };
        self.note(&large.entry.path, &Note::Piece(piece)).map_err(Trouble::Final)?;
        hit_on_thread("piece-copied");
        large.pieces.copied(number, hash);
        tally.done_bytes.fetch_add(len, Relaxed);
        Ok(())
    }

    fn finish_large(&mut self, large: &Large) -> Result<(), Error> {
        let path = &large.entry.path;
        let ended = match (large.pieces.trouble(), large.pieces.hash()) {
            (Some(reason), _) => Err(Trouble::Reason(reason)),
            (None, Some(hash)) => self.complete_large(large, hash),
            (None, None) => return Err(Error::Bug),
        };
        // Its pieces are of no use: its source has changed, or cannot be read.
        if matches!(ended, Err(Trouble::Reason(_))) {
            let _ = tree::remove(&large.folder, &large.temporary);
        }
        self.account(path, 0, ended).map(drop)
    }

    fn complete_large(&mut self, large: &Large, hash: Hash) -> Copied {
        let after = fs::fstat(&large.source).map_err(io::Error::from).map_err(of_source)?;
        if has_changed(&large.stat, &after) {
            self.counts.changed += 1;
        }
        let mut facts = large.entry.facts.clone();
        facts.set_hash(hash);
        self.complete(&large.entry.path, &facts, &large.destination, &large.names())?;
        Ok((Outcome::Copied, facts))
    }
}

/// Whether a piece is one of the source as it is now.
fn is_of(piece: &Piece, source: &Stat) -> bool {
    let is_file = piece.inode == inode(source) && piece.size == size_of(source);
    is_file && piece.modified == modified(source) && piece.changed == changed(source)
}
