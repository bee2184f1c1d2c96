//! The build of the measured binary: version, commit, optimised or not.

use crate::error::Error;
use crate::process;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// What is known of a binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// What it says of itself.
    pub version: String,
    /// It was built without optimisation; `null` when the binary is not the one that measures.
    pub debug: Option<bool>,
    /// Commit of the repository that the binary lies in.
    pub commit: Option<String>,
    /// The repository held changes that are not committed.
    pub dirty: Option<bool>,
}

impl Build {
    /// Asks the binary, and git where it lies in a repository.
    ///
    /// # Errors
    /// It does not start, or does not know its version: no version, no measurement.
    pub(crate) async fn ask(binary: &Path, debug: Option<bool>, dir: &Path) -> Result<Self, Error> {
        let ended = process::run(Command::new(binary).arg("--version"), dir).await?;
        if !ended.status.success() || ended.stdout.trim().is_empty() {
            let why = format!("--version ended with {}", ended.status);
            return Err(Error::Subject { subject: "millstream", why });
        }
        let place = binary.parent().unwrap_or(Path::new("."));
        let changes = git(place, &["status", "--porcelain", "--untracked-files=no"]);
        Ok(Self {
            version: ended.stdout.trim().to_owned(),
            debug,
            commit: git(place, &["rev-parse", "HEAD"]),
            dirty: changes.map(|text| !text.is_empty()),
        })
    }
}

fn git(place: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(place).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
