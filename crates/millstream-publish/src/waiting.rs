//! Who holds what publishing, unpublishing and freezing wait for, if no session does.

use crate::error::Error;
use crate::limits::FREEZE_LOCK_WAIT;
use millstream_model::CollectionName;
use millstream_store::prepared_holder;
use tokio_postgres::GenericClient;

/// The error; or, if it is a lock of one of these tables that a prepared transaction holds, one that names that
/// transaction.
pub(crate) async fn with_holder(client: &impl GenericClient, tables: &[String], error: Error) -> Error {
    let Error::Postgres(busy) = error else { return error };
    match prepared_holder(client, tables, &busy).await {
        Some(refusal) => Error::Refused(refusal),
        None => Error::Postgres(busy),
    }
}

/// As [`with_holder`]; and if sessions hold the lock, the error that says so of a collection that we froze, or no longer
/// freeze.
pub(crate) async fn in_use(
    client: &impl GenericClient,
    tables: &[String],
    collection: &CollectionName,
    error: Error,
) -> Error {
    match with_holder(client, tables, error).await {
        Error::Postgres(busy) if busy.sqlstate() == Some("55P03") => {
            Error::InUse { collection: collection.clone(), seconds: FREEZE_LOCK_WAIT.as_secs() }
        }
        other => other,
    }
}
