//! Deletes rows by key, except those that somebody has written since the load began.

use super::count;
use super::elements::Keys;
use super::names::Names;
use crate::error::Error;
use crate::plan::LoadPlan;
use millstream_model::KeyType;
use millstream_pg::{by_key, fill, plans_by_key};
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// The statements, for a load that began in a known snapshot.
pub(crate) struct MissingRowsSql<'p> {
    count: String,
    delete: String,
    types: &'p [KeyType],
    began: String,
}

impl<'p> MissingRowsSql<'p> {
    /// `began` is the snapshot as text.
    pub(crate) fn new(plan: &'p LoadPlan, began: String) -> Self {
        let names = Names::new(plan);
        let before = fill!(include_str!("missing_before.sql"), began = names.keys.len() + 1);
        let (table, key, arrays) = (&names.table, &names.key, names.arrays(false));
        let join = by_key("stored", "asked", &names.keys);
        let count = fill!(include_str!("missing_count.sql"), table, key, arrays, join, before);
        let join = by_key("stored", "seen", &names.keys);
        let delete = fill!(include_str!("missing_delete.sql"), table, key, arrays, join, before);
        Self { count, delete, types: &plan.key_types, began }
    }

    /// How many rows of these keys would be deleted.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn count(&self, client: &impl GenericClient, keys: &[Vec<u8>]) -> Result<u64, Error> {
        self.run(client, &self.count, keys).await
    }

    /// Deletes the rows of these keys, in an open transaction, and returns how many they were.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn delete(&self, client: &impl GenericClient, keys: &[Vec<u8>]) -> Result<u64, Error> {
        self.run(client, &self.delete, keys).await
    }

    async fn run(&self, client: &impl GenericClient, sql: &str, keys: &[Vec<u8>]) -> Result<u64, Error> {
        let mut packed = Keys::new(self.types);
        keys.iter().for_each(|key| packed.push(key));
        let arrays = packed.arrays(keys.len());
        let mut values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as _).collect();
        values.push(&self.began);
        client.batch_execute(&plans_by_key()).await?;
        Ok(count(&client.query_one(sql, &values).await?, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn rows_are_looked_up_by_key_and_compared_with_the_snapshot() {
        let plan = plan("replace");
        let sql = MissingRowsSql::new(&plan, "1:1:".to_owned());
        for text in [&sql.count, &sql.delete] {
            assert!(text.contains("pg_catalog.unnest($1::text[])") && text.contains("$2::text::pg_snapshot"), "{text}");
            assert!(text.contains("operator(pg_catalog.=) any (array["), "{text}");
        }
    }
}
