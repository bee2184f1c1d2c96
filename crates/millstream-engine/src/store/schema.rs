//! Our own tables in the database: made when missing, checked when present.

use crate::error::Error;
use millstream_pg::quote_identifier;
use tokio_postgres::Client;

/// What makes each version of the tables from the one before, the first from nothing. A step that was
/// released is not changed any more.
const STEPS: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// Version of the tables that this program works with.
pub const SCHEMA_VERSION: i32 = 4;

const _: () = assert!(STEPS.len() == SCHEMA_VERSION.unsigned_abs() as usize);

/// The statement that walks distinct values, a text for SQL's `format`: our function in the database fills it in, and
/// so does [`distinct`](crate::distinct()), because a new session takes 7 ms for its first call of any such function.
pub(crate) const DISTINCT_WALK: &str = include_str!("distinct_walk.sql");

/// Advisory lock under which the tables are made, so that two first loads do not race.
const CREATE_LOCK: i64 = 0x6d69_6c6c_7363_6865;

/// The name of our schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    quoted: String,
    name: String,
}

impl Schema {
    /// A schema by its name, unquoted.
    pub fn new(name: &str) -> Self {
        Self { quoted: quote_identifier(name), name: name.to_owned() }
    }

    /// The name, unquoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A statement whose `{schema}` stands for this schema.
    pub fn sql(&self, template: &str) -> String {
        template.replace("{schema}", &self.quoted)
    }

    /// The version of the tables, `None` when there are none.
    pub async fn version(&self, client: &Client) -> Result<Option<i32>, Error> {
        // Not `to_regclass`: inside a transaction it may answer from a cache that is older than a
        // lock just waited for.
        let found = client.query_one(include_str!("schema_exists.sql"), &[&self.name]).await?;
        if !found.get::<_, bool>(0) {
            return Ok(None);
        }
        let row = client.query_opt(&self.sql("select schema_version from {schema}.meta"), &[]).await?;
        Ok(row.map(|r| r.get(0)))
    }

    /// Whether the tables are there and of a version we know.
    pub async fn exists(&self, client: &Client) -> Result<bool, Error> {
        match self.version(client).await? {
            None => Ok(false),
            Some(SCHEMA_VERSION) => Ok(true),
            Some(found) => Err(Error::SchemaVersion { schema: self.name.clone(), found, known: SCHEMA_VERSION }),
        }
    }

    /// Makes the tables when they are missing, and brings those of an older version up to date.
    pub async fn ensure(&self, client: &mut Client) -> Result<(), Error> {
        if self.version(client).await?.is_some_and(|found| found >= SCHEMA_VERSION) {
            return self.exists(client).await.map(drop);
        }
        let transaction = client.transaction().await?;
        transaction.execute("select pg_advisory_xact_lock($1)", &[&CREATE_LOCK]).await?;
        let found = self.version(transaction.client()).await?;
        for step in &STEPS[usize::try_from(found.unwrap_or(0)).unwrap_or(0).min(STEPS.len())..] {
            let step = step.replace("{distinct_walk}", DISTINCT_WALK);
            transaction.batch_execute(&self.sql(&step)).await?;
        }
        let remember = match found {
            None => "insert into {schema}.meta (schema_version) values ($1)",
            Some(_) => "update {schema}.meta set schema_version = $1 where schema_version < $1",
        };
        transaction.execute(&self.sql(remember), &[&SCHEMA_VERSION]).await?;
        transaction.commit().await?;
        self.exists(client).await.map(drop)
    }
}
