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

    /// A value in the words in which [`Kind::read`] returns it, before it is recorded. Nothing is changed.
    ///
    /// # Errors
    /// The target cannot take the value.
    fn spelled<'a>(&'a self, _target: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move { Ok(value.to_owned()) })
    }

    /// Whether an interrupted [`Kind::write`] has left something behind that [`Kind::read`] does not show. Writing the old
    /// value removes it.
    fn has_parts<'a>(&'a self, _target: &'a str) -> Answer<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    /// Whether a target can get another name, under which [`Kind::read`] does not find it.
    fn can_be_renamed(&self) -> bool {
        false
    }

    /// How a value of a target lasts beyond a restart.
    ///
    /// # Errors
    /// The target is not of this kind.
    fn lasting(&self, _target: &str, _value: Option<&str>) -> Result<Lasting, Refusal> {
        Ok(Lasting::Always)
    }

    /// Refuses while somebody holds this target for a time, and gives it back afterwards: a change meanwhile would be
    /// overwritten, and the value that is read is not the one to come back to. Without a target, refuses while somebody
    /// holds any of this kind.
    ///
    /// # Errors
    /// Somebody does.
    fn is_free(&self, _target: Option<&str>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The server to which the targets belong, without a password. `None`: this machine.
    fn server(&self) -> Option<String> {
        None
    }

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

impl From<crate::error::Error> for Refusal {
    fn from(error: crate::error::Error) -> Self {
        Self(error.to_string())
    }
}
