//! What the parts of collections take on disk.

use crate::error::Error;
use crate::schema::Schema;
use millstream_model::{CollectionName, DocumentForm};
use millstream_pg::{fill, json_rows};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

/// What the parts of a collection take on disk. Those of its table are `None` if it is gone.
#[derive(Debug, Clone, Deserialize)]
pub struct CollectionSizes {
    /// Schema and table; if the table was renamed, its current name.
    #[serde(flatten)]
    pub name: CollectionName,
    /// What it stores of its documents.
    pub doc: DocumentForm,
    /// The name as SQL needs it.
    pub quoted: Option<String>,
    /// Rows by the table's statistics; `None` also until it was first analysed.
    pub rows_estimate: Option<u64>,
    /// Storage options of the table that differ from the server's, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// Bytes of the rows.
    pub heap_bytes: Option<u64>,
    /// Bytes of the maps of free and visible pages, and of the empty file of an unlogged table.
    pub map_bytes: Option<u64>,
    /// Bytes of long values outside the rows, with their index.
    pub toast_bytes: Option<u64>,
    /// The indexes, the largest first.
    pub indexes: Vec<IndexSize>,
    /// Segments that wait to be merged into the table.
    pub segments: u64,
    /// Their bytes on disk.
    pub segment_bytes: u64,
}

/// What an index takes on disk. Of a partitioned table, it is that of all partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSize {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its storage options that differ from the server's, as `NAME=VALUE`.
    pub options: Vec<String>,
}

impl CollectionSizes {
    /// The bytes of the table with all that belongs to it; `None` if it is gone.
    pub fn table_bytes(&self) -> Option<u64> {
        let own = self.heap_bytes? + self.map_bytes? + self.toast_bytes?;
        Some(own + self.indexes.iter().map(|index| index.bytes).sum::<u64>())
    }
}

/// The sizes of every collection, by name.
///
/// # Errors
/// The server's.
pub async fn sizes(client: &Client, schema: &Schema) -> Result<Vec<CollectionSizes>, Error> {
    let sql = fill!(include_str!("sizes.sql"), schema, rows = include_str!("table_rows.sql"));
    Ok(json_rows(client, "the sizes of a collection", &sql, &[&schema.name()]).await?)
}
