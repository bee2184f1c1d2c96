//! Why an object cannot be found: problems that the user must solve.

/// An object that is not found, or cannot be read as a source. [`Error::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This build does not read objects.
    #[error("{name} is an object, and this build of millstream has no feature 'objects', which reads it")]
    Unbuilt {
        /// The address.
        name: String,
    },
    /// It is not read as it is.
    #[error("{problem}")]
    Refused {
        /// What is wrong, as a sentence.
        problem: String,
        /// What to do instead.
        hint: String,
    },
    /// The store does not give it.
    #[error("cannot look up {name}: {cause}")]
    Store {
        /// The address.
        name: String,
        /// What the store, or the way to it, said.
        cause: String,
        /// What to do next.
        hint: String,
    },
}

impl Error {
    #[cfg(feature = "objects")]
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { problem: problem.into(), hint: hint.into() }
    }

    /// What the user can do about it, as a sentence or a command.
    pub fn hint(&self) -> String {
        match self {
            Self::Unbuilt { .. } => "build it with `cargo build --release --features objects`".to_owned(),
            Self::Refused { hint, .. } | Self::Store { hint, .. } => hint.clone(),
        }
    }
}
