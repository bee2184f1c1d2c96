//! The build of the measured binary: version, commit, optimised or not.

use crate::error::Error;
use crate::process;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

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
