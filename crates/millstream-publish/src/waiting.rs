//! Who holds what publishing, unpublishing and freezing wait for, if no session does.

use crate::error::Error;
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
