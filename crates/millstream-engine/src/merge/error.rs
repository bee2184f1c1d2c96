//! Why a text is no mode.

/// Why a text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No mode has this name.
    #[error("\"{0}\" is not a mode: expected {expected}", expected = super::names())]
    Name(String),
    /// Arguments that do not fit the mode.
    #[error("\"{0}\" is not a mode: {1}")]
    Arguments(String, String),
    /// A text that does not say what deletes.
    #[error("\"{0}\" does not say what deletes: {1} (expected PATH=VALUE)")]
    Tombstone(String, String),
}
