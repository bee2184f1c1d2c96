//! A lane: one connection that commits the batches of its slots in order, and retries after errors that may pass.

use super::choice::{Caution, Choice, Share};
use super::kept::Kept;
use super::lanes::Lanes;
use super::learning::Learning;
use super::ledger::{Entry, Found, LaneReport, LaneSetup, Ledger, Link, OnConnection, UNSENT, kept_bytes};
use super::portion::{Portion, PortionLimits};
use super::probe::{self, Sample};
use super::refused::Refused;
use super::replay::{self, Replayer};
use super::statement::Prepared;
use super::vacancy::Vacancy;
use super::{OpenLane, Opening, Session, Writer, arrays, differing};
use crate::batch::{Batch, Met, Part};
use crate::budget::Writing;
use crate::error::Error;
use crate::limits::{DEADLOCK_WAIT, FLUSH_AFTER, HELD_BATCHES_MAX, KEY_TURNS_MAX, ROUNDS_MAX};
use crate::merge::{Folding, Mode, Written};
use crate::observe::Event;
use crate::plan::LoadPlan;
use crate::turns::turn;
use futures_util::future::BoxFuture;
use millstream_failpoint as failpoint;
use millstream_model::{CollectionName, Counters, Slot};
use millstream_pg::{ErrorKind, Explained, Failures, fill, may_pass, quote_qualified};
use millstream_store::truncation::record_emptied;
use millstream_store::{GUARD, RejectedDocument, lane, slots_of_lane};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Client;

/// A lane at work.
struct Lane {
    ledger: Ledger<Batching>,
    /// The batch whose commit was sent last, until we know that it is committed.
    sent: Option<Sent>,
    /// Lets it write the batch that it has just collected.
    writing: Option<Writing>,
    choice: Choice,
    /// The keys of the table that this lane may write, as long as nobody else writes them.
    met: Option<Met>,
    /// When to find them out, if the lane does not know them.
    learning: Learning,
    /// Committed batches that a crash of the server could still take.
    kept: Kept,
    /// Whether the current commit waits for the disk although the session's commits do not.
    flushing: bool,
    /// How a transaction begins: together with other lanes, or alone. Of each, the second is for one whose commit waits for
    /// the disk.
    openings: [[String; 2]; 2],
    caution: Caution,
    vacancy: Vacancy,
}

/// What to count once a batch is committed.
struct Sent {
    counters: Counters,
    /// Documents that the server refused, and the bytes that are kept of them.
    refused: (u64, u64),
    writer: &'static str,
}

/// How a transaction begins.
const OPENING: &str = "begin; set constraints all immediate";

/// What a lane that writes batches makes on each of its connections.
struct Batching {
    prepared: Prepared,
    /// Made when the first batch is written row by row.
    replayer: Option<Replayer>,
}

impl OnConnection for Batching {
    async fn make(setup: &LaneSetup, client: &Client) -> Result<Self, Error> {
        client.batch_execute(&setup.table.mark.guard()).await?;
        Ok(Self { prepared: setup.lanes.texts.prepare(client).await?, replayer: None })
    }
}

/// Opens a lane that writes batches into the collection's table.
pub(super) fn open(setup: LaneSetup) -> Opening {
    Box::pin(async {
        let plan = &setup.lanes.plan;
        let choice = Choice::new(plan.table_empty, plan.merges(), plan.skip_unchanged());
        let met_words = if plan.divides() { setup.lanes.met_words() } else { 0 };
        let met = (plan.table_empty && plan.divides()).then(|| Met::new(met_words));
        let learning = Learning::new(met_words, setup.lanes.count);
        let (openings, kept, caution) = (openings(&setup), Kept::default(), Caution::default());
        let vacancy = Vacancy::new(plan.mode.tombstone().is_some());
        let ledger = Ledger::open(setup).await?;
        let (sent, writing, flushing) = (None, None, false);
        let lane = Lane { ledger, sent, writing, choice, met, learning, kept, flushing, openings, caution, vacancy };
        Ok(Box::new(lane) as Box<dyn OpenLane>)
    })
}

impl OpenLane for Lane {
    /// Commits batches until the queue ends, or until the server has refused too many documents. The error is the first
    /// that retrying does not fix; everything before it is committed.
    fn run(mut self: Box<Self>, queue: mpsc::Receiver<Part>) -> BoxFuture<'static, (LaneReport, Result<(), Error>)> {
        Box::pin(async move {
            let drain = self.lanes().drain.clone();
            let ended = drain.bounds(Box::pin(self.work(queue))).await;
            self.ledger.close(ended).await
        })
    }
}

impl Lane {
    async fn work(&mut self, mut queue: mpsc::Receiver<Part>) -> Result<(), Error> {
        // Parts still to be written, the oldest on top.
        let mut todo: Vec<Vec<Part>> = Vec::new();
        loop {
            if self.vacancy.due().is_some_and(|due| due <= Instant::now()) {
                self.look().await;
            }
            let again = if let Some(parts) = todo.pop() {
                let again = self.commit(Batch::new(parts)).await?;
                if again.is_empty() && self.lanes().refused_too_many() {
                    break;
                }
                let aged = again.is_empty() && todo.is_empty() && self.ledger.is_aged();
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

    /// Records which tables the load has emptied. If that fails, it is tried again later: if the reason matters to batches,
    /// the next one meets it.
    async fn look(&mut self) {
        let (begun, setup) = (Instant::now(), self.setup());
        let recorded = record_emptied(self.ledger.client(), setup.lanes.plan.schema(), &setup.table.mark).await;
        if recorded.is_err() {
            self.ledger.rolls_back().await;
        }
        self.vacancy.looked(begun, Instant::now(), recorded.is_ok());
    }

    /// Waits for the first part of the next batch, and looks for emptied tables meanwhile. `None` if there is none.
    async fn first(&mut self, queue: &mut mpsc::Receiver<Part>) -> Option<Part> {
        while let Some(due) = self.vacancy.due() {
            match tokio::time::timeout_at(due, queue.recv()).await {
                Ok(first) => return first,
                Err(_) => self.look().await,
            }
        }
        queue.recv().await
    }

    /// Replaces the connection between two batches and returns the batches that the server has lost. If no connection
    /// can be made, the next batch finds out why.
    async fn renew(&mut self) -> Result<Vec<Vec<Part>>, Error> {
        match self.ledger.reconnect(false).await {
            Ok(Found::Missing(batches)) => self.lost(batches),
            Err(error) if !may_pass(error.kind()) => Err(error),
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
            self.ledger.pause(&mut failures, error).await?;
            if let Found::Missing(batches) = self.recover(&mut failures, false).await? {
                return self.lost(batches);
            }
        }
    }

    async fn touch(&self) -> Result<(), Error> {
        let (client, Lanes { plan, owned, .. }) = (self.ledger.client(), self.lanes());
        client.batch_execute(include_str!("flushing.sql")).await?;
        let lane = i16::try_from(self.setup().lane).expect("lanes are few");
        let sql = plan.schema().sql(lane::TOUCH);
        if client.execute(&sql, &[&owned.load_id, &lane, &self.ledger.link.epoch]).await? == 0 {
            return Err(Error::fenced(owned.load_id));
        }
        Ok(client.batch_execute("commit").await?)
    }

    /// Waits for the parts of the next batch, and until it may be written: as long as others write, it grows. `None` if there
    /// are no more parts, or if none came for so long that the kept batches should be made safe.
    async fn collect(&mut self, queue: &mut mpsc::Receiver<Part>) -> Option<Vec<Part>> {
        let first = if self.kept.is_empty() {
            self.first(queue).await?
        } else {
            tokio::time::timeout(FLUSH_AFTER, queue.recv()).await.ok()??
        };
        let lanes = self.lanes();
        let limits = PortionLimits {
            rows_max: lanes.plan.request.batch_rows.min(self.choice.rows_max()),
            bytes_max: lanes.batch_bytes_max(),
            // `FLUSH_AFTER` ends a batch without documents.
            span_bytes_max: usize::MAX,
            rejects_max: usize::MAX,
            held_bytes_max: HELD_BATCHES_MAX * lanes.batch_bytes_max(),
            held_by: Part::held_bytes,
        };
        let mut parts = vec![first];
        let mut portion = Portion::new(limits, Some(Instant::now() + FLUSH_AFTER), &parts);
        while let Some(part) = portion.next(queue).await {
            parts.push(part);
        }
        let writing = portion.grow(&mut parts, queue, lanes.budget.writing()).await;
        self.writing = Some(writing);
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
    async fn commit(&mut self, mut batch: Batch) -> Result<Vec<Vec<Part>>, Error> {
        self.learn().await;
        if let Some(met) = &mut self.met {
            batch.meet(met);
        }
        if self.met.as_ref().is_some_and(Met::is_full) {
            // It takes new keys for known ones. The server then knows better.
            self.met = None;
            self.learning.stop();
        }
        let durability = self.lanes().plan.request.durability;
        self.flushing = durability.keeps() && self.kept.is_full(self.lanes().batch_bytes_max());
        let (mut failures, mut deadlocks, mut lost) = (Failures::default(), 0, Duration::ZERO);
        loop {
            self.sent = None;
            let writing = match self.writing.take() {
                Some(writing) => writing,
                None => self.lanes().budget.writing().await,
            };
            let begun = Instant::now();
            let attempted = self.attempt(&batch).await;
            // Others write while this one waits for its next try.
            drop(writing);
            let error = match attempted {
                Ok(true) => break,
                Ok(false) => return Ok(batch.halves()),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Deadlock {
                deadlocks += 1;
                lost += begun.elapsed();
                self.choice.deadlocked();
                let Lanes { around, turns, .. } = self.lanes();
                around.observer.warn(turns.deadlocked(deadlocks, lost));
            }
            let found = if self.ledger.finds_another_table(&error).await? {
                // A COPY that is refused before it begins costs the connection.
                self.ledger.recover(&mut failures, false).await?
            } else {
                self.ledger.pause(&mut failures, error).await?;
                self.recover(&mut failures, true).await?
            };
            match found {
                Found::Same => {}
                Found::Committed => break,
                Found::Missing(batches) => {
                    let mut lost = self.lost(batches)?;
                    lost.push(batch.into_parts());
                    return Ok(lost);
                }
            }
        }
        failpoint::hit("batch-committed").await?;
        let Some(Sent { counters, refused, writer }) = self.sent.take() else { return Err(UNSENT) };
        self.ledger.wrote(writer);
        self.lanes().turns.wrote(deadlocks == 0);
        self.vacancy.wrote();
        if !batch.acknowledged() {
            self.lanes().around.tally.committed(counters);
            self.lanes().around.tally.refused(refused.0, refused.1);
        }
        let parts = batch.committed();
        if self.flushing {
            self.kept.clear();
        } else if durability.keeps() {
            self.kept.push(parts);
        }
        Ok(Vec::new())
    }

    /// Reads the keys of the table if that pays. If it fails or takes too long, the lane asks from then on: if the reason
    /// matters to batches, the next one meets it.
    async fn learn(&mut self) {
        if self.met.is_some() {
            return;
        }
        let Some(rows_max) = self.learning.due() else { return };
        let lanes = self.lanes();
        let (mut met, slots) = (Met::new(lanes.met_words()), slots_of_lane(self.setup().lane, lanes.count));
        let take = |key: &[u8]| {
            if slots.contains(&Slot::of_key(key).index()) {
                met.put(key);
            }
        };
        let read = probe::every_key(self.session(""), rows_max, take).await;
        match read {
            Ok(true) => self.met = Some(met),
            Ok(false) => {}
            Err(_) => {
                self.learning.stop();
                self.ledger.rolls_back().await;
            }
        }
    }

    /// Reconnects if necessary and finds out what is committed. `sent` says whether a batch was on its way.
    async fn recover(&mut self, failures: &mut Failures, sent: bool) -> Result<Found, Error> {
        if self.ledger.rolls_back().await {
            return Ok(Found::Same);
        }
        self.ledger.recover(failures, sent).await
    }

    /// The last batches, which the server lost when it crashed, oldest first.
    fn lost(&mut self, batches: i64) -> Result<Vec<Vec<Part>>, Error> {
        let lane = self.setup().lane;
        let kept = usize::try_from(batches).ok().and_then(|count| self.kept.lost(count));
        let lost = kept.ok_or(Error::CommitsLost { lane, batches })?;
        self.ledger.report.retries += lost.len() as u64;
        self.lanes().around.observer.event(Event::Lost { lane, batches: lost.len() });
        Ok(lost)
    }

    /// One try at a batch, in one transaction, including the commit. False if the batch must be halved.
    async fn attempt(&mut self, batch: &Batch) -> Result<bool, Error> {
        failpoint::hit("batch-collected").await?;
        self.ledger.link.connection.works_on(batch.counters().read);
        let LoadPlan { mode, folding, traits, .. } = &self.lanes().plan;
        let unfolded = folding.is_alone(batch.has_tombstones()) && batch.turns(mode, *folding) > ROUNDS_MAX;
        let replays = self.caution.replays() || unfolded || traits.alters_rows;
        let folding = if replays { folding.of_replay() } else { *folding };
        if writes_a_key_too_often(batch, mode, folding) {
            return Ok(false);
        }
        if replays && !batch.groups().is_empty() {
            return self.replay(batch).await;
        }
        let (sample, written) = match self.write_sampled(batch).await {
            Ok((sample, Some(written))) => (sample, written),
            Ok((_, None)) => {
                // A key that the lane has met explains it. If it was none of those, others write these keys too.
                let explained = self.writer(batch).facts.only_new && batch.met().contains(&true);
                self.met = self.met.take().filter(|_| explained);
                self.choice.missed();
                self.ledger.client().batch_execute("rollback").await?;
                return Box::pin(self.attempt(batch)).await;
            }
            Err(error) if error.refuses_data() => {
                self.ledger.client().batch_execute("rollback").await?;
                self.caution.surprised();
                let LoadPlan { mode, folding, .. } = &self.lanes().plan;
                if writes_a_key_too_often(batch, mode, folding.of_replay()) {
                    return Ok(false);
                }
                return self.replay(batch).await;
            }
            Err(error) => return Err(error),
        };
        failpoint::hit("batch-written").await?;
        let writer = self.writer(batch);
        self.finish(batch, writer.name, written, &[]).await?;
        if writer.facts.asks && self.met.is_none() {
            self.learning.asked(batch.groups().len());
        }
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
        if self.choice.blind {
            let sample = probe::sample(self.session(""), batch).await?;
            self.choice.compared(sample);
            return Ok((None, self.write(batch).await?));
        }
        let sample = async { probe::sample(self.session(""), batch).await.map(Some) };
        tokio::try_join!(biased; sample, self.write(batch))
    }

    /// The writer of a batch.
    fn writer(&self, batch: &Batch) -> &'static Writer {
        let session = self.session("");
        let new = self.met(batch).map(|met| {
            let met: u64 = met.iter().map(|met| u64::from(*met)).sum();
            Share { part: batch.groups().len() as u64 - met, of: batch.groups().len() as u64 }
        });
        session.writer(self.choice.writer(arrays::fit(session, batch, batch.groups()), new), batch)
    }

    /// For each group of a batch whether its key may be stored, if that is known.
    fn met<'a>(&self, batch: &'a Batch) -> Option<&'a [bool]> {
        self.met.as_ref().map(|_| batch.met())
    }

    async fn write(&self, batch: &Batch) -> Result<Option<Written>, Error> {
        let session = Session { met: self.met(batch), ..self.session(self.opening()) };
        if batch.groups().is_empty() {
            session.open().await?;
            return Ok(Some(Written::default()));
        }
        session.write(self.writer(batch), batch, batch.groups()).await
    }

    /// Writes the batch row by row where necessary, so that only what the server refuses is rejected. False if the
    /// batch must be halved.
    async fn replay(&mut self, batch: &Batch) -> Result<bool, Error> {
        let (documents_max, bytes_max) = self.lanes().rejects().left(&self.lanes().around.tally);
        let mut replayer = match self.ledger.link.made.replayer.take() {
            Some(replayer) => replayer,
            None => Replayer::open(self.ledger.client(), &self.lanes().texts.replay).await?,
        };
        let session = self.session(self.opening());
        let refused = replay::replay(session, &mut replayer, batch, documents_max).await;
        self.ledger.link.made.replayer = Some(replayer);
        let Some(Refused { written, rejects }) = refused? else { return Ok(false) };
        if self.lanes().rejects().none()
            && let Some(first) = rejects.iter().min_by_key(|reject| reject.position)
        {
            self.ledger.client().batch_execute("rollback").await?;
            return Err(Error::rejected(first));
        }
        if batch.parts() > 1 && kept_bytes(&rejects) > bytes_max {
            self.ledger.client().batch_execute("rollback").await?;
            return Ok(false);
        }
        failpoint::hit("batch-replayed").await?;
        self.finish(batch, replay::NAME, written, &rejects).await?;
        self.choice.replayed(written);
        self.caution.replayed(!rejects.is_empty());
        Ok(true)
    }

    /// Counts what was written and commits.
    async fn finish(
        &mut self,
        batch: &Batch,
        writer: &'static str,
        written: Written,
        refused: &[RejectedDocument],
    ) -> Result<(), Error> {
        let mut counters = batch.counters();
        counters += self.lanes().plan.mode.count(written);
        counters.rejected += refused.len() as u64;
        batch.refuse(refused);
        self.sent = Some(Sent { counters, refused: (refused.len() as u64, kept_bytes(refused)), writer });
        let last = batch.last_part();
        let rejects = batch.rejects().chain(refused).collect();
        let outcomes = batch.outcomes();
        let (mark, prefix_hash) = (last.mark(), last.prefix_hash);
        if self.lanes().plan.traits.partitioned {
            // The opening has not locked the partitions. What was written has.
            self.ledger.client().batch_execute(GUARD).await.map_err(differing)?;
        }
        self.ledger.commit(Entry { mark, prefix_hash, counters, rejects, outcomes }).await
    }

    fn setup(&self) -> &LaneSetup {
        &self.ledger.setup
    }

    fn lanes(&self) -> &Lanes {
        &self.setup().lanes
    }

    fn opening(&self) -> &str {
        &self.openings[usize::from(self.lanes().turns.taken())][usize::from(self.flushing)]
    }

    fn session<'a>(&'a self, opening: &'a str) -> Session<'a> {
        let Link { connection, made, .. } = &self.ledger.link;
        let plan = &self.lanes().plan;
        Session { client: &connection.client, plan, prepared: &made.prepared, opening, met: None }
    }
}

/// Whether the batch must be halved, because it would write one key too often in one transaction.
fn writes_a_key_too_often(batch: &Batch, mode: &Mode, folding: Folding) -> bool {
    batch.parts() > 1 && batch.turns(mode, folding) > KEY_TURNS_MAX
}

/// How every batch's transaction begins: together with other lanes, or alone. Of each, the second is for one whose commit
/// waits for the disk.
///
/// The table cannot change from its lock to the commit, and the guard compares it before anything is written: without
/// the key's index, each document would be looked for in all rows.
fn openings(setup: &LaneSetup) -> [[String; 2]; 2] {
    let Lanes { plan, owned, turns, .. } = &*setup.lanes;
    let (schema, load, lane) = (plan.schema(), owned.load_id, setup.lane);
    let slots = fill!(lane::TURN, schema, load, lane);
    let slots = if plan.checks_tombstones { format!("{slots};\n") } else { String::new() };
    let CollectionName { schema, table } = &setup.table.mark.name;
    let lock = format!("lock table only {} in row exclusive mode", quote_qualified(schema, table));
    // A move of the shard waits for the batch. Then the guard finds that the shard lies elsewhere.
    let stay = plan.request.shard.map(|shard| format!("select pg_catalog.lock_shard_metadata(5, array[{shard}]);\n"));
    let stay = stay.unwrap_or_default();
    let wait_ms = DEADLOCK_WAIT.as_millis();
    [false, true].map(|alone| {
        let turn = turn(setup.table.mark.oid, alone);
        let soon = match !alone && turns.may_be_needed() {
            true => format!(";\n{}", fill!(include_str!("deadlock_soon.sql"), wait_ms)),
            false => String::new(),
        };
        [OPENING, include_str!("flushing.sql")]
            .map(|opening| format!("{opening};\n{stay}{turn};\n{slots}{lock}; {GUARD}{soon}"))
    })
}
