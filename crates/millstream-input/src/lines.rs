//! The lines of an input, one by one in bounded memory.

use super::error::Error;
use super::window::Window;
use memchr::memchr;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: u64,
    /// Its text without the line feed. If it is too long, its beginning.
    pub text: &'a [u8],
    /// Whether the text is all of it.
    pub is_whole: bool,
}

/// The lines of an input.
pub struct Lines {
    window: Window,
    bytes_max: usize,
    /// Bytes of the window that were handed out as a line, with the line end.
    handed_out: usize,
    /// The beginning of a line that is too long.
    head: Vec<u8>,
}

impl Lines {
    /// Lines of so many bytes at most. Of a longer one, that many bytes are kept.
    pub fn new(window: Window, bytes_max: usize) -> Self {
        Self { window, bytes_max, handed_out: 0, head: Vec::new() }
    }

    /// Where they are read from.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Reads the next line. At the end, [`Window::end`] says whether the input is whole.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read(&mut self) -> Result<Option<Line<'_>>, Error> {
        self.window.skip(std::mem::take(&mut self.handed_out));
        let mut searched = 0;
        loop {
            let line_end = memchr(b'\n', &self.window.bytes()[searched..]).map(|at| searched + at);
            searched = line_end.unwrap_or(self.window.bytes().len());
            if searched > self.bytes_max {
                return self.long().map(Some);
            }
            self.handed_out = searched + usize::from(line_end.is_some());
            if line_end.is_some() || !self.window.fill()? {
                break;
            }
        }
        let (number, text) = (self.window.line(), &self.window.bytes()[..searched]);
        Ok((self.handed_out > 0).then_some(Line { number, text, is_whole: true }))
    }

    /// Passes a line without holding it.
    fn long(&mut self) -> Result<Line<'_>, Error> {
        let number = self.window.line();
        self.handed_out = 0;
        self.head.clear();
        self.head.extend_from_slice(&self.window.bytes()[..self.bytes_max]);
        loop {
            let line_end = memchr(b'\n', self.window.bytes());
            self.window.skip(line_end.map_or(self.window.bytes().len(), |end| end + 1));
            if line_end.is_some() || !self.window.fill()? {
                return Ok(Line { number, text: &self.head, is_whole: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use fastrand::Rng;
    use millstream_testkit::{Cases, Pieces};

    fn lines(content: &[u8], bytes_max: usize, rng: &mut Rng) -> Vec<(u64, usize, bool)> {
        let largest = *rng.choice(&[1, 3, 100, 5000]).unwrap();
        let input = Input::from_reader(Box::new(Pieces::new(content, largest, rng)), "test", None).unwrap();
        let mut lines = Lines::new(Window::new(input, rng.usize(1..5000)), bytes_max);
        let mut all = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            all.push((line.number, line.text.len(), line.is_whole));
        }
        assert!(lines.read().unwrap().is_none(), "the end is final");
        all
    }

    #[test]
    fn lines_come_out_whatever_the_sizes_of_reads() {
        let mut long = b"a\n".to_vec();
        long.resize(long.len() + 100, b'x');
        long.push(b'\n');
        long.resize(long.len() + 10_000, b'y');
        long.extend(b"\nb\n");
        long.resize(long.len() + 101, b'z');
        for mut rng in Cases::new(50) {
            assert!(lines(b"", 10, &mut rng).is_empty());
            assert_eq!(lines(b"\n", 10, &mut rng), [(1, 0, true)]);
            assert_eq!(lines(b"ab\n\ncde", 3, &mut rng), [(1, 2, true), (2, 0, true), (3, 3, true)]);
            let expected = [(1, 1, true), (2, 100, true), (3, 100, false), (4, 1, true), (5, 100, false)];
            assert_eq!(lines(&long, 100, &mut rng), expected);
        }
    }
}
