//! Records the files of a collection's table, and which tables of it no load has filled: nothing of one can be gone from
//! those.

use crate::error::Error;
use crate::limits::EMPTIED_LOCK_WAIT_MS;
use crate::mark::TableMark;
use crate::schema::Schema;
use crate::unlogged::any_row;
use millstream_pg::advisory::WRITE;
use millstream_pg::quote_name;
use tokio_postgres::{Client, GenericClient, Transaction};

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
    files.push_str(&marks(&without_rows(client, mark, &unfilled).await?));
    // Nothing is counted twice: whoever records the new files counts.
    let emptied = emptied && before != mark.files;
    let sql = schema.sql("update {schema}.collection set files = $2, emptied = emptied + $3 where table_oid = $1");
    client.execute(&sql, &[&mark.oid, &files, &i32::from(emptied)]).await?;
    Ok(())
}

/// What marks these tables as unfilled, behind the recorded files.
fn marks(tables: &[u32]) -> String {
    tables.iter().fold(String::new(), |marks, table| format!("{marks} {UNFILLED}{table}"))
}

/// Those of a table and its partitions that have no row. Of a partition that this role may not read, only the pages are
/// known.
async fn without_rows(client: &impl GenericClient, mark: &TableMark, of: &[u32]) -> Result<Vec<u32>, Error> {
    if of.is_empty() || !any_row(client, &quote_name(&mark.name)).await? {
        return Ok(of.to_vec());
    }
    let mut vacant = Vec::new();
    if of != [mark.oid] {
        for row in client.query(include_str!("truncation_partitions.sql"), &[&of, &mark.oid]).await? {
            let partition: String = row.get("name");
            if row.get("no_pages") || row.get::<_, bool>("readable") && !any_row(client, &partition).await? {
                vacant.push(row.get("oid"));
            }
        }
    }
    Ok(vacant)
}

/// Records which tables of a collection have lost all of their rows to a load that runs and deletes. If one of them gets
/// another file now, nothing of a load is gone. `mark` is the table as this load knows it: what happened to its file before
/// must be known, too. After an error, roll back.
///
/// # Errors
/// The server's; also if those who write into the table now take too long.
pub async fn record_emptied(client: &Client, schema: &Schema, mark: &TableMark) -> Result<(), Error> {
    let known = schema.sql("select files from {schema}.collection where table_oid = $1");
    if emptied(client, &known, mark).await?.is_empty() {
        return Ok(());
    }
    // Nobody is writing a batch then, and whoever writes later sees the record, and ends it.
    let alone = WRITE.of_table(mark.oid).sql("pg_advisory_xact_lock");
    let table = quote_name(&mark.name);
    let begin = format!(
        "begin; set local lock_timeout = {EMPTIED_LOCK_WAIT_MS}; select {alone}; lock table only {table} in access share mode"
    );
    client.batch_execute(&begin).await?;
    if mark.again(client).await?.is_some_and(|now| now.name == mark.name && now.files == mark.files) {
        let vacant = emptied(client, &format!("{known} for update"), mark).await?;
        let sql = schema.sql("update {schema}.collection set files = files || $2 where table_oid = $1");
        client.execute(&sql, &[&mark.oid, &marks(&vacant)]).await?;
    }
    Ok(client.batch_execute("commit").await?)
}

/// Tables of a collection that have no row and are not yet recorded as unfilled. `known` asks for the record.
async fn emptied(client: &Client, known: &str, mark: &TableMark) -> Result<Vec<u32>, Error> {
    let Some(row) = client.query_opt(known, &[&mark.oid]).await? else { return Ok(Vec::new()) };
    let known: Option<String> = row.get(0);
    let (_, unfilled) = recorded(known.as_deref().unwrap_or_default());
    let of: Vec<u32> = tables(&mark.files).map(|(table, _)| table).filter(|table| !unfilled.contains(table)).collect();
    without_rows(client, mark, &of).await
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
