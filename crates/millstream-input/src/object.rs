//! What an object in a store must be able to do. The stores themselves are in a crate of their own, which is async.

use millstream_records::ReadAt;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Read;
use std::sync::Arc;

/// An object in a store, in the version that was found there. Its tag is another one as soon as it is replaced.
pub trait Object: Debug + Send + Sync {
    /// Its address without credentials. A load knows it by this name.
    fn name(&self) -> &str;

    /// Its size in bytes.
    fn size(&self) -> u64;

    /// The store's tag of this version.
    fn tag(&self) -> &str;

    /// Begins to read its first bytes, which the next [`Object::reader`] hands out. For an object that will be read soon.
    fn prepare(&self) {}

    /// Its bytes in order, which begin to arrive when they are first asked for. If the object was replaced, reading fails
    /// with [`Replaced`].
    fn reader(&self) -> Box<dyn Read + Send>;

    /// Its bytes at any place, as [`Object::reader`] gives them.
    fn places(&self) -> Box<dyn ReadAt>;
}

/// An object is no longer the version that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object was replaced")]
pub struct Replaced;

/// The objects that a command reads, by their names.
#[derive(Debug, Clone, Default)]
pub struct Objects(BTreeMap<String, Arc<dyn Object>>);

impl Objects {
    /// Adds an object. The version that was found first counts, so that all that a command reads is of one version.
    pub fn add(&mut self, object: Arc<dyn Object>) {
        self.0.entry(object.name().to_owned()).or_insert(object);
    }

    /// The object of this name, if it is one.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Object>> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Got, Input, Nan};
    use millstream_testkit::gzip;
    use std::io::{self, Cursor};

    #[derive(Debug)]
    struct Stored {
        content: Vec<u8>,
        /// What is missing at the end was replaced.
        size: u64,
    }

    struct Replacing;

    impl Read for Replacing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other(Replaced))
        }
    }

    impl ReadAt for Stored {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::Error::other(Replaced))
        }
    }

    impl Object for Stored {
        fn name(&self) -> &str {
            "s3://a/b.json"
        }

        fn size(&self) -> u64 {
            self.size
        }

        fn tag(&self) -> &str {
            "one"
        }

        fn reader(&self) -> Box<dyn Read + Send> {
            let first = Cursor::new(self.content.clone());
            match self.size > self.content.len() as u64 {
                true => Box::new(first.chain(Replacing)),
                false => Box::new(first),
            }
        }

        fn places(&self) -> Box<dyn ReadAt> {
            Box::new(Self { content: Vec::new(), size: self.size })
        }
    }

    #[test]
    fn an_object_is_read_as_a_file_is() {
        let text = b"{\"id\":1}\n".repeat(100);
        for content in [text.clone(), gzip(&text)] {
            let size = content.len() as u64;
            let mut input = Input::of_object(&Stored { content, size }, Nan::Null).unwrap();
            assert_eq!((input.name(), input.tag(), input.is_live()), ("s3://a/b.json", Some("one"), false));
            let (mut read, mut into) = (Vec::new(), vec![0; 70]);
            while let Got::Bytes(n) = input.read(&mut into).unwrap() {
                read.extend_from_slice(&into[..n]);
            }
            assert!(read == text);
            assert_eq!((input.progress().bytes_read(), input.progress().bytes_total()), (size, Some(size)));
        }
    }

    #[test]
    fn an_object_that_is_replaced_is_named_with_what_was_read_of_it() {
        let opened = |content: &[u8]| Input::of_object(&Stored { content: content.to_vec(), size: 10 }, Nan::Null);
        let mut input = opened(b"{}\n{").unwrap();
        assert_eq!(input.read(&mut [0; 100]).unwrap(), Got::Bytes(4));
        let in_the_middle = input.read(&mut [0; 100]).unwrap_err();
        for (error, read) in [(in_the_middle, 4), (opened(b"").err().unwrap(), 0)] {
            assert!(matches!(error, Error::Replaced { offset, .. } if offset == read), "{error}");
            assert!(error.to_string().starts_with("s3://a/b.json was replaced"), "{error}");
        }
    }

    #[test]
    fn the_version_that_is_found_first_counts() {
        let mut objects = Objects::default();
        for size in [1, 2] {
            objects.add(Arc::new(Stored { content: Vec::new(), size }));
        }
        assert_eq!(objects.get("s3://a/b.json").map(|object| object.size()), Some(1));
        assert!(objects.get("s3://a/other").is_none());
    }
}
