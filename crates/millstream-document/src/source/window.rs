//! The window of an input, with the hash of what left it.

use super::clip::{Clip, Clipped};
use super::{Input, SourceError, SourceOptions, beginning, tagged};
use crate::chunk::{Chunk, Frame, UnreadableFrame};
use crate::limits::{CHUNK_BYTES_MAX, CSV_HEADER_BYTES_MAX, DOCUMENT_BYTES_CEILING};
use bytes::Bytes;
use memchr::{memchr, memchr2};
use millstream_input::csv::ends_in_return;
use millstream_input::{End, MARK};
use millstream_model::Prefix;
use millstream_model::{Fault, Reason};
use std::collections::VecDeque;
use std::ops::Deref;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of one source in order. Every byte leaves it once, through `Window::take`.
pub struct Window {
    bytes: millstream_input::Window,
    index: u32,
    options: SourceOptions,
    prefixes: VecDeque<Prefix>,
    hash: Box<Xxh3>,
    /// Whether the hash is that of a tag, which stands for all bytes.
    is_tagged: bool,
}

impl Window {
    /// Reads the start of the input. Skips a byte order mark, and as many lines as the dialect asks for.
    ///
    /// # Errors
    /// [`SourceError`] when it cannot be read or is not text in UTF-8.
    pub(super) fn new(input: Input, index: u32, options: &SourceOptions) -> Result<Self, SourceError> {
        let mut prefixes = options.prefixes.clone();
        prefixes.sort_unstable_by_key(|p| p.length);
        // What a chunk can hold.
        let options = SourceOptions {
            chunk_bytes: options.chunk_bytes.clamp(1, CHUNK_BYTES_MAX),
            document_bytes_max: options.document_bytes_max.min(DOCUMENT_BYTES_CEILING),
            ..options.clone()
        };
        let is_tagged = input.tag().is_some();
        let hash = Box::new(input.tag().map_or_else(|| beginning(options.before), |tag| tagged(options.before, tag)));
        let bytes = millstream_input::Window::new(input, options.chunk_bytes);
        let mut window = Self { bytes, index, prefixes: prefixes.into(), hash, is_tagged, options };
        window.check_tag()?;
        let mark = window.bytes.begin_text(window.options.dialect.encoding)?;
        window.take(mark)?;
        if window.options.dialect.skip_lines > 0 {
            window.skip_lines(window.options.dialect.skip_lines)?;
        }
        Ok(window)
    }

    /// An object whose tag differs, or that follows one, is not read.
    fn check_tag(&self) -> Result<(), SourceError> {
        match self.prefixes.back() {
            Some(last) if self.is_tagged && self.hash.digest128() != last.hash => Err(self.changed(last.length)),
            _ => Ok(()),
        }
    }

    /// Skips lines, and a byte order mark behind them.
    fn skip_lines(&mut self, mut lines: u64) -> Result<(), SourceError> {
        let returns = self.ends_in_return()?;
        if returns {
            self.count_returns();
        }
        while lines > 0 {
            let bytes = self.bytes();
            let end = if returns { memchr2(b'\n', b'\r', bytes) } else { memchr(b'\n', bytes) };
            let is_return = end.is_some_and(|end| bytes[end] == b'\r');
            let n = end.map_or(bytes.len(), |end| end + 1);
            lines -= u64::from(end.is_some());
            self.take(n)?;
            if end.is_none() && !self.fill()? {
                break;
            }
            while is_return && self.bytes().is_empty() && self.fill()? {}
            if is_return && self.bytes().starts_with(b"\n") {
                self.take(1)?;
            }
        }
        while self.bytes().len() < MARK.len() && MARK.starts_with(self.bytes()) && self.fill()? {}
        if self.bytes().starts_with(MARK) {
            self.take(MARK.len())?;
        }
        Ok(())
    }

    pub(super) fn options(&self) -> &SourceOptions {
        &self.options
    }

    /// Whether the first line ends in a carriage return alone. So do the others then.
    pub(super) fn ends_in_return(&mut self) -> Result<bool, SourceError> {
        loop {
            match ends_in_return(self.bytes()) {
                Some(returns) => return Ok(returns),
                None if self.bytes().len() > CSV_HEADER_BYTES_MAX || !self.fill()? => return Ok(false),
                None => {}
            }
        }
    }

    /// Line on which the byte at this index of the window stands.
    pub(super) fn line_at(&self, index: usize) -> u64 {
        let mut line = self.line_number().clone();
        line.pass(&self.bytes()[..index]);
        line.get()
    }

    /// From now on, a carriage return ends a line, too.
    pub(super) fn count_returns(&mut self) {
        self.bytes.count_returns();
    }

    /// Sets the line numbers of frames whose documents begin in the window.
    pub(super) fn number(&self, frames: &mut [Frame]) {
        let (mut line, mut counted) = (self.line_number().clone(), 0);
        for frame in frames {
            let start = usize::try_from(frame.offset - self.offset()).expect("begins in the window");
            line.pass(&self.bytes()[counted..start]);
            counted = start;
            frame.line = line.get();
        }
    }

    /// Reads more: about a chunk from a file, what is available from a live source. `false` when there is no more.
    pub(super) fn fill(&mut self) -> Result<bool, SourceError> {
        let has_more = self.bytes.fill()?;
        if self.end() == Some(&End::Clean) {
            self.check_length()?;
        }
        Ok(has_more)
    }

    /// A source that is shorter than what an earlier run read is not the same source.
    fn check_length(&self) -> Result<(), SourceError> {
        let length = self.offset() + self.bytes().len() as u64;
        match self.prefixes.back() {
            Some(last) if last.length > length => Err(self.changed(last.length)),
            _ => Ok(()),
        }
    }

    fn changed(&self, length: u64) -> SourceError {
        let name = self.name();
        let name = if self.index == 0 { name.into() } else { format!("{name} (or a source before it)") };
        SourceError::Changed { name, length }
    }

    /// Refuses a document, given by its offset and length, that continues after the end of a prefix. When an earlier
    /// run read the prefix, the source ended there, and the first half was taken for a document. Call this after the
    /// bytes were taken, because a changed prefix must be reported first.
    ///
    /// # Errors
    /// [`SourceError::Continued`].
    pub(super) fn admit(&self, offset: u64, len: u64) -> Result<(), SourceError> {
        let across = |prefix: &&Prefix| offset < prefix.length && prefix.length < offset + len;
        match self.options.prefixes.iter().find(across) {
            Some(prefix) => Err(SourceError::Continued { name: self.name().into(), length: prefix.length }),
            None => Ok(()),
        }
    }

    /// A chunk of documents whose bytes were taken, none of them across the end of a prefix.
    ///
    /// # Errors
    /// As [`Window::admit`].
    pub(super) fn chunk(&self, bytes: Bytes, frames: Vec<Frame>) -> Result<Chunk, SourceError> {
        frames.iter().try_for_each(|frame| self.admit(frame.offset, frame.len.into()))?;
        Ok(self.place().chunk(bytes, frames))
    }

    /// A chunk of one document that began at `begin` and is too large. It ends where the window begins, and stands on so
    /// many lines that its reader counts.
    ///
    /// # Errors
    /// As [`Window::admit`].
    pub(super) fn too_large(
        &self,
        begin: HashedPosition,
        clip: Clipped,
        bytes_max: usize,
        lines: u64,
    ) -> Result<Chunk, SourceError> {
        self.admit(begin.offset, clip.whole_len)?;
        let unreadable = UnreadableFrame {
            fault: too_large(clip.whole_len, bytes_max).over_lines(lines),
            truncated_from: clip.truncated_from(),
            ends_source: false,
        };
        let frame = begin.frame(clip.bytes.len(), unreadable);
        Ok(self.place().chunk(clip.bytes, vec![frame]))
    }

    /// The last chunk, because the next document cannot be found from here on. So many bytes show what is here.
    pub(super) fn damaged(&self, shown: usize, why: &str) -> Chunk {
        let mut clip = Clip::default();
        clip.push(&self.bytes()[..shown]);
        self.place().damaged(clip.finish(), why)
    }

    /// Takes the first `n` bytes out and hashes them.
    ///
    /// # Errors
    /// [`SourceError::Changed`] when they complete a prefix whose hash differs.
    pub(super) fn take(&mut self, n: usize) -> Result<Bytes, SourceError> {
        let mut offset = self.offset();
        let taken = self.bytes.take(n);
        if self.is_tagged {
            return Ok(taken);
        }
        let mut rest = &taken[..];
        while let Some(&prefix) = self.prefixes.front() {
            let ahead = usize::try_from(prefix.length - offset).unwrap_or(usize::MAX);
            if ahead > rest.len() {
                break;
            }
            self.hash.update(&rest[..ahead]);
            rest = &rest[ahead..];
            offset += ahead as u64;
            if self.hash.digest128() != prefix.hash {
                return Err(self.changed(prefix.length));
            }
            self.prefixes.pop_front();
        }
        self.hash.update(rest);
        Ok(taken)
    }

    /// Where the window now begins.
    pub(super) fn place(&self) -> HashedPosition {
        HashedPosition { source: self.index, offset: self.offset(), line: self.line(), hash: self.hash.digest128() }
    }
}

/// Where it is in the source, and what of it can be seen. What takes bytes away goes through [`Window`].
impl Deref for Window {
    type Target = millstream_input::Window;

    fn deref(&self) -> &Self::Target {
        &self.bytes
    }
}

/// A place in a source, with the hash of everything before it. Every chunk ends at such a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedPosition {
    source: u32,
    offset: u64,
    line: u64,
    hash: u128,
}

impl HashedPosition {
    /// A chunk that ends here.
    pub(super) fn chunk(self, bytes: Bytes, frames: Vec<Frame>) -> Chunk {
        Chunk { source: self.source, end: self.offset, prefix_hash: self.hash, bytes, frames, original: None }
    }

    /// The last chunk of a source in which the next document cannot be found. It ends where the damage begins, so that
    /// a later run over the mended source continues there.
    pub(super) fn damaged(self, clip: Clipped, why: &str) -> Chunk {
        let detail = format!("{why}; everything from byte {} on is not read", self.offset);
        let unreadable = UnreadableFrame {
            fault: Fault::new(Reason::DamagedSource, detail),
            truncated_from: clip.truncated_from(),
            ends_source: true,
        };
        let frame = self.frame(clip.bytes.len(), unreadable);
        self.chunk(clip.bytes, vec![frame])
    }

    fn frame(self, len: usize, unreadable: UnreadableFrame) -> Frame {
        Frame {
            start: 0,
            len: index(len),
            offset: self.offset,
            line: self.line,
            unreadable: Some(Box::new(unreadable)),
        }
    }
}

/// The fault of a document of this length.
pub(super) fn too_large(len: u64, bytes_max: usize) -> Fault {
    let detail = format!("the document has {len} bytes, the limit is {bytes_max}");
    Fault::new(Reason::TooLarge, detail)
}

/// A place in a chunk's bytes.
pub(super) fn index(n: usize) -> u32 {
    u32::try_from(n).expect("limits.rs keeps chunks below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{sizes, transcribe};
    use super::*;
    use millstream_testkit::Cases;
    use millstream_testkit::Pieces;
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn changed_prefixes_are_refused() {
        let text = b"\xef\xbb\xbf{\"a\":1}\n{\"b\":2}\n{\"c\":3}";
        for mut rng in Cases::new(200) {
            let prefix = |length: usize| Prefix { length: length as u64, hash: xxh3_128(&text[..length]) };
            // Between documents, as chunks end.
            let ends = [0, 1, 2, 3, 10, 11, 18, 19, text.len()];
            let lengths: Vec<usize> = (0..rng.usize(0..4)).map(|_| rng.choice(ends).unwrap()).collect();
            let mut options = sizes(rng.usize(1..40), 100);
            options.prefixes = lengths.iter().map(|&l| prefix(l)).collect();
            let mut read = |content: &[u8], options: &SourceOptions| {
                let pieces = Pieces::new(content, 10, &mut rng);
                let input = Input::from_reader(Box::new(pieces), "test", None).unwrap();
                transcribe(input, "ndjson", content, options)
            };
            assert_eq!(read(text, &options).unwrap().len(), 3);

            let mut changed = text.to_vec();
            *changed.last_mut().unwrap() = b' ';
            let whole = lengths.contains(&text.len());
            assert_eq!(read(&changed, &options).is_err(), whole);
            let shorter = &text[..text.len() - 1];
            let error = read(shorter, &options).err();
            assert_eq!(matches!(error, Some(SourceError::Changed { .. })), whole);
        }
    }

    #[test]
    fn a_document_that_continues_after_a_prefix_is_refused() {
        let long = "1".repeat(60);
        for (format, before, more, refused) in [
            ("ndjson", r#"{"a":1}"#, "\n{}", false),
            ("ndjson", r#"{"a":1} "#, " \r\n{}", false),
            ("ndjson", r#"{"a":1"#, "}\n", true),
            ("ndjson", r#"{"a":1}"#, "{}\n", true),
            ("ndjson", &long, "\r\n{}", false),
            ("ndjson", &long, "1\n", true),
            ("rejects", r#"{"document":{}"#, "}\n", true),
            ("csv", "a,b\n7,Al", "\r\n8,x\n", false),
            ("csv", "a,b\n7,Al\r", "\n8,x\n", false),
            ("csv", "a,b\n7,Al", "ice\n", true),
            ("csv", "a,b\n7,\"Al\"", "\"\nice\"\n", true),
            ("csv", &format!("a\n{long}"), "\n8\n", false),
            ("csv", &format!("a\n{long}"), "1\n", true),
            ("json", r#"{"a":1}"#, "{}", false),
            ("json", r#"[{"a":1}"#, ",{}]", false),
            ("json", "12", " 3", false),
            ("json", "12", "3", true),
            ("json", &long, "[]", false),
            ("json", &long, "1", true),
        ] {
            let whole = [before, more].concat();
            for mut rng in Cases::new(20) {
                let mut options = sizes(rng.usize(1..100), 50);
                options.prefixes = vec![Prefix { length: before.len() as u64, hash: xxh3_128(before.as_bytes()) }];
                let pieces = Pieces::new(whole.as_bytes(), 10, &mut rng);
                let input = Input::from_reader(Box::new(pieces), "test", None).unwrap();
                let error = transcribe(input, format, whole.as_bytes(), &options).err();
                let continued = matches!(error, Some(SourceError::Continued { .. }));
                assert_eq!((continued, error.is_some()), (refused, refused), "{format} {whole:?}: {error:?}");
            }
        }
    }
}
