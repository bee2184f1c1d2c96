//! A lane of the log layout: one connection that appends documents to segments, each with one table, one COPY and one
//! commit.

use super::lanes::Lanes;
use super::ledger::{Entry, Found, LaneReport, LaneSetup, Ledger, OnConnection};
use super::portion::Portion;
use super::segment_plan::SegmentPlan;
use super::{OpenLane, Opening};
use crate::batch::Part;
use crate::error::Error;
use crate::limits::{COPY_MESSAGE_BYTES, SEGMENT_FLUSH_AFTER};
use crate::plan::LoadPlan;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use futures_util::future::BoxFuture;
use millstream_failpoint as failpoint;
use millstream_model::key_bytes::put_copy_fields;
use millstream_model::{Counters, Position};
use millstream_pg::{Failures, copy};
use millstream_store::{RejectedDocument, segments};
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::{Client, CopyInSink};

/// The name in the receipt.
const WRITER: &str = "segment";

/// A lane at work.
struct Appender {
    ledger: Ledger<()>,
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
    /// What became of its documents in the transforms of the load.
    outcomes: Vec<u64>,
    /// It holds all of the lane's documents up to this position; `prefix_hash` is the hash of the sources up to there.
    mark: Position,
    prefix_hash: u128,
}

impl OnConnection for () {
    async fn make(_: &LaneSetup, _: &Client) -> Result<Self, Error> {
        Ok(())
    }
}

/// Opens a lane that appends documents to segments.
pub(super) fn open(setup: LaneSetup) -> Opening {
    Box::pin(async { Ok(Box::new(Appender { ledger: Ledger::open(setup).await? }) as Box<dyn OpenLane>) })
}

impl OpenLane for Appender {
    /// Commits segments until the queue ends. If documents are held in memory, the error is the first that retrying
    /// does not fix. If they are not, it is the first of all, because another run reads them again. Everything before
    /// it is committed.
    fn run(mut self: Box<Self>, queue: mpsc::Receiver<Part>) -> BoxFuture<'static, (LaneReport, Result<(), Error>)> {
        Box::pin(async move {
            let drain = self.lanes().drain.clone();
            let ended = drain.bounds(Box::pin(self.work(queue))).await;
            self.ledger.close(ended).await
        })
    }
}

impl Appender {
    async fn work(&mut self, mut queue: mpsc::Receiver<Part>) -> Result<(), Error> {
        while let Some(first) = queue.recv().await {
            let (mut parts, mut failures) = (vec![first], Failures::default());
            let counters = loop {
                let error = match self.segment(&mut parts, &mut queue).await {
                    Ok(counters) => break counters,
                    Err(error) => error,
                };
                self.ledger.finds_another_table(&error).await?;
                if !self.plan().holds {
                    return Err(error);
                }
                self.ledger.pause(&mut failures, error).await?;
                // Even if the connection seems well: a COPY may be open on it.
                match self.ledger.recover(&mut failures, true).await? {
                    Found::Same => {}
                    Found::Committed => break counted(&parts),
                    Found::Missing(batches) => {
                        return Err(Error::CommitsLost { lane: self.ledger.setup.lane, batches });
                    }
                }
            };
            failpoint::hit("segment-committed").await?;
            if counters.appended > 0 {
                self.ledger.wrote(WRITER);
            }
            self.lanes().around.tally.committed(counters);
            parts.iter_mut().for_each(Part::committed);
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
        let plan = self.plan();
        let (limits, deadline) = (plan.limits, plan.holds.then(|| Instant::now() + SEGMENT_FLUSH_AFTER));
        let mut portion = Portion::new(limits, deadline, parts);
        loop {
            if !self.plan().holds {
                parts.clear();
            }
            let Some(part) = portion.next(queue).await else { break };
            // Hold the part before it is sent: if this try fails, the next one needs it.
            parts.push(part);
            self.append(&mut segment, parts.last().expect("it is there")).await?;
        }
        self.commit(segment).await
    }

    fn lanes(&self) -> &Lanes {
        &self.ledger.setup.lanes
    }

    fn plan(&self) -> &SegmentPlan {
        &self.lanes().segments
    }

    /// Sends the documents of a part and keeps its rejects.
    async fn append(&self, segment: &mut Segment, part: &Part) -> Result<(), Error> {
        segment.mark = part.mark();
        segment.prefix_hash = part.prefix_hash;
        segment.counters += counted(std::slice::from_ref(part));
        segment.rejects.extend(part.rejects.iter().cloned());
        part.add_outcomes(&mut segment.outcomes);
        if part.rows.is_empty() {
            return Ok(());
        }
        if segment.stream.is_none() {
            segment.stream = Some(self.create().await?);
            segment.buffer.put_slice(copy::HEADER);
        }
        let Segment { stream: Some((_, stream)), buffer, .. } = segment else { return Ok(()) };
        match send(stream, buffer, &self.lanes().plan, part).await {
            // The server has refused the COPY. Only its end reports why.
            Err(error) => Err(stream.as_mut().finish().await.err().map_or(error, Error::from)),
            Ok(()) => Ok(()),
        }
    }

    /// Creates the table of a segment and opens the stream into it.
    async fn create(&self) -> Result<(i64, Pin<Box<CopyInSink<Bytes>>>), Error> {
        let (client, Lanes { plan: load, segments: plan, .. }) = (self.ledger.client(), self.lanes());
        let begin = load.schema().sql(segments::BEGIN);
        client.batch_execute(BEGIN).await?;
        let row = client.query_one(&begin, &[&load.table_oid]).await?;
        let segment_id = row.get("segment_id");
        client.batch_execute(&plan.create(load, segment_id, row.get("readers"))).await?;
        let stream = client.copy_in(&plan.copy(load, segment_id)).await?;
        failpoint::hit("segment-opened").await?;
        Ok((segment_id, Box::pin(stream)))
    }

    /// Ends the stream, stores the segment's record, the rejects, the watermark and the counters, and commits. Without
    /// rows there is no segment, and the lane's position advances all the same.
    async fn commit(&mut self, mut segment: Segment) -> Result<Counters, Error> {
        let counters = segment.counters;
        self.ledger.link.connection.works_on(counters.read);
        let client = self.ledger.client();
        if let Some((segment_id, mut stream)) = segment.stream.take() {
            segment.buffer.put_slice(&copy::END);
            // If this fails, the end of the COPY reports why.
            let _ = stream.feed(segment.buffer.split().freeze()).await;
            let rows = stream.as_mut().finish().await?;
            assert_eq!(rows, counters.appended, "the server has taken every row of the segment");
            failpoint::hit("segment-filled").await?;
            let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            let Lanes { plan, owned, .. } = self.lanes();
            let line = plan.schema().sql(segments::INSERT);
            if client.execute(&line, &[&segment_id, &owned.load_id, &int(rows), &int(counters.bytes_read)]).await? == 0
            {
                return Err(Error::Collection {
                    collection: plan.request.collection.clone(),
                    problem: "its table was dropped while documents were appended to it".into(),
                    hint: "load everything again, into a table of its own".into(),
                });
            }
        } else {
            client.batch_execute(BEGIN).await?;
        }
        let Segment { mark, prefix_hash, ref rejects, outcomes, .. } = segment;
        let entry = Entry { mark, prefix_hash, counters, rejects: rejects.iter().collect(), outcomes };
        self.ledger.commit(entry).await?;
        Ok(counters)
    }
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
    plan: &LoadPlan,
    part: &Part,
) -> Result<(), Error> {
    let LoadPlan { key_types, left_out, .. } = plan;
    let mut left = Vec::new();
    for row in &part.rows {
        copy::begin_row(buffer, key_types.len() + 1);
        put_copy_fields(key_types, part.key(row), buffer);
        if row.tombstone {
            copy::put_null(buffer);
        } else {
            let mut document = part.document(row);
            if let Some(left_out) = left_out {
                left.clear();
                left_out.put(document, &mut left);
                document = &left;
            }
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
