//! Why something that was asked for is not done.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Why something is not done, as a sentence that names it, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Refusal {
    /// What is wrong.
    pub problem: String,
    /// What to do, if that is known.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without a hint.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: None }
    }

    /// Something could not be done with a file.
    pub fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {what} {}: {error}", path.display()))
    }

    /// Puts a place in front of what is wrong there.
    pub fn at(place: impl Display) -> impl Fn(Self) -> Self {
        move |refusal| Self { problem: format!("{place}: {}", refusal.problem), ..refusal }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with a hint, unless it has one.
    #[must_use]
    pub fn or_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: self.hint.or_else(|| Some(hint.into())), ..self }
    }
}
