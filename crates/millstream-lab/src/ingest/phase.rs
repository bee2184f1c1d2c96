//! A phase: a step of an experiment that each subject takes in its turn.

use crate::ingest::stream::{Part, Stream};

/// What is loaded into a table, and what the receipt must say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The documents.
    pub stream: Stream,
    /// Counters of the receipt that together must count all documents.
    pub(crate) counters: &'static [&'static str],
    /// The writer that must have written most batches, or the way of the refresh, if the phase measures one of them.
    pub(crate) writer: Option<&'static str>,
    /// The table of earlier phases is dropped first.
    pub(crate) new_table: bool,
    /// The time of the checkpoint after the load counts, so that the phase lasts from one checkpoint to the next.
    pub(crate) checkpoint: bool,
}

impl Phase {
    /// All keys are new.
    pub(crate) const FRESH: Self = Self::new("fresh", Stream::wave(1), &["inserted"]);

    /// All keys are stored; every document differs.
    pub(crate) const CHANGED: Self = Self::new("changed", Stream::wave(2), &["updated"]);

    /// A phase that measures only its rate.
    pub(crate) const fn new(name: &'static str, stream: Stream, counters: &'static [&'static str]) -> Self {
        Self { name, stream, counters, writer: None, new_table: false, checkpoint: false }
    }

    /// New keys in order of arrival: a part of the first wave.
    pub(crate) const fn part(name: &'static str, part: Part) -> Self {
        Self::new(name, Stream::part(part), &["inserted"])
    }

    /// The same phase, but most batches must be written by this writer.
    pub(crate) const fn by(self, writer: &'static str) -> Self {
        Self { writer: Some(writer), ..self }
    }

    /// The same phase, with the checkpoint after it.
    pub(crate) const fn to_checkpoint(self) -> Self {
        Self { checkpoint: true, ..self }
    }

    /// The same phase, without the table of earlier phases.
    pub(crate) const fn in_new_table(self) -> Self {
        Self { new_table: true, ..self }
    }

    /// It loads the first wave, which yardsticks have encoded, into an empty table.
    pub(crate) fn is_fresh(&self) -> bool {
        self.stream.is_first_wave()
    }
}
