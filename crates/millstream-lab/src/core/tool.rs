//! A program of others that a run needs: where it was found, and its version.

use crate::error::Error;
use crate::limits::SAMPLE_TIME_MAX;
use millstream_host::{Command, Ended};
use std::path::PathBuf;

/// Where a program is, and its version.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}

impl Found {
    /// A program in PATH. The hint says how to install it or to do without it.
    ///
    /// # Errors
    /// [`Error::Missing`] if it is not there, or does not print its version.
    pub(crate) async fn installed(name: &'static str, hint: String) -> Result<Self, Error> {
        let printed = Command::new(name).arg("--version").run(SAMPLE_TIME_MAX).await.and_then(Ended::succeeded);
        let printed = printed.map_err(|error| Error::missing(name, error.to_string(), hint))?.stdout;
        Ok(Self { program: name.into(), version: printed.lines().next().unwrap_or_default().trim().to_owned() })
    }
}
