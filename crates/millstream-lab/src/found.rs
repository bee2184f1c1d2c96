//! A program that was found.

use std::path::PathBuf;

/// Where a program is, and its version.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}
