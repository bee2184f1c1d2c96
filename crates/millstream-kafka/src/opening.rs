//! The opening of a partition: its load is locked, its watermark is read, and the topic is asked where it continues.

use crate::client::{Client, ClientError, Lot, Marks, Topic};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::{ASK_TRIES_MAX, ASK_WAIT_MAX, HOLDER_EVERY, HOLDER_LOOKS_SILENT, RETRIES_SILENT, RETRY_AFTER};
use crate::partition::{Partition, obstacle_error};
use crate::request::{Begin, Group, TopicRequest};
use crate::seats::Wish;
use crate::start::{Obstacle, Start, start};
use millstream_engine::{Event, Holder, Observer, Placed, Producer, Service, Stop, Stream, Watermark};
use millstream_pg::{Explained, Failures, may_pass};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// What opens the partitions of a topic. While it does, everything else goes on.
pub(crate) struct Opener<C> {
    pub(crate) client: Arc<C>,
    pub(crate) service: Service,
    pub(crate) request: TopicRequest,
    /// The partitions that the topic had when the load began, or those of them that are loaded.
    pub(crate) chosen: Vec<i32>,
    /// The topic.
    pub(crate) print: Fingerprint,
    pub(crate) observer: Arc<dyn Observer>,
    /// Ends the load.
    pub(crate) stop: Stop,
    /// Whether partitions are still to be opened about which no group decides.
    pub(crate) wanted: watch::Sender<bool>,
}

/// How a partition is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Where it begins if nothing of it is committed.
    pub(crate) begin: Begin,
    /// Whether others have begun in an earlier run. If nothing of it is committed, it was added since: its first record is as
    /// new as those that they have loaded.
    pub(crate) others_resumed: bool,
    /// Where it ends.
    pub(crate) until: Option<u64>,
    /// How often the client is asked.
    pub(crate) tries: Tries,
}

/// A partition that was opened, and what its worker needs.
pub(crate) struct Opened {
    pub(crate) partition: Partition,
    pub(crate) lots: mpsc::Receiver<Lot>,
    pub(crate) producer: Producer,
}

impl<C: Client> Opener<C> {
    /// Opens a partition. `None` if the load ends before.
    pub(crate) async fn open(&self, number: i32, plan: Plan) -> Result<Option<Opened>, Error> {
        let stream = Box::pin(self.service.stream(&self.source(number))).await?;
        self.place(number, stream, plan, self.wanted.subscribe()).await
    }

    /// Opens a partition that a group has assigned to this process, as soon as no other process runs its load. `None` if the
    /// group takes it back before.
    pub(crate) async fn take(&self, group: &Group, wish: Wish, begin: Begin) -> Result<Option<Opened>, Error> {
        let Wish { number, mut wanted, insists } = wish;
        let source = self.source(number);
        let mut failures = Failures::default();
        let stream = loop {
            if !self.is_free(group, number, (&source, insists), &mut wanted).await? {
                return Ok(None);
            }
            match Box::pin(self.service.stream(&source)).await {
                Ok(stream) => {
                    // A process that came at the same time had none either when this one asked.
                    if let Err(error) = require_one_collection(&self.request, &self.chosen, &self.service).await {
                        let _ = Box::pin(stream.close_within(Duration::ZERO)).await;
                        return Err(error);
                    }
                    break stream;
                }
                // Somebody was faster.
                Err(error) if error.runs_elsewhere() => sleep(HOLDER_EVERY).await,
                Err(error) => {
                    if !failures.wait(error.kind()).await {
                        return Err(error.into());
                    }
                }
            }
        };
        let plan = Plan { begin, others_resumed: false, until: None, tries: Tries::Many };
        self.place(number, stream, plan, wanted).await
    }

    /// Finds out where a partition continues whose load is open. `None`, and closed again, if it is not wanted any more.
    async fn place(
        &self,
        number: i32,
        stream: Stream,
        plan: Plan,
        mut wanted: watch::Receiver<bool>,
    ) -> Result<Option<Opened>, Error> {
        let known = (stream.watermark(), stream.load_id());
        let found = tokio::select! {
            biased;
            _ = self.stop.wait() => None,
            () = not_wanted(&mut wanted) => None,
            found = self.start(number, known, plan) => Some(found),
        };
        match found {
            Some(Ok(found)) => self.begun(number, stream, found, plan.until).await.map(Some),
            other => {
                // What closing says is worth less than the obstacle.
                let _ = Box::pin(stream.close_within(Duration::ZERO)).await;
                other.map_or(Ok(None), |found| found.map(|_| None))
            }
        }
    }

    /// Opens nothing more about which no group decides.
    pub(crate) fn give_up(&self) {
        self.wanted.send_replace(false);
    }

    /// Waits until no other process runs the load of a partition. One of the group that should have released it long ago loses
    /// it. `false` if the partition is not wanted any more.
    async fn is_free(
        &self,
        group: &Group,
        number: i32,
        (source, mut insists): (&str, bool),
        wanted: &mut watch::Receiver<bool>,
    ) -> Result<bool, Error> {
        let mut failures = Failures::default();
        let (mut looks, mut said, mut backend) = (0, HOLDER_LOOKS_SILENT, None);
        // Looks, not time: of a process that was stopped itself, no time counts but that in which it is awake.
        let looks_max = (group.drain + group.patience).as_millis().div_ceil(HOLDER_EVERY.as_millis());
        while *wanted.borrow() {
            let holder = match self.service.holder(source).await {
                Ok(None) => return Ok(true),
                Ok(Some(holder)) => holder,
                Err(error) if failures.wait(error.kind()).await => continue,
                Err(error) => return Err(error.into()),
            };
            failures = Failures::default();
            if backend.replace(holder.backend) != Some(holder.backend) {
                looks = 0;
            }
            looks += 1;
            if looks >= said {
                said = said.saturating_mul(4);
                self.warn(format!("partition {number} waits: {holder} runs its load {}", holder.load_id));
            }
            if insists && holder.of_group && u128::from(looks) >= looks_max {
                (insists, backend) = (self.takes_over(number, &holder).await, None);
                continue;
            }
            tokio::select! {
                () = not_wanted(wanted) => {}
                () = sleep(HOLDER_EVERY) => {}
            }
        }
        Ok(false)
    }

    /// Takes the load of a partition over from another member. `false` if that is not possible, and will not be.
    async fn takes_over(&self, number: i32, holder: &Holder) -> bool {
        let Holder { load_id, .. } = holder;
        match self.service.take_over(holder).await {
            Ok(()) => {
                self.warn(format!("partition {number}: {holder} did not release load {load_id}, so its run was ended"));
                true
            }
            Err(error) if may_pass(error.kind()) => {
                sleep(HOLDER_EVERY).await;
                true
            }
            Err(error) => {
                self.warn(format!(
                    "partition {number} waits: {holder} does not release load {load_id}, and cannot be ended: {error}; \
                     members of a group load as one role"
                ));
                false
            }
        }
    }

    /// Where a partition continues.
    async fn start(
        &self,
        number: i32,
        (watermark, load_id): (Option<Watermark>, i64),
        Plan { begin, others_resumed, tries, .. }: Plan,
    ) -> Result<Start, Error> {
        let TopicRequest { address, allow_gap, .. } = &self.request;
        // The process may be much older than this opening.
        if matches!(tries, Tries::Many)
            && let Ok(Topic { id, .. }) = self.client.topic().await
            && self.print.is_other_topic(Fingerprint::of_topic(id))
        {
            let next = watermark.map_or(0, |watermark| watermark.offset);
            let obstacle = Obstacle::Replaced("the topic was made again");
            return Err(obstacle_error(&address.topic, (number, load_id), obstacle, (next, 0)));
        }
        let say = |message: String| {
            self.warn(format!(
                "partition {number} of {} does not answer, and is asked again: {message}",
                address.topic
            ));
        };
        // Asked now, when nobody else loads the partition: earlier, it may have ended before what is committed.
        let marks = tries.ask_aloud(say, || self.client.marks(number)).await?;
        let from = match (begin, watermark) {
            (Begin::End, None) if others_resumed => {
                if marks.first < marks.end {
                    self.warn(format!(
                        "partition {number} of {} has not begun yet, but others have: it is loaded from its start, and not \
                         from its end",
                        address.topic
                    ));
                }
                marks.first
            }
            (Begin::End, None) => marks.end,
            (Begin::Time(ms), None) => {
                let found = tries.ask_aloud(say, || self.client.offset_at(number, ms)).await?;
                found.unwrap_or(marks.end).clamp(marks.first, marks.end)
            }
            _ => marks.first,
        };
        let Marks { first, .. } = marks;
        let found = start(watermark, from, marks, self.print, *allow_gap).map_err(|obstacle| {
            let next = watermark.map_or(from, |watermark| watermark.offset);
            obstacle_error(&address.topic, (number, load_id), obstacle, (next, first))
        })?;
        if found.gap > 0 {
            let next = first - found.gap;
            let gap = obstacle_error(&address.topic, (number, load_id), Obstacle::Gap, (next, first));
            self.warn(gap.to_string());
        }
        Ok(found)
    }

    /// The partition, which begins there.
    async fn begun(&self, number: i32, stream: Stream, found: Start, until: Option<u64>) -> Result<Opened, Error> {
        let producer = stream.producer();
        if stream.watermark().is_none() {
            // The next run begins there too, if this one is killed before it has read anything.
            if let Err(error) = producer.send_placed(Placed::at(found.load, self.print.bits())).await {
                return Err(match Box::pin(stream.close()).await {
                    Ok(outcome) => outcome.error.unwrap_or(error).into(),
                    Err(cause) => cause.into(),
                });
            }
        }
        let (partition, lots) = Partition::new(number, stream, found, until);
        Ok(Opened { partition, lots, producer })
    }

    fn source(&self, number: i32) -> String {
        self.request.address.source(self.request.name.as_deref(), number)
    }

    fn warn(&self, warning: String) {
        self.observer.event(Event::Warning(warning));
    }
}

/// Refuses to load a part of a topic into one collection while the rest of the group loads into another one: both would lack
/// documents.
pub(crate) async fn require_one_collection(
    request: &TopicRequest,
    partitions: &[i32],
    service: &Service,
) -> Result<(), Error> {
    let TopicRequest { address, name, load, group, .. } = request;
    let names: Vec<String> = partitions.iter().map(|number| address.source(name.as_deref(), *number)).collect();
    let Some(other) = Box::pin(service.elsewhere(&names)).await? else { return Ok(()) };
    let group = group.as_ref().map_or("", |group| &group.name);
    Err(Error::refused(
        format!(
            "group {group} divides topic {} among processes that load it into {other}; {} would get a part of it",
            address.topic, load.collection
        ),
        "load each collection by a group of its own: --group NAME",
    ))
}

/// How often a client is asked again after an error that may pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tries {
    /// A few times.
    Few,
    /// Until it answers.
    Many,
}

impl Tries {
    /// Asks. No async closure: the compiler would not see that a task which asks may change its thread.
    pub(crate) async fn ask<T, F>(self, question: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        self.ask_aloud(drop, question).await
    }

    /// Asks, and says why the client is asked again if that lasts.
    async fn ask_aloud<T, F>(self, say: impl Fn(String), mut question: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let (mut tries, begun) = (0_u32, Instant::now());
        loop {
            tries = tries.saturating_add(1);
            let goes_on = || match self {
                Self::Few => tries < ASK_TRIES_MAX && begun.elapsed() < ASK_WAIT_MAX,
                Self::Many => true,
            };
            match question().await {
                Ok(answer) => return Ok(answer),
                Err(ClientError::Passing(message)) if goes_on() => {
                    if tries >= RETRIES_SILENT && tries.is_power_of_two() {
                        say(message);
                    }
                    sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Resolves when a partition is not wanted any more.
async fn not_wanted(wanted: &mut watch::Receiver<bool>) {
    // If its sender is gone, the partition is too.
    let _ = wanted.wait_for(|wanted| !*wanted).await;
}
