//! What can go wrong with a load: every error, with its kind and what to do next.

use crate::stop::StopReason;
use millstream_document::chunk::Chunk;
use millstream_document::decode::InferenceError;
use millstream_document::source::SourceError;
use millstream_model::{CollectionName, NameError, Position, Refusal, shell_word};
use millstream_pg::{ErrorKind, Explained};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server, or the connection to it.
    #[error(transparent)]
    Postgres(#[from] millstream_pg::Error),
    /// Our tables do not allow it.
    #[error(transparent)]
    Store(millstream_store::Error),
    /// A source that cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A text that is not a collection name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A type cannot be inferred from the documents, or the columns do not make a key.
    #[error(transparent)]
    Key(#[from] InferenceError),
    /// The table does not fit this load.
    #[error("{collection} cannot be loaded into: {problem}")]
    Collection {
        /// The collection.
        collection: CollectionName,
        /// What does not fit.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// A table that cannot be compared with documents.
    #[error("{collection} cannot be verified: {problem}")]
    Unverifiable {
        /// The table.
        collection: CollectionName,
        /// What does not fit.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// Others do not release a collection's tables.
    #[error("{collection} could not be locked within {seconds} s: others use it")]
    InUse {
        /// The collection.
        collection: CollectionName,
        /// How long we waited.
        seconds: u64,
    },
    /// Sorted documents cannot be kept on disk.
    #[error("cannot keep sorted documents in {}", directory.display())]
    Runs {
        /// Where they are kept.
        directory: std::path::PathBuf,
        /// What is wrong there.
        source: std::io::Error,
    },
    /// A source whose rest cannot be read.
    #[error("{name} is damaged at line {line} (byte {offset}): {detail}")]
    Damaged {
        /// The source.
        name: String,
        /// On which line.
        line: u64,
        /// Where, in the uncompressed source.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// A request that contradicts itself or a limit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server distributes tables: a load into one of them goes to its shards.
    #[error("database {database} is that of a coordinator of Citus, into which only files are loaded")]
    Coordinator {
        /// The database.
        database: String,
    },
    /// Stopped before the load began.
    #[error("{0} before the load began")]
    Stopped(StopReason),
    /// A stream has ended. Closing it returns the reason.
    #[error("the stream has ended: {0}")]
    StreamEnded(&'static str),
    /// An unfinished load of some of the same sources differs from the one asked for.
    #[error("load {load_id} reads one of these sources into the same table {difference}, and is unfinished")]
    LoadChanged {
        /// The unfinished load's number.
        load_id: i64,
        /// How it differs, as the end of a clause.
        difference: String,
        /// Whether what it has added up would count again in the load asked for.
        adds_up: bool,
        /// The names of its transforms, if it differs in nothing else.
        transforms: Option<Vec<String>>,
    },
    /// The server lost batches that it had acknowledged.
    #[error("lane {lane} finds {batches} acknowledged batches gone: the server lost commits")]
    CommitsLost {
        /// The lane.
        lane: u16,
        /// How many.
        batches: i64,
    },
    /// A crash of the server has emptied the unlogged collection, or a TRUNCATE has emptied its table or a partition.
    #[error("{by}, {documents} documents of this load were in it")]
    Emptied {
        /// How many documents of the load were in the collection.
        documents: u64,
        /// What has emptied it.
        by: EmptiedBy,
    },
    /// The collection's table was renamed or replaced since the load began, or is gone.
    #[error("the table of {collection} was renamed, replaced or dropped while the load ran")]
    TableMoved {
        /// The collection.
        collection: CollectionName,
    },
    /// The table is not in the state in which the lane found it. The lane finds out what that means.
    #[error("the table of the collection changed while the load ran")]
    TableDiffers,
    /// What decides how documents are written changed since the load began.
    #[error("{what} changed on {collection} while documents were written")]
    TableChanged {
        /// The collection.
        collection: CollectionName,
        /// What changed.
        what: &'static str,
    },
    /// A partition was truncated, and what the load had added up in it cannot be added again alone.
    #[error("partition {partition} was truncated: what load {load_id} added up in it is gone")]
    PartitionEmptied {
        /// The load's number.
        load_id: i64,
        /// The partition.
        partition: String,
    },
    /// The table has another file, and rows that nobody has counted: perhaps it was truncated and filled again.
    #[error("the table of {collection} was rewritten or truncated while load {load_id} ran: documents may be missing")]
    PerhapsTruncated {
        /// The collection.
        collection: CollectionName,
        /// The load's number.
        load_id: i64,
    },
    /// A document cannot be stored, and none may be rejected.
    #[error("a document cannot be stored: {fault}")]
    Rejected {
        /// Where it begins.
        position: Position,
        /// On which line.
        line: u64,
        /// Why.
        fault: String,
    },
    /// A document does not fit a typed column of the table.
    #[error("a value does not fit the type of column \"{column}\"")]
    DoesNotFit {
        /// The column.
        column: String,
    },
    /// The server took rows without error and did not store them under their keys.
    #[error("{rows} rows were discarded, or stored under another key, by a trigger on the table")]
    RowsDropped {
        /// How many.
        rows: u64,
    },
    /// A part of the load ended without saying why, which is our bug.
    #[error("the load broke off: {0}")]
    BrokenOff(&'static str),
}

/// What empties a collection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmptiedBy {
    /// A crash, which empties unlogged tables.
    #[error("a crash of the server has emptied the collection")]
    Crash,
    /// A TRUNCATE of the table.
    #[error("a TRUNCATE has emptied the collection")]
    Truncate,
    /// A TRUNCATE of this partition.
    #[error("a TRUNCATE has emptied partition {0} of the collection")]
    TruncateOf(String),
}

impl EmptiedBy {
    /// The partition, if only that was emptied.
    pub(crate) fn partition(&self) -> Option<&str> {
        if let Self::TruncateOf(partition) = self { Some(partition) } else { None }
    }
}

/// SQLSTATEs that usually mean a wrong statement. Raised by a lane's prepared statements, they refuse data: a trigger
/// made two keys of a batch the same, or a cast in a trigger, generated column or index (to tsquery, jsonpath, ltree,
/// regtype ..) cannot read a text.
pub(crate) const REFUSALS: &[&str] = &["21000", "42601", "42602", "42704"];

impl Error {
    /// This run no longer owns the load.
    pub(crate) fn fenced(load_id: i64) -> Self {
        Self::Store(millstream_store::Error::Fenced { load_id })
    }

    /// Whether another run owns the load now, or nobody may resume it.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Store(millstream_store::Error::Fenced { .. }))
    }

    /// Whether the load is refused because another process runs it.
    pub fn runs_elsewhere(&self) -> bool {
        matches!(self, Self::Store(millstream_store::Error::LoadRunning { .. }))
    }

    /// The damage with which a chunk ends its source, if it does.
    pub(crate) fn of_damage(chunk: &Chunk, sources: &[String]) -> Option<Self> {
        let (frame, fault) = chunk.damage()?;
        Some(Self::Damaged {
            name: sources.get(chunk.source as usize).cloned().unwrap_or_default(),
            line: frame.line,
            offset: frame.offset,
            detail: fault.detail.to_string(),
        })
    }

    /// A request that contradicts itself, the server or a limit, and what to do.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }

    /// A document cannot be stored, and the load may reject none.
    pub(crate) fn rejected(document: &millstream_store::RejectedDocument) -> Self {
        let millstream_store::RejectedDocument { position, line, fault, .. } = document;
        Self::Rejected { position: *position, line: *line, fault: fault.to_string() }
    }

    /// Whether the server refused data while a batch was written, so that a retry row by row finds the documents.
    pub(crate) fn refuses_data(&self) -> bool {
        self.kind() == ErrorKind::DataRefused
            || matches!(self, Self::Postgres(e) if e.sqlstate().is_some_and(|code| REFUSALS.contains(&code)))
    }

    /// The CHECK constraint that was broken.
    pub(crate) fn broken_check(&self) -> Option<&str> {
        let Self::Postgres(error) = self else { return None };
        error.constraint().filter(|_| error.sqlstate() == Some("23514"))
    }

    /// The typed column that a document does not fit.
    pub(crate) fn unfit_column(&self) -> Option<&str> {
        if let Self::DoesNotFit { column } = self { Some(column) } else { None }
    }

    /// Whether the server knows no table of a name, or may have lost one that it was looking at: its functions that print
    /// definitions then report an internal error.
    pub(crate) fn is_unknown_table(&self) -> bool {
        matches!(self, Self::Postgres(e) if matches!(e.sqlstate(), Some("42P01" | "XX000")))
    }

    /// Whether a key existed already.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Postgres(e) if e.sqlstate() == Some("23505"))
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Postgres(e) => e.kind(),
            Self::RowsDropped { .. } | Self::DoesNotFit { .. } | Self::Rejected { .. } => ErrorKind::DataRefused,
            Self::Store(e) => e.kind(),
            Self::TableDiffers => ErrorKind::Fenced,
            Self::InUse { .. } => ErrorKind::Busy,
            Self::StreamEnded(_) => ErrorKind::Cancelled,
            Self::BrokenOff(_) => ErrorKind::Bug,
            Self::CommitsLost { .. } | Self::Emptied { .. } | Self::PerhapsTruncated { .. } => ErrorKind::ServerFault,
            _ => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Postgres(e) => e.hint(),
            Self::Store(e) => e.hint(),
            Self::Source(e) => Some(e.hint()),
            Self::Key(e) => e.hint(),
            Self::Coordinator { .. } => {
                Some("write the documents to files, or to standard input of `millstream load -`".into())
            }
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Collection { hint, .. } | Self::Unverifiable { hint, .. } => Some(hint.clone()),
            Self::InUse { .. } => {
                Some("end the transactions that have it open (see pg_stat_activity), or wait for them".into())
            }
            Self::Runs { .. } => Some(
                "it takes about as much room as the documents, at most twice; TMPDIR names another directory".into(),
            ),
            Self::Damaged { .. } => Some("mend the file: what follows the damage cannot be read".into()),
            Self::LoadChanged { load_id, adds_up, transforms, .. } => Some(format!(
                "finish it by its own command (see `millstream loads`{}), or start over: --resume off, or `millstream \
                 loads forget {load_id}`{}",
                match transforms {
                    Some(transforms) if transforms.is_empty() => "; it has no enrichments".to_owned(),
                    Some(transforms) => format!("; its enrichments: {}", transforms.join("; ")),
                    None => String::new(),
                },
                if *adds_up { "; what it has added of these sources is then added again" } else { "" }
            )),
            Self::CommitsLost { .. } => {
                Some("run the same command again: it resumes from what the server still has".into())
            }
            Self::TableMoved { collection } => Some(format!(
                "no document went into another table; name the table {collection} again and run the same command to \
                 resume, or add --adopt to start over in the table that has the name now"
            )),
            Self::TableDiffers | Self::TableChanged { .. } => {
                Some("run the same command again: it looks at the table anew, and resumes".into())
            }
            Self::PartitionEmptied { .. } => Some(
                "truncate the whole table and run the same command again: it starts over; --resume off adds all of its \
                 documents again, also those of the other partitions"
                    .into(),
            ),
            Self::PerhapsTruncated { collection, .. } => Some(format!(
                "after ALTER TABLE, run the same command again; after TRUNCATE and inserts, add --resume off: it loads \
                 everything again. millstream verify {} SOURCE.. tells which",
                shell_word(collection)
            )),
            Self::Emptied { by: EmptiedBy::TruncateOf(_), .. } => Some("load everything again from its start".into()),
            Self::Emptied { .. } => {
                Some("load everything again from its start; all that was in the collection is gone".into())
            }
            Self::StreamEnded(_) => {
                Some("close the stream to learn why; what was not committed can be sent again".into())
            }
            Self::Name(_)
            | Self::Stopped(_)
            | Self::Rejected { .. }
            | Self::DoesNotFit { .. }
            | Self::RowsDropped { .. }
            | Self::BrokenOff(_) => None,
        }
    }

    fn load_id(&self) -> Option<i64> {
        match self {
            Self::LoadChanged { load_id, .. }
            | Self::PartitionEmptied { load_id, .. }
            | Self::PerhapsTruncated { load_id, .. } => Some(*load_id),
            Self::Store(e) => e.load_id(),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

impl From<millstream_store::Error> for Error {
    /// Errors that both crates have become the engine's, so that callers look for only one.
    fn from(error: millstream_store::Error) -> Self {
        use millstream_store::Error as Store;
        match error {
            Store::Postgres(error) => Self::Postgres(error),
            Store::Refused(refusal) => Self::Refused(refusal),
            Store::Collection { collection, problem, hint } => Self::Collection { collection, problem, hint },
            other => Self::Store(other),
        }
    }
}

impl From<millstream_failpoint::Failed> for Error {
    fn from(failed: millstream_failpoint::Failed) -> Self {
        Self::Store(failed.into())
    }
}
