//! Verifies that a table holds what its sources say, row by row in key order.
//!
//! The documents are sorted by key into runs on disk, in bounded memory. Then runs and table are read side by side, and
//! the documents of each key are folded. This needs only `select` on the table. Any program may have loaded the table.

mod comparison;
mod equality;
mod fold;
mod record;
mod stored;

pub use comparison::Difference;
pub(crate) use stored::{Stored, TableReading};

use crate::collection;
use crate::error::Error;
use crate::feed::Feed;
use crate::limits::{FINDINGS_LISTED, FINDINGS_MAX, SORT_MEMORY_MIB, VERIFY_MEMORY_BYTES, VERIFY_MEMORY_BYTES_MIN};
use crate::merge::Mode;
use crate::observe::{Observer, Tally};
use crate::request::LoadRequest;
use fold::Folding;
use millstream_document::chunk::Chunk;
use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_input::Sorter;
use millstream_model::{Counters, shell_word};
use millstream_pg::{ConnInfo, Connection, SessionSettings, catalog};
use millstream_store::segments::{self, Seen};
use millstream_store::{Access, Error as StoreError, Schema, foreign_code, foreign_owner, known_collection};
use record::{Origin, head};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A verification, as asked for on the command line or by a program.
#[derive(Debug, Clone)]
pub struct VerifyRequest {
    /// The load whose result is verified: its sources, format, key, mode and collection.
    pub load: LoadRequest,
    /// Whether rows without a document in the sources are differences.
    pub exact: bool,
    /// How many differences are listed at most. All are counted.
    pub findings_max: usize,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
    /// Directory of the sorted runs. They take about as much space as the documents, and twice that while runs are
    /// merged into fewer.
    pub directory: PathBuf,
}

impl VerifyRequest {
    /// A request with defaults for everything else.
    pub fn new(load: LoadRequest, directory: PathBuf) -> Self {
        Self { load, exact: false, findings_max: FINDINGS_LISTED, memory_bytes: VERIFY_MEMORY_BYTES, directory }
    }

    /// Checks numbers against their limits.
    ///
    /// # Errors
    /// [`Error::Refused`] names the option and its range.
    pub fn check(&self) -> Result<(), Error> {
        self.load.check()?;
        if self.findings_max > FINDINGS_MAX {
            let problem = format!("--limit takes at most {FINDINGS_MAX}");
            return Err(Error::refused(problem, "all differences are counted in any case"));
        }
        if self.memory_bytes < VERIFY_MEMORY_BYTES_MIN || u32::try_from(self.memory_bytes).is_err() {
            let problem = format!("--memory takes {} KiB to less than 4 GiB", VERIFY_MEMORY_BYTES_MIN >> 10);
            return Err(Error::refused(problem, "leave it out for the default of 64 MiB"));
        }
        Ok(())
    }
}

/// What a verification found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verification {
    /// The table.
    pub collection: String,
    /// The mode by which documents of a key were folded.
    pub mode: String,
    /// Whether rows without a document were looked for.
    pub exact: bool,
    /// Documents read from the sources.
    pub read: u64,
    /// Those that a load would reject; they were not compared.
    pub rejected: u64,
    /// Keys that the other documents should leave in the table, without those that are deleted again.
    pub keys: u64,
    /// Keys whose row is equal.
    pub equal: u64,
    /// Keys without a row.
    pub missing: u64,
    /// Rows that are not equal to the document of their key.
    pub different: u64,
    /// Surplus rows; `null` when they were not looked for.
    pub extra: Option<u64>,
    /// How long it took.
    pub seconds: f64,
    /// The first differences, in key order.
    pub findings: Vec<Finding>,
    /// Warnings that are not differences.
    pub warnings: Vec<String>,
}

impl Verification {
    /// Differences in all.
    pub fn differences(&self) -> u64 {
        self.missing + self.different + self.extra.unwrap_or(0)
    }
}

/// A difference at a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub difference: Difference,
    /// The key's values as text, `null` for null, in the order of the table's key if it has one.
    pub key: Vec<Option<String>>,
    /// Source of the document that the table should hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Line on which it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Reads the sources, then the table, and reports where they differ. The observer gets the warnings before the table is read:
/// to read it may be what they warn of.
///
/// # Errors
/// A source that cannot be read or is damaged, a table that does not exist or has no such key, a directory without
/// space; errors of the server.
pub async fn verify(
    request: &VerifyRequest,
    db: &ConnInfo,
    tally: Arc<Tally>,
    observer: &dyn Observer,
) -> Result<Verification, Error> {
    request.check()?;
    let started = Instant::now();
    let mut feed = Feed::open(&request.load, Arc::clone(&tally))?;
    let connection = millstream_pg::connect(db, &session()).await?;
    let Table { reading, is_view, unseen, warnings } = table(&connection, &request.load).await?;
    observer.warn(warnings.iter().cloned());
    let (schema, oid) = (request.load.schema.clone(), Some(reading.table_oid));
    let typed = collection::decide_version_type(&connection.client, &schema, &request.load, oid, &mut feed).await?;
    connection.close().await;
    let (counts, folding) = sort(request, typed.mode, &reading, feed, &tally).await?;
    let found = Verification {
        collection: request.load.collection.to_string(),
        mode: request.load.mode.to_string(),
        exact: request.exact,
        read: counts.read,
        rejected: counts.rejected,
        extra: request.exact.then_some(0),
        warnings,
        ..Verification::default()
    };
    // A new connection: sorting may have taken longer than an idle connection is kept open.
    let session = if is_view { session() } else { session().without_views_past_policies() };
    let connection = millstream_pg::connect(db, &session).await?;
    let stored = Stored::open(&connection.client, &schema, &reading).await?;
    let mut found = comparison::compare(folding, stored, reading.key.types(), request, found).await?;
    if let Some(warning) = unseen.filter(|_| found.different > 0) {
        observer.warn([warning.clone()]);
        found.warnings.push(warning);
    }
    Ok(Verification { seconds: started.elapsed().as_secs_f64(), ..found })
}

/// The table to verify.
struct Table {
    /// How to read it.
    reading: TableReading,
    is_view: bool,
    /// Why documents may only seem to be different: what is recorded of the table cannot be seen.
    unseen: Option<String>,
    /// What deserves a warning.
    warnings: Vec<String>,
}

/// The session is read-only, whatever the role may do.
fn session() -> SessionSettings {
    SessionSettings::named("millstream verify")
        .with("default_transaction_read_only", "on")
        .with("work_mem", &format!("{SORT_MEMORY_MIB}MB"))
}

/// Looks at the table.
async fn table(connection: &Connection, load: &LoadRequest) -> Result<Table, Error> {
    let name = &load.collection;
    let found = catalog::table(&connection.client, &name.schema, &name.table).await?;
    let table = found.ok_or_else(|| Error::Unverifiable {
        collection: name.clone(),
        problem: "there is no such table".into(),
        hint: "see `millstream collections`; a table outside of the schema public is SCHEMA.NAME".to_owned(),
    })?;
    let mut warnings = Vec::new();
    let schema = load.schema.clone();
    if segments::seen(&connection.client, &schema).await? == Seen::Hidden {
        warnings.push(format!(
            "documents that wait in segments are not looked at: role {} may not read {schema}.segment",
            connection.server.role
        ));
    }
    let is_view = table.kind == 'v';
    if is_view && let Some(owner) = foreign_owner(&connection.client, &schema, table.oid).await? {
        return Err(Error::Unverifiable {
            collection: name.clone(),
            problem: format!("it is a view of role {owner}, whose code would run with your rights"),
            hint: format!(
                "connect as {owner}; or, if you trust {owner} with them: --trust-owner {}",
                shell_word(&owner)
            ),
        });
    }
    warnings.extend(foreign_code(&connection.client, &schema, table.oid, Access::Read).await?);
    if table.row_security.applies {
        let role = &connection.server.role;
        warnings.push(format!("row-level security may hide rows from role {role}, which are then missing"));
    }
    let (known, unseen) = match known_collection(&connection.client, &schema, table.oid).await {
        Err(StoreError::Postgres(error)) if error.sqlstate() == Some("42501") => {
            (None, Some(unseen(&connection.server.role, &schema)))
        }
        known => (known?, None),
    };
    let mut key = load.key.clone();
    let Some(known) = known else {
        return Ok(Table { reading: TableReading::of(name, &table, &key)?, is_view, unseen, warnings });
    };
    for column in key.iter_mut().filter(|column| column.key_type.is_none()) {
        let same = known.key.columns.iter().find(|c| c.name == column.column && c.key_type.is_spelled());
        column.key_type = same.map(|c| c.key_type);
    }
    let reading = TableReading::of(name, &table, &key)?.of_collection(&known);
    Ok(Table { reading, is_view, unseen, warnings })
}

/// What differences may be if a role cannot see what the collection stores of its documents.
fn unseen(role: &str, schema: &Schema) -> String {
    format!(
        "role {role} may not read {schema}.collection: if the documents were loaded with --doc without-key, their keys are \
         not put back, and they only seem to be different"
    )
}

/// Reads all sources into sorted runs. The counts are of documents read and rejected.
async fn sort(
    request: &VerifyRequest,
    mode: Mode,
    reading: &TableReading,
    mut feed: Feed,
    tally: &Tally,
) -> Result<(Counters, Folding), Error> {
    let runs_error = |source| Error::Runs { directory: request.directory.clone(), source };
    let limits = DecodeLimits { document_bytes_max: request.load.document_bytes_max };
    let mut decoder = Decoder::wanting(&reading.key, mode.wanted(), limits);
    // The directory may not be needed before the memory is full, long after the user has gone.
    tempfile::tempfile_in(&request.directory).map_err(runs_error)?;
    let mut sorter = Sorter::new(&request.directory, request.memory_bytes);
    let mut counts = Counters::default();
    let (mut key, mut version) = (Vec::new(), Vec::new());
    while let Some(chunk) = feed.next().await? {
        require_whole(&chunk, &request.load)?;
        let mut counters = Counters { read: chunk.frames.len() as u64, ..Counters::default() };
        for (number, frame) in chunk.frames.iter().enumerate() {
            counters.bytes_read += chunk.source_bytes(number);
            key.clear();
            version.clear();
            let document = chunk.document(frame);
            let readable = chunk.readable(frame).ok();
            let decoded = readable.and_then(|document| decoder.decode_versioned(document, &mut key, &mut version).ok());
            let Some(tombstone) = decoded else {
                counters.rejected += 1;
                continue;
            };
            let place = Origin { source: chunk.source, line: frame.line };
            let head = head(&version, tombstone, place);
            if !sorter.has_room(key.len() + head.len() + version.len() + document.len()) {
                sorter = blocking(move || sorter.spill().map(|()| sorter)).await?.map_err(runs_error)?;
            }
            sorter.push(&key, &[&head, &version, document]).map_err(runs_error)?;
        }
        tally.decoded(chunk.bytes.len() as u64, counters.bytes_read);
        tally.committed(counters);
        counts += counters;
    }
    let folding = blocking(move || Folding::new(sorter.finish()?, mode)).await?.map_err(runs_error)?;
    Ok((counts, folding))
}

/// Runs work that waits for the disk on a thread where it blocks nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::BrokenOff("the thread that writes the sorted runs has gone"))
}

/// Refuses a damaged source: what follows the damage was not read and cannot be compared.
fn require_whole(chunk: &Chunk, load: &LoadRequest) -> Result<(), Error> {
    Error::of_damage(chunk, &load.sources).map_or(Ok(()), Err)
}

fn source_name(load: &LoadRequest, index: u32) -> String {
    load.sources.get(index as usize).cloned().unwrap_or_default()
}
