//! The table layout: documents go straight into the collection's table.

use super::Layout;
use crate::error::Error;
use millstream_pg::{Connection, quote_identifier};

pub(crate) static TABLE: Layout = Layout {
    name: "table",
    about: "documents go straight into the collection's table",
    fills_table: true,
    keeps_batches: true,
    refuses: |_| None,
    misfit: |_, _| None,
    examine: |control, _| Box::pin(async { require_staging(control).await.map(|()| false) }),
};

/// Requires the right to create temporary tables, because every lane stages its batches in one.
async fn require_staging(control: &Connection) -> Result<(), Error> {
    let sql = "select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'temporary')";
    if control.client.query_one(sql, &[]).await?.get(0) {
        return Ok(());
    }
    let (role, database) = (quote_identifier(&control.server.role), quote_identifier(&control.server.database));
    Err(Error::refused(
        format!("role {role} may not make temporary tables in database {database}"),
        format!("grant temporary on database {database} to {role}"),
    ))
}
