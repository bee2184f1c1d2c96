//! Indexes, with their definitions as values.

use super::session::{identity, open, parts, refusal};
use millstream_host::{Answer, Kind, Lasting, Refusal};
use millstream_pg::ConnInfo;

/// An index by `DATABASE/SCHEMA.NAME`, quoted as SQL needs it. Its value is its definition; no value: there is no such
/// index, or it is invalid. It is made and dropped beside other work.
#[derive(Debug)]
pub struct IndexKind {
    /// The server.
    pub db: ConnInfo,
}

impl Kind for IndexKind {
    fn name(&self) -> &'static str {
        "index"
    }

    fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            let sql =
                "select pg_get_indexdef(indexrelid) from pg_index where indexrelid = to_regclass($1) and indisvalid";
            let session = open(&self.db, Some(database)).await?;
            let row = session.client.query_opt(sql, &[&name]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let (database, name) = parts(target)?;
            let session = open(&self.db, Some(database)).await?;
            // It waits for transactions that use the table, and nobody waits for it. If it gave up, the index would be
            // invalid.
            session.client.batch_execute("set lock_timeout = 0").await.map_err(refusal)?;
            if value.is_none() {
                let more = session.client.query_opt(include_str!("index_more.sql"), &[&name]).await.map_err(refusal)?;
                if let Some(more) = more.and_then(|row| row.get::<_, Option<String>>(0)) {
                    return Err(Refusal(format!(
                        "{name} has {more}, which its definition does not tell; drop it by hand"
                    )));
                }
            }
            // What a build that failed has left behind goes, too.
            let drop = format!("drop index concurrently if exists {name}");
            session.client.batch_execute(&drop).await.map_err(refusal)?;
            let Some(definition) = value else { return Ok(()) };
            let sql = concurrently(definition)
                .ok_or_else(|| Refusal(format!("{definition} is no definition of an index")))?;
            session.client.batch_execute(&sql).await.map_err(refusal)
        })
    }

    fn lasting(&self, _: &str, _: Option<&str>) -> Result<Lasting, Refusal> {
        Ok(Lasting::Always)
    }

    fn identity<'a>(&'a self, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(&self.db))
    }
}

/// The definition, as PostgreSQL prints it, as a statement that works beside others.
fn concurrently(definition: &str) -> Option<String> {
    ["create index ", "create unique index "].iter().find_map(|beginning| {
        let (first, rest) = definition.split_at_checked(beginning.len())?;
        first.eq_ignore_ascii_case(beginning).then(|| format!("{beginning}concurrently {rest}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_built_beside_other_work() {
        let plain = concurrently(&"create index i on t (a)".to_ascii_uppercase());
        assert_eq!(plain.as_deref(), Some("create index concurrently I ON T (A)"));
        let unique = concurrently("create unique index i on t (a)");
        assert_eq!(unique.as_deref(), Some("create unique index concurrently i on t (a)"));
        assert_eq!(concurrently("drop table t"), None);
    }
}
