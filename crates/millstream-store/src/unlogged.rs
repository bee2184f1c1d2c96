//! What a crash of the server takes from a load into an unlogged collection, and how that is known.
//!
//! The crash empties unlogged tables. Watermarks must not outlive the documents they speak of, so
//! each such load has a line in an unlogged table of ours: where the line is gone, so are the
//! documents, and whatever else is on record of the load is void.

use crate::error::Error;
use crate::schema::Schema;
use tokio_postgres::{GenericClient, Transaction};

/// How many documents a crash has taken from the load, `None` where it took nothing. `unlogged` says whether the
/// table is to be unlogged now. Where it has become so since the load began, or has become logged, and not by us, there
/// is no line that tells: its rows do.
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
        // Made logged by hand: whether a crash came before that is on no record, and its rows are known only where no
        // other load has brought some. To load again what is there would count it twice.
        true if !row.get::<_, bool>("unlogged") && row.get("adds_up") => {
            let rows = any_row(transaction, &table).await?;
            if rows && row.get("followed") {
                let problem = "some of these sources, and whether a crash of the server has taken that cannot be told, for \
                               the table was made logged by hand and has rows of other loads";
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

/// Loads into an unlogged table that a crash of the server has emptied since.
pub async fn lost(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32) -> Result<Vec<i64>, Error> {
    let rows = transaction.query(&schema.sql(include_str!("unlogged_lost.sql")), &[&table_oid]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Why a load is at its beginning again after a crash.
pub const CRASHED: &str = "a crash of the server emptied the collection";

/// Takes the load back to its beginning, and records why.
pub async fn void(transaction: &Transaction<'_>, schema: &Schema, load_id: i64, why: &str) -> Result<(), Error> {
    transaction.execute(&schema.sql(include_str!("unlogged_void.sql")), &[&load_id, &why]).await?;
    Ok(())
}

/// Writes the load's line.
pub async fn remember(transaction: &Transaction<'_>, schema: &Schema, load_id: i64) -> Result<(), Error> {
    transaction.execute(&schema.sql(include_str!("unlogged_remember.sql")), &[&load_id]).await?;
    Ok(())
}

/// Of loads that begin again, abandons those that a later load of some of their sources followed: to resume one would
/// bring back what that one replaced. Returns how many.
pub async fn pass_over(transaction: &Transaction<'_>, schema: &Schema, lost: &[i64]) -> Result<u64, Error> {
    Ok(transaction.execute(&schema.sql(include_str!("load_passed.sql")), &[&lost]).await?)
}

/// Records that the loads into a table survive crashes from now on; `lost` begin again. Returns how many.
pub async fn keep(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32, lost: &[i64]) -> Result<u64, Error> {
    Ok(transaction.execute(&schema.sql(include_str!("unlogged_keep.sql")), &[&table_oid, &lost]).await?)
}
