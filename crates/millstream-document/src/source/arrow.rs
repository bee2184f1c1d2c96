//! Arrow's IPC format, as a file (Feather) or as a stream: batches of columns, read as one JSON object per row.

use super::ndjson::Ndjson;
use super::{Format, Takes};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "arrow",
    about: "Arrow IPC, a file (Feather) or a stream, one document per row",
    takes: &[Takes::Nan],
    made: Some(&millstream_input::ARROW_FILE),
    open: |window| Ok(Box::new(Ndjson::new(window))),
};
