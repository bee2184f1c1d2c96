//! MongoDB: its files, and what its values become as JSON.

mod bson;
mod decimal;
mod document;
#[cfg(test)]
mod tests;
mod value;

pub use value::{IDENTITY_BYTES, date, decimal_of_text, double, identity, uuid};

use crate::{Look, Open};

pub(crate) const BSON: Option<Open> = Some(bson::open);
pub(crate) const LOOK: fn(&[u8]) -> Look = bson::look;
