//! What is known about an input before it is opened.

use super::error::Error;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the system knows about the file that a path leads to.
///
/// # Errors
/// There is none, or it cannot be reached.
pub fn metadata(path: &Path) -> Result<Metadata, Error> {
    std::fs::metadata(path).map_err(|source| Error::Open { name: path.display().to_string(), source })
}

/// What tells an input that can be read only once from others, also under another name: a pipe, a terminal, or whatever
/// standard input is for `-`. `None` for a file, and for what cannot be opened.
pub fn stream_identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = if path == Path::new("-") {
        io::stdin().as_fd().try_clone_to_owned().and_then(|file| File::from(file).metadata()).ok()
    } else {
        std::fs::metadata(path).ok().filter(|metadata| !metadata.is_file())
    };
    metadata.map(|metadata| (metadata.dev(), metadata.ino()))
}
