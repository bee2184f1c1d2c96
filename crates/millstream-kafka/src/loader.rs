//! A topic is loaded: its partitions are opened, what the client reads is dealt out to them, and they are closed.

use crate::account::{Account, Outcome, PartitionAccount};
use crate::client::{Client, ClientError, Lot, Marks, Topic};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::{ASK_TRIES_MAX, OFFSETS_EVERY, PARTITIONS_MAX, POLL_WAIT, POLLS_MAX, RETRIES_SILENT, RETRY_AFTER};
use crate::partition::{Partition, obstacle_error};
use crate::request::{Begin, TopicRequest, Until};
use crate::sample;
use crate::start::{Obstacle, start};
use crate::worker::Worker;
use millstream_engine::{Error as EngineError, Event, Outcome as LoadOutcome, Service, StopReason, Surroundings};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Loads a topic until it is stopped, or up to the offsets that it had at the start. Each of its partitions is a load of
/// its own, whose position is the offset. So the next run of the same request continues behind what is committed.
///
/// # Errors
/// When no partition could be loaded. Every other failure is part of the [`Outcome`].
pub async fn load<C: Client>(request: &TopicRequest, client: Arc<C>, around: &Surroundings) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let mut loader = Box::pin(Loader::open(request, client, around)).await?;
    let ended = Box::pin(loader.run()).await;
    Ok(Box::pin(loader.close(ended, begun)).await)
}

/// A topic that is loaded.
struct Loader<'a, C> {
    request: &'a TopicRequest,
    around: &'a Surroundings,
    client: Arc<C>,
    service: Service,
    print: Fingerprint,
    partitions: BTreeMap<i32, Partition>,
    /// The tasks of the partitions.
    workers: JoinSet<(i32, Result<(), EngineError>)>,
    /// Partitions that are closed, or about to be.
    closing: JoinSet<(i32, Result<LoadOutcome, EngineError>)>,
    /// A worker can take more.
    freed: Arc<Notify>,
    /// Errors in a row that may pass.
    failures: u32,
    /// Looks in a row at which the topic could not be seen.
    unseen: u32,
    /// What was said once and need not be said again.
    said: Said,
}

/// What was said once.
#[derive(Default)]
struct Said {
    too_many_partitions: bool,
    offsets_not_written: bool,
}

impl<'a, C: Client> Loader<'a, C> {
    /// Opens the partitions of the topic.
    async fn open(request: &'a TopicRequest, client: Arc<C>, around: &'a Surroundings) -> Result<Self, Error> {
        let Topic { id, partitions } = unless_stopped(around, ask(async || client.topic().await)).await?;
        let chosen = request.chosen(&partitions)?;
        let mut marks = BTreeMap::new();
        for number in &chosen {
            let found = unless_stopped(around, ask(async || client.marks(*number).await)).await?;
            marks.insert(*number, found);
        }
        let streams = u16::try_from(chosen.len()).expect("they are few");
        let mut service = Box::pin(Service::open(&request.load, around, streams)).await?;
        if sample::is_needed(&request.load) {
            let sampled = sample::sample(&*client, &request.messages, &marks);
            let sampled = unless_stopped(around, async { sampled.await.map_err(client_error) }).await?;
            service = service.with_sample(sampled);
        }
        let mut loader = Self {
            request,
            around,
            client,
            service,
            print: Fingerprint::of_topic(id),
            partitions: BTreeMap::new(),
            workers: JoinSet::new(),
            closing: JoinSet::new(),
            freed: Arc::default(),
            failures: 0,
            unseen: 0,
            said: Said::default(),
        };
        let mut places = Vec::new();
        for (number, marks) in marks {
            match Box::pin(loader.add(number, marks, request.from)).await {
                Ok(read) => places.push((number, Some(read))),
                Err(error) => {
                    // What was opened is closed, and what was not read yet is read by the next run.
                    Box::pin(loader.close(Ok(None), Instant::now())).await;
                    return Err(error);
                }
            }
        }
        let assigned = unless_stopped(around, ask(async || loader.client.assign(&places).await)).await;
        if let Err(error) = assigned {
            Box::pin(loader.close(Ok(None), Instant::now())).await;
            return Err(error);
        }
        Ok(loader)
    }

    /// Opens a partition. Returns the offset from which the client reads it.
    async fn add(&mut self, number: i32, marks: Marks, begin: Begin) -> Result<u64, Error> {
        let TopicRequest { address, name, until, allow_gap, .. } = self.request;
        let stream = self.service.stream(&address.source(name.as_deref(), number)).await?;
        let begin = if stream.watermark().is_none() { self.begin_of_new(number, marks, begin) } else { begin };
        let from = match begin {
            Begin::Start => marks.first,
            Begin::End => marks.end,
            Begin::Time(ms) => {
                let found = ask(async || self.client.offset_at(number, ms).await).await?;
                found.unwrap_or(marks.end).clamp(marks.first, marks.end)
            }
        };
        let (watermark, load_id) = (stream.watermark(), stream.load_id());
        let found = match start(watermark, from, marks, self.print, *allow_gap) {
            Ok(found) => found,
            Err(obstacle) => {
                let next = watermark.map_or(from, |watermark| watermark.offset);
                let error = obstacle_error(&address.topic, (number, load_id), obstacle, (next, marks.first));
                // What it says is worth less than the obstacle.
                let _ = Box::pin(stream.close()).await;
                return Err(error);
            }
        };
        if found.gap > 0 {
            let error = obstacle_error(
                &address.topic,
                (number, load_id),
                Obstacle::Gap,
                (marks.first - found.gap, marks.first),
            );
            self.warn(error.to_string());
        }
        let producer = stream.producer();
        if watermark.is_none() {
            // The next run begins there too, if this one is killed before it has read anything.
            producer.send_placed(millstream_engine::Placed::at(found.load, self.print.bits())).await?;
        }
        let until = (*until == Until::End).then_some(marks.end);
        let (partition, lots) = Partition::new(number, stream, found, until);
        let worker = Worker {
            partition: number,
            producer,
            messages: self.request.messages.clone(),
            print: self.print,
            last: partition.last(),
            freed: Arc::clone(&self.freed),
            committed: partition.committed(),
        };
        self.workers.spawn(async move { (number, worker.run(lots).await) });
        self.partitions.insert(number, partition);
        Ok(found.read)
    }

    /// Where a partition begins of which nothing is committed. If others have begun in an earlier run, it was added since:
    /// its first record is as new as those that they have loaded.
    fn begin_of_new(&self, number: i32, marks: Marks, begin: Begin) -> Begin {
        let added = self.request.partitions.is_none() && self.partitions.values().any(|other| other.resumed);
        if begin != Begin::End || !added {
            return begin;
        }
        if marks.first < marks.end {
            self.warn(format!(
                "partition {number} of {} has not begun yet, but others have: it is loaded from its start, and not from \
                 its end",
                self.request.address.topic
            ));
        }
        Begin::Start
    }

    /// Deals out what the client reads, until the topic is loaded or somebody stops it.
    async fn run(&mut self) -> Result<Option<StopReason>, Error> {
        let (answers, mut polled) = mpsc::channel(POLLS_MAX);
        // On a task of its own: what is on its way from a broker is not dropped when something else happens.
        let _polling = AbortOnDrop(tokio::spawn(poll(Arc::clone(&self.client), answers)));
        let mut offsets = every(OFFSETS_EVERY);
        let mut looks = every(self.request.topic_every);
        loop {
            self.hand_over().await;
            if self.partitions.values().all(|partition| partition.stream.is_none()) {
                return Ok(None);
            }
            tokio::select! {
                biased;
                reason = self.around.stop.wait() => return Ok(Some(reason)),
                Some(ended) = self.workers.join_next() => self.worker_ended(ended)?,
                () = self.freed.notified() => {}
                _ = offsets.tick() => self.write_offsets().await,
                _ = looks.tick() => self.look_at_topic().await?,
                answer = polled.recv() => match answer {
                    Some(answer) => self.take(answer).await?,
                    None => return Err(Error::Client { message: "the client has ended".into() }),
                },
            }
        }
    }

    /// Hands what waits to the workers, and lets the client read only what they can take.
    async fn hand_over(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.hand_over();
            let paused = partition.is_waiting() || partition.is_read();
            if paused != partition.paused {
                partition.paused = paused;
                self.client.pause(partition.number, paused).await;
            }
        }
    }

    /// Takes an answer of the client.
    async fn take(&mut self, answer: Result<Vec<Lot>, ClientError>) -> Result<(), Error> {
        match answer {
            Ok(lots) => {
                self.failures = 0;
                for lot in lots {
                    let Some(partition) = self.partitions.get_mut(&lot.partition) else { continue };
                    if let Err(obstacle) = partition.accept(lot) {
                        return Err(partition.error(&self.request.address.topic, obstacle, 0));
                    }
                }
                Ok(())
            }
            Err(ClientError::OutOfRange { partition }) => self.find_again(partition).await,
            Err(ClientError::Passing(message)) => {
                self.failures += 1;
                if self.failures >= RETRIES_SILENT && self.failures.is_power_of_two() {
                    self.warn(format!("Kafka does not answer, and is asked again: {message}"));
                }
                Ok(())
            }
            Err(error) => Err(client_error(error)),
        }
    }

    /// A partition has no record at the offset that it reads next.
    async fn find_again(&mut self, number: i32) -> Result<(), Error> {
        let (topic, allow_gap) = (&self.request.address.topic, self.request.allow_gap);
        let Marks { first, end } = match self.client.marks(number).await {
            Ok(marks) => marks,
            // The next poll says it again.
            Err(ClientError::Passing(_)) => return Ok(()),
            Err(error) => return Err(client_error(error)),
        };
        let Some(partition) = self.partitions.get_mut(&number) else { return Ok(()) };
        let next = partition.next();
        if next > end {
            return Err(partition.error(topic, Obstacle::Replaced("it ends before that"), first));
        }
        if next < first {
            let gap = partition.error(topic, Obstacle::Gap, first);
            if !allow_gap {
                return Err(gap);
            }
            partition.skip_to(first);
            self.warn(gap.to_string());
        }
        let seek = self.client.seek(number, next.max(first)).await;
        seek.or_else(|error| if matches!(error, ClientError::Passing(_)) { Ok(()) } else { Err(client_error(error)) })
    }

    /// A worker has ended: its partition is read and committed, or its stream has ended.
    fn worker_ended(&mut self, ended: Result<(i32, Result<(), EngineError>), JoinError>) -> Result<(), Error> {
        let (number, ended) = joined(ended);
        ended?;
        self.close_stream(number);
        Ok(())
    }

    fn close_stream(&mut self, number: i32) {
        let stream = self.partitions.get_mut(&number).and_then(|partition| partition.stream.take());
        if let Some(stream) = stream {
            self.closing.spawn(async move { (number, Box::pin(stream.close()).await) });
        }
    }

    /// Loads partitions that were added, and finds out whether the topic was made again.
    async fn look_at_topic(&mut self) -> Result<(), Error> {
        let Topic { id, partitions } = match self.client.topic().await {
            Ok(topic) => topic,
            Err(error) => return self.not_seen(error),
        };
        self.unseen = 0;
        let topic = self.request.address.topic.clone();
        if self.print.is_other_topic(Fingerprint::of_topic(id))
            && let Some(partition) = self.partitions.values().next()
        {
            return Err(partition.error(&topic, Obstacle::Replaced("the topic was made again"), 0));
        }
        self.look_for_stalls().await;
        if self.request.partitions.is_some() || self.request.until == Until::End {
            return Ok(());
        }
        let mut added: Vec<i32> =
            partitions.into_iter().filter(|number| !self.partitions.contains_key(number)).collect();
        let room = PARTITIONS_MAX.saturating_sub(self.partitions.len());
        if added.len() > room && !std::mem::replace(&mut self.said.too_many_partitions, true) {
            self.warn(format!(
                "topic {topic} has more than {PARTITIONS_MAX} partitions now; load the others in another process: \
                 --partitions"
            ));
        }
        added.truncate(room);
        if added.is_empty() {
            return Ok(());
        }
        let mut places: Vec<(i32, Option<u64>)> = self.partitions.keys().map(|number| (*number, None)).collect();
        for number in added {
            let marks = match self.client.marks(number).await {
                Ok(marks) => marks,
                // The next look finds it again.
                Err(ClientError::Passing(_)) => continue,
                Err(error) => return Err(client_error(error)),
            };
            // They were empty when the others began, wherever that was.
            places.push((number, Some(Box::pin(self.add(number, marks, Begin::Start)).await?)));
            self.warn(format!("topic {topic} has a new partition, which is loaded too: {number}"));
        }
        if places.iter().all(|(_, from)| from.is_none()) {
            return Ok(());
        }
        ask(async || self.client.assign(&places).await).await
    }

    /// The topic cannot be seen. It may be deleted, or this user may not see it any more.
    fn not_seen(&mut self, error: ClientError) -> Result<(), Error> {
        self.unseen = self.unseen.saturating_add(1);
        match error {
            // A broker that has just started may say so once.
            ClientError::Final(_) if self.unseen > 1 => Err(client_error(error)),
            error => {
                if self.unseen.is_power_of_two() {
                    let topic = &self.request.address.topic;
                    self.warn(format!("topic {topic} cannot be looked at, and is looked at again: {error}"));
                }
                Ok(())
            }
        }
    }

    /// Says of partitions that they have records, but the client gets none. It does not say why, and tries again.
    async fn look_for_stalls(&mut self) {
        let (mut first, mut others) = (None, 0);
        for (number, partition) in &mut self.partitions {
            let Some(next) = partition.stands_at() else { continue };
            let why = match self.client.marks(*number).await {
                Ok(Marks { end, .. }) => (end > next).then(|| {
                    format!(
                        "has records from offset {next} to {end}, and the brokers return none: look whether it has a \
                         leader, and whether this user may read it"
                    )
                }),
                Err(error) => Some(format!("does not answer, and is asked again: {error}")),
            };
            if !partition.stalls(why.is_some()) {
                continue;
            }
            match first {
                None => first = why.map(|why| format!("partition {number} of {} {why}", self.request.address.topic)),
                Some(_) => others += 1,
            }
        }
        if let Some(first) = first {
            let others = if others > 0 { format!("; others like it: {others}") } else { String::new() };
            self.warn(format!("{first}{others}"));
        }
    }

    /// Writes to Kafka how far the partitions are committed. It matters to nobody but tools that show this.
    async fn write_offsets(&mut self) {
        let news = self.partitions.values().filter(|partition| partition.tellable() > partition.told);
        let news: Vec<(i32, u64)> = news.map(|partition| (partition.number, partition.tellable())).collect();
        if news.is_empty() {
            return;
        }
        match self.client.commit(&news).await {
            Ok(()) => {
                for (number, offset) in news {
                    if let Some(partition) = self.partitions.get_mut(&number) {
                        partition.told = offset;
                    }
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.said.offsets_not_written, true) {
                    self.warn(format!(
                        "offsets cannot be written to Kafka, which only tools read that show lag: {error}"
                    ));
                }
            }
        }
    }

    /// Closes all streams, which commits what was read, and accounts for everything.
    async fn close(mut self, ended: Result<Option<StopReason>, Error>, begun: Instant) -> Outcome {
        self.partitions.values_mut().for_each(Partition::end);
        let (mut stopped, mut error) = match ended {
            Ok(stopped) => (stopped, None),
            Err(error) => (Some(StopReason::Failed), Some(error)),
        };
        while let Some(ended) = self.workers.join_next().await {
            // Closing its stream says why it has ended.
            let _ = joined(ended);
        }
        let numbers: Vec<i32> = self.partitions.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close_stream(number));
        let mut accounts = Vec::new();
        while let Some(closed) = self.closing.join_next().await {
            let (partition, closed) = joined(closed);
            let why = match closed {
                Ok(LoadOutcome { receipt, stopped: why, error: cause, .. }) => {
                    let known = &self.partitions[&partition];
                    accounts.push(PartitionAccount { partition, offset: known.offset(), gap: known.gap, receipt });
                    let why = why.filter(|why| *why != StopReason::Suspended);
                    cause.map_or_else(|| why.map(Ok), |cause| Some(Err(cause)))
                }
                Err(cause) => Some(Err(cause)),
            };
            // A stream that has ended is what others see of the cause.
            let is_vague = matches!(error, None | Some(Error::Engine(EngineError::StreamEnded(_))));
            match why.filter(|_| is_vague) {
                Some(Ok(reason)) if stopped.as_ref().is_none_or(|known| *known == StopReason::Failed) => {
                    (stopped, error) = (Some(reason), None);
                }
                Some(Err(cause)) => (stopped, error) = (Some(StopReason::Failed), Some(Error::Engine(cause))),
                _ => {}
            }
        }
        if error.is_none() {
            self.write_offsets().await;
        }
        let names = (self.request.load.collection.to_string(), self.request.address.topic.clone());
        let account = Account::new(names, accounts, begun.elapsed().as_secs_f64());
        Outcome { account, stopped, error }
    }

    fn warn(&self, warning: String) {
        self.around.observer.event(Event::Warning(warning));
    }
}

/// Polls the client until nobody wants to know any more.
async fn poll<C: Client>(client: Arc<C>, answers: mpsc::Sender<Result<Vec<Lot>, ClientError>>) {
    loop {
        let answer = client.poll(POLL_WAIT).await;
        let failed = answer.is_err();
        if answers.send(answer).await.is_err() {
            return;
        }
        if failed {
            sleep(RETRY_AFTER).await;
        }
    }
}

/// A task that ends when nobody waits for it any more.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A clock whose first tick comes after the first period.
fn every(period: std::time::Duration) -> tokio::time::Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}

/// Asks the client, several times if an error may pass.
async fn ask<T>(mut question: impl AsyncFnMut() -> Result<T, ClientError>) -> Result<T, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match question().await {
            Ok(answer) => return Ok(answer),
            Err(ClientError::Passing(_)) if tries < ASK_TRIES_MAX => sleep(RETRY_AFTER).await,
            Err(error) => return Err(client_error(error)),
        }
    }
}

/// Does `work`, unless somebody stops the load meanwhile.
async fn unless_stopped<T>(around: &Surroundings, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::select! {
        biased;
        reason = around.stop.wait() => Err(EngineError::Stopped(reason).into()),
        done = work => done,
    }
}

/// The result of a task. A failed assertion stops the whole process: no partition goes missing.
fn joined<T>(ended: Result<T, JoinError>) -> T {
    match ended {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn client_error(error: ClientError) -> Error {
    Error::Client { message: error.to_string() }
}
