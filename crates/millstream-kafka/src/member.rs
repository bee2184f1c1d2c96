//! Membership in a consumer group, on `krafka`: what the group decides, and that this process lives.
//!
//! The member reads nothing. Its partitions are paused, and records are read by another consumer, which is in no group. So the
//! group may divide its partitions anew, and wait for one that is being released, while the others are read on.

use crate::client::{ClientError, Decision, Released};
use crate::limits::{
    ADMIN_WAIT, DECISIONS_MAX, HEARTBEAT_EVERY, HEARTBEATS_OF_SESSION, LEAVE_WAIT, MEMBER_POLL, NAME_TRIES_SILENT,
    RETRIES_SILENT, RETRY_AFTER, SESSION_TIMEOUT, TOPIC_EVERY,
};
use crate::properties::{Properties, Protocol};
use crate::task::Task;
use krafka::admin::{DescribeConsumerGroupsOptions, DescribeTopicsOptions};
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, GroupProtocol, OffsetAndMetadata,
    PartitionAssignmentStrategy, TopicPartition,
};
use krafka::error::ErrorCode;
use krafka::{CloseOptions, Kafka, KrafkaError, ProtocolErrorKind};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};

/// What a member receives.
type Decided = Result<Decision, ClientError>;

/// A member of a group. It ends without leaving when it is dropped.
pub(crate) struct Membership {
    topic: String,
    consumer: Arc<Consumer>,
    decisions: Mutex<mpsc::Receiver<Decided>>,
    /// What shows the group that the member lives, and looks for what the group does not see.
    _tasks: Vec<Task>,
}

/// The member that this process is about to be. Whoever does not wait for that any more leaves nevertheless: the group would
/// assign partitions to it, and miss it only much later.
#[derive(Default)]
pub(crate) struct Joining(StdMutex<Option<Arc<Consumer>>>);

impl Joining {
    fn put(&self, member: Option<Arc<Consumer>>) -> Option<Arc<Consumer>> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), member)
    }

    /// Leaves the group, if it was about to be joined.
    pub(crate) async fn leave(&self) {
        if let Some(member) = self.put(None) {
            leave(&member).await;
        }
    }
}

impl Membership {
    /// Joins a group, which then divides the partitions of a topic. If the future is dropped before it ends, `joining` leaves.
    /// `say` hears once that the name of the member is taken.
    pub(crate) async fn begin(
        kafka: &Kafka,
        topic: &str,
        group: &str,
        properties: &Properties,
        joining: &Joining,
        say: impl Fn(String) + Send + Sync,
    ) -> Result<Self, ClientError> {
        let (sender, decisions) = mpsc::channel(DECISIONS_MAX);
        let session_timeout = properties.session_timeout.unwrap_or(SESSION_TIMEOUT);
        let (deadline, mut tries) = (Instant::now() + session_timeout + RETRY_AFTER, 0);
        let member = loop {
            match Box::pin(joined(kafka, (topic, group), properties, &sender, joining)).await? {
                Joined::Member(member) => break member,
                Joined::NameTaken(_) if Instant::now() < deadline => {
                    tries += 1;
                    if tries == NAME_TRIES_SILENT {
                        let name = properties.instance.as_deref().unwrap_or_default();
                        say(format!(
                            "group {group} still has a member that is named {name} (--group-instance): waits up to {} s for \
                             the end of its session, in case it was killed",
                            session_timeout.as_secs()
                        ));
                    }
                    sleep(RETRY_AFTER).await;
                }
                Joined::NameTaken(error) => return Err(error),
            }
        };
        joining.put(None);
        let has_orphans = Arc::<AtomicBool>::default();
        let polling = poll(Arc::clone(&member), topic.to_owned(), sender, Arc::clone(&has_orphans));
        let mut tasks = vec![Task::begin(polling)];
        if properties.protocol == Protocol::Classic {
            let (kafka, consumer) = (kafka.clone(), Arc::clone(&member));
            let (every, names) =
                (properties.metadata_interval.unwrap_or(TOPIC_EVERY), (topic.to_owned(), group.to_owned()));
            tasks.push(Task::begin(watch(kafka, consumer, names, every, has_orphans)));
        }
        Ok(Self { topic: topic.to_owned(), consumer: member, decisions: Mutex::new(decisions), _tasks: tasks })
    }

    /// What the group decides next.
    pub(crate) async fn decision(&self) -> Decided {
        let decided = self.decisions.lock().await.recv().await;
        decided.unwrap_or_else(|| Err(ClientError::Final("the membership has ended".into())))
    }

    /// Writes offsets to Kafka, as a member.
    pub(crate) async fn commit(&self, offsets: &[(i32, i64)]) -> Result<(), ClientError> {
        let place = |(number, offset): &(i32, i64)| {
            (TopicPartition::new(self.topic.as_str(), *number), OffsetAndMetadata::new(*offset))
        };
        let places: Vec<_> = offsets.iter().map(place).collect();
        self.consumer.commit_offsets(places).await.map_err(member_error)
    }

    /// Leaves the group. One that has a name keeps its partitions for a while.
    pub(crate) async fn leave(&self) {
        // What the group still asks for is released.
        let mut decisions = self.decisions.lock().await;
        decisions.close();
        while decisions.try_recv().is_ok() {}
        leave(&self.consumer).await;
    }
}

/// Leaves a group. If this fails, the group notices soon.
async fn leave(consumer: &Consumer) {
    let _ = consumer.close_with(CloseOptions::new().timeout(LEAVE_WAIT)).await;
}

/// What becomes of a try to join.
enum Joined {
    Member(Arc<Consumer>),
    /// The name of the member is that of another one, perhaps of one that was killed: the group waits for it for as long as for
    /// any that is silent.
    NameTaken(ClientError),
}

/// Tries to join a group for a topic.
async fn joined(
    kafka: &Kafka,
    (topic, group): (&str, &str),
    properties: &Properties,
    decisions: &mpsc::Sender<Decided>,
    joining: &Joining,
) -> Result<Joined, ClientError> {
    let consumer = Arc::new(OnceLock::new());
    let listener = Listener { topic: topic.to_owned(), consumer: Arc::clone(&consumer), decisions: decisions.clone() };
    let mut builder = kafka
        .consumer(group)
        // Offsets are those of the database.
        .auto_offset_reset(AutoOffsetReset::None)
        .enable_auto_commit(false)
        // Nothing is ever fetched, so each call waits for as long as it may.
        .idle_poll_backoff(MEMBER_POLL)
        .metrics_push(false)
        .max_poll_interval(properties.release_wait())
        .rebalance_listener(listener);
    builder = match properties.protocol {
        Protocol::Consumer => builder.group_protocol(GroupProtocol::Consumer),
        Protocol::Classic => {
            let session_timeout = properties.session_timeout.unwrap_or(SESSION_TIMEOUT);
            let heartbeat = HEARTBEAT_EVERY.min(session_timeout / HEARTBEATS_OF_SESSION);
            builder
                .group_protocol(GroupProtocol::Classic)
                // The others take all partitions from all members whenever one comes or goes.
                .partition_assignment_strategy(PartitionAssignmentStrategy::CooperativeSticky)
                .session_timeout(session_timeout)
                .heartbeat_interval(properties.heartbeat.unwrap_or(heartbeat))
        }
    };
    if let Some(instance) = &properties.instance {
        builder = builder.group_instance_id(instance);
    }
    if let Some(assignor) = &properties.assignor {
        builder = builder.group_remote_assignor(assignor);
    }
    if let Some(rack) = &properties.rack {
        builder = builder.client_rack(rack);
    }
    let member = Arc::new(builder.build().await.map_err(member_error)?);
    let _ = consumer.set(Arc::downgrade(&member));
    joining.put(Some(Arc::clone(&member)));
    member.subscribe([topic]).await.map_err(member_error)?;
    let Err(error) = member.poll(MEMBER_POLL).await else { return Ok(Joined::Member(member)) };
    let is_taken = matches!(error, KrafkaError::Broker { code: ErrorCode::UnreleasedInstanceId, .. });
    match member_error(error) {
        // The next polls ask again.
        ClientError::Passing(_) => Ok(Joined::Member(member)),
        // This client does not ask again.
        error if is_taken => Ok(Joined::NameTaken(error)),
        error => Err(error),
    }
}

/// Shows the group that the member lives, and passes on what it decides. If `has_orphans` says so, the member goes and comes.
async fn poll(consumer: Arc<Consumer>, topic: String, decisions: mpsc::Sender<Decided>, has_orphans: Arc<AtomicBool>) {
    let mut failures = 0u32;
    loop {
        let mut polled = consumer.poll(MEMBER_POLL).await.map(drop);
        if polled.is_ok() && has_orphans.swap(false, Relaxed) {
            // Not beside a poll: that would join with what it was subscribed to in between.
            polled = rejoin(&consumer, &topic).await;
            has_orphans.store(polled.is_err(), Relaxed);
        }
        let Err(error) = polled else {
            failures = 0;
            continue;
        };
        failures += 1;
        let error = member_error(error);
        let is_final = !matches!(error, ClientError::Passing(_));
        if is_final || (failures >= RETRIES_SILENT && failures.is_power_of_two()) {
            let is_heard = decisions.send(Err(error)).await.is_ok();
            if is_final || !is_heard {
                return;
            }
        }
        sleep(RETRY_AFTER).await;
    }
}

/// Leaves and joins. The group then divides the partitions that the topic has now.
async fn rejoin(consumer: &Consumer, topic: &str) -> Result<(), KrafkaError> {
    consumer.unsubscribe().await?;
    consumer.subscribe([topic]).await
}

/// Looks for partitions that nobody has. Members that divide the partitions themselves do not notice that some were added.
async fn watch(
    kafka: Kafka,
    consumer: Arc<Consumer>,
    (topic, group): (String, String),
    every: Duration,
    has_orphans: Arc<AtomicBool>,
) {
    loop {
        sleep(every).await;
        // What this member knows is what it divides, if it is the one that does.
        let _ = consumer.fetch_metadata(Some(&topic)).await;
        if orphans(&kafka, &topic, &group).await == Some(true) {
            has_orphans.store(true, Relaxed);
        }
    }
}

/// Whether a topic has partitions that no member of a group has, although the group is not about to divide them. `None` if that
/// cannot be seen.
async fn orphans(kafka: &Kafka, topic: &str, group: &str) -> Option<bool> {
    let admin = kafka.admin().default_api_timeout(ADMIN_WAIT);
    let described = admin.describe_consumer_groups([group], DescribeConsumerGroupsOptions::default()).await;
    let group = described.ok()?.remove(group)?.ok()?;
    if group.state != "Stable" {
        return Some(false);
    }
    let mut assigned = BTreeSet::new();
    for member in &group.members {
        for one in member.assignment.as_ref()?.iter().filter(|one| one.topic_name == topic) {
            assigned.extend(one.partitions.iter().copied());
        }
    }
    let described = admin.describe_topics([topic], DescribeTopicsOptions::default()).await;
    let topic = described.ok()?.remove(topic)?.ok()?;
    Some(topic.partitions.iter().any(|one| !assigned.contains(&one.partition)))
}

/// Passes on what the group decides.
struct Listener {
    topic: String,
    /// The member, once it is there.
    consumer: Arc<OnceLock<Weak<Consumer>>>,
    decisions: mpsc::Sender<Decided>,
}

impl Listener {
    fn numbers(&self, partitions: &[TopicPartition]) -> Vec<i32> {
        partitions.iter().filter(|one| one.topic == self.topic).map(|one| one.partition).collect()
    }

    /// `false` if nobody waits for decisions any more.
    async fn pass_on(&self, decision: Decision) -> bool {
        self.decisions.send(Ok(decision)).await.is_ok()
    }
}

impl ConsumerRebalanceListener for Listener {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        let numbers = self.numbers(partitions);
        if numbers.is_empty() {
            return;
        }
        if let Some(consumer) = self.consumer.get().and_then(Weak::upgrade) {
            for number in &numbers {
                // Without a place it would look for one. It is never read there.
                let _ = consumer.seek(&self.topic, *number, 0).await;
            }
            consumer.pause(&self.topic, &numbers).await;
        }
        self.pass_on(Decision::Assigned(numbers)).await;
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        let (released, dropped) = Released::new();
        if self.pass_on(Decision::Revoked(self.numbers(partitions), released)).await {
            dropped.await;
        }
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        self.pass_on(Decision::Lost(self.numbers(partitions))).await;
    }
}

/// Errors of a member: what a group answers while it divides its partitions passes.
pub(crate) fn member_error(error: KrafkaError) -> ClientError {
    let text = error.to_string();
    match &error {
        KrafkaError::Protocol { kind: ProtocolErrorKind::UnknownApiVersion, .. }
        | KrafkaError::Broker { code: ErrorCode::UnsupportedVersion, .. } => ClientError::Final(
            "the brokers do not divide partitions themselves; group.protocol=classic in a file for --properties lets the \
             members do it"
                .into(),
        ),
        KrafkaError::Broker { code: ErrorCode::InconsistentGroupProtocol, .. } => ClientError::Final(format!(
            "the group has members that divide the partitions in another way; its members need the same settings ({text})"
        )),
        KrafkaError::Broker { code: ErrorCode::UnreleasedInstanceId | ErrorCode::FencedInstanceId, .. }
        | KrafkaError::Fenced { .. } => ClientError::Final(format!(
            "another process is the member of this --group-instance, or was killed so recently that the group waits for it \
             ({text})"
        )),
        KrafkaError::Broker {
            code: ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::MemberIdRequired,
            ..
        }
        | KrafkaError::IllegalState { .. } => ClientError::Passing(text),
        error if error.is_retriable() => ClientError::Passing(text),
        _ => ClientError::Final(text),
    }
}
