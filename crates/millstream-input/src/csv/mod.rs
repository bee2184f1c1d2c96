//! Records of delimited text (RFC 4180), found in a window and split into fields.

mod record;
mod separators;

pub use record::{Record, Seen};
pub use separators::{QUOTE, Separators, ends_in_return, quoted, stray};
