//! A file of ranges as others write them.

/// Lines as files of ranges have them.
pub(crate) const DIRTY: &str = include_str!("dirty.csv");
