//! Resets the records of a table that was emptied by TRUNCATE or by a DELETE of every row.

use crate::error::Error;
use crate::load::lock_openings;
use crate::loads::lock_idle;
use crate::schema::Schema;
use crate::unlogged::{any_row, void};
use tokio_postgres::Client;

/// Resets the records of a table that is empty although its loads stored documents in it: loads read their sources
/// from the start, `sum` adds again what it had added, and tombstones are deleted. `table` is qualified and quoted.
/// Returns a sentence to print. A running load is skipped: it checks its table with every batch.
///
/// # Errors
/// The server's.
pub async fn start_over(
    client: &mut Client,
    schema: &Schema,
    table_oid: u32,
    table: &str,
) -> Result<Option<String>, Error> {
    let transaction = client.transaction().await?;
    lock_openings(&transaction).await?;
    if any_row(&transaction, table).await? {
        return Ok(None);
    }
    let rows = transaction.query(&schema.sql(include_str!("emptied.sql")), &[&table_oid]).await?;
    let (mut loads, mut documents, mut over) = (Vec::new(), 0, 0);
    for row in rows {
        let load_id: i64 = row.get("load_id");
        loads.push(load_id.to_string());
        documents += row.get::<_, i64>("documents");
        if !row.get::<_, bool>("again") {
            continue;
        }
        match lock_idle(&transaction, schema, load_id).await {
            Err(Error::LoadRunning { .. }) => return Ok(None),
            locked => locked?,
        }
        void(&transaction, schema, load_id, "the table was emptied").await?;
        if row.get("finished") {
            // The same command begins a new load, and so does any other with its sources.
            let give_up = schema.sql("update {schema}.load set resumable = false where load_id = $1");
            transaction.execute(&give_up, &[&load_id]).await?;
        }
        over += 1;
    }
    if loads.is_empty() {
        return Ok(None);
    }
    let forget = schema.sql("delete from {schema}.tombstone where table_oid = $1");
    let forgotten = transaction.execute(&forget, &[&table_oid]).await?;
    transaction.commit().await?;
    if over == 0 && forgotten == 0 {
        // Only finished loads whose records hold nothing to reset.
        return Ok(None);
    }
    let noun = if loads.len() == 1 { "load" } else { "loads" };
    Ok(Some(format!(
        "the table is empty, although {noun} {} read {documents} documents into it: TRUNCATE or DELETE removed them, \
         so their record starts over",
        loads.join(", ")
    )))
}
