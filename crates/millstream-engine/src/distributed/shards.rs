//! The shards of a table that Citus distributes: their hashes, and where they lie.

use crate::batch::ShardRanges;
use crate::error::Error;
use crate::limits::SHARDS_MAX;
use millstream_model::{CollectionName, HashedColumn, KeyRequest, KeyType, put_literal};
use millstream_pg::quote_literal;
use tokio_postgres::{Client, Row};

/// A shard of a table.
#[derive(Debug)]
pub(super) struct Shard {
    /// Its number.
    pub(super) id: i64,
    /// The table that it is at its node.
    pub(super) name: CollectionName,
    /// The node that has it.
    pub(super) host: String,
    pub(super) port: u16,
    /// What the node calls itself, if the coordinator reaches it.
    pub(super) server: Option<String>,
    /// The least and the greatest of its hashes.
    hashes: (i32, i32),
}

/// The shards of a table, and how documents find theirs. `key` is the key of the load, with the types of its columns.
///
/// # Errors
/// [`Error::Collection`] when Citus distributes it in a way that a load cannot follow; the server's.
pub(super) async fn shards(
    client: &Client,
    name: &CollectionName,
    table_oid: u32,
    key: &[KeyRequest],
) -> Result<(Vec<Shard>, ShardRanges), Error> {
    let refuse =
        |problem: String, hint: &str| Error::Collection { collection: name.clone(), problem, hint: hint.into() };
    let distributed = client.query_opt(include_str!("distribution.sql"), &[&table_oid]).await?;
    if distributed.as_ref().is_some_and(|row| !row.get::<_, bool>("is_owned")) {
        let problem = "this role does not own it, and only its owner may keep shards from being moved".to_owned();
        return Err(refuse(problem, "load as the owner of the table, or as a member of that role"));
    }
    let column: Option<String> = distributed.and_then(|row| row.get("hashed"));
    let place = column.as_ref().and_then(|column| key.iter().position(|of_key| of_key.column == *column));
    let (Some(column), Some(place)) = (column, place) else {
        let problem = "Citus does not distribute it by the hash of a column of its key".to_owned();
        return Err(refuse(problem, "load into a table that is distributed by a column of its key"));
    };
    let types: Option<Vec<KeyType>> = key.iter().map(|column| column.key_type).collect();
    let types = types.ok_or(Error::BrokenOff("the types of a key were not decided"))?;
    let hashed = HashedColumn::new(&types, place).ok_or_else(|| {
        let problem = format!("Citus distributes it by {column}, whose type is {}", types[place].column());
        refuse(problem, "distribute it by a column of another type: text, varchar, an integer, uuid, or a time")
    })?;
    require_hash(client, types[place]).await?;
    let rows = client.query(include_str!("shards.sql"), &[&table_oid]).await?;
    if rows.len() > SHARDS_MAX {
        let problem = format!("it has {} shards, and a load writes at most {SHARDS_MAX}", rows.len());
        return Err(refuse(problem, "give it fewer: select alter_distributed_table('NAME', shard_count => 32)"));
    }
    if let Some(row) = rows.iter().find(|row| !row.get::<_, bool>("is_synced")) {
        let problem = format!("node {}:{} is not active, or lacks metadata", text(row, "host"), port(row)?);
        return Err(refuse(problem, "mend it: select start_metadata_sync_to_all_nodes()"));
    }
    let shards = rows.iter().map(|row| shard(row, name)).collect::<Result<Vec<_>, Error>>()?;
    if shards.windows(2).any(|pair| pair[0].id == pair[1].id) {
        let problem = "its shards have several copies, which Citus alone keeps the same".to_owned();
        return Err(refuse(problem, "load into a table whose shards have one copy; for more, replicate the workers"));
    }
    let hashes: Vec<(i32, i32)> = shards.iter().map(|shard| shard.hashes).collect();
    let ranges = ShardRanges::new(hashed, &hashes)
        .ok_or_else(|| refuse("its shards do not take every hash".to_owned(), "see pg_dist_shard"))?;
    Ok((shards, ranges))
}

fn shard(row: &Row, table: &CollectionName) -> Result<Shard, Error> {
    Ok(Shard {
        id: row.get("shardid"),
        name: CollectionName { schema: table.schema.clone(), table: text(row, "name") },
        host: text(row, "host"),
        port: port(row)?,
        server: row.get("server"),
        hashes: (row.get("first"), row.get("last")),
    })
}

fn text(row: &Row, column: &str) -> String {
    row.get(column)
}

fn port(row: &Row) -> Result<u16, Error> {
    u16::try_from(row.get::<_, i32>("port")).map_err(|_| Error::BrokenOff("a node has a port that no server can have"))
}

/// Compares our hash with the server's. A row in a wrong shard would be stored, and never found again.
async fn require_hash(client: &Client, key_type: KeyType) -> Result<(), Error> {
    // The form in documents and the length do not matter to the hash.
    let key_type = if key_type.is_text() { KeyType::Text } else { key_type.column() };
    let differs = || {
        let problem = format!("the server hashes values of type {key_type} in another way than is known here");
        Error::refused(problem, "distribute the table by a column of another type, or load into a table of one server")
    };
    let hashed = HashedColumn::new(&[key_type], 0).ok_or_else(differs)?;
    for sample in samples(key_type) {
        let mut key = Vec::new();
        if put_literal(key_type, sample.as_bytes(), &mut key).is_err() {
            return Err(differs());
        }
        let sql = format!("select pg_catalog.worker_hash({}::{})", quote_literal(sample), key_type.sql_name());
        if client.query_one(&sql, &[]).await?.get::<_, i32>(0) != hashed.hash(&key) {
            return Err(differs());
        }
    }
    Ok(())
}

/// Values of a type whose hashes can be known.
fn samples(key_type: KeyType) -> &'static [&'static str] {
    match key_type {
        KeyType::Uuid => &["00000000-0000-0000-0000-000000000000", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"],
        KeyType::Timestamptz => &["2000-01-01T00:00:00Z", "1969-07-20T20:17:40.000001Z", "2026-01-01T00:00:00Z"],
        KeyType::Timestamp => &["2000-01-01T00:00:00", "1969-07-20T20:17:40.000001", "2026-01-01T00:00:00"],
        KeyType::Date => &["2000-01-01", "1969-07-20", "2026-01-01"],
        KeyType::Bigint | KeyType::Integer | KeyType::Smallint => &["0", "-1", "32767"],
        _ => &["", "a", "of twelve by", "a text of more than twelve bytes"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KEY_TYPES;

    #[test]
    fn every_type_whose_hash_is_known_has_samples_that_are_values_of_it() {
        for &key_type in KEY_TYPES {
            let compared = if key_type.is_text() { KeyType::Text } else { key_type.column() };
            if HashedColumn::new(&[compared], 0).is_none() {
                continue;
            }
            for sample in samples(compared) {
                assert!(put_literal(compared, sample.as_bytes(), &mut Vec::new()).is_ok(), "{key_type} {sample}");
            }
        }
    }
}
