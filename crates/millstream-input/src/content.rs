//! What a file holds, as its size and a hash of its bytes on disk.

use crate::limits::RAW_BUFFER_BYTES;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Its size, in bytes.
    pub bytes: u64,
    /// XXH3-128 of these bytes.
    pub hash: u128,
}

impl Default for Content {
    /// That of an empty file.
    fn default() -> Self {
        Self { bytes: 0, hash: Xxh3::new().digest128() }
    }
}

impl Content {
    /// Reads a file. All of it must be there: one that shrinks or grows meanwhile gives what was read.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path) -> io::Result<Self> {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Xxh3::new(), 0);
        let mut buffer = vec![0; RAW_BUFFER_BYTES];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Self { bytes, hash: hash.digest128() }),
                Ok(n) => {
                    hash.update(&buffer[..n]);
                    bytes += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Got, Input};
    use millstream_testkit::gzip;
    use std::io::Write;

    /// What reading a file to its end says about it.
    fn read(path: &Path) -> Option<Content> {
        let mut input = Input::open(path).unwrap();
        let (progress, mut buffer) = (input.progress(), vec![0; 1000]);
        while let Got::Bytes(_) = input.read(&mut buffer).unwrap() {}
        progress.content()
    }

    #[test]
    fn whoever_reads_a_file_to_its_end_knows_its_content() {
        let line = b"{\"id\":1}\n".repeat(50_000);
        for content in [&b""[..], b"x", &line, &gzip(&line), &gzip(b"")] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(content).unwrap();
            let expected = Content::of(file.path()).unwrap();
            assert_eq!(expected.bytes, content.len() as u64);
            assert_eq!(read(file.path()), Some(expected));
        }
    }

    #[test]
    fn another_byte_is_another_content() {
        let files = [b"{}\n", b"[]\n"].map(|content| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(content).unwrap();
            file
        });
        let [one, other] = files.each_ref().map(|file| Content::of(file.path()).unwrap());
        assert!(one.bytes == other.bytes && one != other);
    }

    #[test]
    fn a_file_that_was_not_read_to_its_end_has_none() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&b"{}\n".repeat(1 << 20)).unwrap();
        let mut input = Input::open(file.path()).unwrap();
        input.read(&mut [0; 10]).unwrap();
        assert_eq!(input.progress().content(), None);
        let piped = Input::from_reader(Box::new(io::empty()), "test", None).unwrap();
        assert_eq!(piped.progress().content(), None, "it is no file");
    }
}
