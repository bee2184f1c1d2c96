//! Finds an earlier load whose documents would count twice if they were loaded again.

use crate::error::Error;
use crate::load::{Identity, key_json, stored_prefix};
use crate::schema::Schema;
use crate::unlogged::any_row;
use millstream_model::{Prefix, Receipt};
use tokio_postgres::{Client, Row};

/// A finished load with the same identity and the same sources.
#[derive(Debug)]
pub struct Added {
    /// Its receipt.
    pub receipt: Receipt,
    /// The last source that it read from, with the length and the hash of what it read.
    pub prefix: Option<(u32, Prefix)>,
}

/// The finished load that has already added up these sources. Always `None` if loading a document again does not count
/// it twice. `unfinished` is the load that this command resumes: its number, and how many sources it has. Then only the
/// sources that are appended to it are checked.
///
/// # Errors
/// [`Error::AddedUp`] when another load has added up some of them in another way, or when nobody can know whether a
/// crash took what it added.
pub async fn added(
    client: &Client,
    schema: &Schema,
    identity: &Identity,
    unfinished: Option<(i64, usize)>,
) -> Result<Option<Added>, Error> {
    if !identity.once {
        return Ok(None);
    }
    let Identity { table_oid, mode, key, format, transforms, .. } = identity;
    let (load_id, known) = unfinished.unzip();
    let sources = &identity.sources[known.unwrap_or(0)..];
    let sql = schema.sql(include_str!("load_added.sql"));
    let row =
        client.query_opt(&sql, &[table_oid, mode, &key_json(key), format, &sources, &load_id, transforms]).await?;
    let Some(row) = row else { return Ok(None) };
    if row.get("rows_tell") {
        if !any_row(client, &row.get::<_, String>("table")).await? {
            return Ok(None);
        }
        if row.get("followed") {
            let problem = "one of these sources, and nobody can know whether a crash removed that: the table was made \
                           logged or unlogged by hand and has rows of other loads";
            return Err(Error::AddedUp { load_id: row.get("load_id"), problem: problem.into() });
        }
    }
    if unfinished.is_some() || !row.get::<_, bool>("same") {
        return Err(in_another_way(&row, identity, sources));
    }
    let receipt: Option<String> = row.get("receipt");
    let receipt = receipt.ok_or(Error::Ledger("a finished load has no receipt"))?;
    let receipt = serde_json::from_str(&receipt).map_err(|_| Error::Ledger("a receipt cannot be read"))?;
    let prefix = stored_prefix(row.get("prefix_source"), row.get("prefix_length"), row.get("prefix_hash"))?;
    Ok(Some(Added { receipt, prefix }))
}

fn in_another_way(row: &Row, identity: &Identity, sources: &[String]) -> Error {
    let added: Vec<String> = row.get("sources");
    let shared: Vec<&String> = sources.iter().filter(|source| added.contains(source)).collect();
    let more = match shared.len() {
        0 | 1 => String::new(),
        shared => format!(" and {} more of these sources", shared - 1),
    };
    let way = match () {
        () if !row.get::<_, bool>("finished") => "in part",
        () if row.get::<_, &str>("mode") != identity.mode => "in another mode",
        () if !row.get::<_, bool>("same_key") => "by a key of another name, place or type",
        () if row.get::<_, &str>("format") != identity.format => "in another format",
        () if row.get::<_, Vec<String>>("transforms") != identity.transforms => "with other enrichments",
        () => "in another list of sources",
    };
    let first = shared.first().map_or("one of these sources", |name| name.as_str());
    Error::AddedUp {
        load_id: row.get("load_id"),
        problem: format!("{first}{more} {way}; its documents would count twice"),
    }
}
