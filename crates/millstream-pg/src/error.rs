//! What can go wrong between us and a PostgreSQL server, with its kind and a hint.

use std::error::Error as StdError;
use std::io;

use crate::explained::Explained;
use crate::kind::ErrorKind;
use crate::sqlstate;

/// Why no session could be opened, if nobody has answered.
pub(crate) const NO_ANSWER: &str = "no answer in time";

/// Every failure of this crate.
///
/// PostgreSQL's DETAIL, HINT and CONTEXT hold row values, so they are dropped when a server error enters. Only the
/// message without severity, the SQLSTATE and the name of a table's constraint are kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The connection string, a variable or a file it names is wrong.
    #[error("{message}")]
    Settings {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// No session could be opened.
    #[error("cannot connect to {target}: {message}")]
    Connect {
        /// The host and port tried, or all of them.
        target: String,
        /// Why, for the program.
        kind: ErrorKind,
        /// The server's code, if a server answered.
        sqlstate: Option<String>,
        /// Why, for people.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The server refused a statement.
    #[error("{message} (SQLSTATE {sqlstate})")]
    Server {
        /// What it means for the program.
        kind: ErrorKind,
        /// The code of five characters.
        sqlstate: String,
        /// The server's primary message.
        message: String,
        /// The constraint of a table that was violated.
        constraint: Option<String>,
    },
    /// The connection broke. What was in flight may or may not have happened.
    #[error("the connection to PostgreSQL was lost: {message}")]
    Lost {
        /// What the driver saw.
        message: String,
    },
    /// The server works, but we cannot use it.
    #[error("{message}")]
    Unusable {
        /// Why, for the program.
        kind: ErrorKind,
        /// Why, for people.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A query that cannot be explained.
    #[error("{message}")]
    Query {
        /// Why.
        message: String,
        /// What to give instead.
        hint: String,
    },
    /// We used the driver wrongly: a value of the wrong type, a column that does not exist.
    #[error("unexpected answer from the PostgreSQL driver: {message}")]
    Driver {
        /// What the driver saw.
        message: String,
    },
}

impl Error {
    /// A wrong setting, without hint.
    pub fn settings(message: impl Into<String>) -> Error {
        Error::Settings { message: message.into(), hint: None }
    }

    /// A wrong setting, with a hint.
    pub fn settings_hint(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Settings { message: message.into(), hint: Some(hint.into()) }
    }

    /// A server that cannot be used for the request.
    pub fn unusable(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Unusable { kind, message: message.into(), hint: Some(hint.into()) }
    }

    /// The server's code, if a server answered.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Error::Server { sqlstate, .. } => Some(sqlstate),
            Error::Connect { sqlstate, .. } => sqlstate.as_deref(),
            _ => None,
        }
    }

    /// Whether no session could be opened because a server did not answer in time.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Error::Connect { message, .. } if message.contains(NO_ANSWER))
    }

    /// Whether the server had no memory for a statement, or no room in its lock table. The code is the same.
    pub fn is_out_of_memory(&self) -> bool {
        self.sqlstate() == Some("53200")
    }

    /// The constraint of a table that was violated, if the server named one.
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Error::Server { constraint, .. } => constraint.as_deref(),
            _ => None,
        }
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Settings { .. } | Error::Query { .. } => ErrorKind::Config,
            Error::Connect { kind, .. } | Error::Server { kind, .. } | Error::Unusable { kind, .. } => *kind,
            Error::Lost { .. } => ErrorKind::Transient,
            Error::Driver { .. } => ErrorKind::Bug,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Settings { hint, .. } | Error::Connect { hint, .. } | Error::Unusable { hint, .. } => hint.clone(),
            Error::Query { hint, .. } => Some(hint.clone()),
            Error::Server { sqlstate, message, .. } if code_hint(sqlstate, message).is_some() => {
                code_hint(sqlstate, message).map(str::to_owned)
            }
            Error::Server { kind: ErrorKind::Config, sqlstate, .. } if ["21", "42"].contains(&&sqlstate[..2]) => Some(
                "look at the columns, constraints and triggers of the table and at the SQL of your command; if nothing \
                 there explains it, please report it"
                    .to_owned(),
            ),
            Error::Server { kind, .. } => kind.hint().map(str::to_owned),
            Error::Lost { .. } => ErrorKind::Transient.hint().map(str::to_owned),
            Error::Driver { .. } => None,
        }
    }
}

/// What to do about an error of the server with this code and message, if they say more than its kind.
pub(crate) fn code_hint(sqlstate: &str, message: &str) -> Option<&'static str> {
    match sqlstate {
        "3F000" => Some("create it with `create schema NAME`, or name one that is there"),
        "2BP01" => Some("drop what depends on it first; psql lists it when you drop the same there"),
        "57P03" => Some(
            "the server starts up, shuts down or recovers from a crash, and its log says how far it is; run the same \
             command again when it takes connections",
        ),
        // In every language of the server, the message names the library.
        "58P01" | "42883" | "XX000" if message.contains(".so") || message.contains("$libdir") => Some(
            "a library does not fit the server that runs, as after an upgrade of its packages: restart the server; if \
             that does not help, install the package of the library for this version of the server",
        ),
        _ => None,
    }
}

impl ErrorKind {
    /// What to do about a statement that the server refused, if the kind alone is enough to know it.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            ErrorKind::ReadOnly => Some(
                "this server takes no writes, or none in this session: connect to the primary, or name all hosts with \
                 target_session_attrs=read-write; on a primary, look for default_transaction_read_only in postgresql.conf, \
                 in the role, in the database and in the connection's options",
            ),
            ErrorKind::Rights => Some("ask the owner of the object to grant the missing right to this role"),
            ErrorKind::DiskFull => {
                Some("free space on the server's disk (data, WAL or temporary files), then run again")
            }
            ErrorKind::TooManyConnections => {
                Some("use fewer lanes or workers, end idle sessions, or raise max_connections on the server")
            }
            ErrorKind::OutOfMemory => Some(
                "use fewer lanes or smaller batches, or lower work_mem on the server; if it is out of shared memory, raise \
                 max_locks_per_transaction",
            ),
            ErrorKind::Transient => Some("run the same command again; the server's log says why it ended the session"),
            ErrorKind::Busy => Some(
                "another session or a prepared transaction holds the lock; pg_blocking_pids() on the server names the session, \
                 and pg_prepared_xacts lists the others",
            ),
            ErrorKind::ServerFault => Some("read the server's log before writing more to this server"),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        if let Some(db) = error.as_db_error() {
            return Error::Server {
                kind: sqlstate::classify(&error),
                sqlstate: db.code().code().to_owned(),
                message: db.message().to_owned(),
                // The error of a domain's constraint names no table.
                constraint: db.table().and(db.constraint()).map(str::to_owned),
            };
        }
        let message = driver_text(&error);
        match sqlstate::classify(&error) {
            ErrorKind::Bug => Error::Driver { message },
            _ => Error::Lost { message },
        }
    }
}

/// The driver's error and its causes in one line. Never called with a server error, whose text holds DETAIL.
pub(crate) fn driver_text(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The causes of a driver's error, the nearest first, also those that the layers above have wrapped as an error of the
/// operating system.
pub(crate) fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(StdError::source(error), |&cause| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => cause.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::ERROR_KINDS;

    #[test]
    fn messages_follow_the_house_style() {
        let error = Error::Server {
            kind: ErrorKind::Rights,
            sqlstate: "42501".into(),
            message: "permission denied for table t".into(),
            constraint: None,
        };
        assert_eq!(error.to_string(), "permission denied for table t (SQLSTATE 42501)");
        assert_eq!(error.kind(), ErrorKind::Rights);
        assert_eq!(error.sqlstate(), Some("42501"));
        for kind in ERROR_KINDS {
            if let Some(hint) = kind.hint() {
                assert!(!hint.ends_with('.') && hint.starts_with(|c: char| c.is_lowercase()), "{hint}");
            }
        }
    }

    #[test]
    fn hints_of_codes_say_more_than_those_of_their_kinds() {
        let hint = |sqlstate: &str, message: &str| {
            let kind = sqlstate::kind_of(sqlstate);
            Error::Server { kind, sqlstate: sqlstate.into(), message: message.into(), constraint: None }.hint()
        };
        for (sqlstate, message, words) in [
            (
                "58P01",
                "could not load library \"/usr/lib/postgresql/15/lib/x.so\": undefined symbol: y",
                "restart the server",
            ),
            ("58P01", "konnte nicht auf Datei »$libdir/postgis-3« zugreifen", "restart the server"),
            (
                "42883",
                "could not find function \"f\" in file \"/usr/lib/postgresql/15/lib/x.so\"",
                "restart the server",
            ),
            ("58P01", "could not open file \"base/1/2\"", "read the server's log"),
            ("57P03", "the database system is starting up", "when it takes connections"),
            ("57P01", "terminating connection due to administrator command", "why it ended the session"),
        ] {
            let said = hint(sqlstate, message).expect("a hint");
            assert!(said.contains(words) && !said.ends_with('.'), "{sqlstate} {message}: {said}");
        }
        assert_eq!(hint("42883", "function f() does not exist"), ErrorKind::NotFound.hint().map(str::to_owned));
    }

    #[test]
    fn a_lost_connection_is_transient() {
        assert_eq!(Error::Lost { message: "connection closed".into() }.kind(), ErrorKind::Transient);
    }
}
