//! How far a load has deleted the rows whose keys its sources lack.

use crate::error::Error;
use crate::schema::Schema;
use tokio_postgres::{GenericClient, Transaction};

/// What a load has deleted of the rows that its sources lack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingRows {
    /// How many.
    pub deleted: u64,
    /// The greatest key up to which all of them are done, in canonical bytes; `None` before the first.
    pub mark: Option<Vec<u8>>,
}

impl MissingRows {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Ledger`] when the load's record is gone; the server's.
    pub async fn read(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Self, Error> {
        let sql = "select deleted_missing, missing_mark from {schema}.load where load_id = $1";
        let row = client.query_opt(&schema.sql(sql), &[&load_id]).await?;
        let row = row.ok_or(Error::Ledger("the load's record is gone; was it forgotten meanwhile"))?;
        let deleted = u64::try_from(row.get::<_, i64>(0)).map_err(|_| Error::Ledger("a counter is negative"))?;
        Ok(Self { deleted, mark: row.get(1) })
    }

    /// Records that so many more were deleted, and that all up to a key are done.
    ///
    /// # Errors
    /// The server's.
    pub async fn advance(
        transaction: &Transaction<'_>,
        schema: &Schema,
        load_id: i64,
        more: u64,
        mark: &[u8],
    ) -> Result<(), Error> {
        let sql =
            "update {schema}.load set deleted_missing = deleted_missing + $2, missing_mark = $3 where load_id = $1";
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        transaction.execute(&schema.sql(sql), &[&load_id, &more, &mark]).await?;
        Ok(())
    }
}

/// The snapshot in which a load began, as text. What is visible in it was written before. `None` if nobody knows: an
/// earlier version began the load, or it began on another server.
///
/// # Errors
/// The server's.
pub async fn began(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Option<String>, Error> {
    let sql = "select began::text from {schema}.load where load_id = $1";
    let row = client.query_opt(&schema.sql(sql), &[&load_id]).await?;
    Ok(row.and_then(|row| row.get(0)))
}
