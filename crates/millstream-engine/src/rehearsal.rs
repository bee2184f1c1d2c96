//! The dry run of a load, which writes nothing: the key, the table, and what would be rejected.

use crate::batch::kept_bytes;
use crate::collection;
use crate::control::require_plain;
use crate::distributed::require_distributable;
use crate::error::Error;
use crate::feed::Feed;
use crate::limits::DRY_RUN_REJECTS;
use crate::observe::Tally;
use crate::request::LoadRequest;
use crate::unfit;
use millstream_document::chunk::Chunk;
use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_document::limits::TRANSFORM_OUTCOMES_MAX;
use millstream_document::members;
use millstream_document::transform;
use millstream_model::{DocumentForm, Fault, KeySpec, Position, Reason, TransformCounts};
use millstream_pg::{ConnInfo, SessionSettings};
use millstream_store::TypedColumn;
use serde::Serialize;
use std::sync::Arc;
use tokio_postgres::{Client, Statement};

/// What a load would do.
#[derive(Debug, Clone, Serialize)]
pub struct DryRun {
    /// The key.
    pub key: KeySpec,
    /// One line per key column: its type and why.
    pub reasons: Vec<String>,
    /// The type of the version that the mode compares, and why; `null` if it compares none.
    pub version: Option<String>,
    /// One line per typed column of the table: its type, where its value is, and why.
    pub columns: Vec<String>,
    /// The statement that would create the table; `null` if the table exists and fits.
    pub ddl: Option<String>,
    /// What the table stores of the documents.
    pub doc: DocumentForm,
    /// The checks asked for, as the server spells them.
    pub checks: Vec<String>,
    /// Nothing wrong, but worth a line.
    pub warnings: Vec<String>,
    /// Documents read.
    pub read: u64,
    /// Documents that would be rejected before they reach the server.
    pub rejected: u64,
    /// The first of them.
    pub first_rejects: Vec<DryReject>,
    /// What became of the documents in the transforms. Left out if there are none.
    #[serde(rename = "stages", skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<TransformCounts>,
}

/// A document that would be rejected.
#[derive(Debug, Clone, Serialize)]
pub struct DryReject {
    /// Where it begins.
    #[serde(flatten)]
    pub position: Position,
    /// Line on which it begins.
    pub line: u64,
    /// The reason's code.
    pub reason: &'static str,
    /// What a person needs to know to fix it.
    pub detail: String,
    /// Its bytes as text; those that are not UTF-8 are replaced.
    pub document: String,
}

/// Reads everything, checks the documents and the table, and changes nothing. The server tries each document for the typed
/// columns; constraints and triggers are not tried.
///
/// # Errors
/// As [`crate::load`], except for failures of writing.
pub async fn dry_run(request: &LoadRequest, db: &ConnInfo) -> Result<DryRun, Error> {
    request.check()?;
    let control = millstream_pg::connect(db, &SessionSettings::control()).await?;
    match require_plain(&control, request).await {
        Err(Error::Coordinator { .. }) => require_distributable(&control, request).await?,
        plain => plain?,
    }
    let mut warnings = request.durability.check(&control).await?;
    let mut feed = Feed::open(request, Arc::new(Tally::default()))?;
    let prospect = collection::foresee(&control, &request.schema, request, &mut feed).await?;
    warnings.extend(prospect.warnings);
    if !prospect.checks.is_empty() {
        let warning = "documents were not tried against --check: only the server can do that, during a load";
        warnings.push(warning.to_owned());
    }
    let trial = Trial::open(&control.client, prospect.columns, &mut warnings).await?;
    let limits = DecodeLimits { document_bytes_max: request.document_bytes_max };
    let mut decoder = Decoder::wanting(&prospect.key, prospect.mode.wanted(), limits);
    let mut dry = DryRun {
        key: prospect.key,
        reasons: prospect.reasons,
        columns: prospect.column_reasons,
        version: prospect.version,
        ddl: prospect.ddl,
        doc: prospect.doc,
        checks: prospect.checks,
        warnings,
        read: 0,
        rejected: 0,
        transforms: Vec::new(),
        first_rejects: Vec::new(),
    };
    let mut outcomes = vec![0; request.transforms.len() * TRANSFORM_OUTCOMES_MAX];
    let mut key = Vec::new();
    while let Some(chunk) = feed.next().await? {
        let (mut faults, mut good) = (Vec::new(), Vec::new());
        for (number, frame) in chunk.frames.iter().enumerate() {
            dry.read += 1;
            chunk.count_outcomes(number, &mut outcomes);
            key.clear();
            let readable = chunk.readable(frame).map_err(Fault::clone);
            match readable.and_then(|document| decoder.decode_versioned(document, &mut key, &mut Vec::new())) {
                Err(fault) => faults.push((number, fault)),
                // A document that deletes stores nothing.
                Ok(true) => {}
                Ok(false) => good.push(number),
            }
        }
        if let Some(trial) = &trial {
            trial.find(&control.client, &chunk, &good, &mut faults).await?;
        }
        faults.sort_by_key(|(number, _)| *number);
        dry.rejected += faults.len() as u64;
        for (number, fault) in faults {
            if dry.first_rejects.len() < DRY_RUN_REJECTS {
                let frame = &chunk.frames[number];
                let bytes = kept_bytes(chunk.source_document(number));
                dry.first_rejects.push(DryReject {
                    position: Position { source: chunk.source, offset: frame.offset },
                    line: frame.line,
                    reason: fault.reason.code(),
                    detail: fault.detail.into_owned(),
                    document: String::from_utf8_lossy(&bytes).into_owned(),
                });
            }
        }
    }
    dry.transforms = transform::counts(&request.transforms, &outcomes);
    Ok(dry)
}

/// The server's trial of documents for typed columns.
struct Trial {
    columns: Vec<TypedColumn>,
    statement: Statement,
}

impl Trial {
    /// Prepares the trial. `None` if there is nothing to try, or if this server or role does not allow it, with a warning.
    async fn open(
        client: &Client,
        columns: Vec<TypedColumn>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, Error> {
        if columns.is_empty() {
            return Ok(None);
        }
        let prepared = async {
            client.batch_execute(&unfit::function(&columns)).await?;
            client.prepare(include_str!("rehearsal_unfit.sql")).await
        };
        let prepared = prepared.await;
        match prepared {
            Ok(statement) => Ok(Some(Self { columns, statement })),
            Err(error) if client.is_closed() => Err(error.into()),
            Err(error) => {
                let error = Error::from(error);
                warnings.push(format!("documents were not tried against the typed columns: {error}"));
                Ok(None)
            }
        }
    }

    /// Adds the faults of those of a chunk's documents that do not fit a column. `numbers` are their frames.
    async fn find(
        &self,
        client: &Client,
        chunk: &Chunk,
        numbers: &[usize],
        faults: &mut Vec<(usize, Fault)>,
    ) -> Result<(), Error> {
        let documents: Vec<&str> =
            numbers.iter().map(|number| members::text(chunk.document(&chunk.frames[*number]))).collect();
        for row in client.query(&self.statement, &[&documents]).await? {
            let (place, name): (i64, String) = (row.get(0), row.get(1));
            let number = usize::try_from(place - 1).ok().and_then(|place| numbers.get(place));
            let column = self.columns.iter().find(|column| column.name == name);
            let (number, column) = number.zip(column).expect("the server names what it was given");
            faults.push((*number, Fault::new(Reason::ColumnType, unfit::detail(column))));
        }
        Ok(())
    }
}
