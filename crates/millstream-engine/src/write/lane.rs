//! A lane: one connection that commits the batches of its slots in order, and retries after errors that may pass.

use super::choice::{Caution, Choice};
use super::comparison::{self, Sample};
use super::kept::Kept;
use super::ownership::{LaneReport, LaneSetup, look_at_table, own_wal_bytes, take_over};
use super::refused::Refused;
use super::replay;
use super::statement::{Prepared, Target};
use super::walk::Walker;
use super::{Session, Writer, arrays};
use crate::batch::{Batch, Part};
use crate::error::Error;
use crate::limits::{HELD_BATCHES_MAX, KEY_TURNS_MAX, ROUNDS_MAX};
use crate::merge::Written;
use crate::observe::Event;
use millstream_failpoint as failpoint;
use millstream_model::Counters;
use millstream_pg::{Connection, ErrorKind, Failures, retry_delay};
use millstream_store::limits::REJECT_ROWS;
use millstream_store::{Error as StoreError, RejectedDocument, lane};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A lane at work.
pub(crate) struct Lane {
    setup: LaneSetup,
    link: Link,
    epoch: i32,
    /// Batches that are committed according to the lane's row.
    batches: i64,
    /// The batch whose commit was sent last, until we know that it is committed.
    sent: Option<Sent>,
    choice: Choice,
    /// Committed batches that a crash of the server could still take.
    kept: Kept,
    /// Whether the current commit waits for the disk although the session's commits do not.
    flushing: bool,
    /// How a transaction begins. The second is for one whose commit waits for the disk.
    openings: [String; 2],
    caution: Caution,
    report: LaneReport,
    reconnected: bool,
}

/// What to count once a batch is committed.
struct Sent {
    counters: Counters,
    /// Documents that the server refused, and the bytes that are kept of them.
    refused: (u64, u64),
    writer: &'static str,
}

/// What the lane's row says after the connection was lost.
enum Found {
    /// What we know to be committed, and no more.
    Same,
    /// Also the batch whose answer was lost.
    Committed,
    /// Less, because the server crashed: the batches that it lost, oldest first.
    Lost(Vec<Vec<Part>>),
}

/// More is committed than was sent.
const UNSENT: Error =
    Error::Store(millstream_store::Error::Ledger("a lane's row counts batches that the lane did not send"));

/// How a transaction begins.
const OPENING: &str = "begin; set constraints all immediate";

struct Link {
    opened: Instant,
    connection: Connection,
    prepared: Prepared,
    /// Made when the first batch is written row by row.
    walker: Option<Walker>,
}

impl Lane {
    /// Connects and takes over the lane's row.
    pub(crate) async fn open(setup: LaneSetup) -> Result<Self, Error> {
        let (link, epoch, batches) = attach(&setup, false).await?;
        let choice = Choice::new(setup.table_empty, setup.target.merges(), setup.target.skip_unchanged);
        let (kept, report) = (Kept::default(), LaneReport::default());
        let (openings, flushing) = (openings(&setup), false);
        Ok(Self {
            setup,
            link,
            epoch,
            batches,
            sent: None,
            choice,
            kept,
            flushing,
            openings,
            caution: Caution::default(),
            report,
            reconnected: false,
        })
    }

    /// Commits batches until the queue ends, or until the server has refused too many documents. Always returns the
    /// report. The error is the first that retrying does not fix; everything before it is committed.
    pub(crate) async fn run(mut self, queue: mpsc::Receiver<Part>) -> (LaneReport, Result<(), Error>) {
        let ended = self.work(queue).await;
        if ended.is_ok() && !self.reconnected {
            self.report.wal_bytes = own_wal_bytes(&self.link.connection).await;
        }
        (self.report, ended)
    }

    async fn work(&mut self, mut queue: mpsc::Receiver<Part>) -> Result<(), Error> {
        // Parts still to be written, the oldest on top.
        let mut todo: Vec<Vec<Part>> = Vec::new();
        loop {
            let again = if let Some(parts) = todo.pop() {
                let again = self.commit(Batch::new(parts)).await?;
                if again.is_empty() && self.setup.rejects.refused_too_many(&self.setup.tally) {
                    break;
                }
                let aged = again.is_empty() && todo.is_empty() && self.link.opened.elapsed() > self.setup.age_max;
                if aged { self.renew().await? } else { again }
            } else if let Some(parts) = self.collect(&mut queue).await {
                vec![parts]
            } else if !self.kept.is_empty() {
                self.flush().await?
            } else {
                break;
            };
            todo.extend(again.into_iter().rev());
        }
        Ok(())
    }

    /// Replaces the connection between two batches and returns the batches that the server has lost. If no connection
    /// can be made, the next batch finds out why.
    async fn renew(&mut self) -> Result<Vec<Vec<Part>>, Error> {
        match self.reconnect(false).await {
            Ok(Found::Lost(lost)) => Ok(lost),
            Err(error) if retry_delay(1, error.kind()).is_none() => Err(error),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes one more commit that waits for the disk, so that the kept batches are safe. Returns the batches that the
    /// server has lost.
    async fn flush(&mut self) -> Result<Vec<Vec<Part>>, Error> {
        let mut failures = Failures::default();
        loop {
            let Err(error) = self.touch().await else {
                self.kept.clear();
                return Ok(Vec::new());
            };
            self.report.pause(&self.setup, &mut failures, error).await?;
            if let Found::Lost(lost) = self.recover(&mut failures, false).await? {
                return Ok(lost);
            }
        }
    }

    async fn touch(&self) -> Result<(), Error> {
        let client = &self.link.connection.client;
        client.batch_execute(include_str!("flushing.sql")).await?;
        let lane = i16::try_from(self.setup.lane).expect("lanes are few");
        let sql = self.setup.target.schema.sql(lane::TOUCH);
        if client.execute(&sql, &[&self.setup.load_id, &lane, &self.epoch]).await? == 0 {
            return Err(Error::fenced(self.setup.load_id));
        }
        Ok(client.batch_execute("commit").await?)
    }

    /// Waits for the parts of the next batch, limited by documents, bytes and time. `None` if there are no more, or if
    /// none came for so long that the kept batches should be made safe.
    async fn collect(&self, queue: &mut mpsc::Receiver<Part>) -> Option<Vec<Part>> {
        let first = if self.kept.is_empty() {
            queue.recv().await?
        } else {
            tokio::time::timeout(self.setup.flush_after, queue.recv()).await.ok()??
        };
        let deadline = Instant::now() + self.setup.flush_after;
        let (mut rows, mut bytes, mut held_bytes) = (first.documents(), first.bytes_read, first.held_bytes());
        let mut parts = vec![first];
        let rows_max = self.setup.batch_rows.min(self.choice.rows_max());
        while rows < rows_max
            && bytes < self.setup.batch_bytes_max as u64
            && held_bytes < HELD_BATCHES_MAX * self.setup.batch_bytes_max
        {
            match tokio::time::timeout_at(deadline, queue.recv()).await {
                Ok(Some(part)) => {
                    rows += part.documents();
                    bytes += part.bytes_read;
                    held_bytes += part.held_bytes();
                    parts.push(part);
                }
                Ok(None) | Err(_) => break,
            }
        }
        Some(parts)
    }

    /// Commits a batch, or returns what to commit in its place, oldest first.
    ///
    /// After a crash of the server, that is the batches that it lost, and then this one. Otherwise it is the halves of
    /// the batch:
    /// - if the batch writes one key too often for one transaction;
    /// - if the server refuses more of it than one batch may hold or than the limit of rejects allows, so that the load
    ///   stops near the limit;
    /// - if finding each refused document would take round trips.
    async fn commit(&mut self, batch: Batch) -> Result<Vec<Vec<Part>>, Error> {
        let durability = self.setup.target.durability;
        self.flushing = durability.keeps() && self.kept.is_full(self.setup.batch_bytes_max);
        let mut failures = Failures::default();
        loop {
            self.sent = None;
            let error = match self.attempt(&batch).await {
                Ok(true) => break,
                Ok(false) => return Ok(batch.halves()),
                Err(error) if self.finds_another_file(&error).await? => continue,
                Err(error) => error,
            };
            self.report.pause(&self.setup, &mut failures, error).await?;
            match self.recover(&mut failures, true).await? {
                Found::Same => {}
                Found::Committed => break,
                Found::Lost(mut lost) => {
                    lost.push(batch.into_parts());
                    return Ok(lost);
                }
            }
        }
        failpoint::hit("batch-committed").await?;
        let Some(Sent { counters, refused, writer }) = self.sent.take() else { return Err(UNSENT) };
        *self.report.writers.entry(writer.to_owned()).or_default() += 1;
        if !batch.acknowledged() {
            self.setup.tally.committed(counters);
            self.setup.tally.refused(refused.0, refused.1);
        }
        let parts = batch.committed();
        if self.flushing {
            self.kept.clear();
        } else if durability.keeps() {
            self.kept.push(parts);
        }
        Ok(Vec::new())
    }

    /// Whether a batch failed because the table was rewritten and still has its rows. The batch is then tried again.
    ///
    /// # Errors
    /// [`Error::TableMoved`] and [`Error::Emptied`] if that caused the error.
    async fn finds_another_file(&mut self, error: &Error) -> Result<bool, Error> {
        let client = &self.link.connection.client;
        let perhaps = [ErrorKind::Fenced, ErrorKind::NotFound, ErrorKind::Bug].contains(&error.kind());
        if !perhaps || client.is_closed() || client.batch_execute("rollback").await.is_err() {
            return Ok(false);
        }
        let file = look_at_table(client, &self.setup).await?;
        self.setup.table.file = file.or(self.setup.table.file);
        Ok(file.is_some())
    }

    /// Reconnects if necessary and finds out what is committed. `sent` says whether a batch was on its way.
    async fn recover(&mut self, failures: &mut Failures, sent: bool) -> Result<Found, Error> {
        if !self.link.connection.client.is_closed()
            && self.link.connection.client.batch_execute("rollback").await.is_ok()
        {
            return Ok(Found::Same);
        }
        loop {
            match self.reconnect(sent).await {
                Ok(found) => return Ok(found),
                Err(error) => self.report.pause(&self.setup, failures, error).await?,
            }
        }
    }

    async fn reconnect(&mut self, sent: bool) -> Result<Found, Error> {
        let (link, epoch, batches) = attach(&self.setup, true).await?;
        self.link = link;
        self.epoch = epoch;
        self.reconnected = true;
        self.decide(batches, sent)
    }

    /// Compares the number of batches in the lane's row with the number that we know.
    fn decide(&mut self, batches: i64, sent: bool) -> Result<Found, Error> {
        let before = std::mem::replace(&mut self.batches, batches);
        let lane = self.setup.lane;
        match batches - before {
            0 => Ok(Found::Same),
            1 if sent => Ok(Found::Committed),
            more if more > 0 => Err(UNSENT),
            less => {
                let missing = Error::CommitsLost { lane, batches: -less };
                let lost = usize::try_from(-less).ok().and_then(|count| self.kept.lost(count)).ok_or(missing)?;
                self.report.retries += lost.len() as u64;
                self.setup.observer.event(Event::Lost { lane, batches: lost.len() });
                Ok(Found::Lost(lost))
            }
        }
    }

    /// One try at a batch, in one transaction, including the commit. False if the batch must be halved.
    async fn attempt(&mut self, batch: &Batch) -> Result<bool, Error> {
        failpoint::hit("batch-collected").await?;
        let Target { mode, folds, .. } = &*self.setup.target;
        let turns = batch.turns(mode, !folds);
        if turns > KEY_TURNS_MAX && batch.parts() > 1 {
            return Ok(false);
        }
        let walks = !folds && turns > ROUNDS_MAX && self.link.walker.as_ref().is_none_or(Walker::usable);
        if (walks || self.caution.walks()) && !batch.groups().is_empty() {
            return self.replay(batch).await;
        }
        let (sample, written) = match self.write_sampled(batch).await {
            Ok((sample, Some(written))) => (sample, written),
            Ok((_, None)) => {
                self.choice.missed();
                self.link.connection.client.batch_execute("rollback").await?;
                return Box::pin(self.attempt(batch)).await;
            }
            Err(error) if error.refuses_data() => {
                self.link.connection.client.batch_execute("rollback").await?;
                self.caution.surprised();
                return self.replay(batch).await;
            }
            Err(error) => return Err(error),
        };
        failpoint::hit("batch-written").await?;
        let writer = self.writer(batch);
        self.finish(batch, writer.name, written, &[]).await?;
        self.choice.wrote(self.session("").compares(writer), written);
        self.caution.wrote(batch.groups().len());
        if let Some(sample) = sample {
            self.choice.compared(sample);
        }
        Ok(true)
    }

    /// Writes the batch. Also compares a sample of it with the stored documents, if that may change how the next batch
    /// is written. It waits for the sample first only while nothing is known about the keys: the sample then decides
    /// about this batch too.
    async fn write_sampled(&mut self, batch: &Batch) -> Result<(Option<Sample>, Option<Written>), Error> {
        let compares = self.session("").compares(self.writer(batch));
        if compares || !self.choice.samples() || batch.groups().is_empty() || batch.has_tombstones() {
            return Ok((None, self.write(batch).await?));
        }
        if self.choice.blind() {
            let sample = comparison::sample(self.session(""), batch).await?;
            self.choice.compared(sample);
            return Ok((None, self.write(batch).await?));
        }
        let sample = async { comparison::sample(self.session(""), batch).await.map(Some) };
        tokio::try_join!(biased; sample, self.write(batch))
    }

    /// The writer of a batch.
    fn writer(&self, batch: &Batch) -> &'static Writer {
        let session = self.session("");
        session.writer(self.choice.writer(arrays::fit(session, batch, batch.groups())), batch)
    }

    async fn write(&self, batch: &Batch) -> Result<Option<Written>, Error> {
        let session = self.session(self.opening());
        if batch.groups().is_empty() {
            session.client.batch_execute(session.opening).await?;
            return Ok(Some(Written::default()));
        }
        session.write(self.writer(batch), batch, batch.groups()).await
    }

    /// Writes the batch row by row where necessary, so that only what the server refuses is rejected. False if the
    /// batch must be halved.
    async fn replay(&mut self, batch: &Batch) -> Result<bool, Error> {
        let (documents_max, bytes_max) = self.setup.rejects.left(&self.setup.tally);
        let mut walker = match self.link.walker.take() {
            Some(walker) => walker,
            None => Walker::open(&self.link.connection.client, &self.setup.target).await?,
        };
        let session = self.session(self.opening());
        let refused = replay::replay(session, &mut walker, batch, self.choice.expects_new(), documents_max).await;
        if !walker.usable() {
            self.caution = Caution::default();
        }
        self.link.walker = Some(walker);
        let Some(Refused { written, rejects }) = refused? else { return Ok(false) };
        if self.setup.rejects.none()
            && let Some(first) = rejects.iter().min_by_key(|reject| reject.position)
        {
            self.link.connection.client.batch_execute("rollback").await?;
            return Err(Error::rejected(first));
        }
        if batch.parts() > 1 && kept_bytes(&rejects) > bytes_max {
            self.link.connection.client.batch_execute("rollback").await?;
            return Ok(false);
        }
        failpoint::hit("batch-replayed").await?;
        self.finish(batch, replay::NAME, written, &rejects).await?;
        self.choice.walked(written);
        self.caution.walked(!rejects.is_empty());
        Ok(true)
    }

    /// Stores the rejects, the watermark and the counters, and commits. All of it goes in one flight, except that more
    /// than `REJECT_ROWS` rejects take several statements first.
    async fn finish(
        &mut self,
        batch: &Batch,
        writer: &'static str,
        written: Written,
        refused: &[RejectedDocument],
    ) -> Result<(), Error> {
        let mut counters = batch.counters();
        counters += self.setup.target.mode.count(written);
        counters.rejected += refused.len() as u64;
        assert_eq!(counters.read, counters.accounted(), "every document of a batch is in exactly one column");
        batch.refuse(refused);
        self.sent = Some(Sent { counters, refused: (refused.len() as u64, kept_bytes(refused)), writer });
        let Link { connection, prepared, .. } = &self.link;
        let client = &connection.client;
        let rejects: Vec<&RejectedDocument> = batch.rejects().chain(refused).collect();
        let reject_bytes = batch.rejects().chain(refused).map(|r| r.bytes.len() as u64).sum();
        let insert = |some| millstream_store::insert_rejects(client, &prepared.reject, self.setup.load_id, some);
        let mut chunks = rejects.chunks(REJECT_ROWS);
        let last_rejects = chunks.next_back().unwrap_or_default();
        for some in chunks {
            insert(some).await?;
        }
        let mark = batch.last_part();
        let advance = millstream_store::Advance {
            load_id: self.setup.load_id,
            lane: self.setup.lane,
            epoch: self.epoch,
            source: mark.source,
            offset: mark.end,
            prefix_hash: mark.prefix_hash,
            counters,
            reject_bytes,
            table: &self.setup.table,
        };
        failpoint::hit("batch-advancing").await?;
        let commit = async { client.batch_execute("commit").await.map_err(StoreError::from) };
        let sent = async { failpoint::hit("commit-sent").await.map_err(StoreError::from) };
        tokio::try_join!(
            biased;
            insert(last_rejects),
            advance.execute(client, &prepared.advance),
            commit,
            sent,
        )?;
        self.batches += 1;
        Ok(())
    }

    fn opening(&self) -> &str {
        &self.openings[usize::from(self.flushing)]
    }

    fn session<'a>(&'a self, opening: &'a str) -> Session<'a> {
        Session {
            client: &self.link.connection.client,
            target: &self.setup.target,
            prepared: &self.link.prepared,
            opening,
        }
    }
}

/// Bytes that are kept of rejects.
fn kept_bytes(rejects: &[RejectedDocument]) -> u64 {
    rejects.iter().map(|reject| reject.bytes.len() as u64).sum()
}

/// How every batch's transaction begins. The second is for one whose commit waits for the disk.
fn openings(setup: &LaneSetup) -> [String; 2] {
    let turn = if setup.target.guarded { lane::TURN } else { "" };
    let turn = setup.target.schema.sql(turn);
    let turn = turn.replace("{load}", &setup.load_id.to_string()).replace("{lane}", &setup.lane.to_string());
    [OPENING, include_str!("flushing.sql")].map(|opening| format!("{opening};\n{turn}"))
}

/// Opens a connection that owns the lane, with all that its batches need.
async fn attach(setup: &LaneSetup, again: bool) -> Result<(Link, i32, i64), Error> {
    let (connection, epoch, batches) = take_over(setup, again).await?;
    let prepared = setup.target.prepare(&connection.client).await?;
    Ok((Link { opened: Instant::now(), connection, prepared, walker: None }, epoch, batches))
}
