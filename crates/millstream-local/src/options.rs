//! Options of a local server.

use crate::installation::PostgresBin;
use std::path::PathBuf;

/// What the caller may choose.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// The server's home, if it is not the usual one (see [`Home::choose`](crate::Home::choose)).
    pub home: Option<PathBuf>,
    /// Which PostgreSQL to use.
    pub postgres_bin: PostgresBin,
    /// Megabytes of a segment of the WAL of a new server, if not as PostgreSQL has it.
    pub wal_segment_mb: Option<u32>,
}

/// Gets lines for the user while something is done that takes long.
pub type Progress<'a> = &'a mut (dyn FnMut(&str) + Send);
