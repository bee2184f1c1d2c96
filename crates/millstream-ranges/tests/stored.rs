//! What the tests build stores from.

use millstream_ranges::input::Listed;
use millstream_ranges::{BuildRequest, Error, Family, Generation, Range, Receipt, Silent, build};
use std::path::Path;

/// Ranges in memory, each with its members. `None` is a bad entry.
pub(crate) fn given(ranges: impl IntoIterator<Item = (Option<Range>, String)>) -> Box<Listed> {
    let bad = || "it is bad".to_owned();
    Box::new(Listed::new(
        "given",
        ranges.into_iter().map(|(range, members)| (range.ok_or_else(bad), members)).collect(),
    ))
}

/// A range of numbers.
pub(crate) fn range(family: Family, start: u128, end: u128) -> Range {
    Range { family, start, end }
}

/// Builds a store with the defaults.
pub(crate) fn built(
    store: &Path,
    ranges: impl IntoIterator<Item = (Range, String)>,
    change: impl FnOnce(&mut BuildRequest),
) -> Result<Receipt, Error> {
    let mut request = BuildRequest::new(store.to_owned());
    change(&mut request);
    let given = given(ranges.into_iter().map(|(range, members)| (Some(range), members)));
    build(&request, vec![given], &Silent)
}

/// What a store knows about the addresses of a family.
pub(crate) fn found(store: &Generation, family: Family, number: u128) -> Option<String> {
    let found = store.get(family.address(number)).expect("the store is sound")?;
    Some(found.members().expect("the store is sound").into_owned())
}
