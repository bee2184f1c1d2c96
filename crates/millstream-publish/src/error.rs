//! What can go wrong with a read model: every error, with its kind and what to do next.

use millstream_model::{CollectionName, Refusal};
use millstream_pg::{ErrorKind, Explained};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server, or the connection to it.
    #[error(transparent)]
    Postgres(#[from] millstream_pg::Error),
    /// An error of our tables.
    #[error(transparent)]
    Store(millstream_store::Error),
    /// Segments could not be merged first.
    #[error(transparent)]
    Engine(Box<millstream_engine::Error>),
    /// A request that contradicts itself or a limit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A read model that does not exist, or cannot be used as asked.
    #[error("{model} {problem}")]
    Model {
        /// Its name.
        model: CollectionName,
        /// What is wrong with it, as the end of a sentence.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// Another session refreshes the model.
    #[error("{model} is being refreshed by another process")]
    ModelBusy {
        /// Its name.
        model: CollectionName,
    },
    /// Another session publishes or unpublishes models, or keeps others from it.
    #[error("another process publishes or unpublishes a model, or freezes a collection")]
    PublishBusy,
    /// Other sessions do not release a collection's tables.
    #[error("{collection} could not be locked within {seconds} s: others use it")]
    InUse {
        /// The collection.
        collection: CollectionName,
        /// How long we tried.
        seconds: u64,
    },
    /// A part of the work ended without an error, which is our bug.
    #[error("the refresh broke off: {0}")]
    BrokenOff(&'static str),
}

impl Error {
    /// A request that is not done: why, and what to do instead.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }

    /// A model that does not exist, or cannot be used as asked.
    pub(crate) fn model(name: &CollectionName, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Model { model: name.clone(), problem: problem.into(), hint: hint.into() }
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Postgres(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::ModelBusy { .. } | Self::PublishBusy | Self::InUse { .. } => ErrorKind::Busy,
            Self::BrokenOff(_) => ErrorKind::Bug,
            Self::Refused(_) | Self::Model { .. } => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Engine(error) => error.hint(),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Model { hint, .. } => Some(hint.clone()),
            Self::ModelBusy { .. } | Self::PublishBusy => Some("wait for it, and run the same command again".into()),
            Self::InUse { .. } => Some(
                "end the transactions that have it open (see pg_stat_activity and pg_prepared_xacts), or wait for them"
                    .into(),
            ),
            Self::BrokenOff(_) => None,
        }
    }

    fn load_id(&self) -> Option<i64> {
        match self {
            Self::Store(error) => error.load_id(),
            Self::Engine(error) => error.load_id(),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

impl From<millstream_store::Error> for Error {
    /// Errors that both crates have become this crate's, so that callers look for one only.
    fn from(error: millstream_store::Error) -> Self {
        use millstream_store::Error as Store;
        match error {
            Store::Postgres(error) => Self::Postgres(error),
            Store::Refused(refusal) => Self::Refused(refusal),
            Store::Model { model, problem, hint } => Self::Model { model, problem, hint },
            other => Self::Store(other),
        }
    }
}

impl From<millstream_engine::Error> for Error {
    /// As for the errors of our tables.
    fn from(error: millstream_engine::Error) -> Self {
        use millstream_engine::Error as Engine;
        match error {
            Engine::Postgres(error) => Self::Postgres(error),
            Engine::Store(error) => error.into(),
            Engine::Refused(refusal) => Self::Refused(refusal),
            Engine::InUse { collection, seconds } => Self::InUse { collection, seconds },
            other => Self::Engine(Box::new(other)),
        }
    }
}

impl From<millstream_failpoint::Failed> for Error {
    fn from(failed: millstream_failpoint::Failed) -> Self {
        Self::Store(failed.into())
    }
}
