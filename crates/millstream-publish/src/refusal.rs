//! The error to report when the server refuses a definition.

use crate::error::Error;
use millstream_model::words::{command, option};

/// Turns an error that the definition caused into `Request`, and keeps any other.
pub(crate) fn refused(what: &str, error: tokio_postgres::Error) -> Error {
    let Some(db_error) = error.as_db_error() else { return error.into() };
    let code = db_error.code().code();
    // Classes: syntax error or access rule, feature not supported, data exception, invalid name. A missing right is in
    // the first of them.
    if code == "42501" || !["42", "0A", "22", "3F"].iter().any(|class| code.starts_with(class)) {
        return error.into();
    }
    let (column, help) = (option("column"), command(format!("publish {}", option("help"))));
    let problem = format!("the server refuses {what}: {}", db_error.message());
    Error::refused(problem, format!("key columns, {column} names and doc can be used; see {help}"))
}
