//! One collection, found by its name or its table.

use crate::error::Error;
use crate::schema::Schema;
use millstream_model::{CollectionName, DocumentForm, KeyColumn};
use millstream_pg::{fill, json_rows};
use serde::Deserialize;
use tokio_postgres::Client;

/// A recorded collection.
#[derive(Debug, Clone, Deserialize)]
pub struct Collection {
    /// OID of the table that the record belongs to.
    pub table_oid: u32,
    /// Its current name.
    #[serde(flatten)]
    pub name: CollectionName,
    /// Columns of the key, in index order.
    pub key: Vec<KeyColumn>,
    /// What it stores of its documents.
    pub doc: DocumentForm,
    /// Whether the table was there before Millstream.
    pub adopted: bool,
    /// Whether the table is still there.
    pub present: bool,
    /// Whether the table is gone and another relation has its name.
    pub replaced: bool,
    /// Whether Citus distributes the table.
    pub distributed: bool,
}

impl Collection {
    /// Requires that one server has all rows of the table. `command` is what needs that.
    ///
    /// # Errors
    /// [`Error::Refused`] if Citus distributes it.
    pub fn require_whole(&self, command: &str) -> Result<(), Error> {
        if !self.distributed {
            return Ok(());
        }
        let problem = format!("Citus distributes {}, and {command} needs a table that one server has", self.name);
        Err(Error::refused(problem, "load, get and verify work with it; for all else, use SQL"))
    }

    /// Requires that the rejects of the collection lie at this server.
    ///
    /// # Errors
    /// [`Error::Refused`] if Citus distributes the table, with the statement that lists the rejects.
    pub fn require_own_rejects(&self, schema: &Schema) -> Result<(), Error> {
        if !self.distributed {
            return Ok(());
        }
        let listed = schema.sql(
            "select pg_catalog.json_agg(pg_catalog.json_build_object('line', line, 'reason', reason, 'detail', detail)) \
             from {schema}.reject",
        );
        Err(Error::refused(
            format!("the rejects of {}, which Citus distributes, lie at the nodes of its shards", self.name),
            format!("psql at the coordinator lists them: select * from run_command_on_all_nodes($${listed}$$)"),
        ))
    }
}

/// The collection of a name, `None` when there is none.
pub async fn find(client: &Client, schema: &Schema, name: &CollectionName) -> Result<Option<Collection>, Error> {
    let condition = "coalesce(n.nspname, k.schema_name) = $1 and coalesce(t.relname, k.table_name) = $2";
    let distributed = fill!(include_str!("distributed.sql"), table = "k.table_oid");
    let sql = fill!(include_str!("collection.sql"), schema, distributed, condition);
    Ok(json_rows(client, "a collection's record", &sql, &[&name.schema, &name.table]).await?.pop())
}

/// The collection of a table, `None` when there is none.
pub async fn by_oid(client: &Client, schema: &Schema, table_oid: u32) -> Result<Option<Collection>, Error> {
    let distributed = fill!(include_str!("distributed.sql"), table = "k.table_oid");
    let sql = fill!(include_str!("collection.sql"), schema, distributed, condition = "k.table_oid = $1");
    Ok(json_rows(client, "a collection's record", &sql, &[&table_oid]).await?.pop())
}

/// Whether Citus distributes a table.
///
/// # Errors
/// The server's.
pub async fn is_distributed(client: &Client, table_oid: u32) -> Result<bool, Error> {
    let sql = format!("select {}", fill!(include_str!("distributed.sql"), table = table_oid));
    Ok(client.query_one(&sql, &[]).await?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn what_needs_one_server_says_what_to_do_with_a_distributed_table() {
        let mut collection = Collection {
            table_oid: 1,
            name: "t".parse().unwrap(),
            key: Vec::new(),
            doc: DocumentForm::Whole,
            adopted: false,
            present: true,
            replaced: false,
            distributed: false,
        };
        let schema = Schema::new("other");
        assert!(collection.require_whole("freeze").is_ok() && collection.require_own_rejects(&schema).is_ok());
        collection.distributed = true;
        let hint = |refused: Result<(), Error>| refused.expect_err("it is refused").hint().expect("a way out");
        assert!(hint(collection.require_whole("freeze")).contains("use SQL"));
        let listed = hint(collection.require_own_rejects(&schema));
        assert!(
            listed.contains("on_all_nodes($$select ") && listed.ends_with(r#" from "other".reject$$)"#),
            "{listed}"
        );
    }
}
