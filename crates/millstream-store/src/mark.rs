//! What a load relies on of its collection's table, as one state that can be compared.

use crate::error::Error;
use crate::models::TRIGGER_PREFIX;
use millstream_model::CollectionName;
use millstream_pg::{fill, quote_literal};
use tokio_postgres::GenericClient;

/// A collection's table as a run found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMark {
    /// Its OID.
    pub oid: u32,
    /// Its name.
    pub name: CollectionName,
    /// What decides how documents are written, by the names in [`TRAITS`].
    traits: [String; TRAITS.len()],
    /// `OID:FILE` of the table, or of each of its partitions. TRUNCATE, VACUUM FULL and the like make a new file.
    pub files: String,
    /// The query that reads it, and its answer as one text.
    query: String,
    whole: String,
}

/// What of the table's judgement of documents a load relies on: nothing if each batch stores what the documents alone would
/// store, and the table then refuses what it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// On nothing.
    Nothing,
    /// Documents that are not stored are not checked.
    Documents,
    /// Nor are rows that documents of a key would have made before the last one.
    Rows,
}

/// Columns of `mark.sql` that decide how documents are written, each with what it describes.
const TRAITS: [(&str, &str); 8] = [
    PLACE,
    ("kind", "its kind, or the tables that inherit from it"),
    ("columns", "the type of a key column or of doc"),
    ("keyed", "the unique index of its key"),
    ("triggers", "its triggers"),
    ("rules", "its rules"),
    CHECKS,
    INDEXES,
];

/// Null if the table is no shard, or a shard that lies at another node.
const PLACE: (&str, &str) = ("place", "the node of a shard");

/// Those that matter only if the load relies on them.
const CHECKS: (&str, &str) = ("checks", "its checks or generated columns");
const INDEXES: (&str, &str) = ("indexes", "its indexes or foreign keys");

/// Runs what [`TableMark::guard`] has prepared: fails with [`GUARD_SQLSTATE`] if the table is no longer in that state.
pub const GUARD: &str = "execute millstream_guard";

/// `division_by_zero`.
pub const GUARD_SQLSTATE: &str = "22012";

impl TableMark {
    /// Reads the state of a table whose key has these columns, for whom nothing of its judgement matters. `None` if it is
    /// gone.
    ///
    /// # Errors
    /// The server's.
    pub async fn read<'a>(
        client: &impl GenericClient,
        oid: u32,
        key: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Self>, Error> {
        Self::read_judging(client, oid, key, Judged::Nothing, None).await
    }

    /// The same, for a load that relies on so much of its judgement. `shard` is the number of the shard that the table is, if
    /// Citus distributes it.
    ///
    /// # Errors
    /// The server's.
    pub async fn read_judging<'a>(
        client: &impl GenericClient,
        oid: u32,
        key: impl IntoIterator<Item = &'a str>,
        judged: Judged,
        shard: Option<i64>,
    ) -> Result<Option<Self>, Error> {
        const NONE: &str = "null::text";
        let (checks, indexes) = (include_str!("mark_checks.sql"), include_str!("mark_indexes.sql"));
        let (checks, indexes) = match judged {
            Judged::Nothing => (NONE, NONE),
            Judged::Documents => (checks, NONE),
            Judged::Rows => (checks, indexes),
        };
        let mut columns: Vec<&str> = key.into_iter().collect();
        columns.sort_unstable();
        let columns: Vec<String> = columns.into_iter().map(quote_literal).collect();
        let columns = format!("array[{}]::text[]", columns.join(", "));
        let own_triggers = quote_literal(TRIGGER_PREFIX);
        let place = shard.map_or_else(|| NONE.to_owned(), |shard| fill!(include_str!("mark_place.sql"), shard));
        let query = fill!(include_str!("mark.sql"), oid, columns, own_triggers, place, checks, indexes);
        Self::answer(client, oid, query).await
    }

    /// Reads the same again.
    ///
    /// # Errors
    /// The server's.
    pub async fn again(&self, client: &impl GenericClient) -> Result<Option<Self>, Error> {
        Self::answer(client, self.oid, self.query.clone()).await
    }

    async fn answer(client: &impl GenericClient, oid: u32, query: String) -> Result<Option<Self>, Error> {
        let row = client.query_opt(&format!("select mark.*, mark::text as whole from ({query}) as mark"), &[]).await?;
        Ok(row.map(|row| Self {
            oid,
            name: CollectionName { schema: row.get("schema_name"), table: row.get("table_name") },
            traits: TRAITS.map(|(column, _)| row.get::<_, Option<String>>(column).unwrap_or_default()),
            files: row.get("files"),
            whole: row.get("whole"),
            query,
        }))
    }

    /// Whether the table is a shard that lies at the server that was asked.
    pub fn is_placed(&self) -> bool {
        TRAITS.iter().zip(&self.traits).any(|(which, state)| *which == PLACE && !state.is_empty())
    }

    /// What decides how documents are written and differs in another state of the table, if anything does. `judged`: whether
    /// its judgement does.
    pub fn difference(&self, other: &Self, judged: bool) -> Option<&'static str> {
        let differs = self.traits.iter().zip(&other.traits).map(|(one, other)| one != other);
        let matters = |which: &(&str, &str)| judged || ![CHECKS, INDEXES].contains(which);
        TRAITS.iter().zip(differs).find_map(|(which, differs)| (differs && matters(which)).then_some(which.1))
    }

    /// The statement that prepares [`GUARD`].
    pub fn guard(&self) -> String {
        let Self { query, whole, .. } = self;
        let whole = quote_literal(whole);
        format!(
            "prepare millstream_guard as select 1 / pg_catalog.count(*) from ({query}) as mark where mark::text = {whole}"
        )
    }
}
