//! The journal of a worker: what it has done, so that the next run need not do it again.
//!
//! A record is written with one call, right before a file gets its name. What was written last when the process was
//! killed may be cut off; it is ignored.

use super::{damaged, encode, frame};
use crate::entry::{Facts, Hash, Inode, Time};
use millstream_host::{create_private, open_plain, open_private};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// How the names of journals begin.
pub(crate) const JOURNALS: &str = "journal-";
/// Bytes of the hash behind a record.
const HASH_BYTES: usize = 8;

/// What a worker notes about a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Note {
    /// It is at the destination, as these facts say.
    Done(Facts),
    /// It was, before the machine was started again. Perhaps its bytes never reached the disk.
    Doubtful(Facts),
    /// It is not at the destination: it could not be copied, or was gone.
    Absent,
    /// A piece of a large file is in the file's temporary one.
    Piece(Piece),
}

impl Note {
    /// What it is worth after the machine was started again, perhaps. Nobody knows which bytes of a piece are lost.
    pub(crate) fn after(self, was_started_again: bool) -> Option<Self> {
        match self {
            Self::Done(facts) if was_started_again => Some(Self::Doubtful(facts)),
            Self::Piece(_) if was_started_again => None,
            note => Some(note),
        }
    }

    /// What is left of it where files are hashed in another way than they were.
    pub(crate) fn without_hash(self) -> Self {
        match self {
            Self::Done(facts) => Self::Done(facts.without_hash()),
            Self::Doubtful(facts) => Self::Doubtful(facts.without_hash()),
            // Only one way hashes in pieces.
            note => note,
        }
    }

    /// The hash of a file, if this is about the file as it is now.
    pub(crate) fn hash_of(&self, facts: &Facts) -> Option<Hash> {
        match self {
            Self::Done(known) | Self::Doubtful(known) if known.is_same_file(facts) => known.hash(),
            _ => None,
        }
    }
}

/// A piece of a large file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The number in the name of the temporary file that it is in.
    pub(crate) temporary: u64,
    /// The file's number, size and times when it was read.
    pub(crate) inode: Inode,
    pub(crate) size: u64,
    pub(crate) modified: Time,
    pub(crate) changed: Time,
    /// Which piece.
    pub(crate) number: u32,
    /// The chaining value of its bytes.
    pub(crate) hash: Hash,
}

/// Where a worker notes what it has done.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    buffer: Vec<u8>,
}

impl Journal {
    /// Makes a journal that no other worker has.
    pub(crate) fn create(folder: &Path, number: usize) -> io::Result<Self> {
        let file = open_private(&folder.join(format!("{JOURNALS}{number}")), File::options().append(true))?;
        Ok(Self { file, buffer: Vec::new() })
    }

    /// Makes an empty journal at a path.
    pub(crate) fn create_at(path: &Path) -> io::Result<Self> {
        Ok(Self { file: create_private(path)?, buffer: Vec::new() })
    }

    /// Returns once the notes are on the disk.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(crate) fn add(&mut self, path: &[u8], note: &Note) -> io::Result<()> {
        self.buffer.clear();
        frame::write(&mut self.buffer, path, &encode(note)?)?;
        let hash = xxh3_64(&self.buffer);
        self.buffer.extend_from_slice(&hash.to_le_bytes());
        self.file.write_all(&self.buffer)
    }
}

/// The notes of a journal, in the order in which they were made.
pub(crate) struct Notes {
    file: BufReader<File>,
    buffer: Vec<u8>,
}

impl Notes {
    /// The next note with its path. `None` at the end, and where the journal was cut off.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u8>, Note)>> {
        let mut head = [0; frame::HEAD_BYTES];
        let mut hash = [0; HASH_BYTES];
        let read = self.file.read_exact(&mut head).and_then(|()| {
            let (all, path) = frame::lens(head)?.ok_or_else(|| damaged("an end mark is misplaced"))?;
            self.buffer.resize(all, 0);
            self.file.read_exact(&mut self.buffer)?;
            self.file.read_exact(&mut hash)?;
            Ok(path)
        });
        let path = match read {
            Ok(path) => path,
            Err(error) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData].contains(&error.kind()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (path, body) = self.buffer.split_at(path);
        let whole = [&head[..], path, body].concat();
        if xxh3_64(&whole).to_le_bytes() != hash {
            return Ok(None);
        }
        Ok(postcard::from_bytes(body).ok().map(|note| (path.to_vec(), note)))
    }
}

/// Opens a journal to read it.
pub(crate) fn read_journal(path: &Path) -> io::Result<Notes> {
    Ok(Notes { file: BufReader::with_capacity(256 << 10, open_plain(path)?), buffer: Vec::new() })
}

/// The files in a folder whose names begin like this.
pub(crate) fn files_named(folder: &Path, begins: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(begins)) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_was_cut_off_keeps_what_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), 3).unwrap();
        let time = Time { seconds: 1, nanos: 2 };
        let inode = Inode { device: 3, number: 4 };
        let piece = Piece { temporary: 6, inode, size: 9, modified: time, changed: time, number: 4, hash: [5; 32] };
        let notes = [(b"a".to_vec(), Note::Absent), (b"b/c".to_vec(), Note::Piece(piece))];
        for (path, note) in &notes {
            journal.add(path, note).unwrap();
        }
        let files = files_named(dir.path(), JOURNALS).unwrap();
        assert_eq!(files, [dir.path().join("journal-3")]);
        let whole = std::fs::read(&files[0]).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&files[0], bytes).unwrap();
            let mut notes = read_journal(&files[0]).unwrap();
            std::iter::from_fn(|| notes.next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(read(&whole), notes);
        let first = (0..whole.len()).find(|len| read(&whole[..*len]).len() == 1).unwrap();
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]).len(), usize::from(len >= first), "{len}");
            let mut changed = whole.clone();
            changed[len] ^= 0x10;
            assert_eq!(read(&changed).len(), usize::from(len >= first), "{len}");
        }
    }
}
