//! What the caller chooses of a local server.

use crate::installation::PostgresBin;
use std::path::PathBuf;

/// What the caller chooses.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// Where the server lives, if not in the usual place (see [`Home::choose`]).
    pub home: Option<PathBuf>,
    /// Which PostgreSQL to use.
    pub postgres_bin: PostgresBin,
}
