//! The text that a converter makes of a file that is none.

use super::plain::Plain;
use super::raw::Progress;
use millstream_records::{Converter, FileExtent, Format, Nan, Trouble, guarded};

/// Text in the making. It is neither live nor of known length: progress counts bytes of the file.
pub(super) struct Made {
    pub(super) format: &'static Format,
    /// `None`: it could not be opened.
    converter: Option<Box<dyn Converter>>,
    text: Vec<u8>,
    /// Bytes of the text that were handed out.
    taken: usize,
}

impl Made {
    /// Begins to convert. `None` if the format is not in this build, or its file would have to be one and is none.
    pub(super) fn begin(
        format: &'static Format,
        extent: Option<FileExtent>,
        nan: Nan,
    ) -> Result<Option<Self>, Trouble> {
        let Some(open) = format.open else { return Ok(None) };
        if format.needs_file && extent.is_none() {
            return Ok(None);
        }
        let converter = guarded(|| open(extent, nan))?;
        Ok(Some(Self { converter: Some(converter), ..Self::ended(format) }))
    }

    /// Text of a file that could not be opened: there is none.
    pub(super) fn ended(format: &'static Format) -> Self {
        Self { format, converter: None, text: Vec::new(), taken: 0 }
    }

    /// Hands out what was made.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let n = into.len().min(self.text.len() - self.taken);
        into[..n].copy_from_slice(&self.text[self.taken..self.taken + n]);
        self.taken += n;
        n
    }

    /// Makes more, when all was handed out. `false` at the end.
    ///
    /// # Errors
    /// Those of the converter. What it made before them can be taken.
    pub(super) fn refill(&mut self, plain: &mut Plain) -> Result<bool, Trouble> {
        let Self { converter: Some(converter), text, taken, .. } = self else { return Ok(false) };
        text.clear();
        *taken = 0;
        let more = guarded(|| converter.more(plain, text));
        plain.progress().reached(converter.bytes_read(), converter.not_finite());
        self.describe(plain.progress());
        more
    }

    /// Notes what the schema of the file describes, once it is known.
    pub(super) fn describe(&self, progress: &Progress) {
        if progress.columns().is_none()
            && let Some(columns) = self.converter.as_ref().and_then(|converter| converter.columns())
        {
            progress.described(columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Error, Got, Input, Progress, Window};
    use millstream_testkit::{gzip, zstd};
    use std::io::{self, Read, Write};
    use std::path::Path;

    /// A format whose every byte after its magic number is a row: a digit is a number, and a letter says what happens.
    const TINY: Format = Format {
        kind: "tiny",
        name: "tiny",
        version: "tiny/1",
        marks: &[(0, b"TINY")],
        look: None,
        needs_file: true,
        may_be_empty: false,
        key: None,
        feature: "tiny",
        open: Some(open),
    };

    /// The same, for those that read a pipe.
    const TINY_PIPE: Format = Format { marks: &[(0, b"PIPE")], needs_file: false, ..TINY };

    const KNOWN: &[&Format] = &[&TINY, &TINY_PIPE];

    struct Tiny {
        extent: Option<FileExtent>,
        read: u64,
        not_finite: u64,
        nan: Nan,
    }

    fn open(extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
        Ok(Box::new(Tiny { extent, read: 4, not_finite: 0, nan }))
    }

    impl Converter for Tiny {
        fn more(&mut self, from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble> {
            let mut row = [0; 4];
            let got = match &self.extent {
                Some(extent) => extent.file.read_at(&mut row[..1], extent.start + self.read)?,
                None if self.read == 4 => {
                    self.read += 4;
                    from.read_exact(&mut row)?;
                    return Ok(true);
                }
                None => from.read(&mut row[..1])?,
            };
            self.read += got as u64;
            match row[0] {
                _ if got == 0 => return Ok(false),
                b'd' => return Err(Trouble::Damaged("a row is a d".into())),
                b'p' => panic!("a row is a p"),
                b'i' => return Err(io::Error::other("a row is an i").into()),
                b'r' => return Err(Trouble::Refused { problem: "has an r".into(), hint: "take it out".into() }),
                b'n' if self.nan == Nan::Null => self.not_finite += 1,
                b'.' => return Ok(true),
                _ => {}
            }
            writeln!(text, "{{\"row\":\"{}\"}}", row[0].escape_ascii())?;
            Ok(true)
        }

        fn bytes_read(&self) -> Option<u64> {
            self.extent.as_ref().map(|_| self.read)
        }

        fn not_finite(&self) -> u64 {
            self.not_finite
        }
    }

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn opened(path: &Path) -> Input {
        Input::open_as(path, Nan::Null, KNOWN).unwrap()
    }

    /// The text, and how it ended, read in pieces of this size.
    fn drain(mut input: Input, into: usize) -> (String, Result<Got, Error>) {
        let (mut text, mut buffer) = (Vec::new(), vec![0; into]);
        loop {
            match input.read(&mut buffer) {
                Ok(Got::Bytes(n)) => text.extend_from_slice(&buffer[..n]),
                end => return (String::from_utf8(text).unwrap(), end),
            }
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_read_as_the_lines_it_stands_for() {
        for into in [1, 3, 1000] {
            let file = file(b"TINY1.2..3");
            let input = opened(file.path());
            assert_eq!(input.made().map(|format| format.version), Some("tiny/1"));
            let (text, end) = drain(input, into);
            assert_eq!(text, "{\"row\":\"1\"}\n{\"row\":\"2\"}\n{\"row\":\"3\"}\n");
            assert_eq!(end.unwrap(), Got::End);
        }
    }

    #[test]
    fn what_came_before_trouble_comes_out() {
        let row = "{\"row\":\"1\"}\n";
        for (content, says) in [(&b"TINY1d2"[..], "a row is a d"), (b"TINY1p2", "its decoder gave up: a row is a p")] {
            let (text, end) = drain(opened(file(content).path()), 5);
            assert_eq!((text.as_str(), end.unwrap()), (row, Got::Damaged(says.into())));
        }
        let (text, end) = drain(opened(file(b"TINY1i").path()), 5);
        let end = end.unwrap_err();
        assert!(text == row && matches!(end, Error::Read { offset: 6, .. }), "{end}");
        let (text, end) = drain(opened(file(b"TINY1r").path()), 5);
        let end = end.unwrap_err();
        assert!(text == row && end.to_string().ends_with(" has an r") && end.hint("") == "take it out", "{end}");
    }

    #[test]
    fn made_text_is_not_live_and_progress_counts_bytes_of_the_file() {
        let content = [b"TINY".to_vec(), vec![b'n'; 500]].concat();
        let file = file(&content);
        let input = opened(file.path());
        let progress: std::sync::Arc<Progress> = input.progress();
        assert!(!input.is_live());
        assert_eq!(progress.bytes_total(), Some(504));
        let mut window = Window::new(input, 5000);
        assert_eq!(window.begin_text(None).unwrap(), 0);
        assert!(window.fill().unwrap());
        assert_eq!(window.bytes().len(), 5000, "it is collected into whole chunks");
        while window.fill().unwrap() {
            assert!(progress.bytes_read() <= 504);
        }
        assert_eq!((progress.bytes_read(), progress.not_finite()), (504, 500));
        assert_eq!((window.end(), window.bytes().len()), (Some(&End::Clean), 500 * "{\"row\":\"n\"}\n".len()));
    }

    #[test]
    fn a_file_that_is_written_while_it_is_converted_is_no_damage() {
        let file = file(b"TINY1d");
        std::fs::File::options().append(true).open(file.path()).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let input = opened(file.path());
        std::fs::File::options().append(true).open(file.path()).unwrap().write_all(b"2").unwrap();
        let (text, end) = drain(input, 100);
        assert_eq!(text, "{\"row\":\"1\"}\n");
        assert!(matches!(end, Err(Error::Overwritten { offset: 0, .. })), "{end:?}");
    }

    #[test]
    fn a_format_that_needs_no_file_is_read_from_a_pipe_as_it_comes() {
        let input = |content: &'static [u8]| {
            let reader = Box::new(io::Cursor::new(content));
            Input::from_reader_as(reader, "test", None, KNOWN).unwrap()
        };
        let piped = input(b"PIPE12");
        assert!(piped.is_live() && piped.made().is_some());
        let (text, end) = drain(piped, 100);
        assert_eq!((text.as_str(), end.unwrap()), ("{\"row\":\"1\"}\n{\"row\":\"2\"}\n", Got::End));
        assert!(input(b"TINY12").made().is_none(), "it needs its file");
    }

    #[test]
    fn a_format_that_needs_no_file_is_read_from_compressed_data() {
        let rows = "{\"row\":\"1\"}\n{\"row\":\"2\"}\n";
        for compress in [gzip as fn(&[u8]) -> Vec<u8>, zstd] {
            let content = compress(b"PIPE12");
            let packed = file(&content);
            let input = opened(packed.path());
            assert_eq!(input.made().map(|format| format.version), Some("tiny/1"));
            let progress = input.progress();
            let (text, end) = drain(input, 100);
            assert_eq!((text.as_str(), end.unwrap()), (rows, Got::End));
            assert_eq!(progress.bytes_read(), content.len() as u64, "progress counts bytes of the file");
            assert!(opened(file(&compress(b"TINY12")).path()).made().is_none(), "it needs its file");
            // Damage in the compression is damage of the text, and what stands before it comes out.
            let (text, end) = drain(opened(file(&content[..content.len() - 1]).path()), 100);
            assert!(rows.starts_with(&text) && matches!(end, Ok(Got::Damaged(_))), "{text} {end:?}");
            // Text within compressed data is text.
            let (text, end) = drain(opened(file(&compress(b"PIP")).path()), 1);
            assert_eq!((text.as_str(), end.unwrap()), ("PIP", Got::End));
        }
    }
}
