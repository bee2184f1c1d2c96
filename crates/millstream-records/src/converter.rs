//! What a format is, and what turns a file of it into text.

use crate::{Nan, SchemaColumn};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;

/// A format of files that are no text.
#[derive(Debug)]
pub struct Format {
    /// What people call it.
    pub kind: &'static str,
    /// Its name on the command line.
    pub name: &'static str,
    /// The name with the version of the text that a file becomes. Two programs with the same version write the same text.
    pub version: &'static str,
    /// Bytes and their offsets by which it is recognised. All must match.
    pub marks: &'static [(usize, &'static [u8])],
    /// What else must be so, of a format whose marks do not decide.
    pub look: Option<fn(&[u8]) -> Look>,
    /// Whether only a file can be read, and no pipe, because reading begins at its end.
    pub needs_file: bool,
    /// Whether a file without bytes is one, too.
    pub may_be_empty: bool,
    /// The path of the key, if all documents of such files have one there.
    pub key: Option<&'static str>,
    /// The feature of the build that opens it.
    pub feature: &'static str,
    /// Opens it; `None` in a build without the feature.
    pub open: Option<Open>,
}

/// Whether bytes are the beginning of a file of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// They are.
    Yes,
    /// They are not.
    No,
    /// More bytes show it.
    Open,
}

/// What a line begins with that stands for a record which cannot be read: it says what is wrong, and after a colon it has
/// the bytes in base64. JSON never begins so.
pub const MALFORMED: u8 = b'!';

/// Begins to convert a file. There is none if the bytes come from a pipe.
pub type Open = fn(file: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble>;

/// A file, or the rest of one that another process has begun to read.
#[derive(Debug)]
pub struct FileExtent {
    /// The file.
    pub file: Box<dyn ReadAt>,
    /// Where reading begins.
    pub start: u64,
    /// How many bytes there are from there on.
    pub len: u64,
}

#[cfg(feature = "columnar")]
impl FileExtent {
    /// Bytes from a place on, which were there when it was opened.
    ///
    /// # Errors
    /// The system's, also if they are not there any more.
    pub(crate) fn bytes(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, self.start + at) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(io::Error::new(error.kind(), "it has become shorter since it was opened"))
            }
            Err(error) => Err(error),
        }
    }
}

/// Bytes that can be read at any place: of a file, or of an object in a store.
pub trait ReadAt: Debug + Send + Sync {
    /// Reads bytes from a place on; fewer than there is room for, but none only at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Fills the room with the bytes from a place on.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::UnexpectedEof`] if there are fewer.
    fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_at(into, at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    into = &mut into[n..];
                    at += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }
}

/// Writes the lines that a file stands for.
pub trait Converter: Send {
    /// Appends the next lines to the text, each with its line feed. `false` at the end. `from` gives the bytes of the file
    /// in order, to those that read them in order. What was appended counts also if an error follows.
    ///
    /// # Errors
    /// [`Trouble`] is final.
    fn more(&mut self, from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble>;

    /// Bytes of the file that were read, unless they came from `from`.
    fn bytes_read(&self) -> Option<u64>;

    /// Numbers that became null because JSON does not have them.
    fn not_finite(&self) -> u64;

    /// The members that the file's schema describes. `None`: it has no schema, or that was not read yet.
    fn columns(&self) -> Option<Vec<SchemaColumn>> {
        None
    }
}

/// Why a file cannot be converted, or not further.
#[derive(Debug)]
pub enum Trouble {
    /// The system's error.
    Io(io::Error),
    /// The file is damaged, and how.
    Damaged(String),
    /// The file may be whole, and we do not read such files.
    Refused {
        /// The rest of a sentence that begins with the file's name.
        problem: String,
        /// What to do instead.
        hint: String,
    },
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Format {
    /// Whether a file that begins with these bytes is one.
    pub fn begins(&self, bytes: &[u8]) -> bool {
        self.marks.iter().all(|(at, magic)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
            && self.look.is_none_or(|look| look(bytes) == Look::Yes)
    }

    /// Whether more bytes are needed to see whether a file is one.
    pub fn is_open(&self, bytes: &[u8]) -> bool {
        let fits = |(at, magic): &(usize, &[u8])| {
            let there = bytes.get(*at..).unwrap_or_default();
            let n = there.len().min(magic.len());
            there[..n] == magic[..n]
        };
        let end = self.marks.iter().map(|(at, magic)| at + magic.len()).max().unwrap_or(0);
        let open = bytes.len() < end || self.look.is_some_and(|look| look(bytes) == Look::Open);
        open && self.marks.iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::ReadAt;
    use crate::{ARROW_FILE, ARROW_STREAM, AVRO, PARQUET};
    use std::io;

    #[test]
    fn bytes_at_a_place_are_read_in_as_many_pieces_as_it_takes() {
        #[derive(Debug)]
        struct Pieces(&'static [u8]);
        impl ReadAt for Pieces {
            fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
                let rest = self.0.get(usize::try_from(at).unwrap()..).unwrap_or_default();
                let n = rest.len().min(into.len()).min(2);
                into[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
        }
        let mut into = [0; 5];
        Pieces(b"abcdefg").read_exact_at(&mut into, 1).unwrap();
        assert_eq!(&into, b"bcdef");
        let error = Pieces(b"abcdefg").read_exact_at(&mut into, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn marks_are_recognised_as_soon_as_they_can_be() {
        for (format, bytes, open, begins) in [
            (&PARQUET, &b""[..], true, false),
            (&PARQUET, b"PAR", true, false),
            (&PARQUET, b"PAR1", true, false),
            (&PARQUET, b"PAR1\x15", false, true),
            // The length of an encrypted header.
            (&PARQUET, b"PAR1\x2a\0\0\0", false, true),
            (&PARQUET, b"PAR1,id", true, false),
            (&PARQUET, b"PAR1,id\n", false, false),
            (&PARQUET, b"PAR1\r\n1\t", false, false),
            (&PARQUET, b"PARE", false, false),
            (&ARROW_FILE, b"ARROW1", true, false),
            (&ARROW_FILE, b"ARROW1\0\0", false, true),
            (&ARROW_STREAM, b"\xff\xff\xff\xff\x10", true, false),
            (&ARROW_STREAM, b"\xff\xff\xff\xff\x10\0\0\0", false, true),
            (&ARROW_STREAM, b"\xff\xff\xff\xff\x10\0\0\x01", false, false),
            (&ARROW_STREAM, b"\xff\xfe", false, false),
            (&AVRO, b"Obj", true, false),
            (&AVRO, b"Obj\x01", false, true),
            (&AVRO, b"Objects\n", false, false),
        ] {
            assert_eq!((format.is_open(bytes), format.begins(bytes)), (open, begins), "{}", bytes.escape_ascii());
        }
    }
}
