//! The type by which a collection's versions are compared.
//!
//! It belongs to the collection, because tombstones of another type cannot be found.

use crate::error::Error;
use crate::loads::lock_idle;
use crate::runs::{close_locked_run, runs};
use crate::schema::Schema;
use millstream_model::{CollectionName, VersionType};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

/// Deletes the tombstones of a table that are older than this.
///
/// # Errors
/// The server's.
pub async fn forget_tombstones(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
    age: Duration,
) -> Result<(), Error> {
    let sql = schema.sql(include_str!("tombstone_forget.sql"));
    client.execute(&sql, &[&table_oid, &age.as_secs_f64()]).await?;
    Ok(())
}

/// The versions of a collection that a load compares.
#[derive(Debug, Clone, Copy)]
pub struct Versions<'a> {
    /// The collection's table.
    pub table_oid: u32,
    /// The collection.
    pub collection: &'a CollectionName,
    /// Their path in the documents, as typed.
    pub path: &'a str,
}

/// A version type that a command asks for.
#[derive(Debug, Clone)]
pub struct NamedVersion {
    /// The collection.
    pub collection: CollectionName,
    /// Path of the versions in the documents, as typed.
    pub path: String,
    /// The type.
    pub version_type: VersionType,
}

impl NamedVersion {
    /// Makes this the type by which versions are compared from now on. If it was another one, first forgets the
    /// tombstones that are older than `forget`.
    ///
    /// # Errors
    /// [`Error::Collection`] when tombstones, or a load that runs, compare them by another type. Nothing is forgotten then.
    pub async fn apply(
        &self,
        client: &mut Client,
        schema: &Schema,
        table_oid: u32,
        forget: Option<Duration>,
    ) -> Result<(), Error> {
        let versions = Versions { table_oid, collection: &self.collection, path: &self.path };
        let known = versions.remember(client, schema, self.version_type).await?;
        if known == self.version_type {
            return Ok(());
        }
        let transaction = client.transaction().await?;
        if let Some(age) = forget {
            forget_tombstones(&transaction, schema, table_oid, age).await?;
        }
        versions.change(&transaction, schema, known, self.version_type).await?;
        Ok(transaction.commit().await?)
    }
}

impl Versions<'_> {
    /// The recorded type; `None` if there is none, or if this role may not read it.
    pub async fn known(self, client: &Client, schema: &Schema) -> Result<Option<VersionType>, Error> {
        let sql = schema.sql(include_str!("version_known.sql"));
        let unseen = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        let row = match client.query_opt(&sql, &[&self.table_oid, &self.path]).await {
            Err(error) if error.code().is_some_and(|code| unseen.contains(code)) => None,
            row => row?,
        };
        row.and_then(|row| row.get::<_, Option<String>>(0)).map(|name| read(&name)).transpose()
    }

    /// Returns the recorded type. If there is none, records this one.
    pub async fn remember(self, client: &Client, schema: &Schema, wanted: VersionType) -> Result<VersionType, Error> {
        let sql = schema.sql(include_str!("version_remember.sql"));
        read(client.query_one(&sql, &[&self.table_oid, &self.path, &wanted.to_string()]).await?.get(0))
    }

    /// Makes this the type by which they are compared from now on.
    ///
    /// # Errors
    /// [`Error::Collection`] when another type is recorded, and tombstones of another type exist or a load into the
    /// collection runs.
    async fn change(
        self,
        transaction: &Transaction<'_>,
        schema: &Schema,
        known: VersionType,
        wanted: VersionType,
    ) -> Result<(), Error> {
        let (oid, name) = (self.table_oid, wanted.to_string());
        for run in runs(transaction, schema, oid).await? {
            if run.at_work {
                return Err(self.differs(known, wanted, &format!("load {} into it runs", run.load_id)));
            }
            if run.lost {
                lock_idle(transaction, schema, run.load_id).await?;
                let why = format!("the type of its versions was changed to {wanted}");
                close_locked_run(transaction, schema, run.load_id, &why).await?;
            }
        }
        let others = VersionType::all().filter(|other| *other != wanted);
        let others: Vec<String> = others.map(|other| format!("{}:{other}", self.path)).collect();
        let sql = schema.sql(include_str!("version_change.sql"));
        if transaction.execute(&sql, &[&oid, &self.path, &name, &others]).await? == 0 {
            return Err(self.differs(known, wanted, "it remembers versions of deleted documents"));
        }
        Ok(())
    }

    fn differs(self, known: VersionType, wanted: VersionType, why: &str) -> Error {
        let Self { collection, path, .. } = self;
        Error::Collection {
            collection: collection.clone(),
            problem: format!("its versions at {path} are compared as {known}, not as {wanted}, and {why}"),
            hint: format!(
                "leave the type out: newest:{path}; or change it to {wanted} with --forget-deletes 0s while no other \
                 load runs: documents older than the deleted ones may then come back"
            ),
        }
    }
}

fn read(name: &str) -> Result<VersionType, Error> {
    name.parse().map_err(|_| Error::Ledger("the type of a collection's versions cannot be read"))
}
