//! Why a copy cannot be made, or ends early.

use crate::path::shown_path;
use millstream_host::NotOurs;
use millstream_model::Refusal;
use millstream_pg::{ErrorKind, Explained};
use std::io;
use std::path::{Path, PathBuf};

/// What failed. An entry that cannot be copied is no error: the receipt lists it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {what} {}: {source}", shown_path(path))]
    File {
        /// What failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The destination takes no more.
    #[error("cannot write below {}: {source}", shown_path(path))]
    Full {
        /// The root of the copy.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// rsync, or the connection to the other machine, has failed.
    #[error("the other machine: {said}")]
    There {
        /// What it said.
        said: String,
        /// What to do, if that is known.
        hint: Option<String>,
    },
    /// Another copy writes to the destination.
    #[error("another copy writes to {}", shown_path(path))]
    Busy {
        /// The root of the copy.
        path: PathBuf,
    },
    /// A manifest is not what a copy wrote.
    #[error("the manifest {} is damaged: {source}", shown_path(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// Something that was asked for is not possible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server, or the way to it.
    #[error(transparent)]
    Server(#[from] millstream_pg::Error),
    /// Somebody has stopped the copy before it had begun.
    #[error("stopped before anything was copied")]
    Stopped,
    /// A worker has panicked.
    #[error("a worker ended without an answer")]
    Bug,
}

impl Error {
    /// Something is not done, and what to do instead.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }

    /// Nothing that was copied to this place is recorded.
    pub(crate) fn no_manifest(wanted: &Path) -> Self {
        let says = format!("there is no manifest of a copy to {}", shown_path(wanted));
        let hint = "only what millstream copy has copied can be compared, by the user who did";
        Self::refused(says, hint)
    }

    /// Converts the system's error about a file.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { what, path: path.clone(), source }
    }

    /// Converts an error about a manifest.
    pub(crate) fn manifest(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Damaged { path: path.clone(), source },
            _ => Self::File { what: "read", path: path.clone(), source },
        }
    }
}

impl From<NotOurs> for Error {
    fn from(why: NotOurs) -> Self {
        match why {
            NotOurs::File { what, path, source } => Self::File { what, path, source },
            why => Self::Refused(why.into()),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Bug => ErrorKind::Bug,
            Self::Server(error) => error.kind(),
            _ => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Full { source, .. } | Self::File { source, .. } => is_final(source).then(|| match source.kind() {
                io::ErrorKind::ReadOnlyFilesystem => "mount it so that it can be written".to_owned(),
                _ => "make room there and run the same command again: it resumes".to_owned(),
            }),
            Self::There { hint, .. } => hint.clone(),
            Self::Busy { .. } => Some("wait for it, or stop it".to_owned()),
            Self::Damaged { path, .. } => Some(format!("remove {} and copy again", shown_path(path))),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Server(error) => error.hint(),
            Self::Stopped | Self::Bug => None,
        }
    }
}

/// Whether no further file can be written either.
pub(crate) fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}
