//! A program that was found.

use std::path::PathBuf;

/// Where a program is and what it says of itself.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}
