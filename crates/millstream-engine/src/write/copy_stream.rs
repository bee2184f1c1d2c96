//! PostgreSQL's binary COPY format, streamed from a batch.

use super::{Session, deleting};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::limits::COPY_MESSAGE_BYTES;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use millstream_model::key_bytes::put_copy_fields;
use tokio_postgres::CopyInSink;

/// Signature, flags and extension length (PostgreSQL manual, COPY, "Binary Format").
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Version byte in front of the JSON text of a binary jsonb value (`jsonb_recv`).
pub(super) const JSONB_VERSION: u8 = 1;

/// Columns behind the document where documents delete, see [`deleting::STAGE_COLUMNS`].
const MARKS: usize = 3;
/// Where a COPY goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Destination {
    /// The collection's table.
    Table,
    /// The connection's staging table.
    Stage,
}

/// Sends the winners of the groups through a COPY statement and returns the rows it took, and what came
/// of the statements that follow it, which are sent without waiting for it to end.
pub(super) async fn copy_groups<T>(
    session: Session<'_>,
    to: Destination,
    batch: &Batch,
    groups: &[Group],
    then: impl Future<Output = Result<T, Error>>,
) -> Result<(u64, T), Error> {
    let statement = match to {
        Destination::Table => &session.prepared.copy_table,
        Destination::Stage => &session.prepared.copy_stage,
    };
    let mut sink = Box::pin(session.first(session.client.copy_in(statement)).await?);
    // The server may refuse in the middle; why, only the end of the COPY tells.
    let marked = matches!(to, Destination::Stage) && session.target.deletes();
    let sent = send(&mut sink, session, marked, batch, groups).await;
    let finish = async { sink.as_mut().finish().await.map_err(Error::from) };
    if let Err(error) = sent {
        finish.await?;
        return Err(error);
    }
    tokio::try_join!(biased; finish, then)
}

async fn send(
    sink: &mut std::pin::Pin<Box<CopyInSink<Bytes>>>,
    session: Session<'_>,
    marked: bool,
    batch: &Batch,
    groups: &[Group],
) -> Result<(), Error> {
    let columns = session.target.key_types.len() + 1 + if marked { MARKS } else { 0 };
    let columns = i16::try_from(columns).expect("keys have few columns");
    let mut buffer = BytesMut::with_capacity(2 * COPY_MESSAGE_BYTES);
    buffer.put_slice(HEADER);
    for group in groups {
        let (key, folded) = batch.winner(group, &session.target.mode);
        let document = &folded.document;
        buffer.put_i16(columns);
        put_copy_fields(&session.target.key_types, key, &mut buffer);
        buffer.put_i32(i32::try_from(document.len() + 1).expect("a document is below 2 GiB"));
        buffer.put_u8(JSONB_VERSION);
        buffer.put_slice(document);
        if marked {
            buffer.put_i32(2);
            buffer.put_i16(deleting::staged(folded.effect));
            for bytes in [key, folded.version] {
                buffer.put_i32(i32::try_from(bytes.len()).expect("keys and versions are short"));
                buffer.put_slice(bytes);
            }
        }
        if buffer.len() >= COPY_MESSAGE_BYTES {
            sink.feed(buffer.split().freeze()).await?;
            buffer.reserve(2 * COPY_MESSAGE_BYTES);
        }
    }
    buffer.put_i16(-1);
    sink.feed(buffer.freeze()).await?;
    Ok(())
}
