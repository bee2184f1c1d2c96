//! Detects that a crash of the server emptied an unlogged collection, and resets its loads.
//!
//! A crash empties unlogged tables. Watermarks must not outlive the documents they describe. So each load into an
//! unlogged collection has a marker row in an unlogged table of ours. If the marker row is gone, so are the documents,
//! and the rest of the load's record is void.

use crate::counters::each_counter;
use crate::error::Error;
use crate::schema::Schema;
use millstream_pg::fill;
use tokio_postgres::{GenericClient, Transaction};

/// How many documents a crash took from the load, `None` if it took nothing. `unlogged` says whether the table is to be
/// unlogged now. If someone else changed the table's persistence, the marker row is unreliable; then we check whether
/// the table has rows.
///
/// # Errors
/// `AddedUp` when that does not decide it and documents could count twice.
pub async fn emptied(
    transaction: &Transaction<'_>,
    schema: &Schema,
    load_id: i64,
    unlogged: bool,
) -> Result<Option<u64>, Error> {
    let row = transaction.query_opt(&schema.sql(include_str!("unlogged_emptied.sql")), &[&load_id]).await?;
    let Some(row) = row.filter(|row| !row.get::<_, bool>("has_line")) else { return Ok(None) };
    let had_line: bool = row.get("had_line");
    let table: String = row.get("table");
    let emptied = match had_line {
        // Made logged by hand: we cannot know whether a crash came first. The table's rows decide it only if no later
        // load may have written them. Loading documents again that are still there would count them twice.
        true if !row.get::<_, bool>("unlogged") && row.get("adds_up") => {
            let rows = any_row(transaction, &table).await?;
            if rows && row.get("followed") {
                let problem = "some of these sources, and nobody can know whether a crash removed that: the table was \
                               made logged by hand and has rows of other loads";
                return Err(Error::AddedUp { load_id, problem: problem.into() });
            }
            !rows
        }
        true => true,
        false => unlogged && !any_row(transaction, &table).await?,
    };
    Ok(emptied.then(|| u64::try_from(row.get::<_, i64>("documents")).unwrap_or(0)))
}

/// Whether a table, qualified and quoted, has any row.
pub async fn any_row(client: &impl GenericClient, table: &str) -> Result<bool, Error> {
    let any = format!("select exists (select from {table})");
    Ok(client.query_one(&any, &[]).await?.get(0))
}

/// Loads into a table that a crash of the server has emptied since.
pub async fn lost(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32) -> Result<Vec<i64>, Error> {
    let rows = transaction.query(&schema.sql(include_str!("unlogged_lost.sql")), &[&table_oid]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The recorded reason why a load starts over after a crash.
pub const CRASHED: &str = "a crash of the server emptied the collection";

/// Resets the load to its beginning, and records why.
pub async fn void(transaction: &Transaction<'_>, schema: &Schema, load_id: i64, why: &str) -> Result<(), Error> {
    let counters = each_counter(|_, counter| format!("{counter} = 0"));
    transaction.execute(&fill!(include_str!("unlogged_void.sql"), schema, counters), &[&load_id, &why]).await?;
    Ok(())
}

/// Writes the load's marker row.
pub async fn remember(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    transaction.execute(&schema.sql(include_str!("unlogged_remember.sql")), &[&load_id]).await?;
    Ok(())
}

/// Of the loads that start over, abandons those that were followed by a later load of some of their sources. Resuming
/// one would bring back what the later load replaced. Returns how many.
pub async fn pass_over(transaction: &Transaction<'_>, schema: &Schema, lost: &[i64]) -> Result<u64, Error> {
    Ok(transaction.execute(&schema.sql(include_str!("load_passed.sql")), &[&lost]).await?)
}

/// Records that the loads into a table survive crashes from now on. `lost` are those that start over. Returns how many
/// loads there are, with these.
pub async fn keep(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32, lost: &[i64]) -> Result<u64, Error> {
    Ok(transaction.execute(&schema.sql(include_str!("unlogged_keep.sql")), &[&table_oid, &lost]).await?)
}
