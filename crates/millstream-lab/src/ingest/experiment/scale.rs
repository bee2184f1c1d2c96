//! Scales: what determines how many keys an experiment has.

use super::growth;
use crate::error::Error;
use crate::limits::{DOCUMENTS_MAX, GROWN_ROWS_MIN};

/// What determines the number of an experiment's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// The documents of a wave.
    Documents,
    /// The rows to which a table grows.
    Growth,
    /// The rows of a read model.
    ReadModel,
    /// The rows of a table whose distinct values are queried.
    Distinct,
}

/// Every scale.
pub const SCALES: &[Scale] = &[Scale::Documents, Scale::Growth, Scale::ReadModel, Scale::Distinct];

impl Scale {
    /// Checks the number that a user gives for it.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub(crate) fn check(self, given: u64) -> Result<(), Error> {
        let (name, min, max) = match self {
            Self::Documents => ("the number of documents", 1, DOCUMENTS_MAX),
            Self::Growth => ("the number of rows to grow to", GROWN_ROWS_MIN, DOCUMENTS_MAX / 2),
            Self::ReadModel => ("the number of rows of a read model", GROWN_ROWS_MIN, DOCUMENTS_MAX),
            Self::Distinct => ("the number of rows with distinct values", GROWN_ROWS_MIN, DOCUMENTS_MAX),
        };
        match (min..=max).contains(&given) {
            true => Ok(()),
            false => Err(Error::Range { name, given, min, max }),
        }
    }

    /// Number of keys, if this is the number that a user gave.
    pub(crate) fn keys(self, given: u64) -> u64 {
        match self {
            Self::Documents | Self::ReadModel | Self::Distinct => given,
            Self::Growth => given * growth::PIECES / growth::GROWN,
        }
    }
}
