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

/// The first bytes of an object, which are asked for alone: they may show that it is read from its end.
pub(crate) struct First {
    asked: Pending<io::Result<Bytes>>,
    end: u64,
}

impl First {
    /// Asks for them.
    ///
    /// # Errors
    /// There are no threads for it, or the object has no bytes.
    pub(crate) fn of(object: &Stored) -> io::Result<Self> {
        let end = object.size().min(FIRST_BYTES);
        if end == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { asked: begin(object.clone().bytes(0..end))?, end })
    }
}

impl Ranges {
    /// Reads an object, of which the first bytes may have been asked for.
    pub(crate) fn of(object: Stored, first: Option<First>) -> Self {
        let (next, asked) = first.map_or((0, VecDeque::new()), |first| (first.end, VecDeque::from([first.asked])));
        Self { object, next, asked, arrived: Bytes::new() }
    }

    /// Begins requests.
    fn ask(&mut self) -> io::Result<()> {
        let size = self.object.size();
        if self.next == 0 && size > 0 {
            let First { asked, end } = First::of(&self.object)?;
            self.asked.push_back(asked);
            self.next = end;
            return Ok(());
        }
        while self.asked.len() < self.object.ranges() && self.next < size {
            let end = size.min(self.next + RANGE_BYTES);
            self.asked.push_back(begin(self.object.clone().bytes(self.next..end))?);
            self.next = end;
        }
        Ok(())
    }
}

impl Read for Ranges {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.arrived.is_empty() && !into.is_empty() {
            if self.asked.is_empty() {
                self.ask()?;
            }
            let is_first = self.next <= FIRST_BYTES;
            let Some(first) = self.asked.pop_front() else { return Ok(0) };
            self.arrived = first.wait(&|| {})??;
            // As many are under way while these bytes are worked on. Of the first, nobody knows yet whether more is needed.
            if !is_first && self.object.ranges() > 1 {
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
                Ranges::of(object, None).read_to_end(&mut read).unwrap();
                assert!(read == content, "{length} {ranges}");
            }
        }
    }

    #[test]
    fn requests_are_bounded_and_begin_when_the_first_bytes_are_taken() {
        let length = usize::try_from(FIRST_BYTES + 20 * RANGE_BYTES).unwrap();
        let (object, ..) = stored(vec![7; length], 3);
        let mut reader = Ranges::of(object, None);
        assert_eq!(reader.asked.len(), 0, "nothing is read before it is asked for");
        let mut into = vec![0; usize::try_from(FIRST_BYTES).unwrap()];
        reader.read_exact(&mut into).unwrap();
        assert_eq!((reader.asked.len(), reader.next), (0, FIRST_BYTES), "a file of columns needs no more");
        reader.read_exact(&mut [0]).unwrap();
        assert_eq!((reader.asked.len(), reader.next), (3, FIRST_BYTES + 4 * RANGE_BYTES));
    }

    #[test]
    fn what_was_asked_for_before_comes_first() {
        let content: Vec<u8> = (0..FIRST_BYTES + 9).map(|n| n.to_le_bytes()[0]).collect();
        for length in [5, content.len()] {
            let (object, ..) = stored(content[..length].to_vec(), 4);
            let first = First::of(&object).unwrap();
            let mut reader = Ranges::of(object, Some(first));
            assert_eq!(reader.asked.len(), 1);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert!(read == content[..length]);
        }
        assert!(First::of(&stored(Vec::new(), 4).0).is_err(), "there is nothing to ask for");
    }

    #[test]
    fn an_object_that_is_replaced_is_not_read_on() {
        let length = usize::try_from(FIRST_BYTES + RANGE_BYTES).unwrap();
        let (object, memory, path) = stored(vec![1; length], 4);
        let mut reader = Ranges::of(object, None);
        reader.read_exact(&mut [0; 100]).unwrap();
        put(&memory, &path, vec![2; length]);
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<millstream_input::Replaced>()), "{error}");
    }
}
