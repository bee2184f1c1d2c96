//! The error to report when the server refuses a definition.

use crate::error::Error;

/// Turns an error that the definition caused into `Request`, and keeps any other.
pub(crate) fn refused(what: &str, error: tokio_postgres::Error) -> Error {
    refused_with_hint(what, error, "key columns, --column names and doc can be used; see millstream publish --help")
}

/// The same with another hint.
pub(crate) fn refused_with_hint(what: &str, error: tokio_postgres::Error, hint: impl Into<String>) -> Error {
    let Some(db_error) = error.as_db_error() else { return error.into() };
    let code = db_error.code().code();
    // Classes: syntax error or access rule, feature not supported, data exception, invalid name. A missing right is in
    // the first of them.
    if code == "42501" || !["42", "0A", "22", "3F"].iter().any(|class| code.starts_with(class)) {
        return error.into();
    }
    Error::refused(format!("the server refuses {what}: {}", db_error.message()), hint)
}
