//! Finds where values stand in a document, for whoever changes it before it is decoded.

use super::path::{Columns, PATHS_MAX};
use super::path_scan::{Found, PathScan};
use std::ops::Range;

/// The bytes of the value at each path, quotes and braces included; `None` where there is none.
pub(crate) type Placed = [Option<Range<usize>>; PATHS_MAX];

impl Columns {
    /// Where the values stand. Of several members of one name, the last is found, as jsonb keeps it. `None` if the document
    /// is not a JSON object.
    #[inline]
    pub(crate) fn find(&self, document: &[u8]) -> Option<Placed> {
        let mut scan = PathScan::new(document, self);
        let is_object = scan.document().ok()?;
        is_object.then(|| {
            scan.found.map(|found| match found {
                Found::Missing => None,
                Found::String { range, .. } => Some(range.start - 1..range.end + 1),
                Found::Null(range) | Found::Boolean(_, range) | Found::Number(range) | Found::Container(range) => {
                    Some(range)
                }
            })
        })
    }
}
