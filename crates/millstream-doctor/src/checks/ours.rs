//! Millstream's own tables in a database, under whatever schema.

use crate::server::Database;
use millstream_pg::Error;
use millstream_store::Schema;

/// The schemas that hold them, but for those whose owner could run code with the rights of this session. None if nothing
/// was ever loaded.
pub(super) async fn schemas(database: &Database) -> Result<Vec<Schema>, Error> {
    let sql = "select n.nspname::text from pg_namespace as n join pg_class as c on c.relnamespace = n.oid \
               where c.relname in ('collection', 'load', 'model', 'segment') and c.relkind = 'r' \
               and has_schema_privilege(n.oid, 'usage') group by n.nspname having count(*) = 4";
    let rows = database.session.client.query(sql, &[]).await?;
    let mut schemas = Vec::new();
    for schema in rows.iter().map(|row| Schema::new(row.get(0))) {
        match schema.require_trusted(&database.session.client).await {
            Ok(()) => schemas.push(schema),
            Err(millstream_store::Error::Postgres(error)) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(schemas)
}

/// Seconds since a time, as Millstream's records have it.
pub(super) async fn seconds_since(database: &Database, time: &str) -> Result<f64, Error> {
    let sql = "select date_part('epoch', now() - $1::text::timestamptz)::float8";
    Ok(database.session.client.query_one(sql, &[&time]).await?.get(0))
}

/// An error of Millstream's tables, as one of the server.
pub(super) fn unread(error: millstream_store::Error) -> Error {
    match error {
        millstream_store::Error::Postgres(error) => error,
        other => Error::Driver { message: other.to_string() },
    }
}
