//! What a new document does to a stored one: one file per mode.

mod keep;
mod replace;

use millstream_model::Counters;
use std::ops::Range;

/// A merge mode: how documents of a key fold, what the upsert does, how results are counted.
#[derive(Debug)]
pub struct Mode {
    /// The name on the command line and in the receipt.
    pub name: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// The place of the document that a group of one key writes, among places oldest first.
    pub(crate) fold: fn(&Range<usize>) -> usize,
    /// What becomes of a stored document, as SQL over `{new}` and `{old}`; `None` when it stays.
    pub(crate) set: Option<&'static str>,
    /// The account of `documents` folded into `keys` keys, of which the server inserted and updated some.
    pub(crate) count: fn(Written) -> Counters,
}

/// What an upsert did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// Documents folded into the keys.
    pub(crate) documents: u64,
    /// Keys sent.
    pub(crate) keys: u64,
    /// Keys that were new.
    pub(crate) inserted: u64,
    /// Keys whose stored document was written.
    pub(crate) updated: u64,
}

/// Every merge mode, in the order of the help text.
pub static MODES: &[&Mode] = &[&replace::MODE, &keep::MODE];

impl Mode {
    /// The mode of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        MODES.iter().copied().find(|m| m.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_count_adds_up() {
        let mut names: Vec<_> = MODES.iter().map(|m| m.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MODES.len());
        for mode in MODES {
            let updated = if mode.set.is_some() { 3 } else { 0 };
            let written = Written { documents: 12, keys: 7, inserted: 4, updated };
            assert_eq!((mode.count)(written).accounted(), 12, "{}", mode.name);
            assert!((mode.fold)(&(3..7)) < 7 && (mode.fold)(&(3..7)) >= 3);
            assert!(Mode::by_name(mode.name).is_some());
        }
    }
}
