//! Why a question has no answer, and what becomes of a statement that the server refuses.

use millstream_pg::Error;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The server or the role does not allow it: why, or what a look cannot see for that.
    Unseen(String),
    /// The server's error.
    Failed(Error),
}

impl From<String> for Stop {
    fn from(unseen: String) -> Self {
        Self::Unseen(unseen)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes the server's refusal an answer. A lost connection stays an error.
pub(crate) fn or_refusal<T>(result: Result<T, impl Into<Error>>) -> Result<Result<T, String>, Error> {
    match result.map_err(Into::into) {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Server { message, .. }) => Ok(Err(message)),
        Err(error) => Err(error),
    }
}
