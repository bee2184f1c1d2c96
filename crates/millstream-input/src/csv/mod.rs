//! Records of delimited text (RFC 4180), found in a window and split into fields.

mod line;
mod record;
mod separators;

pub use line::enclosed;
pub use record::{Record, Seen};
pub use separators::{QUOTE, Quotes, Separators, ends_in_return, quoted, stray};
