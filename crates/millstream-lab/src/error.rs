//! What can go wrong in the lab itself; what goes wrong with a subject is a sample with an error.

use std::io;
use std::path::{Path, PathBuf};

/// The way out of a disk that is full.
const LARGER_DISK: &str = "ask for fewer --docs or rows, or name a larger disk by TMPDIR";

/// Why an experiment cannot be run, or a record not be read. [`Error::hint`] names the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server.
    #[error(transparent)]
    Database(#[from] millstream_pg::Error),
    /// A file or a process of the lab.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried, such as "write".
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A number that was asked for is out of its range.
    #[error("{name} must be from {min} to {max}, not {given}")]
    Range {
        /// What the number is.
        name: &'static str,
        /// What was asked for.
        given: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A subject did not do what it is there for.
    #[error("{subject} failed: {why}")]
    Subject {
        /// Its name.
        subject: &'static str,
        /// Its exit and what it said.
        why: String,
    },
    /// A subject left something else in the table than what it was given.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// A program that a subject needs is not there.
    #[error("cannot measure what needs {tool}: {why}")]
    Missing {
        /// Its name.
        tool: &'static str,
        /// What was found instead.
        why: String,
        /// The way out.
        hint: String,
    },
    /// The disk has no room for the documents.
    #[error("the documents need {needed_bytes} bytes in {}, which has {free_bytes} free", dir.display())]
    Full {
        /// Where they are to be written.
        dir: PathBuf,
        /// Their bytes.
        needed_bytes: u64,
        /// What there is.
        free_bytes: u64,
    },
    /// Experiments or subjects were asked for that there are not, or that cannot be measured as it was asked.
    #[error("{0}")]
    Asked(String),
    /// A file that is no record, or one of a later version.
    #[error("{} is no record that this version can read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn missing(tool: &'static str, why: String, hint: String) -> Self {
        Self::Missing { tool, why, hint }
    }

    /// The error with its causes, in one line.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            let text = cause.to_string();
            if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
            next = cause.source();
        }
        line
    }

    /// The way out, for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Database(error) => error.hint(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(LARGER_DISK.to_owned()),
            Self::Full { .. } => Some(LARGER_DISK.to_owned()),
            Self::Record { .. } => Some("millstream lab report PATH/record.json".to_owned()),
            Self::Missing { hint, .. } => Some(hint.clone()),
            Self::Subject { .. } => Some("--millstream-bin names another binary to measure".to_owned()),
            Self::Io { .. } | Self::Range { .. } | Self::Asked(_) | Self::Wrong(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
