//! A manifest as a file: what it is about, entries in order, and a hash of them.

use super::{Sorter, damaged, decode, encode, frame};
use crate::entry::{Entry, Facts};
use crate::limits::HEADER_BYTES_MAX;
use millstream_host::{create_private, open_plain};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const FORMAT: &str = "millstream manifest 1";
/// Stands where the length of a next entry would.
const END: u32 = u32::MAX;

/// What a manifest is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Where the tree came from, as a person reads it.
    pub(crate) source: String,
    /// The root of the copy, as bytes of its path.
    pub(crate) destination: Vec<u8>,
    /// If the copy is a single file, its name in the destination.
    pub(crate) file: Option<Vec<u8>>,
    /// Whether the attributes of entries are listed.
    pub(crate) has_attributes: bool,
    /// Whether the hashes are those of SHA-256. Those of a copy to another machine always are.
    #[serde(default)]
    pub(crate) is_sha256: bool,
}

/// Writes entries, in order.
pub(crate) struct Writer {
    file: BufWriter<File>,
    hash: Xxh3,
    count: u64,
}

const NO_ENTRY: &str = "an entry cannot be read";

impl Writer {
    /// Writes all entries that were sorted. `change` says what is changed of the facts of a path, if anything is. The list is
    /// not needed after a crash of the machine.
    pub(crate) fn write_list<F: FnOnce(&mut Facts)>(
        list: &Path,
        header: &Header,
        sorter: Sorter,
        mut change: impl FnMut(&[u8]) -> Option<F>,
    ) -> io::Result<()> {
        let mut sorted = sorter.finish()?;
        let mut writer = Self::create(list, header)?;
        while let Some((path, mut body)) = sorted.next()? {
            if let Some(change) = change(&path) {
                let mut facts = decode(&body, NO_ENTRY)?;
                change(&mut facts);
                body = encode(&facts)?;
            }
            writer.push(&path, &body)?;
        }
        writer.end().map(drop)
    }

    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(256 << 10, create_private(path)?);
        writeln!(file, "{FORMAT}")?;
        serde_json::to_writer(&mut file, header)?;
        file.write_all(b"\n")?;
        Ok(Self { file, hash: Xxh3::new(), count: 0 })
    }

    pub(crate) fn push(&mut self, path: &[u8], facts: &[u8]) -> io::Result<()> {
        self.hash.update(path);
        self.hash.update(facts);
        self.count += 1;
        frame::write(&mut self.file, path, facts)
    }

    pub(crate) fn push_entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.push(&entry.path, &encode(&entry.facts)?)
    }

    /// Ends the manifest, and returns once it is on the disk.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.end()?.sync_all()
    }

    fn end(mut self) -> io::Result<File> {
        self.file.write_all(&END.to_le_bytes())?;
        self.file.write_all(&[0; frame::HEAD_BYTES - 4])?;
        self.file.write_all(&self.count.to_le_bytes())?;
        self.file.write_all(&self.hash.digest().to_le_bytes())?;
        self.file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Reads entries in order.
pub(crate) struct Reader {
    file: BufReader<File>,
    pub(crate) header: Header,
    hash: Xxh3,
    count: u64,
    is_over: bool,
}

impl Reader {
    /// # Errors
    /// There is no such file, or it is no manifest.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(256 << 10, open_plain(path)?);
        let header = read_header(&mut file)?;
        Ok(Self { file, header, hash: Xxh3::new(), count: 0, is_over: false })
    }

    /// The next entry.
    ///
    /// # Errors
    /// The manifest is damaged, or ends too early.
    pub(crate) fn next(&mut self) -> io::Result<Option<Entry>> {
        if self.is_over {
            return Ok(None);
        }
        let mut head = [0; frame::HEAD_BYTES];
        self.file.read_exact(&mut head)?;
        let Some((all, path_len)) = frame::lens(head)? else {
            self.is_over = true;
            let mut end = [0; 16];
            self.file.read_exact(&mut end)?;
            let expected: Vec<u8> = [self.count, self.hash.digest()].iter().flat_map(|n| n.to_le_bytes()).collect();
            return if end[..] == expected[..] { Ok(None) } else { Err(damaged("its hash is wrong")) };
        };
        let mut path = vec![0; all];
        self.file.read_exact(&mut path)?;
        let facts = path.split_off(path_len);
        self.hash.update(&path);
        self.hash.update(&facts);
        self.count += 1;
        Ok(Some(Entry { path, facts: decode(&facts, NO_ENTRY)? }))
    }
}

fn read_header(file: &mut impl BufRead) -> io::Result<Header> {
    let mut line = String::new();
    file.take(HEADER_BYTES_MAX).read_line(&mut line)?;
    if line.trim_end() != FORMAT {
        return Err(damaged("it is no manifest of this version"));
    }
    line.clear();
    file.take(HEADER_BYTES_MAX).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(|_| damaged("its header cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Attribute, EntryKind, Facts, Inode, Time};

    fn header() -> Header {
        let destination = b"/d/\xff".to_vec();
        Header { source: "/s".to_owned(), destination, file: None, has_attributes: true, is_sha256: false }
    }

    fn entries() -> Vec<Entry> {
        let kinds = [
            EntryKind::Folder,
            EntryKind::File { size: 1 << 40, hash: Some([7; 32]) },
            EntryKind::Link { target: b"\xff\n".to_vec() },
            EntryKind::Device { is_block: true, number: 259 },
        ];
        let entry = |(n, kind): (u8, EntryKind)| {
            let facts = Facts {
                kind,
                mode: 0o4755,
                uid: 1,
                gid: 2,
                modified: Time { seconds: -1, nanos: 999_999_999 },
                shared: Some(Inode { device: 3, number: u64::MAX }),
                attributes: vec![Attribute { name: b"user.a".to_vec(), value: vec![0, 255] }],
                is_closed: n == 0,
            };
            Entry { path: vec![n; usize::from(n) * 40], facts }
        };
        (0..).zip(kinds).map(entry).collect()
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let mut writer = Writer::create(&path, &header()).unwrap();
        for entry in entries() {
            writer.push_entry(&entry).unwrap();
        }
        writer.finish().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.header, header());
        let mut read = Vec::new();
        while let Some(entry) = reader.next().unwrap() {
            read.push(entry);
        }
        assert_eq!(read, entries());
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn every_changed_and_every_missing_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let mut writer = Writer::create(&path, &header()).unwrap();
        for entry in entries() {
            writer.push_entry(&entry).unwrap();
        }
        writer.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
        let reads = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let mut reader = Reader::open(&path)?;
            while reader.next()?.is_some() {}
            io::Result::Ok(())
        };
        reads(&whole).unwrap();
        for at in first..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // The four bytes behind the end mark mean nothing.
            let is_free = at >= whole.len() - 20 && at < whole.len() - 16;
            assert_eq!(reads(&changed).is_err(), !is_free, "{at} of {}", whole.len());
            assert!(reads(&whole[..at]).is_err(), "{at}");
        }
    }
}
