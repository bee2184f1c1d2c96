//! A large file, which several workers copy in pieces.

use super::worker::Names;
use crate::entry::{Entry, Hash};
use crate::manifest::Piece;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// A large file that is being copied.
pub(super) struct Large {
    /// What it is, as its source was when it was opened.
    pub(super) entry: Entry,
    pub(super) source: OwnedFd,
    pub(super) stat: Stat,
    /// The folder of the destination, and the file's two names there.
    pub(super) folder: OwnedFd,
    pub(super) name: CString,
    pub(super) temporary: CString,
    /// The number in its temporary name.
    pub(super) temporary_number: u64,
    pub(super) destination: OwnedFd,
    pub(super) is_sparse: bool,
    /// Bytes of a piece, but for the last one.
    pub(super) piece_bytes: u64,
    pub(super) pieces: Pieces,
}

/// How far the pieces of a large file are.
pub(super) struct Pieces {
    /// Chaining values of those that are copied.
    hashes: Mutex<Vec<Option<Hash>>>,
    /// How many no worker has ended yet.
    left: AtomicU32,
    /// Why one could not be copied.
    trouble: Mutex<Option<String>>,
}

impl Large {
    /// The bytes of a piece.
    pub(super) fn range(&self, number: u32) -> Range<u64> {
        let start = u64::from(number) * self.piece_bytes;
        start..(start + self.piece_bytes).min(self.entry.facts.size())
    }

    /// Where it gets its name.
    pub(super) fn names(&self) -> Names<'_> {
        Names { folder: &self.folder, temporary: &self.temporary, name: &self.name }
    }

    /// A hasher for a piece.
    pub(super) fn hasher(&self, number: u32) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(self.range(number).start);
        hasher
    }
}

impl Pieces {
    /// The pieces of a file of so many bytes, of which some may be copied already. Returns the numbers of the others, too.
    pub(super) fn new(size: u64, piece_bytes: u64, copied: &[Piece]) -> (Self, Vec<u32>) {
        let count = size.div_ceil(piece_bytes);
        let count = u32::try_from(count).expect("a file of more pieces than LARGE_PIECES_MAX is not large");
        let mut hashes = vec![None; count as usize];
        for piece in copied {
            if let Some(hash) = hashes.get_mut(piece.number as usize) {
                *hash = Some(piece.hash);
            }
        }
        let missing: Vec<u32> = (0..count).filter(|number| hashes[*number as usize].is_none()).collect();
        let left = AtomicU32::new(u32::try_from(missing.len()).unwrap_or(u32::MAX));
        (Self { hashes: Mutex::new(hashes), left, trouble: Mutex::new(None) }, missing)
    }

    /// Keeps the hash of a piece.
    pub(super) fn copied(&self, number: u32, hash: Hash) {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes[number as usize] = Some(hash);
    }

    /// Gives the file up.
    pub(super) fn fail(&self, reason: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Why it was given up.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the piece that a worker has just ended was the last one.
    pub(super) fn was_last(&self) -> bool {
        self.left.fetch_sub(1, SeqCst) == 1
    }

    /// The hash of the whole file. `None` if a piece is missing.
    pub(super) fn hash(&self) -> Option<Hash> {
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Option<Vec<ChainingValue>> = hashes.iter().copied().collect();
        all.and_then(|all| root(&all))
    }
}

/// The hash of the whole from those of its pieces. `None` for fewer than two: a single one was hashed as a part.
fn root(pieces: &[ChainingValue]) -> Option<Hash> {
    if pieces.len() < 2 {
        return None;
    }
    let (left, right) = halves(pieces);
    Some(*merge_subtrees_root(&inner(left), &inner(right), Mode::Hash).as_bytes())
}

fn inner(pieces: &[ChainingValue]) -> ChainingValue {
    match pieces {
        [one] => *one,
        _ => {
            let (left, right) = halves(pieces);
            merge_subtrees_non_root(&inner(left), &inner(right), Mode::Hash)
        }
    }
}

/// The left half is the largest power of two that leaves something: so BLAKE3's tree is cut.
fn halves(pieces: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    pieces.split_at(pieces.len().next_power_of_two() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_pieces_is_that_of_the_whole() {
        // Smaller pieces have the same tree.
        const PIECE: usize = 2_048;
        for len in [PIECE + 1, 2 * PIECE, 3 * PIECE, 4 * PIECE + 7, 11 * PIECE + 1_025] {
            let bytes: Vec<u8> = (0..=250).cycle().step_by(7).take(len).collect();
            let pieces: Vec<ChainingValue> = (0..)
                .zip(bytes.chunks(PIECE))
                .map(|(n, piece): (u64, &[u8])| {
                    let mut hasher = blake3::Hasher::new();
                    hasher.set_input_offset(n * PIECE as u64);
                    hasher.update(piece).finalize_non_root()
                })
                .collect();
            assert_eq!(root(&pieces), Some(*blake3::hash(&bytes).as_bytes()), "{len}");
        }
        assert_eq!((root(&[]), root(&[[7; 32]])), (None, None));
    }
}
