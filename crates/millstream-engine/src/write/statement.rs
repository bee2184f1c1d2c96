//! The statements of a collection under a mode, as text and prepared on a connection.

use crate::collection::key_columns;
use crate::error::Error;
use crate::merge::Mode;
use crate::store::Schema;
use millstream_model::{CollectionName, KeySpec, KeyType};
use millstream_pg::{quote_identifier, quote_qualified};
use tokio_postgres::{Client, Statement};

/// Where and how a load writes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) mode: &'static Mode,
    pub(crate) key_types: Vec<KeyType>,
    pub(crate) schema: Schema,
    create_stage: String,
    copy_table: String,
    copy_stage: String,
    upsert: String,
}

/// [`Target`]'s statements on one connection.
pub(crate) struct Prepared {
    pub(crate) copy_table: Statement,
    pub(crate) copy_stage: Statement,
    pub(crate) upsert: Statement,
    pub(crate) advance: Statement,
    pub(crate) reject: Statement,
}

impl Target {
    pub(crate) fn new(name: &CollectionName, key: &KeySpec, mode: &'static Mode, schema: Schema) -> Self {
        let table = quote_qualified(&name.schema, &name.table);
        let keys: Vec<String> = key.columns.iter().map(|c| quote_identifier(&c.name)).collect();
        let key_list = keys.join(", ");
        let on_conflict = mode.on_conflict.replace("{key}", &key_list);
        Self {
            mode,
            key_types: key.columns.iter().map(|c| c.key_type).collect(),
            schema,
            create_stage: format!(
                "create temporary table millstream_stage ({}, doc jsonb not null) on commit delete rows",
                key_columns(key).join(", ")
            ),
            copy_table: format!("copy {table} ({key_list}, doc) from stdin (format binary)"),
            copy_stage: format!("copy pg_temp.millstream_stage ({key_list}, doc) from stdin (format binary)"),
            upsert: include_str!("upsert.sql")
                .replace("{table}", &table)
                .replace("{key}", &key_list)
                .replace("{on_conflict}", &on_conflict),
        }
    }

    /// Makes the connection's staging table and prepares the statements.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<Prepared, Error> {
        client.batch_execute(include_str!("durable.sql")).await?;
        client.batch_execute(&self.create_stage).await?;
        let advance = self.schema.sql(include_str!("../store/lane_advance.sql"));
        let reject = self.schema.sql(include_str!("../store/reject_insert.sql"));
        let (copy_table, copy_stage, upsert, advance, reject) = tokio::try_join!(
            client.prepare(&self.copy_table),
            client.prepare(&self.copy_stage),
            client.prepare(&self.upsert),
            client.prepare(&advance),
            client.prepare(&reject),
        )?;
        Ok(Prepared { copy_table, copy_stage, upsert, advance, reject })
    }
}
