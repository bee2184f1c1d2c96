//! The bytes of an object in order, read in several ranges at once.

use crate::limits::{FIRST_BYTES, RANGE_BYTES};
use crate::runtime::{Pending, begin};
use crate::stored::Stored;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, Read};

/// A reader of an object.
pub(crate) struct Ranges {
    object: Stored,
    /// Where the next request begins.
    next: u64,
    /// The requests that were begun, in order.
    asked: VecDeque<Pending<io::Result<Bytes>>>,
    /// What has arrived and was not handed out yet.
    arrived: Bytes,
}

impl Ranges {
    pub(crate) fn of(object: Stored) -> Self {
        Self { object, next: 0, asked: VecDeque::new(), arrived: Bytes::new() }
    }

    /// Begins requests. The first one is alone and small: what it brings may show that the object is read from its end.
    fn ask(&mut self) -> io::Result<()> {
        let (size, is_first) = (self.object.size(), self.next == 0);
        let (at_once, bytes) = if is_first { (1, FIRST_BYTES) } else { (self.object.ranges(), RANGE_BYTES) };
        while self.asked.len() < at_once && self.next < size {
            let end = size.min(self.next + bytes);
            self.asked.push_back(begin(self.object.clone().bytes(self.next..end))?);
            self.next = end;
        }
        Ok(())
    }
}

impl Read for Ranges {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.arrived.is_empty() && !into.is_empty() {
            self.ask()?;
            let Some(first) = self.asked.pop_front() else { return Ok(0) };
            self.arrived = first.wait(&|| {})??;
            // As many are under way while these bytes are worked on.
            if !self.asked.is_empty() {
                self.ask()?;
            }
        }
        let n = into.len().min(self.arrived.len());
        self.arrived.copy_to_slice(&mut into[..n]);
        Ok(n)
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

    /// An object with this content, and the store in which it is.
    fn stored(content: Vec<u8>, ranges: usize) -> (Stored, Arc<InMemory>, Path) {
        let (memory, path) = (Arc::new(InMemory::new()), Path::from("a"));
        put(&memory, &path, content);
        let store = Arc::new(Store::of(Arc::clone(&memory) as Arc<dyn ObjectStore>, ranges));
        let (of, at) = (Arc::clone(&memory), path.clone());
        let looked = async move { of.get_opts(&at, GetOptions::new().with_head(true)).await };
        let meta = begin(looked).unwrap().wait(&|| {}).unwrap().unwrap().meta;
        (Stored::of(store, "s3://b/a".into(), meta).unwrap(), memory, path)
    }

    fn put(memory: &Arc<InMemory>, path: &Path, content: Vec<u8>) {
        let (memory, path) = (Arc::clone(memory), path.clone());
        let put = async move { memory.put_opts(&path, PutPayload::from(content), PutOptions::default()).await };
        begin(put).unwrap().wait(&|| {}).unwrap().unwrap();
    }

    #[test]
    fn an_object_comes_whole_and_in_order() {
        let mut rng = Rng::new();
        let range = usize::try_from(RANGE_BYTES).unwrap();
        let first = usize::try_from(FIRST_BYTES).unwrap();
        for length in [0, 1, first - 1, first, first + 1, first + range, first + 5 * range + 7] {
            let content: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            for ranges in [1, 4] {
                let (object, ..) = stored(content.clone(), ranges);
                let mut read = Vec::new();
                Ranges::of(object).read_to_end(&mut read).unwrap();
                assert!(read == content, "{length} {ranges}");
            }
        }
    }

    #[test]
    fn requests_are_bounded_and_begin_when_the_first_bytes_are_taken() {
        let length = usize::try_from(FIRST_BYTES + 20 * RANGE_BYTES).unwrap();
        let (object, ..) = stored(vec![7; length], 3);
        let mut reader = Ranges::of(object);
        assert_eq!(reader.asked.len(), 0, "nothing is read before it is asked for");
        let mut into = vec![0; usize::try_from(FIRST_BYTES).unwrap()];
        reader.read_exact(&mut into).unwrap();
        assert_eq!((reader.asked.len(), reader.next), (0, FIRST_BYTES), "a file of columns needs no more");
        reader.read_exact(&mut [0]).unwrap();
        assert_eq!((reader.asked.len(), reader.next), (3, FIRST_BYTES + 4 * RANGE_BYTES));
    }

    #[test]
    fn an_object_that_is_replaced_is_not_read_on() {
        let length = usize::try_from(FIRST_BYTES + RANGE_BYTES).unwrap();
        let (object, memory, path) = stored(vec![1; length], 4);
        let mut reader = Ranges::of(object);
        reader.read_exact(&mut [0; 100]).unwrap();
        put(&memory, &path, vec![2; length]);
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<millstream_input::Replaced>()), "{error}");
    }
}
