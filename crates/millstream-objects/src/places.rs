//! The bytes of an object at any place, in blocks that are kept for a while.

use crate::limits::{BLOCK_BYTES, BLOCKS_AHEAD, BLOCKS_KEPT};
use crate::runtime::begin;
use crate::stored::Stored;
use bytes::Bytes;
use millstream_input::ReadAt;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// An object that is read at any place.
pub(crate) struct Places {
    object: Stored,
    /// Blocks by their numbers; what was taken last stands at the end.
    kept: Mutex<VecDeque<(u64, Bytes)>>,
}

impl Places {
    pub(crate) fn of(object: Stored) -> Self {
        Self { object, kept: Mutex::new(VecDeque::new()) }
    }

    /// A block of the object, and those behind it if it must be fetched.
    fn block(&self, number: u64) -> io::Result<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(kept, _)| *kept == number)
            && let Some((_, block)) = kept.remove(at)
        {
            kept.push_back((number, block.clone()));
            return Ok(block);
        }
        let is_kept = |number: &u64| kept.iter().any(|(kept, _)| kept == number);
        let ahead = (number..number + BLOCKS_AHEAD).take_while(|number| !is_kept(number)).count() as u64;
        let start = number * BLOCK_BYTES;
        let end = self.object.size().min(start + ahead * BLOCK_BYTES);
        let fetched = begin(self.object.clone().bytes(start..end))?.wait(&|| {})??;
        let piece = |from: u64| {
            let from = usize::try_from(from).unwrap_or(usize::MAX).min(fetched.len());
            fetched.slice(from..fetched.len().min(from + usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX)))
        };
        // A piece of all that was fetched would keep all of it.
        let pieces = (0..ahead).map(|n| (number + n, Bytes::copy_from_slice(&piece(n * BLOCK_BYTES))));
        let pieces: Vec<(u64, Bytes)> = pieces.filter(|(_, piece)| !piece.is_empty()).collect();
        let first = pieces.first().map(|(_, piece)| piece.clone()).unwrap_or_default();
        // The one that was asked for is dropped last.
        kept.extend(pieces.into_iter().rev());
        while kept.len() > BLOCKS_KEPT {
            kept.pop_front();
        }
        Ok(first)
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("object", &self.object).finish_non_exhaustive()
    }
}

impl ReadAt for Places {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.object.size() || into.is_empty() {
            return Ok(0);
        }
        let block = self.block(at / BLOCK_BYTES)?;
        let from = usize::try_from(at % BLOCK_BYTES).unwrap_or(usize::MAX);
        let rest = block.get(from..).unwrap_or_default();
        let n = into.len().min(rest.len());
        into[..n].copy_from_slice(&rest[..n]);
        match n {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::Store;
    use fastrand::Rng;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{GetOptions, ObjectStore, PutOptions, PutPayload};
    use std::sync::Arc;

    fn places(content: &[u8]) -> Places {
        let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (store, content) = (Arc::clone(&memory), PutPayload::from(content.to_vec()));
        let filled = async move {
            let path = Path::from("a");
            store.put_opts(&path, content, PutOptions::default()).await?;
            store.get_opts(&path, GetOptions::new().with_head(true)).await
        };
        let meta = begin(filled).unwrap().wait(&|| {}).unwrap().unwrap().meta;
        Places::of(Stored::of(Arc::new(Store::of(memory, 4)), "s3://b/a".into(), meta).unwrap())
    }

    #[test]
    fn bytes_are_those_of_the_object_at_each_place() {
        let mut rng = Rng::new();
        let length = usize::try_from(11 * BLOCK_BYTES + 77).unwrap();
        let content: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        let places = places(&content);
        for _ in 0..200 {
            let at = rng.usize(..length);
            let n = *rng.choice(&[1, 8, 1000, 600_000]).unwrap();
            let mut into = vec![0; n.min(length - at)];
            places.read_exact_at(&mut into, at as u64).unwrap();
            assert!(into == content[at..at + into.len()], "{at} {n}");
        }
        assert_eq!(places.read_at(&mut [0; 9], length as u64).unwrap(), 0);
        let beyond = places.read_exact_at(&mut [0; 9], length as u64 - 3).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_kept_is_bounded_and_read_once() {
        let content = vec![3; usize::try_from((BLOCKS_KEPT as u64 + 20) * BLOCK_BYTES).unwrap()];
        let places = places(&content);
        let kept = || places.kept.lock().unwrap().iter().map(|(number, _)| *number).collect::<Vec<_>>();
        places.read_at(&mut [0], 5).unwrap();
        assert_eq!(kept().len() as u64, BLOCKS_AHEAD);
        places.read_at(&mut [0], 5).unwrap();
        assert_eq!(kept().last(), Some(&0), "it was taken again");
        for number in 0..BLOCKS_KEPT as u64 + 20 {
            places.read_at(&mut [0], number * BLOCK_BYTES).unwrap();
        }
        assert_eq!(kept().len(), BLOCKS_KEPT);
        assert!(!kept().contains(&0));
    }
}
