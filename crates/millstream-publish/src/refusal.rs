//! The error to report when the server refuses a definition.

use crate::error::Error;
use millstream_model::words::{command, option};

/// Turns an error that the definition caused into `Request`, and keeps any other.
pub(crate) fn refused(what: &str, error: tokio_postgres::Error) -> Error {
    let Some(db_error) = error.as_db_error() else { return error.into() };
    let code = db_error.code().code();
    // A missing right is in the same class as a syntax error.
    if code == "42501" {
        return error.into();
    }
    // Classes: syntax error or access rule, feature not supported, data exception, invalid name.
    if ["42", "0A", "22", "3F"].iter().any(|class| code.starts_with(class)) {
        let help = command(format!("publish {}", option("help")));
        return Error::refused(
            format!("the server refuses {what}: {}", db_error.message()),
            format!("key columns, {} names and doc can be used; see {help}", option("column")),
        );
    }
    error.into()
}
