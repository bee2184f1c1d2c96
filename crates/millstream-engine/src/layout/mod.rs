//! Where a load puts its documents: `LAYOUTS`, one file each.

mod log;
mod table;

use crate::durability::Durability;
use crate::error::Error;
use crate::merge::Mode;
use futures_util::future::BoxFuture;
use millstream_model::Refusal;
use millstream_pg::Connection;
use millstream_pg::catalog::Table;

pub(crate) use log::LOG;
pub(crate) use table::TABLE;

/// A place for the documents of a load. How its lanes write is in `write/`.
#[derive(Debug)]
pub struct Layout {
    /// The name on the command line, in the load's record and in the receipt.
    pub name: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Whether a document is in the collection's table once it is committed, and gone when the table's rows are. Then
    /// no documents may wait elsewhere: they would be merged later, over those of this load.
    pub(crate) fills_table: bool,
    /// Whether a lane keeps what it sent until it is committed. If it does not, a run that was interrupted is followed
    /// by another, which reads the sources again.
    pub(crate) keeps_batches: bool,
    /// What this layout cannot do of what is wished, and the way out.
    pub(crate) refuses: fn(&Wish<'_>) -> Option<Refusal>,
    /// Why an existing table cannot take the documents, and the way out. The second argument says whether the table
    /// takes every document and compares keys by their bytes.
    pub(crate) misfit: fn(&Table, bool) -> Option<(String, String)>,
    /// Refuses a server or a role that cannot do what the lanes do. Returns whether they write no WAL there.
    pub(crate) examine: for<'a> fn(&'a Connection, &'a Durability) -> BoxFuture<'a, Result<bool, Error>>,
}

/// What a request asks for that not every layout can do.
pub(crate) struct Wish<'a> {
    /// What a new document does to a stored one.
    pub(crate) mode: &'a Mode,
    /// Checks that the table shall make.
    pub(crate) checks: &'a [String],
    /// Whether typed columns are asked for.
    pub(crate) columns: bool,
    /// Longest document.
    pub(crate) document_bytes_max: usize,
    /// Whether every document is compared with the stored one.
    pub(crate) compares: bool,
    /// Whether rows are deleted that no document has.
    pub(crate) deletes_missing: bool,
}

/// Every layout, the default first.
pub static LAYOUTS: &[&Layout] = &[&TABLE, &LOG];

impl Layout {
    /// The layout of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LAYOUTS.iter().copied().find(|layout| layout.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
        assert_eq!(names.len(), LAYOUTS.len());
        for layout in LAYOUTS {
            assert!(std::ptr::eq(Layout::by_name(layout.name).unwrap(), *layout));
        }
        assert!(Layout::by_name("heap").is_none());
    }
}
