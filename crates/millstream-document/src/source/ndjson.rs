//! Documents on lines of their own, handed out without copying.

use super::clip::Clip;
use super::window::{Window, index};
use super::{Format, Source, SourceError};
use crate::chunk::{Chunk, Frame};
use memchr::{memchr, memchr_iter, memchr2, memchr2_iter, memrchr, memrchr2};
use millstream_input::End;
use millstream_input::csv::ends_in_return;

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "ndjson",
    about: "one JSON object per line (NDJSON, JSON Lines); blank lines are skipped",
    takes: &[],
    made: None,
    open: |window| Ok(Box::new(Ndjson::new(window))),
};

/// Lines of a source. A document begins at the first byte of its line that is not blank and ends at the last. The limit
/// also counts the blanks after it, but not the line end. If the first line ends in a carriage return alone, so may all
/// others.
pub(super) struct Ndjson {
    window: Window,
    document_bytes_max: usize,
    /// Bytes of the window known to hold no line end.
    scanned: usize,
    /// Whether a carriage return alone ends a line. `None`: the first line has not ended yet.
    returns: Option<bool>,
    done: bool,
}

impl Ndjson {
    pub(super) fn new(window: Window) -> Self {
        let document_bytes_max = window.options().document_bytes_max;
        Self::with_line_limit(window, document_bytes_max)
    }

    pub(super) fn with_line_limit(window: Window, document_bytes_max: usize) -> Self {
        Self { window, document_bytes_max, scanned: 0, returns: None, done: false }
    }

    /// Where the last line of the window's bytes behind those that are scanned ends.
    fn last_end(&self) -> Option<usize> {
        let rest = &self.window.bytes()[self.scanned..];
        let end = match self.returns {
            Some(true) => memrchr2(b'\n', b'\r', rest),
            _ => memrchr(b'\n', rest),
        };
        end.map(|end| self.scanned + end)
    }

    /// Bytes at the end of the window that may be a line end: only the byte behind a carriage return shows what it is.
    fn undecided(&self) -> usize {
        usize::from(self.returns.is_none() && self.window.bytes().ends_with(b"\r"))
    }

    /// Looks at how the first line ends.
    fn look_at_end(&mut self) {
        if self.returns.is_none() {
            self.returns = ends_in_return(&self.window.bytes()[self.scanned..]);
            if self.returns == Some(true) {
                self.window.count_returns();
            }
        }
    }

    /// A chunk of the window's first `cut` bytes, which are whole lines. It is shorter if one of the lines is too long.
    fn whole_lines(&mut self, cut: usize) -> Result<Chunk, SourceError> {
        self.scanned = 0;
        // Up to the first line that is too long.
        let (offset, line) = (self.window.offset(), self.window.line());
        let (bytes, most) = (&self.window.bytes()[..cut], self.document_bytes_max);
        let (frames, cut) = if self.returns == Some(true) {
            let (mut frames, cut) = frame(bytes, memchr2_iter(b'\n', b'\r', bytes), offset, line, most);
            // A line feed right behind a carriage return ends no second line.
            self.window.number(&mut frames);
            (frames, cut)
        } else {
            frame_lines(bytes, offset, line, most)
        };
        if cut == 0 {
            return self.long_line();
        }
        let bytes = self.window.take(cut)?;
        self.window.chunk(bytes, frames)
    }

    /// Takes a line that is too long, in bounded memory. The window begins at its first byte.
    fn long_line(&mut self) -> Result<Chunk, SourceError> {
        self.scanned = 0;
        self.skip_blanks()?;
        let begin = self.window.place();
        let mut clip = Clip::default();
        loop {
            self.look_at_end();
            let bytes = self.window.bytes();
            let end = if self.returns == Some(true) { memchr2(b'\n', b'\r', bytes) } else { memchr(b'\n', bytes) };
            if let Some(end) = end {
                clip.push(&bytes[..end]);
                self.window.take(end + 1)?;
                break;
            }
            let n = bytes.len() - self.undecided();
            clip.push(&bytes[..n]);
            self.window.take(n)?;
            if !self.window.fill()? {
                clip.push(self.window.bytes());
                if let Some(End::Damaged(why)) = self.window.end() {
                    self.done = true;
                    return Ok(begin.damaged(clip.finish(), why));
                }
                self.window.take(self.window.bytes().len())?;
                break;
            }
        }
        clip.drop_line_end();
        self.window.too_large(begin, clip.finish(), self.document_bytes_max, 1)
    }

    /// Takes the blanks at the beginning of the window.
    fn skip_blanks(&mut self) -> Result<(), SourceError> {
        let bytes = self.window.bytes();
        let blanks = blank_len(bytes).min(bytes.len() - self.undecided());
        self.window.take(blanks).map(drop)
    }

    /// The last chunk, when the source has ended without a line end.
    fn last_line(&mut self) -> Result<Option<Chunk>, SourceError> {
        self.done = true;
        self.skip_blanks()?;
        let rest = self.window.bytes();
        match self.window.end() {
            Some(End::Damaged(why)) => Ok(Some(self.window.damaged(rest.len(), why))),
            _ if rest.is_empty() => Ok(None),
            _ => self.whole_lines(rest.len()).map(Some),
        }
    }
}

impl Source for Ndjson {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        if self.done {
            return Ok(None);
        }
        loop {
            self.look_at_end();
            if let Some(end) = self.last_end() {
                return self.whole_lines(end + 1).map(Some);
            }
            self.scanned = self.window.bytes().len() - self.undecided();
            // One more byte may be the carriage return of a line that is just short enough.
            if self.scanned > self.document_bytes_max + 1 {
                self.skip_blanks()?;
                self.scanned = self.window.bytes().len() - self.undecided();
                if self.scanned > self.document_bytes_max + 1 {
                    return self.long_line().map(Some);
                }
            }
            if !self.window.fill()? {
                return self.last_line();
            }
        }
    }
}

/// Frames the lines of `bytes`, which begin at this offset and line, up to the first line that is too long. Also
/// returns the length of what was framed.
pub fn frame_lines(bytes: &[u8], offset: u64, line: u64, document_bytes_max: usize) -> (Vec<Frame>, usize) {
    frame(bytes, memchr_iter(b'\n', bytes), offset, line, document_bytes_max)
}

/// The same for any line ends, each of one byte.
#[inline]
fn frame(
    bytes: &[u8],
    ends: impl Iterator<Item = usize>,
    offset: u64,
    mut line: u64,
    document_bytes_max: usize,
) -> (Vec<Frame>, usize) {
    let mut frames = Vec::with_capacity(bytes.len() / 128);
    let mut start = 0;
    // The end of what has no line end. Behind the last line end, nothing is framed.
    for end in ends.chain(std::iter::once(bytes.len())) {
        let from = start + blank_len(&bytes[start..end]);
        let text = &bytes[from..end];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.len() > document_bytes_max {
            return (frames, start);
        }
        let len = trimmed_len(text);
        if len > 0 {
            frames.push(Frame {
                start: index(from),
                len: index(len),
                offset: offset + from as u64,
                line,
                unreadable: None,
            });
        }
        line += 1;
        start = (end + 1).min(bytes.len());
    }
    (frames, bytes.len())
}

/// White space that JSON allows, without the line feed.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

fn blank_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| !is_blank(b)).unwrap_or(bytes.len())
}

fn trimmed_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&b| !is_blank(b)).map_or(0, |n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{ReadFrame, bad, good, read, read_oddly};
    use fastrand::Rng;
    use millstream_model::Reason;
    use millstream_testkit::Cases;

    #[test]
    fn lines_become_documents() {
        let text = b"{\"a\":1}\n\n \t \r\n  {\"b\":2} \r\nnot json\n{\"c\":3}";
        let expected =
            [good(0, 1, "{\"a\":1}"), good(16, 4, "{\"b\":2}"), good(26, 5, "not json"), good(35, 6, "{\"c\":3}")];
        assert_eq!(read("ndjson", text).unwrap(), expected);
        assert_eq!(read("ndjson", b"").unwrap(), []);
        assert_eq!(read("ndjson", b"\n\r\n  ").unwrap(), []);
        assert_eq!(read("ndjson", b"\xef\xbb\xbf{}\n").unwrap(), [good(3, 1, "{}")]);
    }

    #[test]
    fn a_line_too_long_is_the_only_reject() {
        let text = b"{}\n  123456789\r\n12345678\r\n{}";
        let expected =
            [good(0, 1, "{}"), bad(5, 2, "123456789", Reason::TooLarge), good(16, 3, "12345678"), good(26, 4, "{}")];
        for mut rng in Cases::new(50) {
            assert_eq!(read_oddly("ndjson", text, text, 8, &mut rng).unwrap(), expected);
        }
    }

    #[test]
    fn a_giant_line_keeps_its_head_and_tail() {
        let mut text = b"{}\n".to_vec();
        text.resize((5 << 20) + 3, b'x');
        text.extend_from_slice(b"END\r\n{}");
        let got = read_oddly("ndjson", &text, &text, 1 << 20, &mut Rng::new()).unwrap();
        assert_eq!(got.len(), 3);
        assert_eq!(got[1].unreadable, Some((Reason::TooLarge, Some((5 << 20) + 3))));
        assert_eq!(got[1].bytes.len(), 1 << 20);
        assert!(got[1].bytes.ends_with(b"xEND"));
        assert_eq!(got[2], good((5 << 20) + 8, 3, "{}"));
    }

    /// What the format promises, said the short way.
    fn oracle(text: &[u8], document_bytes_max: usize) -> Vec<ReadFrame> {
        let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
        let first = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let returns = first.is_some_and(|at| text[at] == b'\r' && text.get(at + 1).is_some_and(|next| *next != b'\n'));
        let (mut got, mut start, mut line) = (Vec::new(), 0, 1);
        loop {
            let end = text[start..].iter().position(|&byte| byte == b'\n' || (returns && byte == b'\r'));
            let end = end.map_or(text.len(), |end| start + end);
            let from = start + text[start..end].iter().take_while(|b| blank(b)).count();
            let document = text[from..end].strip_suffix(b"\r").unwrap_or(&text[from..end]);
            let len = document.len() - document.iter().rev().take_while(|b| blank(b)).count();
            let place = (from as u64, line);
            if document.len() > document_bytes_max {
                got.push(bad(place.0, place.1, std::str::from_utf8(document).unwrap(), Reason::TooLarge));
            } else if len > 0 {
                got.push(good(place.0, place.1, std::str::from_utf8(&document[..len]).unwrap()));
            }
            if end == text.len() {
                return got;
            }
            let is_second = returns && text[end] == b'\n' && end > 0 && text[end - 1] == b'\r';
            line += u64::from(!is_second);
            start = end + 1;
        }
    }

    #[test]
    fn carriage_returns_end_lines_if_the_first_line_ends_in_one() {
        let text = b"{\"a\":1}\r{\"b\":2\r\n\r{\"c\":3}\r";
        let expected = [good(0, 1, "{\"a\":1}"), good(8, 2, "{\"b\":2"), good(17, 4, "{\"c\":3}")];
        for mut rng in Cases::new(50) {
            assert_eq!(read_oddly("ndjson", text, text, 100, &mut rng).unwrap(), expected);
            assert_eq!(read_oddly("auto", text, text, 100, &mut rng).unwrap(), expected);
        }
        // Otherwise they are white space.
        assert_eq!(read("ndjson", b"{}\n{\r}\n").unwrap(), [good(0, 1, "{}"), good(3, 2, "{\r}")]);
    }

    #[test]
    fn framing_is_the_same_for_any_chunking() {
        for mut rng in Cases::new(2000) {
            let len = rng.usize(0..200);
            let text: Vec<u8> = (0..len).map(|_| *rng.choice(b"{}\"a1 \t\r\n\n").unwrap()).collect();
            let document_bytes_max = rng.usize(1..30);
            let got = read_oddly("ndjson", &text, &text, document_bytes_max, &mut rng).unwrap();
            assert_eq!(got, oracle(&text, document_bytes_max), "{:?}", String::from_utf8(text));
        }
    }
}
