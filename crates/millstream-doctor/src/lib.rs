//! What is wrong, with evidence and repair: today whether a query uses an index, and what is between the two.

pub mod index;
pub mod limits;
