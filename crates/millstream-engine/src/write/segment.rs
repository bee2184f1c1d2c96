//! A lane of the log layout: one connection that appends documents to segments, each with one table, one COPY and one
//! commit.

use super::ownership::{LaneReport, LaneSetup, look_at_table, own_wal_bytes, take_over};
use super::segment_plan::SegmentPlan;
use crate::batch::Part;
use crate::error::Error;
use crate::limits::{COPY_MESSAGE_BYTES, SEGMENT_FLUSH_AFTER, SEGMENT_REJECTS_MAX};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use millstream_failpoint as failpoint;
use millstream_model::key_bytes::put_copy_fields;
use millstream_model::{Counters, KeyType, Position};
use millstream_pg::copy;
use millstream_pg::{Connection, ErrorKind, Failures};
use millstream_store::limits::REJECT_ROWS;
use millstream_store::{Advance, Error as StoreError, RejectedDocument, insert_rejects, lane, segments};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::{CopyInSink, Statement};

/// The name in the receipt.
const WRITER: &str = "segment";

/// A lane at work.
pub(crate) struct Appender {
    setup: LaneSetup,
    connection: Connection,
    advance: Statement,
    reject: Statement,
    epoch: i32,
    /// Segments that are committed according to the lane's row.
    committed: i64,
    report: LaneReport,
    reconnected: bool,
}

/// Begins a segment's transaction. It is sent only when there is something to send, so that a lane whose keys are rare
/// does not keep a transaction open.
const BEGIN: &str = include_str!("flushing.sql");

/// A segment that is being filled.
#[derive(Default)]
struct Segment {
    /// Number of its table and the stream into it, made for its first document.
    stream: Option<(i64, Pin<Box<CopyInSink<Bytes>>>)>,
    buffer: BytesMut,
    counters: Counters,
    rejects: Vec<RejectedDocument>,
    held_bytes: usize,
    /// It holds all of the lane's documents up to this position; `prefix_hash` is the hash of the sources up to there.
    mark: Position,
    prefix_hash: u128,
}

impl Appender {
    /// Connects and takes over the lane's row.
    pub(crate) async fn open(setup: LaneSetup) -> Result<Self, Error> {
        let (connection, epoch, committed) = take_over(&setup, false).await?;
        let (advance, reject) = prepare(&setup, &connection).await?;
        let (report, reconnected) = (LaneReport::default(), false);
        Ok(Self { setup, connection, advance, reject, epoch, committed, report, reconnected })
    }

    /// Commits segments until the queue ends. Always returns the report. If documents are held in memory, the error is
    /// the first that retrying does not fix. If they are not, it is the first of all, because another run reads them
    /// again. Everything before it is committed.
    pub(crate) async fn run(mut self, queue: mpsc::Receiver<Part>) -> (LaneReport, Result<(), Error>) {
        let ended = self.work(queue).await;
        if ended.is_ok() && !self.reconnected {
            self.report.wal_bytes = own_wal_bytes(&self.connection).await;
        }
        (self.report, ended)
    }

    async fn work(&mut self, mut queue: mpsc::Receiver<Part>) -> Result<(), Error> {
        while let Some(first) = queue.recv().await {
            let (mut parts, mut failures) = (vec![first], Failures::default());
            let counters = loop {
                let error = match self.segment(&mut parts, &mut queue).await {
                    Ok(counters) => break counters,
                    Err(error) => error,
                };
                if error.kind() == ErrorKind::Fenced && self.connection.client.batch_execute("rollback").await.is_ok() {
                    look_at_table(&self.connection.client, &self.setup).await?;
                }
                if !self.plan().holds() {
                    return Err(error);
                }
                self.report.pause(&self.setup, &mut failures, error).await?;
                if self.recover(&mut failures).await? {
                    break counted(&parts);
                }
            };
            failpoint::hit("segment-committed").await?;
            if counters.appended > 0 {
                *self.report.writers.entry(WRITER.to_owned()).or_default() += 1;
            }
            self.setup.tally.committed(counters);
            for part in parts {
                if let Some(hold) = part.hold.as_ref().filter(|_| part.documents() > 0) {
                    hold.part_committed(part.rejects.len() as u64 + part.refused.load(Relaxed));
                }
            }
        }
        Ok(())
    }

    /// Fills and commits one segment, first with the given parts, then with those of the queue. If documents are held,
    /// `parts` holds all of them afterwards; otherwise it is empty.
    async fn segment(&mut self, parts: &mut Vec<Part>, queue: &mut mpsc::Receiver<Part>) -> Result<Counters, Error> {
        let mut segment = Segment::default();
        for part in parts.iter() {
            self.append(&mut segment, part).await?;
        }
        let holds = self.plan().holds();
        if !holds {
            parts.clear();
        }
        let deadline = Instant::now() + SEGMENT_FLUSH_AFTER;
        while !self.is_full(&segment) {
            let next = match holds {
                true => tokio::time::timeout_at(deadline, queue.recv()).await.unwrap_or(None),
                false => queue.recv().await,
            };
            let Some(part) = next else { break };
            // Hold the part before it is sent: if this try fails, the next one needs it.
            parts.push(part);
            self.append(&mut segment, parts.last().expect("it is there")).await?;
            if !holds {
                parts.clear();
            }
        }
        self.commit(segment).await
    }

    fn plan(&self) -> &SegmentPlan {
        self.setup.segments.as_deref().expect("an appender is opened with a plan of its segments")
    }

    fn is_full(&self, segment: &Segment) -> bool {
        let plan = self.plan();
        segment.counters.read >= plan.rows_max as u64
            || segment.counters.bytes_read >= plan.bytes_max as u64
            || segment.rejects.len() >= SEGMENT_REJECTS_MAX
            || plan.held_bytes_max.is_some_and(|most| segment.held_bytes >= most)
    }

    /// Sends the documents of a part and keeps its rejects.
    async fn append(&self, segment: &mut Segment, part: &Part) -> Result<(), Error> {
        segment.mark = part.mark();
        segment.prefix_hash = part.prefix_hash;
        segment.held_bytes += part.budget_bytes();
        segment.counters += counted(std::slice::from_ref(part));
        segment.rejects.extend(part.rejects.iter().cloned());
        if part.rows.is_empty() {
            return Ok(());
        }
        if segment.stream.is_none() {
            segment.stream = Some(self.create().await?);
            segment.buffer.put_slice(copy::HEADER);
        }
        let Segment { stream: Some((_, stream)), buffer, .. } = segment else { return Ok(()) };
        match send(stream, buffer, &self.plan().key_types, part).await {
            // The server has refused the COPY. Only its end reports why.
            Err(error) => Err(stream.as_mut().finish().await.err().map_or(error, Error::from)),
            Ok(()) => Ok(()),
        }
    }

    /// Creates the table of a segment and opens the stream into it.
    async fn create(&self) -> Result<(i64, Pin<Box<CopyInSink<Bytes>>>), Error> {
        let (client, plan) = (&self.connection.client, self.plan());
        let begin = plan.schema.sql(segments::BEGIN);
        client.batch_execute(BEGIN).await?;
        let row = client.query_one(&begin, &[&plan.table_oid]).await?;
        let segment_id = row.get("segment_id");
        client.batch_execute(&plan.create(segment_id, row.get("readers"))).await?;
        let stream = client.copy_in(&plan.copy(segment_id)).await?;
        failpoint::hit("segment-opened").await?;
        Ok((segment_id, Box::pin(stream)))
    }

    /// Ends the stream, stores the segment's record, the rejects, the watermark and the counters, and commits.
    async fn commit(&mut self, mut segment: Segment) -> Result<Counters, Error> {
        let counters = segment.counters;
        assert_eq!(counters.read, counters.accounted(), "every document of a segment is in exactly one column");
        let client = &self.connection.client;
        if let Some((segment_id, mut stream)) = segment.stream.take() {
            segment.buffer.put_slice(&copy::END);
            // If this fails, the end of the COPY reports why.
            let _ = stream.feed(segment.buffer.split().freeze()).await;
            let rows = stream.as_mut().finish().await?;
            assert_eq!(rows, counters.appended, "the server has taken every row of the segment");
            failpoint::hit("segment-filled").await?;
            let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            let line = self.plan().schema.sql(segments::INSERT);
            let (rows, bytes) = (int(rows), int(counters.bytes_read));
            if client.execute(&line, &[&segment_id, &self.setup.load_id, &rows, &bytes]).await? == 0 {
                return Err(self.plan().dropped());
            }
        } else {
            client.batch_execute(BEGIN).await?;
        }
        let rejects: Vec<&RejectedDocument> = segment.rejects.iter().collect();
        for some in rejects.chunks(REJECT_ROWS) {
            insert_rejects(client, &self.reject, self.setup.load_id, some).await?;
        }
        let advance = Advance {
            load_id: self.setup.load_id,
            lane: self.setup.lane,
            epoch: self.epoch,
            source: segment.mark.source,
            offset: segment.mark.offset,
            prefix_hash: segment.prefix_hash,
            counters,
            reject_bytes: rejects.iter().map(|r| r.bytes.len() as u64).sum(),
            table: &self.setup.table,
        };
        failpoint::hit("segment-advancing").await?;
        let commit = async { client.batch_execute("commit").await.map_err(StoreError::from) };
        let sent = async { failpoint::hit("segment-commit-sent").await.map_err(StoreError::from) };
        tokio::try_join!(
            biased;
            advance.execute(client, &self.advance),
            commit,
            sent,
        )?;
        self.committed += 1;
        Ok(counters)
    }

    /// Reconnects, because a COPY may be open on the old connection. Returns whether the current segment was committed.
    async fn recover(&mut self, failures: &mut Failures) -> Result<bool, Error> {
        loop {
            match self.reconnect().await {
                Ok(committed) => {
                    let before = std::mem::replace(&mut self.committed, committed);
                    return match committed - before {
                        0 => Ok(false),
                        1 => Ok(true),
                        less if less < 0 => Err(Error::CommitsLost { lane: self.setup.lane, batches: -less }),
                        _ => Err(millstream_store::Error::Ledger(
                            "a lane's row counts segments that the lane did not send",
                        )
                        .into()),
                    };
                }
                Err(error) => self.report.pause(&self.setup, failures, error).await?,
            }
        }
    }

    async fn reconnect(&mut self) -> Result<i64, Error> {
        let (connection, epoch, committed) = take_over(&self.setup, true).await?;
        (self.advance, self.reject) = prepare(&self.setup, &connection).await?;
        (self.connection, self.epoch, self.reconnected) = (connection, epoch, true);
        Ok(committed)
    }
}

async fn prepare(setup: &LaneSetup, connection: &Connection) -> Result<(Statement, Statement), Error> {
    let sql = |template| setup.target.schema.sql(template);
    let (advance, reject) = (sql(lane::ADVANCE), sql(lane::INSERT_REJECTS));
    Ok(tokio::try_join!(connection.client.prepare(&advance), connection.client.prepare(&reject))?)
}

/// Counts of parts: every document is appended or rejected.
fn counted(parts: &[Part]) -> Counters {
    let mut counters = Counters::default();
    for part in parts {
        counters.read += part.documents() as u64;
        counters.appended += part.rows.len() as u64;
        counters.rejected += part.rejects.len() as u64;
        counters.bytes_read += part.bytes_read;
    }
    counters
}

/// Sends the rows of a part in the order of their documents. A row that deletes has no document.
async fn send(
    stream: &mut Pin<Box<CopyInSink<Bytes>>>,
    buffer: &mut BytesMut,
    key_types: &[KeyType],
    part: &Part,
) -> Result<(), Error> {
    for row in &part.rows {
        copy::begin_row(buffer, key_types.len() + 1);
        put_copy_fields(key_types, part.key(row), buffer);
        if row.tombstone {
            copy::put_null(buffer);
        } else {
            let document = part.document(row);
            copy::begin_column(buffer, document.len());
            // Send a large document in pieces, so that neither we nor the driver hold another copy of all of it.
            for piece in document.chunks(COPY_MESSAGE_BYTES) {
                buffer.put_slice(piece);
                flush(stream, buffer).await?;
            }
        }
        flush(stream, buffer).await?;
    }
    Ok(())
}

async fn flush(stream: &mut Pin<Box<CopyInSink<Bytes>>>, buffer: &mut BytesMut) -> Result<(), Error> {
    if buffer.len() >= COPY_MESSAGE_BYTES {
        stream.feed(buffer.split().freeze()).await?;
        buffer.reserve(2 * COPY_MESSAGE_BYTES);
    }
    Ok(())
}
