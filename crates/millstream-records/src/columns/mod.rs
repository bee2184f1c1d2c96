//! Parquet and Arrow.

use crate::Open;

pub(crate) const PARQUET: Option<Open> = None;
pub(crate) const ARROW_FILE: Option<Open> = None;
pub(crate) const ARROW_STREAM: Option<Open> = None;
