//! Copies a tree to or from another machine, by several processes of rsync.
//!
//! Which entries there are, what becomes of each, and what is kept for later is ours, as on one machine. How bytes get
//! through is rsync's.

mod address;
mod bucket;
mod deletion;
mod end;
mod ends;
mod far_folder;
mod folders;
mod job;
mod listing;
mod probe;
mod road;
mod rsync;
mod said;
mod there;
mod verification;

pub(crate) use ends::find;
pub(crate) use far_folder::FarFolder;
pub(crate) use road::ByRsync;
pub(crate) use there::There;
pub(crate) use verification::verify;

use crate::error::Error;
use millstream_host::scratch_folder;
use tempfile::TempDir;

/// How the name of a folder ends in which files are that a broken connection has left, behind that of unfinished files.
const PARTIAL: &str = ".part";

/// A temporary folder of this machine. A folder that rsync makes of it gets its rights.
fn empty_folder() -> Result<TempDir, Error> {
    let above = std::env::temp_dir();
    scratch_folder(&above, ".tmp", 0o755).map_err(Error::file("make a folder in", &above))
}
