//! What a program asks any error of ours.

use crate::ErrorKind;
use millstream_model::Refusal;

/// An error that knows what it means for the program, and what to do about it.
pub trait Explained: std::error::Error + 'static {
    /// What it means for the program.
    fn kind(&self) -> ErrorKind {
        ErrorKind::Config
    }

    /// What to do next, if we know it.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The number of the load that it is about, if it names one.
    fn load_id(&self) -> Option<i64> {
        None
    }
}

impl Explained for Refusal {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
