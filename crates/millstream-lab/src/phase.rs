//! A phase: a step of an experiment, which each subject takes in its turn.

use crate::stream::{Part, Stream};

/// What is loaded into a table, and what the account must say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// The documents.
    pub stream: Stream,
    /// Counters of a receipt that all documents must stand in, together.
    pub(crate) counters: &'static [&'static str],
    /// The writer of Millstream that must have written most batches, or the way to refresh, if the phase is about one.
    pub(crate) writer: Option<&'static str>,
    /// It finds no table, whatever was before.
    pub(crate) anew: bool,
    /// The clock goes on through a checkpoint, so that the phase is one from checkpoint to checkpoint.
    pub(crate) checkpoint: bool,
}

impl Phase {
    /// All keys are new.
    pub(crate) const FRESH: Self = Self::new("fresh", Stream::wave(1), &["inserted"]);

    /// All keys are there, every document differs.
    pub(crate) const CHANGED: Self = Self::new("changed", Stream::wave(2), &["updated"]);

    /// A phase that is about nothing but its rate.
    pub(crate) const fn new(name: &'static str, stream: Stream, counters: &'static [&'static str]) -> Self {
        Self { name, stream, counters, writer: None, anew: false, checkpoint: false }
    }

    /// New keys, in order of arrival: a part of the first wave.
    pub(crate) const fn part(name: &'static str, part: Part) -> Self {
        Self::new(name, Stream::part(part), &["inserted"])
    }

    /// The same, to be written by one writer.
    pub(crate) const fn by(self, writer: &'static str) -> Self {
        Self { writer: Some(writer), ..self }
    }

    /// The same, with the checkpoint after it.
    pub(crate) const fn to_checkpoint(self) -> Self {
        Self { checkpoint: true, ..self }
    }

    /// The same, without the table of the phases before.
    pub(crate) const fn anew(self) -> Self {
        Self { anew: true, ..self }
    }

    /// It brings what yardsticks have encoded, into an empty table.
    pub(crate) fn is_fresh(&self) -> bool {
        self.stream.is_first_wave()
    }
}
