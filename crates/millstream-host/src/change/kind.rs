//! Kinds of changes: how a value is read and written, and how it lasts.

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

/// A kind of change, such as a kernel setting. A target is the text by which it finds what it changes again, also in
/// another process.
pub trait Kind: Debug + Send + Sync {
    /// Its name in the journal.
    fn name(&self) -> &'static str;

    /// The value of a target now; `None` if the target has none of its own, so that a default is valid.
    fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>>;

    /// Gives a target a value, or takes its own value away.
    fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()>;

    /// How a value of a target lasts beyond a restart.
    ///
    /// # Errors
    /// The target is none of this kind.
    fn lasting(&self, target: &str, value: Option<&str>) -> Result<Lasting, Refusal>;

    /// What tells the thing behind a target from another that may get its name later, such as a disk's serial number.
    fn identity<'a>(&'a self, _target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }
}

/// What a kind answers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// How a value lasts beyond a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lasting {
    /// By itself.
    Always,
    /// By a line of a file.
    Line {
        /// The file.
        file: PathBuf,
        /// How the line begins. There is at most one such line.
        beginning: String,
        /// The line.
        line: String,
    },
    /// Not at all, because of this.
    UntilRestart(String),
}

/// Why something could not be read or changed, as a sentence that names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// Something could not be done with a file.
    pub(super) fn file(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self(format!("cannot {what} {}: {error}", path.display()))
    }
}
