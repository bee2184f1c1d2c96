//! Binds records to the tables of this database: they name tables by OID, and a restore gives tables other OIDs.

use crate::error::Error;
use crate::schema::{SCHEMA_VERSION, Schema};
use millstream_model::CollectionName;
use millstream_pg::advisory::SCHEMA;
use millstream_pg::fill;
use millstream_pg::{ErrorKind, Explained};
use tokio_postgres::{Client, GenericClient, Row};

/// The first OID that PostgreSQL gives to a user's table. A record that waits for its table has a smaller one, which no
/// relation has.
pub(crate) const FIRST_TABLE_OID: u32 = 16_384;

/// What the tables of our schema say about themselves.
#[derive(Debug)]
pub(crate) struct State {
    /// Their version.
    pub(crate) version: i32,
    /// Whether they were restored or copied: their OIDs belong to another database.
    foreign: bool,
    /// The name that the schema had when its functions were made; `None` before version 5.
    schema_name: Option<String>,
    /// This server, database and schema.
    pub(crate) home: String,
}

/// What binding did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Collections that found their table by its name.
    pub tables: usize,
    /// Collections that wait for a table of their name and shape.
    pub waiting: Vec<CollectionName>,
    /// Read models, which the next refresh builds anew.
    pub models: u64,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tables, waiting, models } = self;
        write!(f, "these tables were restored or copied: {tables} collections are bound to their tables by name")?;
        if *models > 0 {
            write!(f, ", and the next refresh rebuilds {models} read models")?;
        }
        let names: Vec<String> = waiting.iter().map(ToString::to_string).collect();
        match names.len() {
            0 => Ok(()),
            missing => write!(f, "; {missing} wait for a table of their name, key and doc: {}", names.join(", ")),
        }
    }
}

impl Schema {
    /// Binds the records of a database that was restored or copied to the tables of their names, in one transaction.
    /// `None` if there is nothing to bind.
    ///
    /// # Errors
    /// [`Error::Refused`] when a subscription fills our tables, or when the schema was renamed since its functions were
    /// made; the server's, for example when the role may not change our tables.
    pub async fn bind(&self, client: &mut Client) -> Result<Option<Bound>, Error> {
        match self.state(client).await? {
            Some(state) if state.version != SCHEMA_VERSION => return Ok(None),
            Some(state) if self.is_due(client, &state).await? => {}
            Some(_) => return self.follow_names(client).await.map(|()| None),
            None => return Ok(None),
        }
        let transaction = client.transaction().await?;
        SCHEMA.lock_in_transaction(&transaction).await?;
        let bound = match self.state(&transaction).await? {
            Some(state) if self.is_due(&transaction, &state).await? => {
                self.refuse_subscribed(&transaction, &state).await?;
                Some(self.bind_all(&transaction, &state).await?)
            }
            _ => None,
        };
        transaction.commit().await?;
        Ok(bound)
    }

    /// Records the current names of tables and views: a restore finds them by name alone.
    async fn follow_names(&self, client: &Client) -> Result<(), Error> {
        match client.batch_execute(&self.sql(include_str!("names_follow.sql"))).await.map_err(Error::from) {
            // A role that may only read skips this.
            Err(error) if ![ErrorKind::Rights, ErrorKind::ReadOnly].contains(&error.kind()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the state; `None` if there are no tables of ours. Every use of our tables begins here, so the schema is
    /// checked first.
    pub(crate) async fn state(&self, client: &impl GenericClient) -> Result<Option<State>, Error> {
        self.require_trusted(client).await?;
        // Not `to_regclass`: inside a transaction, its cache may be older than the lock that we just got.
        let found = client.query_one(include_str!("schema_exists.sql"), &[&self.name()]).await?;
        if !found.get::<_, bool>(0) {
            return Ok(None);
        }
        let row = client.query_one(&self.sql(include_str!("binding_state.sql")), &[]).await?;
        let Some(version) = row.get("schema_version") else { return Ok(None) };
        let (foreign, schema_name) = (row.get("foreign_home"), row.get("schema_name"));
        Ok(Some(State { version, foreign, schema_name, home: row.get("home") }))
    }

    /// Fails unless the recorded OIDs belong to this database.
    ///
    /// # Errors
    /// [`Error::Unbound`].
    pub(crate) fn require_bound(&self, state: &State) -> Result<(), Error> {
        match state.foreign {
            true => Err(Error::Unbound { schema: self.name().to_owned() }),
            false => self.require_name(state),
        }
    }

    /// Our functions call each other by the schema name from when they were created.
    fn require_name(&self, state: &State) -> Result<(), Error> {
        match &state.schema_name {
            Some(known) if known != self.name() => Err(Error::refused(
                format!("schema \"{}\" was \"{known}\" when its tables and functions were made", self.name()),
                format!("give it its name back: alter schema {self} rename to {}", Schema::new(known)),
            )),
            _ => Ok(()),
        }
    }

    async fn is_due(&self, client: &impl GenericClient, state: &State) -> Result<bool, Error> {
        self.require_name(state)?;
        if state.foreign {
            return Ok(true);
        }
        let sql = fill!(include_str!("binding_waiting.sql"), schema = self, fits = include_str!("binding_fits.sql"));
        Ok(client.query_one(&sql, &[]).await?.get(0))
    }

    /// Refuses a schema that a subscription fills: its OIDs would belong to the publisher again after every change.
    async fn refuse_subscribed(&self, client: &impl GenericClient, state: &State) -> Result<(), Error> {
        let row = client.query_opt(include_str!("binding_subscribed.sql"), &[&self.name()]).await?;
        let Some(row) = row.filter(|_| state.foreign) else { return Ok(()) };
        let (subscription, schema): (&str, _) = (row.get(0), self.name());
        let problem = format!(
            "subscription {subscription} fills the tables of schema \"{schema}\": their contents describe the \
             publisher, not this database"
        );
        let hint = "publish the collections without this schema; here, name another schema with --schema";
        Err(Error::refused(problem, hint))
    }

    async fn bind_all(&self, client: &impl GenericClient, state: &State) -> Result<Bound, Error> {
        let sql = fill!(include_str!("binding_tables.sql"), schema = self, fits = include_str!("binding_fits.sql"));
        let rows = client.query(&sql, &[&state.foreign]).await?;
        let oids = |column: &str| rows.iter().map(|row| row.get(column)).collect::<Vec<Option<u32>>>();
        let (recorded, interim, target) = (oids("table_oid"), oids("interim"), oids("target"));
        if target.iter().chain(&interim).any(Option::is_none) {
            let problem = format!("more than {FIRST_TABLE_OID} collections wait for their tables");
            return Err(Error::refused(problem, "restore the tables, then this schema"));
        }
        // In two steps, through unused OIDs: one table's new OID may be another table's old one.
        for (table, from, to) in [
            ("collection", &recorded, &interim),
            ("collection", &interim, &target),
            ("load", &recorded, &target),
            ("segment", &recorded, &target),
            ("tombstone", &recorded, &interim),
            ("tombstone", &interim, &target),
        ] {
            let sql = format!(
                "update {self}.{table} set table_oid = moved.target \
                 from rows from (pg_catalog.unnest($1::oid[]), pg_catalog.unnest($2::oid[])) as moved (recorded, target) \
                 where table_oid = moved.recorded"
            );
            client.execute(&sql, &[from, to]).await?;
        }
        let sql = self.sql(include_str!("binding_models.sql"));
        let models = client.execute(&sql, &[&recorded, &target, &state.foreign]).await?;
        // A restored table has other files.
        let files = self.sql("update {schema}.collection set files = null where table_oid = any ($1)");
        client.execute(&files, &[&target]).await?;
        if state.foreign {
            // These processes belong to another server.
            let lanes = "update {schema}.lane set backend_pid = null, backend_start = null";
            client.execute(&self.sql(lanes), &[]).await?;
            // Numbers of transactions mean nothing here.
            client.execute(&self.sql("update {schema}.load set began = null"), &[]).await?;
            self.record_home(client, &state.home).await?;
        }
        let bound = |row: &Row| row.get::<_, bool>("bound");
        let waiting = rows.iter().filter(|row| !bound(row)).filter_map(|row| {
            Some(CollectionName { schema: row.get::<_, Option<_>>("schema_name")?, table: row.get("table_name") })
        });
        let mut waiting: Vec<CollectionName> = waiting.collect();
        waiting.sort_by_key(ToString::to_string);
        Ok(Bound { tables: rows.iter().filter(|row| bound(row)).count(), waiting, models })
    }

    /// Records that the OIDs belong to this database. `meta` keeps one row: a data-only restore adds a second one.
    pub(crate) async fn record_home(&self, client: &impl GenericClient, home: &str) -> Result<(), Error> {
        let one = "delete from {schema}.meta where ctid <> (select pg_catalog.max(ctid) from {schema}.meta)";
        client.execute(&self.sql(one), &[]).await?;
        let home_is = "update {schema}.meta set schema_version = $1, home = $2";
        client.execute(&self.sql(home_is), &[&SCHEMA_VERSION, &home]).await?;
        Ok(())
    }
}
