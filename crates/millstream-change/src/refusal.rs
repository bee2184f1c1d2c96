//! Why something was not read or changed.

use std::io;
use std::path::Path;

/// Why something could not be read or changed, as a sentence that names it. The way out is in words of its own, because
/// only the program knows how its commands are called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    why: String,
    way_out: Option<WayOut>,
}

/// What helps after a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WayOut {
    /// First confirm, undo or close the change of this number.
    End(u32),
    /// Undo the change of this number.
    Undo(u32),
    /// Close the change of this number, which keeps the present value.
    Keep(u32),
    /// The same, if what was changed is gone for good.
    KeepIfGone(u32),
    /// Wait for the experiment of the lab that holds settings. If it was killed, its next run gives them back.
    WaitForLab,
    /// No experiment shows the change: compare two commands of your own.
    CompareByHand,
    /// Let the lab keep its data on this disk.
    MoveLab(String),
}

impl Refusal {
    /// A refusal without a way out.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), way_out: None }
    }

    /// The same with a way out, unless it has one.
    #[must_use]
    pub fn or(self, way_out: WayOut) -> Self {
        Self { way_out: self.way_out.or(Some(way_out)), ..self }
    }

    /// What helps.
    pub fn way_out(&self) -> Option<&WayOut> {
        self.way_out.as_ref()
    }

    /// Something could not be done with a file.
    pub(crate) fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {what} {}: {error}", path.display()))
    }
}

impl From<millstream_host::Error> for Refusal {
    fn from(error: millstream_host::Error) -> Self {
        Self::new(error.to_string())
    }
}
