//! The lexical elements of JSON: their scanner, what it finds wrong, and the spelling of numbers.
//!
//! Documents and what stands around them pass the same scanner, so that both follow the same rules.

mod flaw;
pub(crate) mod number;
mod scanner;
mod skipped;

pub(crate) use flaw::Flaw;
pub(crate) use scanner::{Next, Scanner, Stop, code_unit};
pub(crate) use skipped::{bare, text};
