//! The build of the measured binary: version, commit, optimised or not.

use crate::error::Error;
use crate::limits::RUN_SLACK;
use millstream_host::Command;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Facts about a binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// What its `--version` prints.
    pub version: String,
    /// It was built without optimisation; `null` if the binary is not the one that runs the lab.
    pub debug: Option<bool>,
    /// Commit of the repository in which the binary lies.
    pub commit: Option<String>,
    /// The repository had uncommitted changes.
    pub dirty: Option<bool>,
}

impl Build {
    /// Asks the binary and, if it lies in a repository, git.
    ///
    /// # Errors
    /// It does not start, or prints no version. Without a version nothing is measured.
    pub(crate) async fn ask(binary: &Path, debug: Option<bool>) -> Result<Self, Error> {
        let failed = |why: String| Error::Program { program: "millstream", why };
        let question = "--version";
        let measured = Command::new(binary).arg(question).measure(RUN_SLACK).await;
        let printed = measured.and_then(|measured| measured.ended.succeeded());
        let printed = printed.map_err(|error| failed(error.to_string()))?.stdout;
        let version = printed.trim();
        if version.is_empty() {
            return Err(failed(format!("{question} printed nothing")));
        }
        let place = binary.parent().unwrap_or(Path::new("."));
        let changes = git(place, &["status", "--porcelain", "--untracked-files=no"]).await;
        Ok(Self {
            version: version.to_owned(),
            debug,
            commit: git(place, &["rev-parse", "HEAD"]).await,
            dirty: changes.map(|text| !text.is_empty()),
        })
    }
}

async fn git(place: &Path, args: &[&str]) -> Option<String> {
    let measured = Command::new("git").arg("-C").arg(place).args(args).measure(RUN_SLACK).await.ok()?;
    Some(measured.ended.succeeded().ok()?.stdout.trim().to_owned())
}
