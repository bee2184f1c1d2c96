//! Parquet: rows of columns, read as one JSON object per row.

use super::ndjson::Ndjson;
use super::{Format, Takes};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "parquet",
    about: "Parquet, one document per row; only files, because it is read from its end",
    takes: &[Takes::Nan],
    made: Some(&millstream_input::PARQUET),
    open: |window| Ok(Box::new(Ndjson::new(window))),
};
