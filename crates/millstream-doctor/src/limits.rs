//! Named limits of the doctor.

/// Most conditions of one reading of a table that are compared with its indexes.
pub const EXPLAINED_CONDITIONS_MAX: usize = 16;

/// Most indexes of a table that are compared with a query.
pub const EXPLAINED_INDEXES_MAX: usize = 256;
