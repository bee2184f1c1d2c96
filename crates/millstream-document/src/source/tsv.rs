//! Tab-separated values: CSV with another delimiter.

use super::{Format, Takes, csv};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "tsv",
    about: "tab-separated values with a header line; otherwise like csv",
    takes: &[Takes::Fields],
    made: None,
    open: |window| csv::open(window, b'\t'),
};
