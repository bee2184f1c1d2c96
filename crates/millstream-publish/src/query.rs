//! A materialized view of a query of the user's own over the collection: what it may read and call, and what it means.

use crate::asked::{Asked, require_same, resolved_indexes, used_schemas};
use crate::error::Error;
use crate::refusal::refused_with_hint;
use crate::storage::Storage;
use crate::unique::unique_columns;
use millstream_model::CollectionName;
use millstream_pg::{ErrorKind, Explained, quote_identifier, quote_name};
use millstream_store::models::Model;
use millstream_store::{Definition, Resolved, Schema};
use tokio_postgres::GenericClient;
use tokio_postgres::error::SqlState;

/// Where the server has its check that the rows to be shown are not the same twice.
const MATCHES_ROWS: &str = "refresh_by_match_merge";

/// Requires that a definition with a query has nothing else that says what the rows are.
///
/// # Errors
/// [`Error::Refused`] names the options that exclude each other.
pub(crate) fn require_consistent(definition: &Definition) -> Result<(), Error> {
    let Definition { columns, condition, select, materialized, query, unique, .. } = definition;
    if query.is_none() {
        let says_unique = "--unique says what tells the rows of --query apart";
        return if unique.is_empty() { Ok(()) } else { Err(Error::refused(says_unique, "give --query too")) };
    }
    if !materialized {
        return Err(Error::refused("--query is for materialized views", "add --materialized"));
    }
    if columns.is_empty() && condition.is_none() && select.is_none() {
        return Ok(());
    }
    let problem = "--query takes the place of --column, --where and --select";
    Err(Error::refused(problem, "write all of them into the query"))
}

/// Creates the materialized view without rows, under this quoted name, to see whether the server accepts the query and what
/// it means. The caller rolls back.
///
/// # Errors
/// [`Error::Refused`] says what is wrong with the query, its unique columns or an index.
pub(crate) async fn try_definition(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    asked: &Asked<'_>,
    query: &str,
    (view, generation): (&str, i16),
) -> Result<Resolved, Error> {
    let Asked { collection, definition, .. } = asked;
    let (tried, stand_in) = (storage.table("tried"), storage.table("stand_in"));
    let hint = format!("it must be one query that reads {}, without parameters", collection.name);
    // Not `batch_execute`: whatever the text holds, it must be one statement. The server then prints the query without its
    // semicolon and its comments.
    let made = client.execute(&format!("create view {tried} as {query}"), &[]).await;
    made.map_err(|error| refused_with_hint("the query", error, hint))?;
    client.batch_execute("savepoint meaning; set local search_path = pg_catalog").await?;
    let (text, columns) = meaning(client, storage, asked, &tried).await?;
    client.batch_execute("rollback to meaning; release meaning").await?;
    asked.warn_of_clock_in(client, &tried, true).await?;
    asked.warn_of_left_out();
    if columns.is_empty() {
        return Err(Error::refused("the query has no columns", "name some behind `select`"));
    }
    let empty = format!("as select tried.* from {tried} as tried with no data");
    let make = format!("create table {stand_in} {empty}; create materialized view {view} {empty}");
    let hint = "look at the name of the model, and at those of the query's columns";
    client.batch_execute(&make).await.map_err(|error| refused_with_hint("the model", error, hint))?;
    let unique = unique_columns(client, (&tried, &stand_in), &columns, &definition.unique).await?;
    make_unique(client, storage, (view, generation), &unique).await?;
    let clauses = storage.try_indexes(client, view, generation, &definition.indexes).await?;
    client.batch_execute("savepoint meaning; set local search_path = pg_catalog").await?;
    let indexes = resolved_indexes(client, storage, (view, generation), &clauses).await?;
    let names: Vec<String> = clauses.iter().map(|clause| storage.index_name(generation, clause)).collect();
    let own = quote_name(&collection.name);
    let schemas = used_schemas(client, storage.schema, (&tried, &[&own]), (view, &names), &[]).await?;
    client.batch_execute("rollback to meaning; release meaning").await?;
    Ok(Resolved {
        definition: Definition { indexes: clauses, unique, ..(*definition).clone() },
        table_oid: collection.table_oid,
        table: collection.name.clone(),
        types: Vec::new(),
        rows: [text, String::new()],
        indexes,
        schemas,
    })
}

/// Creates the unique index of a query's columns on the table or view that shows its rows.
///
/// # Errors
/// [`Error::Refused`] when rows agree in these columns, or when they cannot have such an index.
pub(crate) async fn make_unique(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    (view, generation): (&str, i16),
    unique: &[String],
) -> Result<(), Error> {
    let made = client.batch_execute(&unique_index(storage, (view, generation), &quoted(unique))).await;
    let named = unique.join(", ");
    made.map_err(|error| {
        let hint = "name other columns: --unique COLUMN[,COLUMN..]";
        if error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
            return Error::refused(format!("rows of the model agree in the columns {named}"), hint);
        }
        refused_with_hint(&format!("a unique index of {named}"), error, hint)
    })
}

/// The statement for that, given the quoted columns. As with other indexes of a model, the name says what the index is of.
pub(crate) fn unique_index(storage: &Storage<'_>, (view, generation): (&str, i16), key: &str) -> String {
    format!("create unique index {} on {view} ({key})", storage.index_name(generation, &unique_clause(key)))
}

/// The texts by which the indexes of a model are named.
pub(crate) fn named_indexes(definition: &Definition) -> Vec<String> {
    let mut named = definition.indexes.clone();
    if !definition.unique.is_empty() {
        named.push(unique_clause(&quoted(&definition.unique)));
    }
    named
}

fn unique_clause(key: &str) -> String {
    format!("unique ({key})")
}

fn quoted(columns: &[String]) -> String {
    columns.iter().map(|column| quote_identifier(column)).collect::<Vec<_>>().join(", ")
}

/// The query of a view with every name resolved, and its columns. The session finds names in `pg_catalog` alone.
async fn meaning(
    client: &impl GenericClient,
    storage: &Storage<'_>,
    asked: &Asked<'_>,
    view: &str,
) -> Result<(String, Vec<String>), Error> {
    let collection = asked.collection;
    require_collection_alone(client, storage.schema, view, (collection.table_oid, &collection.name)).await?;
    let read = async |view: &str| client.query_one(include_str!("resolved_rows.sql"), &[&view, &view]).await;
    let row = read(view).await?;
    let (printed, stored): (String, String) = (row.get(0), row.get(1));
    let text = printed.trim_end().trim_end_matches(';').to_owned();
    let again = storage.table("again");
    client.batch_execute(&format!("create view {again} as {text}")).await?;
    require_same(client, &stored, read(&again).await?.get(1)).await?;
    let names = "select attname::text from pg_catalog.pg_attribute \
                 where attrelid = $1::text::pg_catalog.regclass::oid and attnum > 0 order by attnum";
    let columns = client.query(names, &[&view]).await?;
    Ok((text, columns.iter().map(|row| row.get(0)).collect()))
}

/// Requires that the query of a view reads the collection and no other table, and calls nothing that is volatile or that
/// could run code of a role that is not trusted. The session finds names in `pg_catalog` alone.
///
/// # Errors
/// [`Error::Refused`] names the table, the function or the role.
pub(crate) async fn require_collection_alone(
    client: &impl GenericClient,
    schema: &Schema,
    view: &str,
    (table_oid, collection): (u32, &CollectionName),
) -> Result<(), Error> {
    let row = client.query_one(include_str!("query_reads.sql"), &[&view, &table_oid]).await?;
    let (other, is_read, locks): (Option<String>, bool, bool) = (row.get(0), row.get(1), row.get(2));
    let volatile: Option<String> = row.get(3);
    let (problem, hint) = if let Some(other) = other {
        (
            format!("the query may read {collection} alone, and it reads {other}"),
            "a refresh would not notice changes there; make a model of each collection, and join the models in a view of \
             your own"
                .to_owned(),
        )
    } else if !is_read {
        (format!("the query does not read {collection}"), format!("name it behind `from`: {}", quote_name(collection)))
    } else if locks {
        (format!("the query locks rows of {collection}"), "leave out `for update` and the like".to_owned())
    } else if let Some(volatile) = volatile {
        (
            format!("the query calls the volatile function {volatile}, which may answer otherwise at each refresh"),
            format!("leave it out; if it depends on its arguments alone, say so: alter function {volatile} immutable"),
        )
    } else {
        let own = quote_name(collection);
        used_schemas(client, schema, (view, &[&own]), (view, &[]), &[]).await?;
        return Ok(());
    };
    Err(Error::refused(problem, hint))
}

/// The error of a model whose materialized view was not refreshed; `key` names the columns of its unique index, quoted.
pub(crate) fn not_filled(model: &Model, key: &str, error: tokio_postgres::Error) -> Error {
    let Some(server) = error.as_db_error() else { return error.into() };
    let (code, is_query) = (server.code().code(), model.definition.query.is_some());
    let is_twice = code == "23505" || code == "21000" && server.routine() == Some(MATCHES_ROWS);
    if code == "55000" && model.view_present {
        let hint = format!("create unique index on {} ({key})", quote_name(&model.name));
        return Error::model(&model.name, "has lost the unique index by which its rows are compared", hint);
    }
    if is_query && is_twice {
        let problem = format!("cannot be built: several rows of its query agree in the unique columns {key}");
        let hint = "publish it again with other columns: --unique COLUMN[,COLUMN..]";
        return Error::model(&model.name, problem, hint);
    }
    let error = Error::from(error);
    if is_query && error.kind() == ErrorKind::DataRefused {
        let problem = format!("cannot be built: {error}");
        let hint = "mend the documents that its query cannot take; or remove it, and publish it with a query that leaves them \
                    out (`case`, `where`)";
        return Error::model(&model.name, problem, hint);
    }
    error
}

/// An error about the query of a model that is refreshed.
pub(crate) fn of_model(name: &CollectionName, error: Error) -> Error {
    match error {
        Error::Refused(refusal) => {
            let hint = refusal.hint.unwrap_or_default();
            Error::model(name, format!("cannot be built: {}", refusal.problem), hint)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_excludes_what_else_says_what_the_rows_are() {
        let query = Definition { materialized: true, query: Some("select 1".into()), ..Definition::default() };
        require_consistent(&query).unwrap();
        require_consistent(&Definition { unique: vec!["a".into()], ..query.clone() }).unwrap();
        require_consistent(&Definition::default()).unwrap();
        for wrong in [
            Definition { materialized: false, ..query.clone() },
            Definition { select: Some("doc".into()), ..query.clone() },
            Definition { condition: Some("true".into()), ..query.clone() },
            Definition { columns: vec!["a:int=a".parse().unwrap()], ..query },
            Definition { unique: vec!["a".into()], ..Definition::default() },
        ] {
            assert!(require_consistent(&wrong).is_err(), "{wrong:?}");
        }
    }
}
