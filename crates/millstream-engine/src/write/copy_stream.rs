//! Streams a batch through COPY.

use super::Session;
use super::names::{Names, STAGED};
use super::statement::Sql;
use crate::batch::{Batch, Group};
use crate::collection::{compression, key_columns};
use crate::error::Error;
use crate::limits::COPY_MESSAGE_BYTES;
use crate::merge::Effect;
use crate::plan::LoadPlan;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use millstream_model::key_bytes::put_copy_fields;
use millstream_pg::copy;
use tokio_postgres::{CopyInSink, Statement};

/// The COPY into the collection's table, and into the connection's staging table.
const INTO_TABLE: &str = "copy";
const INTO_STAGE: &str = "copy staged";

/// How many columns are behind the document if documents delete.
const MARKS: usize = 3;
/// Their definitions, each after a comma. Their names must differ from those of the collection's columns.
const MARK_COLUMNS: &str =
    ", millstream_effect smallint not null, millstream_id bytea not null, millstream_version bytea not null";
/// Their names, each after a comma.
const MARK_NAMES: &str = ", millstream_effect, millstream_id, millstream_version";
/// Columns behind those for documents that are not folded: place and turn.
const PLACES: usize = 2;

/// The definitions and the names of a staging table's columns behind the document, each after a comma.
pub(super) fn marks(names: &Names<'_>) -> (&'static str, &'static str) {
    if names.plan.deletes() { (MARK_COLUMNS, MARK_NAMES) } else { ("", "") }
}

/// The definition of a staging table's column for documents. Long ones are compressed as those of the collection's table,
/// which takes them as they are. With the default, which costs several times as much, they would stay compressed by it.
pub(super) fn document(plan: &LoadPlan) -> String {
    format!("doc jsonb{} not null", compression(plan.traits.lz4))
}

/// The staging table, and what fills it and the collection's table.
pub(super) fn sql(names: &Names<'_>) -> Sql {
    let (Names { plan, table, key, .. }, stage, (mark_columns, mark_names)) = (names, STAGED.table, marks(names));
    let (columns, document) = (key_columns(&plan.key).join(", "), document(plan));
    Sql {
        create: format!(
            "create temporary table millstream_stage ({columns}, {document}{mark_columns}) on commit delete rows"
        ),
        statements: vec![
            (INTO_TABLE, format!("copy {table} ({key}, doc) from stdin (format binary)")),
            (INTO_STAGE, format!("copy {stage} ({key}, doc{mark_names}) from stdin (format binary)")),
        ],
    }
}

/// The number of an effect in the staging table.
fn staged(effect: Effect) -> i16 {
    match effect {
        Effect::Merge => 0,
        Effect::Reset => 1,
        Effect::Delete => 2,
    }
}

/// Where a COPY goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination<'a> {
    /// The collection's table.
    Table,
    /// The connection's staging table.
    Stage,
    /// The staging table for writing row by row: its COPY statement, and how many rows of its key precede each group.
    Replay(&'a Statement, &'a [i32]),
    /// The table that tries documents, with the same.
    Judge(&'a Statement, &'a [i32]),
}

/// Sends the winners of the groups through a COPY statement. Returns the number of rows that it took and the result of
/// `then`, the statements that follow. Those are sent without waiting for the end of the COPY.
pub(super) async fn copy_groups<T>(
    session: Session<'_>,
    to: Destination<'_>,
    batch: &Batch,
    groups: &[Group],
    then: impl Future<Output = Result<T, Error>>,
) -> Result<(u64, T), Error> {
    let statement = match to {
        Destination::Table => session.prepared.statement(INTO_TABLE),
        Destination::Stage => session.prepared.statement(INTO_STAGE),
        Destination::Replay(statement, _) | Destination::Judge(statement, _) => statement,
    };
    let mut sink = Box::pin(session.first(session.client.copy_in(statement)).await?);
    // The server may refuse in the middle. Only the end of the COPY reports why.
    let sent = send(&mut sink, session, to, batch, groups).await;
    let finish = async { sink.as_mut().finish().await.map_err(Error::from) };
    if let Err(error) = sent {
        finish.await?;
        return Err(error);
    }
    tokio::try_join!(biased; finish, then)
}

/// The same into the staging table, which takes every row. Returns the result of `then`.
pub(super) async fn stage_groups<T>(
    session: Session<'_>,
    batch: &Batch,
    groups: &[Group],
    then: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let (rows, done) = copy_groups(session, Destination::Stage, batch, groups, then).await?;
    assert_eq!(rows, groups.len() as u64, "the staging table takes every row");
    Ok(done)
}

async fn send(
    sink: &mut std::pin::Pin<Box<CopyInSink<Bytes>>>,
    session: Session<'_>,
    to: Destination<'_>,
    batch: &Batch,
    groups: &[Group],
) -> Result<(), Error> {
    let marked = matches!(to, Destination::Stage | Destination::Replay(..)) && session.plan.deletes();
    let turns = match to {
        Destination::Table | Destination::Stage => None,
        Destination::Replay(_, turns) | Destination::Judge(_, turns) => Some(turns),
    };
    let columns =
        session.plan.key_types.len() + 1 + if marked { MARKS } else { 0 } + if turns.is_some() { PLACES } else { 0 };
    let mut buffer = BytesMut::with_capacity(2 * COPY_MESSAGE_BYTES);
    buffer.put_slice(copy::HEADER);
    for (place, (key, folded)) in (0..).zip(session.winners(batch, groups)) {
        let document = &folded.document;
        copy::begin_row(&mut buffer, columns);
        put_copy_fields(&session.plan.key_types, key, &mut buffer);
        copy::begin_jsonb(&mut buffer, document.len());
        // Send a large document in pieces, so that neither we nor the driver hold another copy of all of it.
        for piece in document.chunks(COPY_MESSAGE_BYTES) {
            buffer.put_slice(piece);
            if buffer.len() >= COPY_MESSAGE_BYTES {
                sink.feed(buffer.split().freeze()).await?;
                buffer.reserve(2 * COPY_MESSAGE_BYTES);
            }
        }
        if marked {
            copy::put_column(&mut buffer, &staged(folded.effect).to_be_bytes());
            for bytes in [key, folded.version] {
                copy::put_column(&mut buffer, bytes);
            }
        }
        if let Some(turns) = turns {
            for number in [i32::try_from(place + 1).expect("a batch has few documents"), turns[place]] {
                copy::put_column(&mut buffer, &number.to_be_bytes());
            }
        }
    }
    buffer.put_slice(&copy::END);
    sink.feed(buffer.freeze()).await?;
    Ok(())
}
