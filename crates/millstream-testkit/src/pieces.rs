//! A reader that gives its bytes in pieces of random sizes.

use fastrand::Rng;
use std::io::Read;

/// Gives what it holds in pieces of random sizes.
#[derive(Debug)]
pub struct Pieces {
    content: Vec<u8>,
    start: usize,
    largest: usize,
    rng: Rng,
}

impl Pieces {
    /// The content, in pieces of `largest` bytes at most.
    pub fn new(content: &[u8], largest: usize, rng: &mut Rng) -> Self {
        Self { content: content.to_vec(), start: 0, largest, rng: rng.fork() }
    }
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let wanted = self.rng.usize(1..=self.largest);
        let n = wanted.min(into.len()).min(self.content.len() - self.start);
        into[..n].copy_from_slice(&self.content[self.start..self.start + n]);
        self.start += n;
        Ok(n)
    }
}
