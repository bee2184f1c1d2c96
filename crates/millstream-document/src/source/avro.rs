//! Avro's object container files, read as one JSON object per record.

use super::ndjson::Ndjson;
use super::{Format, Takes};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "avro",
    about: "Avro, an object container file, one document per record",
    takes: &[Takes::Nan],
    made: Some(&millstream_input::AVRO),
    open: |window| Ok(Box::new(Ndjson::new(window))),
};
