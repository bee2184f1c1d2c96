//! Millstream's own tables in a database, under whatever schema.

use super::command::spelled;
use crate::server::Database;
use millstream_model::Finding;
use millstream_pg::{Error, quote_identifier};
use millstream_store::Schema;

/// The schemas that hold them, but for those whose owner could run code with the rights of this session. None if nothing
/// was ever loaded.
pub(super) async fn schemas(database: &Database) -> Result<Vec<Schema>, Error> {
    let sql = "select n.nspname::text from pg_namespace as n join pg_class as c on c.relnamespace = n.oid \
               where c.relname in ('collection', 'load', 'model', 'segment') and c.relkind = 'r' \
               and has_schema_privilege(n.oid, 'usage') group by n.nspname having count(*) = 4";
    let rows = database.session.client.query(sql, &[]).await?;
    let mut schemas = Vec::new();
    for schema in rows.iter().map(|row| Schema::new(row.get(0))) {
        match schema.require_trusted(&database.session.client).await {
            Ok(()) => schemas.push(schema),
            Err(millstream_store::Error::Postgres(error)) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(schemas)
}

/// Checks that judge how tables and indexes are defined, and how statements use them. What Millstream defines, a user cannot
/// mend.
const OF_DEFINITIONS: &[&str] = &[
    "autovacuum-off",
    "constraint-not-validated",
    "distinct-prefix",
    "duplicate-index",
    "few-statistics",
    "foreign-key-without-index",
    "hot-row",
    "json-member-missing",
    "missed-index",
    "missing-index",
    "narrow-key",
    "never-analyzed",
    "no-room-for-update",
    "prefix-index",
    "sort-index",
    "table-without-key",
    "unlogged-table",
    "unused-index",
];

/// The names of the schemas that hold Millstream's own tables and models, whoever owns them.
pub(crate) async fn names(database: &Database) -> Result<Vec<String>, Error> {
    let sql = "select n.nspname::text from pg_namespace as n join pg_class as c on c.relnamespace = n.oid \
               where c.relname in ('collection', 'load', 'model', 'segment') and c.relkind = 'r' \
               group by n.nspname having count(*) = 4";
    Ok(database.session.client.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// Whether a finding criticises the definition of a table, a model or an index in one of these schemas.
pub(crate) fn criticises(finding: &Finding, schemas: &[String]) -> bool {
    let is_in = |schema: &String| {
        let spellings = [spelled(schema), quote_identifier(schema)];
        let rest = spellings.iter().find_map(|schema| finding.subject.strip_prefix(schema.as_str()));
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    OF_DEFINITIONS.contains(&finding.check.as_str()) && schemas.iter().any(is_in)
}

/// Seconds since a time, as Millstream's records have it.
pub(super) async fn seconds_since(database: &Database, time: &str) -> Result<f64, Error> {
    let sql = "select date_part('epoch', now() - $1::text::timestamptz)::float8";
    Ok(database.session.client.query_one(sql, &[&time]).await?.get(0))
}

/// An error of Millstream's tables, as one of the server.
pub(super) fn unread(error: millstream_store::Error) -> Error {
    match error {
        millstream_store::Error::Postgres(error) => error,
        other => Error::Driver { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHECKS;
    use super::*;
    use millstream_model::{Class, Level};

    #[test]
    fn only_the_definitions_of_our_own_tables_are_left_alone() {
        for id in OF_DEFINITIONS {
            assert!(CHECKS.iter().any(|check| check.id == *id), "{id}");
        }
        let schemas = ["millstream".to_owned(), "My own".to_owned()];
        let is_left = |check: &str, subject: &str| {
            criticises(&Finding::new(check, Class::Fact, Level::Info, subject, "x"), &schemas)
        };
        assert!(is_left("table-without-key", "millstream.model_1") && is_left("unused-index", "\"My own\".i"));
        assert!(is_left("missing-index", "millstream.model_1 (a, b)"));
        assert!(!is_left("table-without-key", "millstreams.t") && !is_left("table-without-key", "public.t"));
        assert!(!is_left("dead-tuples", "millstream.lane"), "vacuum helps");
    }
}
