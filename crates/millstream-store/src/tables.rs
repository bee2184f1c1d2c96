//! Creates our tables in the database, brings older ones up to date, and checks them.

use crate::binding::{Bound, State};
use crate::error::Error;
use crate::schema::{DISTINCT_WALK, SCHEMA_VERSION, Schema};
use millstream_pg::advisory::SCHEMA;
use millstream_pg::{quote_literal, template};
use tokio_postgres::Client;

/// The steps that make each version of the tables from the one before, the first from nothing. Never change a step that
/// was released.
const STEPS: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

const _: () = assert!(STEPS.len() == SCHEMA_VERSION.unsigned_abs() as usize);

impl Schema {
    /// The version of the tables, `None` when there are none.
    pub async fn version(&self, client: &Client) -> Result<Option<i32>, Error> {
        Ok(self.state(client).await?.map(|state| state.version))
    }

    /// Whether the tables exist, have a version we know, and are bound to this database.
    ///
    /// # Errors
    /// [`Error::SchemaVersion`]; [`Error::Unbound`] after a restore, until [`Schema::bind`] or [`Schema::ensure`] has
    /// run.
    pub async fn exists(&self, client: &Client) -> Result<bool, Error> {
        let Some(state) = self.state(client).await? else { return Ok(false) };
        self.require_version(&state)?;
        self.require_bound(&state)?;
        Ok(true)
    }

    fn require_version(&self, state: &State) -> Result<(), Error> {
        match state.version {
            SCHEMA_VERSION => Ok(()),
            found => Err(Error::SchemaVersion { schema: self.name().to_owned(), found, known: SCHEMA_VERSION }),
        }
    }

    /// Creates missing tables, brings older ones up to date, and binds restored ones.
    ///
    /// # Errors
    /// [`Error::SchemaVersion`], and those of [`Schema::bind`].
    pub async fn ensure(&self, client: &mut Client) -> Result<Option<Bound>, Error> {
        if self.version(client).await?.is_none_or(|found| found < SCHEMA_VERSION) {
            self.make(client).await?;
        }
        let bound = self.bind(client).await?;
        self.exists(client).await?;
        Ok(bound)
    }

    /// Runs the missing steps. Only one session at a time does so.
    async fn make(&self, client: &mut Client) -> Result<(), Error> {
        let transaction = client.transaction().await?;
        SCHEMA.lock_in_transaction(&transaction).await?;
        let found = self.version(transaction.client()).await?;
        for step in &STEPS[usize::try_from(found.unwrap_or(0)).unwrap_or(0).min(STEPS.len())..] {
            let names = ["schema", "schema_literal", "distinct_walk"];
            let step = template::filled(step, &names, &[self, &quote_literal(self.name()), &DISTINCT_WALK]);
            transaction.batch_execute(&step).await?;
        }
        // Somebody may have made the schema since we looked.
        self.require_trusted(&transaction).await?;
        match found {
            None => {
                let insert = "insert into {schema}.meta (schema_version, schema_name) values ($1, $2)";
                transaction.execute(&self.sql(insert), &[&SCHEMA_VERSION, &self.name()]).await?;
                if let Some(state) = self.state(&transaction).await? {
                    self.record_home(&transaction, &state.home).await?;
                }
            }
            Some(_) => {
                let update = "update {schema}.meta set schema_version = $1 where schema_version < $1";
                transaction.execute(&self.sql(update), &[&SCHEMA_VERSION]).await?;
            }
        }
        Ok(transaction.commit().await?)
    }
}
