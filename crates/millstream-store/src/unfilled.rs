//! Records the files of a collection's table, and which tables of it no load has filled: nothing of one can be gone from
//! those.

use crate::error::Error;
use crate::mark::TableMark;
use crate::schema::Schema;
use crate::unlogged::any_row;
use millstream_pg::quote_name;
use tokio_postgres::{GenericClient, Transaction};

/// Marks the OID of an unfilled table behind the recorded files.
const UNFILLED: &str = "unfilled:";

/// The files and the unfilled tables of what is recorded.
pub(crate) fn recorded(files: &str) -> (&str, Vec<u32>) {
    let end = files.find(UNFILLED).unwrap_or(files.len());
    let unfilled = files.split(' ').filter_map(|word| word.strip_prefix(UNFILLED)?.parse().ok());
    (files[..end].trim_end(), unfilled.collect())
}

/// The tables of a text `OID:FILE OID:FILE ..`, each with its file.
pub(crate) fn tables(files: &str) -> impl Iterator<Item = (u32, &str)> {
    files.split(' ').filter_map(|word| word.split_once(':')).filter_map(|(oid, file)| Some((oid.parse().ok()?, file)))
}

/// Records the files of a table, in a transaction. `emptied` says that it was found truncated: then runs that are at work
/// notice too.
///
/// # Errors
/// The server's.
pub async fn record_files(
    client: &impl GenericClient,
    schema: &Schema,
    mark: &TableMark,
    emptied: bool,
) -> Result<(), Error> {
    record(client, schema, mark, emptied, None).await
}

/// Records the files of a table as a run or a compaction leaves it, in a transaction. `load_id` is the load of that run,
/// whose lanes have ended.
///
/// # Errors
/// The server's.
pub async fn record_left(
    client: &impl GenericClient,
    schema: &Schema,
    mark: &TableMark,
    load_id: Option<i64>,
) -> Result<(), Error> {
    record(client, schema, mark, false, load_id).await
}

async fn record(
    client: &impl GenericClient,
    schema: &Schema,
    mark: &TableMark,
    emptied: bool,
    own: Option<i64>,
) -> Result<(), Error> {
    let table = quote_name(&mark.name);
    // Whoever drops the table locks it before its record, so we do too.
    client.batch_execute(&format!("lock table only {table} in access share mode")).await?;
    // The rows are looked at behind this lock: a batch that fills a table meanwhile waits, and then says so.
    let sql = schema.sql("select files from {schema}.collection where table_oid = $1 for update");
    let Some(row) = client.query_opt(&sql, &[&mark.oid]).await? else { return Ok(()) };
    let known: String = row.get::<_, Option<String>>(0).unwrap_or_default();
    let (before, mut unfilled) = recorded(&known);
    // What others write now may go into a table that they do not know as unfilled. Nobody may forget what was truncated.
    let others = "select exists ( \
                      select from {schema}.load \
                      where table_oid = $1 \
                        and (state = 'running' and load_id is distinct from $2 or emptied is not null))";
    if !client.query_one(&schema.sql(others), &[&mark.oid, &own]).await?.get::<_, bool>(0) {
        unfilled = tables(&mark.files).map(|(table, _)| table).collect();
    }
    let mut files = mark.files.clone();
    for table in without_rows(client, &table, &unfilled).await? {
        files.push_str(&format!(" {UNFILLED}{table}"));
    }
    // Nothing is counted twice: whoever records the new files counts.
    let emptied = emptied && before != mark.files;
    let sql = schema.sql("update {schema}.collection set files = $2, emptied = emptied + $3 where table_oid = $1");
    client.execute(&sql, &[&mark.oid, &files, &i32::from(emptied)]).await?;
    Ok(())
}

/// Those of a table and its partitions that have no row: all if there is none at all, else those without a page.
async fn without_rows(client: &impl GenericClient, table: &str, of: &[u32]) -> Result<Vec<u32>, Error> {
    if of.is_empty() || !any_row(client, table).await? {
        return Ok(of.to_vec());
    }
    let sql = "select o from pg_catalog.unnest($1::oid[]) as o where pg_catalog.pg_relation_size(o) = 0";
    Ok(client.query(sql, &[&of]).await?.iter().map(|row| row.get(0)).collect())
}

/// Records that a compaction writes into a table from now on.
///
/// # Errors
/// The server's.
pub async fn record_filling(client: &impl GenericClient, schema: &Schema, mark: &TableMark) -> Result<(), Error> {
    let sql = schema.sql("update {schema}.collection set files = $2 where table_oid = $1");
    client.execute(&sql, &[&mark.oid, &mark.files]).await?;
    Ok(())
}

/// Waits for whoever looks at the rows of a table to record what it has found. Whoever looks later sees what this
/// transaction has written.
///
/// # Errors
/// The server's.
pub async fn await_record(transaction: &Transaction<'_>, schema: &Schema, table_oid: u32) -> Result<(), Error> {
    let sql = schema.sql("select from {schema}.collection where table_oid = $1 for share");
    transaction.query_opt(&sql, &[&table_oid]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_unfilled_tables_are_told_apart() {
        for (text, files, unfilled) in [
            ("", "", vec![]),
            ("7:70", "7:70", vec![]),
            ("7:70 unfilled:7", "7:70", vec![7]),
            ("7:70 8:80 unfilled:8 unfilled:7", "7:70 8:80", vec![8, 7]),
        ] {
            assert_eq!(recorded(text), (files, unfilled));
        }
        assert_eq!(tables("7:70 8:80 unfilled:8").collect::<Vec<_>>(), [(7, "70"), (8, "80")]);
        assert_eq!(tables("").count(), 0);
    }
}
