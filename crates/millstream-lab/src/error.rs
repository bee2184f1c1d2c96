//! Errors of the lab itself.
//!
//! An error of what is measured is the outcome of a run instead.

use millstream_host::NotOurs;
use millstream_pg::{ErrorKind, Explained};
use std::io;
use std::path::{Path, PathBuf};

/// What to do about a full disk.
const LARGER_DISK: &str = "choose fewer documents with --set, or name a larger disk by TMPDIR";

/// What to do about a machine that others use too.
const QUIETER_MACHINE: &str = "stop what else runs here, or measure on another machine; if the hypervisor takes the \
                               time, `lab run` accepts more with --steal-max";

/// Why an experiment cannot run, or a record cannot be read. [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused something, or the connection failed.
    #[error(transparent)]
    Database(#[from] millstream_pg::Error),
    /// A file or a process of the lab failed.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried, such as "write".
        what: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program that is measured, or that measures, failed.
    #[error("{program} failed: {why}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Its exit and its message.
        why: String,
    },
    /// A result is not the expected one.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// Others use the machine, so that too many runs are void.
    #[error("this machine is too noisy to measure: {0}")]
    Noisy(String),
    /// A record exists and belongs to another run.
    #[error("{} holds another run: {why}", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// A program is missing.
    #[error("cannot measure what needs {tool}: {why}")]
    Missing {
        /// Its name.
        tool: &'static str,
        /// What was found instead.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// A guest could not be made, or failed.
    #[error("{what}: {why}")]
    Guest {
        /// What failed, with the package or the kernel.
        what: String,
        /// Why.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// The recorder beside a run failed.
    #[error("the recorder failed: {0}")]
    Recorder(String),
    /// A name of an experiment is unknown, or it cannot be measured as requested.
    #[error("{0}")]
    Asked(String),
    /// The local server could not be made or started.
    #[error(transparent)]
    Local(#[from] millstream_local::Error),
    /// The file of an experiment is wrong.
    #[error("experiment {name}: {why}")]
    Experiment {
        /// Name of the experiment.
        name: String,
        /// What is wrong, with the line.
        why: String,
    },
    /// A file is not a record, or a later version wrote it.
    #[error("{} is not a record that this version can read: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// A number is out of its range.
    pub(crate) fn range(name: &str, given: u64, min: u64, max: u64) -> Self {
        Self::Asked(format!("{name} must be from {min} to {max}, not {given}"))
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
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
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Database(error) => error.kind(),
            _ => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Database(error) => error.hint(),
            Self::Local(error) => error.hint(),
            Self::Experiment { .. } => {
                Some("docs/reference/experiments.md describes the words of an experiment".to_owned())
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(LARGER_DISK.to_owned()),
            Self::Record { .. } => Some("millstream lab report PATH/record.json".to_owned()),
            Self::Missing { hint, .. } | Self::Guest { hint, .. } => Some(hint.clone()),
            Self::Noisy(_) => Some(QUIETER_MACHINE.to_owned()),
            Self::Taken { .. } => Some("choose another --out; records are never overwritten".to_owned()),
            Self::Program { .. } | Self::Io { .. } | Self::Recorder(_) | Self::Asked(_) | Self::Wrong(_) => None,
        }
    }
}

impl From<NotOurs> for Error {
    fn from(why: NotOurs) -> Self {
        Self::Local(why.into())
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
