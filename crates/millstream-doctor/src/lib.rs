//! Diagnoses with evidence and repair: today whether a query uses an index and, if it does not, why.

pub mod index;
pub mod limits;
