//! Named limits of the doctor.

/// Conditions of one reading of a table that are compared with its indexes.
pub const EXPLAINED_CONDITIONS_MAX: usize = 16;

/// Indexes of a table that a query is compared with.
pub const EXPLAINED_INDEXES_MAX: usize = 256;
