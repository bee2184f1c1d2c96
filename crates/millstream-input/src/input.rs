//! A stream of uncompressed bytes from a file, standard input or any reader.

use super::compression::Compression;
use super::encoding::{Encoding, Transcoder};
use super::error::Error;
use super::got::Got;
use super::made::Made;
use super::object::{Object, Replaced};
use super::plain::{Plain, Unread};
use super::raw::{Progress, Raw};
use super::signature::CONVERTERS;
use super::unchanged::{Overwritten, Unchanged};
use crate::limits::ZSTD_WINDOW_LOG_MAX;
use millstream_records::{FileExtent, Format, Nan, Trouble};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// Uncompressed bytes of what was opened.
pub struct Input {
    name: String,
    plain: Plain,
    live: bool,
    /// How text that is made ended.
    ended: Option<Got>,
    transcoder: Option<Transcoder>,
    /// What makes text of a file that is none.
    made: Option<Made>,
    /// The store's tag of the version that is read, if it is an object.
    tag: Option<String>,
}

/// How files that are no text become text.
struct Conversion {
    /// The file, if the bytes come from one.
    extent: Option<FileExtent>,
    nan: Nan,
    /// The formats that are converted.
    known: &'static [&'static Format],
}

impl Input {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// It cannot be opened, or is a directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, Nan::default())
    }

    /// Like [`Input::open`], and says what becomes of numbers that JSON does not have, in a file that is no text.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn open_with(path: &Path, nan: Nan) -> Result<Self, Error> {
        Self::open_as(path, nan, CONVERTERS)
    }

    pub(super) fn open_as(path: &Path, nan: Nan, known: &'static [&'static Format]) -> Result<Self, Error> {
        let (name, file) = if path == Path::new("-") {
            // A copy of the descriptor: standard input may be a file, and then its size is known.
            let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
            ("standard input".to_owned(), file)
        } else {
            (path.display().to_string(), File::open(path))
        };
        let failed = |source| Error::Open { name: name.clone(), source };
        let file = file.map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        if facts.is_dir() {
            return Err(Error::Directory { name });
        }
        // Another process may have read a part of standard input.
        let start = (&file).stream_position().unwrap_or(0);
        let total = facts.is_file().then(|| facts.len().saturating_sub(start));
        let unchanged = Unchanged::of(&file, &facts, start).map_err(failed)?;
        let extent = match total {
            Some(len) => Some(FileExtent { file: Box::new(file.try_clone().map_err(failed)?), start, len }),
            None => None,
        };
        Self::begin(Raw::new(Box::new(file), total, unchanged), &name, Conversion { extent, nan, known })
    }

    /// Takes any reader. `total` is its size in bytes, if known; a reader that ends earlier fails. Without `total` the
    /// reader counts as live: its bytes are handed on at once and not collected into whole chunks.
    ///
    /// # Errors
    /// Its first bytes cannot be read.
    pub fn from_reader(reader: Box<dyn Read + Send>, name: &str, total: Option<u64>) -> Result<Self, Error> {
        Self::from_reader_as(reader, name, total, CONVERTERS)
    }

    pub(super) fn from_reader_as(
        reader: Box<dyn Read + Send>,
        name: &str,
        total: Option<u64>,
        known: &'static [&'static Format],
    ) -> Result<Self, Error> {
        let conversion = Conversion { extent: None, nan: Nan::default(), known };
        Self::begin(Raw::new(reader, total, None), name, conversion)
    }

    /// Takes an object of a store.
    ///
    /// # Errors
    /// Its first bytes cannot be read.
    pub fn of_object(object: &dyn Object, nan: Nan) -> Result<Self, Error> {
        let extent = FileExtent { file: object.places(), start: 0, len: object.size() };
        let conversion = Conversion { extent: Some(extent), nan, known: CONVERTERS };
        // That it has not changed is known by its tag.
        let mut input = Self::begin(Raw::new(object.reader(), Some(object.size()), None), object.name(), conversion)?;
        input.tag = Some(object.tag().to_owned());
        Ok(input)
    }

    fn begin(raw: Raw, name: &str, conversion: Conversion) -> Result<Self, Error> {
        let known = conversion.known;
        let (plain, begun) = Plain::begin(raw, |bytes| known.iter().any(|format| format.is_open(bytes)));
        let live = plain.progress().bytes_total().is_none();
        let format = known.iter().copied().find(|format| format.begins(plain.beginning()));
        // Of compressed bytes, a converter gets what they hold, in order.
        let extent = conversion.extent.filter(|_| plain.compression().is_none());
        let mut input = Self { name: name.into(), plain, live, ended: None, transcoder: None, made: None, tag: None };
        begun.map_err(|source| input.failed(source))?;
        match format.map(|format| Made::begin(format, extent, conversion.nan)) {
            None => {}
            Some(Ok(made)) => {
                made.iter().for_each(|made| made.describe(input.plain.progress()));
                input.made = made;
            }
            Some(Err(trouble)) => {
                input.ended = Some(input.stopped(trouble)?);
                input.made = format.map(Made::ended);
            }
        }
        Ok(input)
    }

    /// The format of the file that the bytes are made of, if it is no text.
    pub(super) fn made(&self) -> Option<&'static Format> {
        self.made.as_ref().map(|made| made.format)
    }

    /// Gives it another name for messages.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// The input as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much has been read; the handle stays valid while another thread reads.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(self.plain.progress())
    }

    /// The store's tag of the version that is read, if it is an object. It stands for all of its bytes.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Decodes the text from this encoding into UTF-8 from now on.
    pub(super) fn transcode(&mut self, encoding: &Encoding) {
        self.transcoder = encoding.transcoder();
    }

    /// How it is compressed, if it is.
    pub(super) fn compression(&self) -> Option<&'static Compression> {
        self.plain.compression()
    }

    /// Whether bytes should be handed on at once. Text that is made of a file is not live, although its length is unknown.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Reads uncompressed bytes. [`Got::End`] and [`Got::Damaged`] are final.
    ///
    /// # Errors
    /// It cannot be read, or a frame of zstd needs too much memory.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Got, Error> {
        if self.made.is_some() {
            return self.read_made(into);
        }
        let Some(mut transcoder) = self.transcoder.take() else { return self.read_plain(into) };
        let got = transcoder.read(into, |raw| self.read_plain(raw));
        self.transcoder = Some(transcoder);
        got
    }

    fn read_plain(&mut self, into: &mut [u8]) -> Result<Got, Error> {
        self.plain.read(into).map_err(|source| self.failed(source))
    }

    fn read_made(&mut self, into: &mut [u8]) -> Result<Got, Error> {
        loop {
            let made = self.made.as_mut().expect("only called with one");
            let bytes = made.take(into);
            if bytes > 0 {
                return Ok(Got::Bytes(bytes));
            }
            if let Some(ended) = &self.ended {
                return Ok(ended.clone());
            }
            match made.refill(&mut self.plain) {
                Ok(true) => {}
                Ok(false) => {
                    self.plain.require_as_opened().map_err(|source| self.failed(source))?;
                    self.ended = Some(Got::End);
                }
                Err(trouble) => self.ended = Some(self.stopped(trouble)?),
            }
        }
    }

    /// How text that is made of a file ends where its converter stops.
    fn stopped(&self, trouble: Trouble) -> Result<Got, Error> {
        match trouble {
            Trouble::Io(source) => match unread(&source) {
                Some(Unread::Damaged(why)) => Ok(Got::Damaged(why.clone())),
                _ => Err(self.failed(source)),
            },
            Trouble::Refused { problem, hint } => Err(Error::Refused { name: self.name.clone(), problem, hint }),
            // A file that is written while it is read looks damaged.
            Trouble::Damaged(why) => {
                self.plain.require_as_opened().map_err(|source| self.failed(source))?;
                Ok(Got::Damaged(why))
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        let name = self.name.clone();
        if source.kind() == io::ErrorKind::IsADirectory {
            return Error::Directory { name };
        }
        if let Some(Overwritten { from }) = source.get_ref().and_then(|source| source.downcast_ref::<Overwritten>()) {
            return Error::Overwritten { name, offset: *from };
        }
        if source.get_ref().is_some_and(|source| source.is::<Replaced>()) {
            return Error::Replaced { name, offset: self.plain.progress().bytes_read() };
        }
        match unread(&source) {
            Some(Unread::Window) => Error::ZstdWindow { name, limit_mib: 1 << (ZSTD_WINDOW_LOG_MAX - 20) },
            Some(Unread::Dictionary) => Error::ZstdDictionary { name },
            _ => Error::Read { name, offset: self.plain.progress().bytes_read(), source },
        }
    }
}

/// Why compressed data cannot be read, if that is the error.
fn unread(source: &io::Error) -> Option<&Unread> {
    source.get_ref().and_then(|source| source.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use millstream_testkit::{Cases, Pieces, gzip, zstd};
    use std::io::Write;
    use std::time::SystemTime;

    type Compress = fn(&[u8]) -> Vec<u8>;
    const COMPRESS: [Compress; 2] = [gzip, zstd];

    /// Lines that do not compress to nothing.
    fn lines(count: usize, rng: &mut Rng) -> Vec<u8> {
        (0..count).flat_map(|n| format!("{{\"n\":{n},\"r\":{}}}\n", rng.u64(..)).into_bytes()).collect()
    }

    /// Everything that comes out of the content, and how it ends, read with buffers of this size.
    fn drain(content: &[u8], into: usize, largest: usize) -> Result<(Vec<u8>, Got), Error> {
        let pieces = Pieces::new(content, largest, &mut Rng::new());
        let mut input = Input::from_reader(Box::new(pieces), "test", None)?;
        let (mut plain, mut buffer) = (Vec::new(), vec![0; into]);
        loop {
            match input.read(&mut buffer)? {
                Got::Bytes(n) => plain.extend_from_slice(&buffer[..n]),
                end => {
                    assert_eq!(input.read(&mut buffer)?, end, "the end is final");
                    return Ok((plain, end));
                }
            }
        }
    }

    #[test]
    fn compressed_data_of_several_parts_is_read() {
        let mut rng = Rng::new();
        let plain = lines(30_000, &mut rng);
        for compress in COMPRESS {
            let mut content = compress(&plain[..100]);
            content.extend(compress(b""));
            content.extend(compress(&plain[100..]));
            for (into, largest) in [(1 << 20, 1 << 20), (7, 1000), (4096, 3)] {
                let (got, end) = drain(&content, into, largest).unwrap();
                assert!(got == plain, "{into} {largest}");
                assert_eq!(end, Got::End);
            }
        }
    }

    #[test]
    fn skippable_frames_are_skipped() {
        let mut content = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        content.extend(zstd(b"{}\n"));
        assert_eq!(drain(&content, 100, 100).unwrap(), (b"{}\n".to_vec(), Got::End));
    }

    #[test]
    fn the_bytes_before_damage_are_the_same_for_any_chunking() {
        for mut rng in Cases::new(100) {
            let plain = lines(1000, &mut rng);
            // Small parts make it likely that a header is hit.
            let part = *rng.choice(&[1 << 20, 5000, 100]).unwrap();
            for compress in COMPRESS {
                let mut content: Vec<u8> = plain.chunks(part).flat_map(compress).collect();
                let whole = content.len();
                match rng.usize(0..3) {
                    0 => content.truncate(rng.usize(5..whole)),
                    1 => content[rng.usize(whole / 3..whole)] ^= 1 << rng.u8(0..8),
                    _ => content.extend_from_slice(b"something else"),
                }
                let pieces = [(1, 1000), (1 << 20, 1 << 20), (1000, 1), (1 << 20, rng.usize(1..5000))];
                let got = pieces.map(|(into, largest)| drain(&content, into, largest).map_err(|e| e.to_string()));
                assert!(got.iter().all(|t| *t == got[0]), "{:?}", got.map(|t| t.map(|(p, end)| (p.len(), end))));
            }
        }
    }

    #[test]
    fn damage_says_what_may_be_wrong() {
        let plain = lines(30_000, &mut Rng::with_seed(5));
        for compress in COMPRESS {
            // The checksum at the end of the second part is wrong, or something before it.
            let (first, second) = (compress(&plain[..1000]), compress(&plain[1000..]));
            for at in [second.len() - 6, second.len() / 2] {
                let mut content = [&first[..], &second].concat();
                content[first.len() + at] ^= 1;
                let mut ends = Vec::new();
                for (into, largest) in [(1 << 20, 1 << 20), (1000, 7)] {
                    let (_, end) = drain(&content, into, largest).unwrap();
                    let Got::Damaged(why) = end else { continue };
                    ends.push(why);
                }
                let wrong = |why: &String| why.contains("its text from byte 1000 on") && why.contains("may be wrong");
                assert!(ends.iter().all(wrong) && ends.windows(2).all(|two| two[0] == two[1]), "{ends:?}");
                // zstd's command writes a checksum, but its library does not by default.
                assert!(ends.len() == 2 || compress(b"")[..2] != [0x1f, 0x8b], "{ends:?}");
            }
        }
    }

    #[test]
    fn damage_is_not_taken_for_the_end() {
        let plain = lines(100, &mut Rng::new());
        for compress in COMPRESS {
            let content = compress(&plain);
            let mut flipped = content.clone();
            flipped[content.len() / 2] ^= 1;
            let more = [&content[..], b"more"].concat();
            for damaged in [&content[..content.len() - 1], &flipped, &more] {
                let (_, end) = drain(damaged, 1000, 1000).unwrap();
                assert!(matches!(end, Got::Damaged(_)), "{end:?}");
            }
            let (got, end) = drain(&more, 1000, 1000).unwrap();
            assert!(got == plain);
            assert!(matches!(&end, Got::Damaged(why) if why.contains("something else")), "{end:?}");
        }
    }

    #[test]
    fn zeros_after_gzip_are_padding_and_anything_after_them_is_damage() {
        let plain = lines(100, &mut Rng::new());
        for (into, largest) in [(1 << 20, 1 << 20), (1000, 1), (7, 600)] {
            let mut content = gzip(&plain);
            content.resize(content.len() + 1500, 0);
            assert_eq!(drain(&content, into, largest).unwrap(), (plain.clone(), Got::End));
            content.push(b'x');
            let (got, end) = drain(&content, into, largest).unwrap();
            assert!(got == plain && matches!(&end, Got::Damaged(why) if why.contains("something else")), "{end:?}");
        }
    }

    #[test]
    fn a_window_above_the_limit_is_refused() {
        // Magic number, a frame header without size, a window of 2^(10 + 18) bytes (RFC 8878, 3.1.1).
        let content = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 18 << 3, 1, 0, 0];
        let error = drain(&content, 100, 100).unwrap_err();
        assert!(matches!(error, Error::ZstdWindow { limit_mib: 128, .. }), "{error}");
    }

    #[test]
    fn a_dictionary_is_named_as_what_is_missing() {
        // Magic number, a frame header with the dictionary 5, and an empty last block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x01, 0, 5, 0x01, 0, 0];
        for content in [frame.to_vec(), [zstd(b"{}\n"), frame.to_vec()].concat()] {
            let error = drain(&content, 100, 100).unwrap_err();
            assert!(matches!(error, Error::ZstdDictionary { .. }), "{error}");
            assert!(
                error.hint("load - ..").starts_with("zstd -dc -D DICTIONARY FILE | "),
                "{}",
                error.hint("load - ..")
            );
        }
    }

    #[test]
    fn a_file_truncated_while_it_is_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rotated");
        for (left, whole) in [(500_000, 600_000), (0, 600_000)] {
            std::fs::write(&path, vec![b'x'; whole]).unwrap();
            let mut input =
                Input::from_reader(Box::new(File::open(&path).unwrap()), "rotated", Some(whole as u64)).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
            let (mut into, mut bytes) = (vec![0; 1 << 20], 0);
            let error = loop {
                match input.read(&mut into) {
                    Ok(Got::Bytes(n)) => bytes += n,
                    Ok(other) => panic!("{other:?} after {bytes} of {whole} bytes"),
                    Err(error) => break error,
                }
            };
            assert!(bytes < whole, "{bytes}");
            let Error::Read { source, .. } = &error else { panic!("{error:?}") };
            assert!(source.to_string().contains("shorter"), "{source}");
        }
    }

    /// Writes a text into a file in its place, until the file system notices.
    fn overwrite(path: &Path, text: &[u8]) {
        use std::os::unix::fs::MetadataExt;
        let changed = || std::fs::metadata(path).map(|facts| (facts.ctime(), facts.ctime_nsec())).unwrap();
        let before = changed();
        while changed() == before {
            File::options().write(true).open(path).unwrap().write_all(text).unwrap();
        }
    }

    #[test]
    fn a_file_overwritten_while_it_is_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (old, new) = (lines(100_000, &mut Rng::with_seed(1)), lines(100_000, &mut Rng::with_seed(2)));
        let all: [Compress; 3] = [|text| text.to_vec(), gzip, zstd];
        for (n, compress) in all.into_iter().enumerate() {
            let (old, new) = (compress(&old), compress(&new));
            std::fs::write(&path, &old).unwrap();
            // The clock of the file system may not move between this and the change.
            File::options().append(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let mut input = Input::open(&path).unwrap();
            let (mut into, progress) = (vec![0; 1000], input.progress());
            assert!(matches!(input.read(&mut into).unwrap(), Got::Bytes(1..)));
            let read = progress.bytes_read();
            // The new text is not shorter, and differs from what was read.
            overwrite(&path, &[&new, &old[new.len().min(old.len())..]].concat());
            let ended = loop {
                match input.read(&mut into) {
                    Ok(Got::Bytes(_)) => {}
                    Ok(end) => break Ok(end),
                    Err(error) => break Err(error),
                }
            };
            match ended {
                Err(Error::Overwritten { offset, .. }) => assert_eq!(offset, read),
                // Compressed data is damaged before the end of the file.
                Ok(Got::Damaged(_)) if n > 0 => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_file_that_keeps_what_was_read_is_read_on() {
        type Change = fn(&Path, &[u8]);
        let changes: [(Change, bool); 4] = [
            (|path, _| File::options().append(true).open(path).unwrap().write_all(b"more\n").unwrap(), true),
            (|path, text| overwrite(path, text), false),
            (
                |path, _| File::options().write(true).open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap(),
                false,
            ),
            (
                |path, _| {
                    std::fs::write(path.with_extension("new"), "another\n").unwrap();
                    std::fs::rename(path.with_extension("new"), path).unwrap();
                },
                false,
            ),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let text = lines(100_000, &mut Rng::new());
        for (n, (change, grows)) in changes.into_iter().enumerate() {
            std::fs::write(&path, &text).unwrap();
            let mut input = Input::open(&path).unwrap();
            let (mut into, mut read) = (vec![0; 100_000], Vec::new());
            loop {
                match input.read(&mut into).unwrap_or_else(|error| panic!("{n}: {error}")) {
                    Got::Bytes(bytes) if read.is_empty() => {
                        read.extend_from_slice(&into[..bytes]);
                        change(&path, &text);
                    }
                    Got::Bytes(bytes) => read.extend_from_slice(&into[..bytes]),
                    end => {
                        assert_eq!(end, Got::End);
                        break;
                    }
                }
            }
            let more: &[u8] = if grows { b"more\n" } else { b"" };
            assert!(read == [&text[..], more].concat(), "{n}");
        }
    }

    #[test]
    fn a_read_error_says_how_many_bytes_were_read() {
        struct Failing(Option<&'static [u8]>);
        impl Read for Failing {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let bytes = self.0.take().ok_or_else(|| io::Error::other("disk on fire"))?;
                into[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
        }
        let mut input = Input::from_reader(Box::new(Failing(Some(b"{}\n{x"))), "test", None).unwrap();
        assert_eq!(input.read(&mut [0; 100]).unwrap(), Got::Bytes(5));
        let error = input.read(&mut [0; 100]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read test after its first 5 bytes");
    }

    #[test]
    fn open_errors_explain_directories_and_missing_files() {
        let error = Input::open(Path::new("/")).err().unwrap();
        assert!(matches!(error, Error::Directory { .. }), "{error}");
        let error = Input::open(Path::new("/no/such/file")).err().unwrap();
        assert_eq!(error.hint("load -"), "check the path");
    }

    #[test]
    fn progress_counts_bytes_as_they_are_in_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = gzip(&lines(1000, &mut Rng::new()));
        file.write_all(&content).unwrap();
        let mut input = Input::open(file.path()).unwrap();
        let progress = input.progress();
        assert_eq!(progress.bytes_total(), Some(content.len() as u64));
        while input.read(&mut [0; 1000]).unwrap() != Got::End {}
        assert_eq!(progress.bytes_read(), content.len() as u64);
    }
}
