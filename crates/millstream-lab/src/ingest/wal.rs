//! The server's WAL: how much was written between two moments, and how much of it is page images.

use crate::error::Error;
use millstream_pg::{Connection, quote_identifier};

/// The end of the WAL, in bytes since its beginning.
pub(crate) async fn end(control: &Connection) -> Result<u64, Error> {
    let sql = "select (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint";
    let bytes: i64 = control.client.query_one(sql, &[]).await?.get(0);
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Bytes of full-page images in the WAL since position `from`. `None` if the server cannot report them: it needs the
/// extension `pg_walinspect`, a superuser's rights, and WAL that has not been recycled yet.
///
/// `pg_stat_wal` counts images, but not their bytes, and updates later than they are written. The extension is created
/// in a transaction that is rolled back, so that nothing of it remains.
pub(crate) async fn page_image_bytes(control: &Connection, schema: &str, from: u64) -> Option<u64> {
    control.client.batch_execute("begin").await.ok()?;
    let answer = asked(control, &quote_identifier(schema), i64::try_from(from).ok()?).await;
    control.client.batch_execute("rollback").await.ok()?;
    u64::try_from(answer.ok()??).ok()
}

async fn asked(control: &Connection, schema: &str, from: i64) -> Result<Option<i64>, Error> {
    control.client.batch_execute(&format!("create extension pg_walinspect schema {schema}")).await?;
    let sql = format!(
        "select sum(fpi_size)::bigint from {schema}.pg_get_wal_stats('0/0'::pg_catalog.pg_lsn + $1::bigint::numeric, \
         pg_catalog.pg_current_wal_flush_lsn())"
    );
    Ok(control.client.query_one(&sql, &[&from]).await?.get(0))
}
