//! CHECK constraints of a collection: those that a load asks for, and those that its table has.

use crate::error::Error;
use crate::limits::CHECK_LOCK_WAIT;
use crate::observe::{Event, Observer};
use millstream_model::CollectionName;
use millstream_pg::{Connection, ErrorKind, Explained, quote_identifier, quote_name, quote_qualified};
use millstream_store::{Check, GivenSql, Schema, checks};
use tokio_postgres::Client;

/// The expressions of checks as the server spells them, each once. They are tried on a temporary table with the same
/// columns and name, which is then removed. `columns` defines that table.
///
/// The server has printed what this returns from one parsed expression. So whatever was typed, the result can be put
/// into a statement.
///
/// `found` is the OID of the collection's table, if there is one.
///
/// # Errors
/// [`Error::Refused`] for a text that is not an expression that a table can check, or that may call code of a role that a
/// session with more rights than tables need does not trust: the server plans the expression here, and calls it for each
/// document.
pub(super) async fn spell(
    client: &Client,
    schema: &Schema,
    (name, found): (&CollectionName, Option<u32>),
    columns: &str,
    asked: &[String],
) -> Result<Vec<String>, Error> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let texts: Vec<&str> = asked.iter().map(String::as_str).collect();
    schema.require_trusted_sql(client, &GivenSql { of: "check", texts: &texts, reads: found }).await?;
    let table = quote_qualified("pg_temp", &name.table);
    let made = format!("begin; create temporary table {} ({columns})", quote_identifier(&name.table));
    let spelled = match client.batch_execute(&made).await {
        Ok(()) => spell_all(client, &table, asked).await,
        Err(error) => Err(error.into()),
    };
    let ended = client.batch_execute("rollback").await;
    let spelled = spelled?;
    ended?;
    Ok(spelled)
}

async fn spell_all(client: &Client, table: &str, asked: &[String]) -> Result<Vec<String>, Error> {
    let mut spelled = Vec::new();
    for text in asked {
        let expression = spell_one(client, table, text).await?;
        if !spelled.contains(&expression) {
            spelled.push(expression);
        }
    }
    Ok(spelled)
}

async fn spell_one(client: &Client, table: &str, text: &str) -> Result<String, Error> {
    let refuse = |error: Error| match error.kind() {
        _ if client.is_closed() => error,
        ErrorKind::Cancelled | ErrorKind::OutOfMemory | ErrorKind::ServerFault => error,
        _ => Error::refused(
            format!("--check \"{text}\": {error}"),
            "give one expression over the key's columns and doc that is true or false, as CHECK takes it",
        ),
    };
    // The text must be the one column of a statement, and then one constraint. Only a single expression passes both.
    let one = client.prepare(&format!("select ({text}\n) from {table}")).await.map_err(|e| refuse(e.into()))?;
    if one.columns().len() != 1 {
        let problem = format!("--check \"{text}\": this is more than one expression");
        return Err(Error::refused(problem, "give --check once for each"));
    }
    // The server spells some expressions differently when it reads its own spelling, so we let it read that once.
    let once = spelled(client, table, text).await.map_err(refuse)?;
    spelled(client, table, &once).await
}

/// Creates a constraint from an expression, reads it back and drops it.
async fn spelled(client: &Client, table: &str, text: &str) -> Result<String, Error> {
    client.execute(&format!("alter table {table} add constraint millstream_check check ({text}\n)"), &[]).await?;
    let sql = "select pg_catalog.pg_get_expr(conbin, conrelid) from pg_catalog.pg_constraint \
               where conrelid = $1::text::pg_catalog.regclass::pg_catalog.oid and conname = 'millstream_check'";
    let expression = client.query_one(sql, &[&table]).await?.get(0);
    client.batch_execute(&format!("alter table {table} drop constraint millstream_check")).await?;
    Ok(expression)
}

/// Adds the checks that a table does not have yet, and checks the stored rows. Rows that break a check are reported and
/// stay: a load cannot decide what to do with them. New documents are checked in any case.
///
/// # Errors
/// [`Error::InUse`] when the table cannot be locked within [`CHECK_LOCK_WAIT`].
pub(super) async fn enforce(
    control: &mut Connection,
    name: &CollectionName,
    table_oid: u32,
    asked: &[String],
    observer: &dyn Observer,
) -> Result<(), Error> {
    if asked.is_empty() {
        return Ok(());
    }
    if !missing(asked, &checks(&control.client, table_oid).await?).is_empty() {
        add(control, name, table_oid, asked).await.map_err(|error| match error.kind() {
            ErrorKind::Busy => Error::InUse { collection: name.clone(), seconds: CHECK_LOCK_WAIT.as_secs() },
            _ => error,
        })?;
    }
    for check in checks(&control.client, table_oid).await?.iter().filter(|check| asked.contains(&check.expression)) {
        if !check.validated
            && let Some(warning) = validate(&control.client, name, check).await?
        {
            observer.event(Event::Warning(warning));
        }
    }
    Ok(())
}

/// The checks asked for that a table does not have.
pub(super) fn missing<'a>(asked: &'a [String], present: &[Check]) -> Vec<&'a String> {
    asked.iter().filter(|asked| present.iter().all(|check| check.expression != **asked)).collect()
}

/// Adds the missing checks, under a lock so that nobody else adds them too. It does not check the rows, so that the
/// lock is short.
async fn add(control: &mut Connection, name: &CollectionName, table_oid: u32, asked: &[String]) -> Result<(), Error> {
    let table = quote_name(name);
    let transaction = control.client.transaction().await?;
    let wait_ms = CHECK_LOCK_WAIT.as_millis();
    let lock = format!("set local lock_timeout = {wait_ms}; lock table {table} in access exclusive mode");
    transaction.batch_execute(&lock).await?;
    for expression in missing(asked, &checks(&transaction, table_oid).await?) {
        let sql = format!("alter table {table} add check ({expression}) not valid");
        transaction.batch_execute(&sql).await?;
    }
    Ok(transaction.commit().await?)
}

/// Checks the stored rows against a constraint. Returns a warning if some break it, or if they could not be checked.
async fn validate(client: &Client, name: &CollectionName, check: &Check) -> Result<Option<String>, Error> {
    let table = quote_name(name);
    let Check { name: constraint, expression, .. } = check;
    let sql = format!("alter table {table} validate constraint {}", quote_identifier(constraint));
    let wait_ms = CHECK_LOCK_WAIT.as_millis();
    let tried = client.batch_execute(&format!("begin; set local lock_timeout = {wait_ms}; {sql}; commit")).await;
    let Err(error) = tried.map_err(Error::from) else { return Ok(None) };
    if client.is_closed() {
        return Err(error);
    }
    client.batch_execute("rollback").await?;
    if error.broken_check().is_none() {
        return Ok(Some(format!("stored documents were not tried against {check}: {error}; later: {sql}")));
    }
    let violating = format!("from {table} where not ({expression})");
    let counted = client.query_one(&format!("select pg_catalog.count(*) {violating}"), &[]).await;
    let count = match counted {
        Ok(row) => row.get::<_, i64>(0).to_string(),
        Err(error) if client.is_closed() => return Err(error.into()),
        // The expression fails for some row. The load continues.
        Err(error) => format!("number unknown ({})", Error::from(error)),
    };
    Ok(Some(format!(
        "stored documents that break {check}: {count}; they stay, see them with: select * {violating}; \
         once mended: {sql}"
    )))
}
