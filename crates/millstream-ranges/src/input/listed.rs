//! Ranges that a program has in memory.

use super::{Input, Read, Rejected};
use crate::error::Error;
use millstream_model::range::Range;

/// Ranges with their members, which are JSON without the braces; or why there is no range.
#[derive(Debug)]
pub struct Listed {
    name: String,
    entries: std::vec::IntoIter<(Result<Range, String>, String)>,
    line: u64,
}

impl Listed {
    /// An input of these entries. The name is for messages and the receipt.
    pub fn new(name: &str, entries: Vec<(Result<Range, String>, String)>) -> Self {
        Self { name: name.to_owned(), entries: entries.into_iter(), line: 0 }
    }
}

impl Input for Listed {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        let Some((range, given)) = self.entries.next() else { return Ok(None) };
        self.line += 1;
        *members = given;
        let range = range.map_err(|reason| Rejected { reason, text: std::mem::take(members) });
        Ok(Some(Read { line: self.line, range }))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}
