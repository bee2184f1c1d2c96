//! A topic is loaded: its partitions are opened, what the client reads is dealt out to them, and they are closed.

mod decisions;
mod end;
mod questions;

use self::end::Closed;
use self::questions::{Asked, Heard};
use crate::account::{Outcome, PartitionAccount};
use crate::client::{Client, ClientError, Lot, Marks, Released, Topic};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::{
    ASSIGN_WAIT, BEAT, OFFSETS_EVERY, OPENINGS_MAX, PARTITIONS_MAX, POLL_WAIT, POLLS_MAX, RETRIES_SILENT, RETRY_AFTER,
};
use crate::opening::{Opened, Opener, Plan, Tries, require_one_collection};
use crate::partition::Partition;
use crate::request::{Begin, TopicRequest, Until};
use crate::sample;
use crate::seats::Seats;
use crate::task::Task;
use crate::worker::Worker;
use millstream_engine::{Error as EngineError, Event, LoadRequest, Service, StopReason, Surroundings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Loads a topic until it is stopped, or up to the offsets that it had at the start. Each of its partitions is a load of
/// its own, whose position is the offset. So the next run of the same request continues behind what is committed. If the
/// request names a group, the group decides which partitions are loaded here.
///
/// # Errors
/// When no partition could be loaded. Every other failure is part of the [`Outcome`].
pub async fn load<C: Client>(request: &TopicRequest, client: Arc<C>, around: &Surroundings) -> Result<Outcome, Error> {
    request.check()?;
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
    opener: Arc<Opener<C>>,
    print: Fingerprint,
    /// The partitions that are open.
    partitions: BTreeMap<i32, Partition>,
    /// Those that were closed and whose last offset Kafka may be told.
    done: BTreeMap<i32, Partition>,
    /// The partitions that the topic had when the load began, and those that were found since.
    known: BTreeSet<i32>,
    /// What the group has decided.
    seats: Seats<Arc<Released>>,
    /// Partitions that are about to be open. `None` if they are not to be.
    opening: JoinSet<(i32, Result<Option<Opened>, Error>)>,
    /// The tasks of the open partitions, each with the number of its opening.
    workers: JoinSet<(i32, u64, Result<(), EngineError>)>,
    /// Partitions that are about to be closed.
    closing: JoinSet<Closed>,
    /// Questions to the client, which everything else does not wait for.
    asking: JoinSet<Heard>,
    /// Which of them are under way.
    asked: Asked,
    accounts: BTreeMap<i32, PartitionAccount>,
    /// Documents that partitions which are closed have accounted for in this run.
    loaded: u64,
    /// A worker can take more.
    freed: Arc<Notify>,
    /// Openings and readings so far: each has a number of its own.
    numbers: u64,
    /// When the client may be told again what to read.
    assign_after: Instant,
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
    /// Opens the partitions of the topic, or joins the group that decides about them.
    async fn open(request: &'a TopicRequest, client: Arc<C>, around: &'a Surroundings) -> Result<Self, Error> {
        let topic = Tries::Few.ask(|| client.topic());
        let Topic { id, partitions } = unless_stopped(around, topic).await?;
        let chosen = request.chosen(&partitions)?;
        let (is_member, samples) = (request.group.is_some(), sample::is_needed(&request.load));
        let mut marks = BTreeMap::new();
        for number in chosen.iter().filter(|_| !is_member || samples) {
            let found = unless_stopped(around, Tries::Few.ask(|| client.marks(*number))).await?;
            marks.insert(*number, found);
        }
        let streams = u16::try_from(chosen.len().min(PARTITIONS_MAX)).expect("they are few");
        let mut service = match &request.group {
            Some(group) => {
                // Partitions wait for each other's locks in tasks of their own, and not in the session that they share.
                let load = LoadRequest { lock_wait: Duration::ZERO, ..request.load.clone() };
                let service = Box::pin(Service::open_in_group(&load, around, streams, &group.name)).await?;
                require_one_collection(request, &chosen, &service).await?;
                service
            }
            None => Box::pin(Service::open(&request.load, around, streams)).await?,
        };
        if samples {
            let sampled = sample::sample(&*client, &request.messages, &marks);
            let sampled = unless_stopped(around, async { Ok(sampled.await?) }).await?;
            service = service.with_sample(sampled);
        }
        let print = Fingerprint::of_topic(id);
        let opener = Opener {
            client: Arc::clone(&client),
            service,
            request: request.clone(),
            chosen: chosen.clone(),
            print,
            observer: Arc::clone(&around.observer),
            stop: around.stop.clone(),
            wanted: watch::Sender::new(true),
        };
        let mut loader = Self {
            request,
            around,
            client,
            opener: Arc::new(opener),
            print,
            partitions: BTreeMap::new(),
            done: BTreeMap::new(),
            known: partitions.into_iter().collect(),
            seats: Seats::new(PARTITIONS_MAX),
            opening: JoinSet::new(),
            workers: JoinSet::new(),
            closing: JoinSet::new(),
            asking: JoinSet::new(),
            asked: Asked::default(),
            accounts: BTreeMap::new(),
            loaded: 0,
            freed: Arc::default(),
            numbers: sample::READING,
            assign_after: Instant::now(),
            failures: 0,
            unseen: 0,
            said: Said::default(),
        };
        let begun = match loader.read_nothing().await {
            Ok(()) if is_member => Box::pin(loader.join()).await,
            Ok(()) => Box::pin(loader.open_all(&chosen, &marks)).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(()) => Ok(loader),
            Err(error) => {
                // What was opened is closed, and what was not read yet is read by the next run.
                Box::pin(loader.close(Ok(None), Instant::now())).await;
                Err(error)
            }
        }
    }

    /// Opens these partitions: the first one alone, because it may make the table, and then several at once.
    async fn open_all(&mut self, chosen: &[i32], marks: &BTreeMap<i32, Marks>) -> Result<(), Error> {
        let TopicRequest { from, until, partitions, .. } = self.request;
        let mut chosen = chosen.iter();
        loop {
            // Whether others have resumed matters to those that would begin at their end.
            let in_order = self.partitions.is_empty() || *from == Begin::End;
            let at_once = if in_order { 1 } else { OPENINGS_MAX };
            while self.opening.len() < at_once
                && let Some(number) = chosen.next()
            {
                let plan = Plan {
                    begin: *from,
                    others_resumed: partitions.is_none() && self.partitions.values().any(|other| other.resumed),
                    until: marks.get(number).filter(|_| *until == Until::End).map(|marks| marks.end),
                    tries: Tries::Few,
                };
                let (opener, number) = (Arc::clone(&self.opener), *number);
                self.opening.spawn(async move { (number, Box::pin(opener.open(number, plan)).await) });
            }
            let Some(opened) = self.opening.join_next().await else { return Ok(()) };
            let (_, opened) = joined(opened);
            let Some(opened) = opened? else {
                // Nothing else ends it so early, so this does not wait.
                return Err(EngineError::Stopped(self.around.stop.wait().await).into());
            };
            self.insert(opened);
        }
    }

    /// What the client has read before, for a sample or for an earlier load, is read again by whoever gets it. The numbers of
    /// those readings are given again.
    async fn read_nothing(&self) -> Result<(), Error> {
        unless_stopped(self.around, Tries::Few.ask(|| self.client.assign(&[]))).await
    }

    async fn join(&mut self) -> Result<(), Error> {
        let observer = &self.around.observer;
        let say = |text: String| observer.event(Event::Warning(text));
        unless_stopped(self.around, Tries::Few.ask(|| self.client.join(say))).await
    }

    /// Takes a partition that was opened.
    fn insert(&mut self, opened: Opened) {
        let Opened { partition, lots, producer } = opened;
        let (number, opening) = (partition.number, self.next_number());
        let worker = Worker {
            partition: number,
            producer,
            messages: self.request.messages.clone(),
            print: self.print,
            last: partition.last(),
            freed: Arc::clone(&self.freed),
            committed: partition.committed(),
        };
        self.workers.spawn(async move { (number, opening, worker.run(lots).await) });
        self.partitions.insert(number, partition.opened_as(opening));
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Deals out what the client reads, until the topic is loaded or somebody stops it.
    async fn run(&mut self) -> Result<Option<StopReason>, Error> {
        let (answers, mut polled) = mpsc::channel(POLLS_MAX);
        // On a task of its own: what is on its way from a broker is not dropped when something else happens.
        let _polling = Task::begin(poll(Arc::clone(&self.client), answers));
        let (mut offsets, mut beats) = (every(OFFSETS_EVERY), every(BEAT));
        let mut looks = every(self.request.topic_every);
        loop {
            self.open_wanted();
            self.assign().await?;
            self.hand_over().await;
            if self.request.group.is_none() && self.partitions.is_empty() && self.opening.is_empty() {
                return Ok(None);
            }
            tokio::select! {
                biased;
                reason = self.around.stop.wait() => return Ok(Some(reason)),
                decision = self.client.decision(), if self.request.group.is_some() => self.decided(decision).await?,
                Some(closed) = self.closing.join_next() => {
                    if let Some(reason) = self.closed(joined(closed))? {
                        return Ok(Some(reason));
                    }
                }
                Some(opened) = self.opening.join_next() => self.opened(joined(opened))?,
                Some(ended) = self.workers.join_next() => self.worker_ended(joined(ended)).await,
                Some(heard) = self.asking.join_next() => self.heard(joined(heard))?,
                () = self.freed.notified() => {}
                _ = beats.tick() => self.seats.let_go(Instant::now()),
                _ = offsets.tick() => self.write_offsets(),
                _ = looks.tick() => self.look_at_topic(),
                answer = polled.recv() => match answer {
                    Some(answer) => self.take(answer)?,
                    None => return Err(Error::Client { message: "the client has ended".into() }),
                },
            }
        }
    }

    /// Gives the client the list of partitions to read, if it lacks one that is open. After a failure it tries again later.
    async fn assign(&mut self) -> Result<(), Error> {
        if Instant::now() < self.assign_after || self.partitions.values().all(Partition::is_read) {
            return Ok(());
        }
        let reading = self.next_number();
        let begin = |(number, partition): (&i32, &mut Partition)| (*number, partition.begin(reading));
        let places: Vec<_> = self.partitions.iter_mut().map(begin).collect();
        let told = tokio::select! {
            biased;
            // The loop ends.
            _ = self.around.stop.wait() => return Ok(()),
            told = timeout(ASSIGN_WAIT, self.client.assign(&places)) => told,
        };
        match told {
            Ok(Ok(())) => {
                self.partitions.values_mut().for_each(Partition::begun);
                return Ok(());
            }
            Ok(Err(ClientError::Passing(message))) => self.passing(&message),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => self.passing("it does not say what it reads"),
        }
        self.assign_after = Instant::now() + RETRY_AFTER;
        Ok(())
    }

    /// Hands what waits to the workers, and lets the client read only what they can take.
    async fn hand_over(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.hand_over();
            let paused = partition.is_waiting() || partition.is_done();
            if paused != partition.paused {
                partition.paused = paused;
                self.client.pause(partition.number, paused).await;
            }
        }
    }

    /// Takes an answer of the client.
    fn take(&mut self, answer: Result<Vec<Lot>, ClientError>) -> Result<(), Error> {
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
            Err(ClientError::OutOfRange { partition }) => {
                self.ask_marks(partition);
                Ok(())
            }
            Err(ClientError::Passing(message)) => {
                self.passing(&message);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Counts an error of the client that may pass.
    fn passing(&mut self, message: &str) {
        self.failures += 1;
        if self.failures >= RETRIES_SILENT && self.failures.is_power_of_two() {
            self.warn(format!("Kafka does not answer, and is asked again: {message}"));
        }
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

/// A clock whose first tick comes after the first period.
fn every(period: Duration) -> tokio::time::Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
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
