//! How what is copied gets from one end to the other.

use crate::counts::Counts;
use crate::error::Error;
use crate::receipt::Verification;
use crate::workers::{Found, Gate};

/// A way between two ends: by threads of ours, or by another machine's rsync.
pub(crate) trait Road {
    /// Makes the folders, and copies everything into them. `root_was_missing`: whether the root of the destination was just
    /// made.
    ///
    /// # Errors
    /// Nothing more can be copied.
    fn carry(&mut self, gate: &Gate, root_was_missing: bool) -> Result<Carried, Error>;

    /// Gives the folders their owners, rights and times, once nothing is made or deleted in them any more: that would change
    /// their times. Returns the counts of everything.
    ///
    /// # Errors
    /// Nothing more can be written.
    fn dress(&mut self, counts: Counts) -> Result<Counts, Error>;

    /// Compares both ends, if what is noted of the copy is not enough for that.
    ///
    /// # Errors
    /// One of them cannot be read.
    fn compare(&self, gate: &Gate) -> Result<Option<Verification>, Error>;
}

/// What was carried.
pub(crate) struct Carried {
    pub(crate) counts: Counts,
    /// Which number of workers was found to be best.
    pub(crate) found: Option<Found>,
    pub(crate) root_was_missing: bool,
}
