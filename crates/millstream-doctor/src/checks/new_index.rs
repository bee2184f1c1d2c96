//! New indexes: the command that builds one beside other work, and the same as a change that can be taken back.

use crate::index::is_defined_as;
use crate::limits::INDEX_NAME_BYTES_MAX;
use millstream_model::Change;
use millstream_pg::Error;
use tokio_postgres::Client;

/// The command that builds an index of a table, whose name is as SQL needs it. The clause is what follows that name.
pub(super) fn command(table: &str, clause: &str) -> String {
    format!("create index concurrently on {table} {clause}")
}

/// Whether a table has an index of this definition, also one that is not valid: that one is to be mended.
pub(super) async fn is_there(client: &Client, schema: &str, table: &str, clause: &str) -> Result<bool, Error> {
    let rows = client.query(include_str!("new_index_there.sql"), &[&schema, &table]).await?;
    // An index that was dropped meanwhile has no definition.
    let mut definitions = rows.iter().filter_map(|row| row.get::<_, Option<&str>>("definition"));
    Ok(definitions.any(|definition| is_defined_as(definition, clause)))
}

/// The same as a change, in the database of the session. `None` if the server cannot make it: it is a standby, or the
/// table is partitioned.
pub(super) async fn change(client: &Client, schema: &str, table: &str, clause: &str) -> Result<Option<Change>, Error> {
    let wanted = name(table, clause);
    let Some(row) = client.query_opt(include_str!("new_index.sql"), &[&schema, &table, &wanted]).await? else {
        return Ok(None);
    };
    let (database, index): (String, String) = (row.try_get("database")?, row.try_get("index_name")?);
    let (own, table): (String, String) = (row.try_get("own_name")?, row.try_get("table_name")?);
    // A target begins with the database and a slash.
    let create = format!("create index {own} on {table} {clause}");
    Ok((!database.contains('/')).then(|| Change::new("index", format!("{database}/{index}"), create)))
}

/// A name that tells what the index is for, such as `event_kind_id_idx`. Words such as `IS NULL` need no quotes in it.
fn name(table: &str, clause: &str) -> String {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '_';
    let clause = clause.to_lowercase();
    let words = clause.split(is_mark).filter(|word| !word.is_empty() && *word != "using");
    let mut name = std::iter::once(table).chain(words).chain(["idx"]).collect::<Vec<_>>().join("_");
    while name.len() > INDEX_NAME_BYTES_MAX {
        name.pop();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_table_and_the_keys_and_is_not_too_long() {
        assert_eq!(name("event", "(kind, id)"), "event_kind_id_idx");
        assert_eq!(name("My t", "using gin ((doc -> 'a'))"), "My t_gin_doc_a_idx");
        assert_eq!(name("t", "(\"A\") where b IS NULL"), "t_a_where_b_is_null_idx");
        let long = name(&"é".repeat(40), "(a)");
        assert!(long.len() <= INDEX_NAME_BYTES_MAX && long.len() + 2 > INDEX_NAME_BYTES_MAX, "{long}");
    }
}
