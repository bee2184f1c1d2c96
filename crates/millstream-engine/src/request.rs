//! What a load is asked to do.

use crate::durability::{DURABILITIES, Durability};
use crate::error::Error;
use crate::layout::{LAYOUTS, Layout, Wish};
use crate::limits::{
    ARRAYS_ROWS_MAX, BATCH_BYTES_MAX, BATCH_ROWS, BATCH_ROWS_MAX, LANE_AGE_MAX, LANES_MAX, MEMORY_BYTES,
    MEMORY_BYTES_MIN, MET_WORDS, REJECT_BYTES_TOTAL_MAX, REJECTS_MAX, SEGMENT_BYTES, STANDSTILL_AFTER, STOP_WAIT,
    VERIFY_MEMORY_BYTES,
};
use crate::merge::Mode;
use millstream_document::limits::{CHUNK_BYTES, CHUNK_BYTES_MAX, COLUMNS_INFERRED_MAX, TRANSFORMS_MAX};
use millstream_document::source::{Dialect, Location, Objects};
use millstream_document::transform::Transform;
use millstream_model::limits::DOCUMENT_BYTES_MAX;
use millstream_model::{CollectionName, DocumentForm, KeyRequest};
use millstream_store::limits::LOAD_LOCK_WAIT;
use millstream_store::{Schema, TypedColumn};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whether stored documents are compared with new ones before those are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkipUnchanged {
    /// While a sample of each batch shows that it pays.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: every document is written.
    Off,
}

/// The typed columns of its collection that a load asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AskedColumns {
    /// Those that the collection has; none if the load creates it.
    #[default]
    Any,
    /// These, and others that the collection has.
    Named(Vec<TypedColumn>),
    /// Those that the collection has. If it has none, one for each member that the schemas of the files describe, or that
    /// the first documents have.
    All,
}

/// That a load deletes the rows whose keys none of its documents has.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteMissing {
    /// Percent of the rows that were there when the load began. If more are missing, none is deleted.
    pub percent_max: f64,
    /// Directory of the sorted keys. They take about as much room as the keys of the documents, at most twice as much.
    pub directory: PathBuf,
    /// Memory for sorting them, in bytes.
    pub memory_bytes: usize,
}

impl DeleteMissing {
    /// A request with the default memory.
    pub fn new(percent_max: f64, directory: PathBuf) -> Self {
        Self { percent_max, directory, memory_bytes: VERIFY_MEMORY_BYTES }
    }
}

/// A load, as asked for on the command line or by a program.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The collection; created if missing.
    pub collection: CollectionName,
    /// Where documents have the key.
    pub key: Vec<KeyRequest>,
    /// Names of objects, and paths, in the order in which they are read. A path is spelled by
    /// [`spelling`](millstream_document::source::spelling) if it is not UTF-8; `-` is standard input.
    pub sources: Vec<String>,
    /// The objects among the sources, in the version that every run of the request reads.
    pub objects: Objects,
    /// Name of the one source that is not a file, such as standard input. If the same stream is given again under this
    /// name, the load resumes.
    pub source_name: Option<String>,
    /// A name of [`SOURCES`](millstream_document::source::SOURCES), or `auto`.
    pub format: String,
    /// What else changes how bytes become documents.
    pub dialect: Dialect,
    /// Stages that every document passes before it is decoded, in this order.
    pub transforms: Vec<Arc<dyn Transform>>,
    /// What a new document does to a stored one.
    pub mode: Mode,
    /// Age after which the versions of deleted documents are forgotten.
    pub forget_deletes: Option<Duration>,
    /// Whether rows are deleted whose keys no document has, once all sources were read.
    pub delete_missing: Option<DeleteMissing>,
    /// What a committed batch survives.
    pub durability: &'static Durability,
    /// Where documents go.
    pub layout: &'static Layout,
    /// Whether documents that equal the stored one are skipped.
    pub skip_unchanged: SkipUnchanged,
    /// SQL expressions that must not be false for a document; the table checks them from now on.
    pub checks: Vec<String>,
    /// Typed columns that the table must have.
    pub columns: AskedColumns,
    /// What the column `doc` holds of the documents. `None`: what it holds in the collection, or all of them in a new one.
    pub doc: Option<DocumentForm>,
    /// Whether an existing table may be used that no load has created.
    pub adopt: bool,
    /// Whether to resume an unfinished load of the same identity.
    pub resume: bool,
    /// Connections that write. `None`: chosen to suit the server.
    pub lanes: Option<u16>,
    /// Bytes of a source that are read at once. A lane's batch consists of its parts of whole chunks, so smaller chunks
    /// make smaller batches possible.
    pub chunk_bytes: usize,
    /// Documents that a lane commits at once. The chunk that reaches this number is the last of the batch.
    pub batch_rows: usize,
    /// Most keys of a batch that is sent together with the statement that writes it. The receipt is the same either
    /// way.
    pub arrays_rows_max: usize,
    /// Words of 8 bytes in which the lanes together remember the keys that they have met.
    pub met_words: usize,
    /// Bytes of documents that a lane commits at once.
    pub batch_bytes_max: usize,
    /// Documents after which a segment of the log layout is committed, if it does not reach `segment_bytes` first.
    pub segment_rows_max: usize,
    /// Bytes of documents after which it is committed; fewer for a stream, whose documents are held in memory until
    /// then.
    pub segment_bytes: usize,
    /// Bytes of source data in flight.
    pub memory_bytes: usize,
    /// Age at which a lane's connection is replaced.
    pub lane_age_max: Duration,
    /// How long nothing was committed when [`Event::Standstill`](crate::Event::Standstill) first says why.
    pub standstill_after: Duration,
    /// How long what is in flight may be committed after a stop. Then it is cancelled.
    pub stop_wait: Duration,
    /// How long the load waits for another run of it to end, before it is refused. Loads of one service wait one after the
    /// other.
    pub lock_wait: Duration,
    /// Longest document.
    pub document_bytes_max: usize,
    /// Rejected documents that stop the load.
    pub rejects_max: u64,
    /// Bytes of rejected documents that stop the load.
    pub reject_bytes_max: u64,
    /// Where our own tables are.
    pub schema: Schema,
    /// Whether a collection that the load creates is distributed over the workers of Citus, by the first column of its key.
    pub distribute: bool,
    /// The number of the shard that the collection's table is. Set by the load into a distributed table, for each of its
    /// shards.
    pub shard: Option<i64>,
}

impl LoadRequest {
    /// A request with defaults for everything else.
    pub fn new(collection: CollectionName, key: Vec<KeyRequest>, sources: Vec<String>) -> Self {
        Self {
            collection,
            key,
            sources,
            objects: Objects::default(),
            source_name: None,
            format: "auto".into(),
            dialect: Dialect::default(),
            transforms: Vec::new(),
            mode: Mode::default(),
            forget_deletes: None,
            delete_missing: None,
            durability: DURABILITIES[0],
            layout: LAYOUTS[0],
            skip_unchanged: SkipUnchanged::default(),
            checks: Vec::new(),
            columns: AskedColumns::default(),
            doc: None,
            adopt: false,
            resume: true,
            lanes: None,
            chunk_bytes: CHUNK_BYTES,
            batch_rows: BATCH_ROWS,
            arrays_rows_max: ARRAYS_ROWS_MAX,
            met_words: MET_WORDS,
            batch_bytes_max: BATCH_BYTES_MAX,
            segment_rows_max: usize::MAX,
            segment_bytes: SEGMENT_BYTES,
            memory_bytes: MEMORY_BYTES,
            lane_age_max: LANE_AGE_MAX,
            standstill_after: STANDSTILL_AFTER,
            stop_wait: STOP_WAIT,
            lock_wait: LOAD_LOCK_WAIT,
            document_bytes_max: DOCUMENT_BYTES_MAX,
            rejects_max: REJECTS_MAX,
            reject_bytes_max: REJECT_BYTES_TOTAL_MAX,
            schema: Schema::new("millstream"),
            distribute: false,
            shard: None,
        }
    }

    /// Checks numbers against their limits.
    ///
    /// # Errors
    /// [`Error::Refused`] names the option and its range.
    pub fn check(&self) -> Result<(), Error> {
        if self.sources.is_empty() {
            return refuse("there is nothing to load".into(), "name files, or - for standard input");
        }
        if self.sources.iter().filter(|s| *s == "-").count() > 1 {
            return refuse("standard input can be read only once".into(), "name - once");
        }
        if let Some(refusal) = self.dialect.problem(&self.format) {
            return Err(refusal.into());
        }
        self.check_options()
    }

    /// As [`LoadRequest::check`], for a load whose documents the program sends.
    pub(crate) fn check_stream(&self) -> Result<(), Error> {
        if let Some(source) = self.sources.first() {
            return refuse(format!("a stream reads no sources, and {source} is named"), "leave the sources empty");
        }
        if !["auto", "ndjson"].contains(&self.format.as_str()) {
            return refuse(format!("a stream takes NDJSON, not {}", self.format), "leave the format as it is");
        }
        if self.dialect != Dialect::default() {
            return refuse("a stream takes NDJSON as it is".into(), "leave the dialect as it is");
        }
        if !self.transforms.is_empty() {
            return refuse("a stream has no transforms".into(), "change the documents before you send them");
        }
        if self.delete_missing.is_some() {
            return refuse("a stream deletes no missing rows".into(), "load a file, or a pipe that has a name");
        }
        self.check_options()
    }

    /// Whether another run can resume the load: its sources are files or objects, or a stream that has a name.
    pub fn is_resumable(&self) -> bool {
        self.source_name.is_some() || self.is_repeatable()
    }

    /// Whether the sources can be read again from their start.
    pub fn is_repeatable(&self) -> bool {
        !self.sources.is_empty() && self.locations().all(|location| location.is_repeatable())
    }

    /// Where the sources lie, in their order.
    pub(crate) fn locations(&self) -> impl Iterator<Item = Location> {
        self.sources.iter().map(|name| Location::of(name, &self.objects))
    }

    /// Whether a run that was interrupted is followed by another, which reads the sources again.
    pub(crate) fn reads_again(&self) -> bool {
        !self.layout.keeps_batches && self.is_repeatable()
    }

    fn check_options(&self) -> Result<(), Error> {
        let wish = Wish {
            mode: &self.mode,
            checks: &self.checks,
            columns: self.columns != AskedColumns::Any,
            document_bytes_max: self.document_bytes_max,
            compares: self.skip_unchanged == SkipUnchanged::On,
            deletes_missing: self.delete_missing.is_some(),
        };
        if let Some(refusal) = (self.layout.refuses)(&wish) {
            return Err(refusal.into());
        }
        if let Some(wanted) = &self.delete_missing {
            self.check_missing(wanted)?;
        }
        if let AskedColumns::Named(columns) = &self.columns {
            require_distinct(columns, &self.key)?;
        }
        if let Some((path, key)) = self.mode.changed_key(&self.key) {
            return refuse(
                format!(
                    "--mode {} would change the key: {path} is, holds or lies within the key's path {key}",
                    self.mode
                ),
                &format!("leave {path} out of --mode {}, or choose another --key", self.mode.name()),
            );
        }
        if self.skip_unchanged == SkipUnchanged::On && !self.mode.replaces() {
            return refuse(
                format!("--skip-unchanged on does not go with --mode {}", self.mode),
                "leave it out: it is for documents that take the place of stored ones",
            );
        }
        if self.forget_deletes.is_some() && self.mode.version().is_none() {
            return refuse(
                format!("--forget-deletes does not go with --mode {}", self.mode),
                "leave it out: only newest remembers what was deleted",
            );
        }
        let into = &self.collection.schema;
        if into == self.schema.name() || into.starts_with("pg_") || into == "information_schema" {
            let whose = if into == self.schema.name() { "Millstream's own tables" } else { "PostgreSQL itself" };
            return refuse(format!("schema {into} is for {whose}"), "name another schema with --into SCHEMA.NAME");
        }
        if !self.transforms.is_empty() && self.chunk_bytes > CHUNK_BYTES {
            return refuse(
                format!("with transforms, a chunk takes at most {CHUNK_BYTES} bytes"),
                "leave it at the default",
            );
        }
        if self.transforms.len() > TRANSFORMS_MAX {
            return refuse(
                format!("{} enrichments are more than {TRANSFORMS_MAX}", self.transforms.len()),
                "load in two steps",
            );
        }
        if self.lanes.is_some_and(|n| n == 0 || n > LANES_MAX) {
            return refuse(format!("--lanes takes 1 to {LANES_MAX}"), "leave it out to let the server's size decide");
        }
        if self.chunk_bytes == 0 || self.chunk_bytes > CHUNK_BYTES_MAX {
            return refuse(
                format!("a chunk takes 1 to {CHUNK_BYTES_MAX} bytes, not {}", self.chunk_bytes),
                "leave it at the default",
            );
        }
        if self.batch_rows == 0 || self.batch_rows > BATCH_ROWS_MAX {
            return refuse(
                format!("--batch-rows takes 1 to {BATCH_ROWS_MAX}"),
                "leave it out for the measured default",
            );
        }
        if self.memory_bytes < MEMORY_BYTES_MIN || u32::try_from(self.memory_bytes).is_err() {
            return refuse(
                format!("--memory takes {} MiB to less than 4 GiB", MEMORY_BYTES_MIN >> 20),
                "leave it out for the default of 128 MiB",
            );
        }
        Ok(())
    }
}

impl LoadRequest {
    /// Refuses to delete missing rows where the documents do not say which rows should be there.
    fn check_missing(&self, wanted: &DeleteMissing) -> Result<(), Error> {
        if !(0.0..=100.0).contains(&wanted.percent_max) {
            return refuse("--delete-missing-max takes 0 to 100 percent".into(), "leave it out for the default of 10");
        }
        if self.mode.version().is_some() {
            return refuse(
                format!("--delete-missing does not go with --mode {}", self.mode.name()),
                "leave out one of them: a document that is older than the stored one does not say what should be there now",
            );
        }
        if self.mode.tombstone().is_some() {
            return refuse(
                "--delete-missing does not go with --delete-when".into(),
                "leave out one of them: the files either say what was deleted, or have everything that should be there",
            );
        }
        if self.format == "rejects" {
            return refuse(
                "--delete-missing does not go with --format rejects".into(),
                "leave out one of them: rejects are a few of the documents that should be there. Load the mended ones, and then \
                 the whole dump",
            );
        }
        if !self.is_resumable() {
            return refuse(
                "--delete-missing takes files, or a stream that has a name".into(),
                "name the stream with --source-name, so that a load that stopped can be resumed, or write it to a file",
            );
        }
        Ok(())
    }
}

/// Requires that columns that a request names can be those of one table.
///
/// # Errors
/// [`Error::Refused`] names the column.
fn require_distinct(columns: &[TypedColumn], key: &[KeyRequest]) -> Result<(), Error> {
    for (n, column) in columns.iter().enumerate() {
        let name = &column.name;
        let problem = if key.iter().any(|key| key.column == *name) {
            format!("--column {column}: the key has a column of this name")
        } else if columns[..n].iter().any(|other| other.name == *name) {
            format!("two columns are named \"{name}\"")
        } else {
            continue;
        };
        return Err(Error::refused(problem, "give it another name: --column OTHER_NAME:TYPE=PATH"));
    }
    if columns.len() > COLUMNS_INFERRED_MAX {
        let problem = format!("{} columns are more than {COLUMNS_INFERRED_MAX}", columns.len());
        return Err(Error::refused(problem, "leave some out: the document has all values"));
    }
    Ok(())
}

fn refuse(problem: String, hint: &str) -> Result<(), Error> {
    Err(Error::refused(problem, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn chunk_bytes_must_be_within_limits() {
        let mut request = LoadRequest::new("a".parse().unwrap(), Vec::new(), vec!["file".into()]);
        for (chunk_bytes, fits) in [(0, false), (1, true), (CHUNK_BYTES_MAX, true), (CHUNK_BYTES_MAX + 1, false)] {
            request.chunk_bytes = chunk_bytes;
            assert_eq!(request.check().is_ok(), fits, "{chunk_bytes}");
        }
    }

    #[test]
    fn modes_that_would_change_the_key_are_refused() {
        for (mode, key, refused) in [
            ("sum:id", "id", true),
            ("sum:n,id", "part,id", true),
            ("sum:meta", "meta.id", true),
            ("sum:id.n", "id", true),
            ("sum:meta.n", "meta.id", false),
            ("sum:idle", "id", false),
            ("newest:id", "id", false),
            ("merge:deep", "id", false),
        ] {
            let key = KeyRequest::parse_list(key).unwrap();
            let mut request = LoadRequest::new("events".parse().unwrap(), key, vec!["-".into()]);
            request.mode = mode.parse().unwrap();
            let error = request.check().err();
            assert_eq!(error.is_some(), refused, "{mode}");
            assert!(error.is_none_or(|error| error.to_string().contains("would change the key")));
        }
    }

    #[test]
    fn column_names_are_distinct_and_not_those_of_the_key() {
        let key = KeyRequest::parse_list("id").unwrap();
        for (texts, fits) in
            [(&["a:text=a", "b:text=a"][..], true), (&["id:text=a"], false), (&["a:text=a", "a:text=b"], false)]
        {
            let mut request = LoadRequest::new("events".parse().unwrap(), key.clone(), vec!["-".into()]);
            request.columns = AskedColumns::Named(texts.iter().map(|text| text.parse().unwrap()).collect());
            assert_eq!(request.check().is_ok(), fits, "{texts:?}");
            request.layout = LAYOUTS[1];
            assert!(request.check().is_err(), "documents that wait in segments have no columns");
        }
    }

    #[test]
    fn missing_rows_are_deleted_only_if_the_sources_say_what_should_be_there() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (source, named, mode, percent_max, refusal) in [
            (file, false, "replace", 10.0, None),
            (file, false, "keep", 0.0, None),
            (file, false, "sum:n", 100.0, None),
            ("-", true, "merge", 10.0, None),
            ("-", false, "replace", 10.0, Some("a stream that has a name")),
            (file, false, "newest:v", 10.0, Some("--mode newest")),
            (file, false, "replace", 100.5, Some("0 to 100")),
            (file, false, "replace", -1.0, Some("0 to 100")),
            (file, false, "replace", f64::NAN, Some("0 to 100")),
        ] {
            let key = KeyRequest::parse_list("id").unwrap();
            let mut request = LoadRequest::new("events".parse().unwrap(), key, vec![source.into()]);
            request.source_name = named.then(|| "dump".to_owned());
            request.mode = mode.parse().unwrap();
            request.delete_missing = Some(DeleteMissing::new(percent_max, std::env::temp_dir()));
            let error = request.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), refusal.is_some(), "{source} {mode} {percent_max}: {error:?}");
            assert!(error.is_none_or(|error| error.contains(refusal.unwrap())), "{source} {mode}");
            request.layout = LAYOUTS[1];
            assert!(request.check().is_err(), "documents that wait in segments are not compared");
        }
        let key = KeyRequest::parse_list("id").unwrap();
        let mut request = LoadRequest::new("events".parse().unwrap(), key, vec![file.into()]);
        request.mode = Mode::default().with_tombstone(Some("op=d".parse().unwrap()));
        request.delete_missing = Some(DeleteMissing::new(10.0, std::env::temp_dir()));
        assert!(request.check().unwrap_err().to_string().contains("--delete-when"));
        (request.mode, request.format) = (Mode::default(), "rejects".into());
        assert!(request.check().unwrap_err().to_string().contains("--format rejects"));
    }

    #[test]
    fn reserved_schemas_are_refused() {
        let request = |into: &str| {
            let key = KeyRequest::parse_list("id").unwrap();
            LoadRequest::new(into.parse().unwrap(), key, vec!["file".into()])
        };
        assert!(request("events").check().is_ok() && request("staging.events").check().is_ok());
        for into in ["millstream.events", "pg_temp.events", "pg_catalog.events", "information_schema.events"] {
            let error = request(into).check().expect_err(into);
            assert!(error.to_string().contains("is for") && error.hint().is_some(), "{into}: {error}");
        }
    }
}
