//! Parquet and Arrow, which hold columns, and Avro, which holds records: written as one object a row.

mod arrow;
mod avro;
mod column;
mod described;
mod footer;
mod integers;
mod line;
mod mark;
mod parquet;
mod rows;
mod scalar;
#[cfg(test)]
mod tests;
mod time;

use crate::Open;

pub(crate) const PARQUET: Option<Open> = Some(parquet::open);
pub(crate) const ARROW_FILE: Option<Open> = Some(arrow::open_file);
pub(crate) const ARROW_STREAM: Option<Open> = Some(arrow::open_stream);
pub(crate) const AVRO: Option<Open> = Some(avro::open);
