//! The client that speaks to real brokers, on `krafka`.

use crate::address::Address;
use crate::client::{Client, ClientError, Decision, Lot, Marks, Member, Place, Record, Topic};
use crate::error::Error;
use crate::limits::{ADMIN_WAIT, CONNECT_WAIT, FETCH_BYTES_MAX, FETCH_WAIT, LEADERS_EVERY, POLL_RECORDS_MAX};
use crate::member::{Joining, Membership, member_error};
use crate::properties::{Mechanism, Properties};
use krafka::admin::{
    AdminClient, AlterConsumerGroupOffsetsOptions, ConsumerGroupMember, DescribeConsumerGroupsOptions,
    DescribeTopicsOptions,
};
use krafka::auth::{AuthConfig, TlsConfig};
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel, TopicPartition};
use krafka::error::ErrorCode;
use krafka::{Kafka, KrafkaError};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What brokers say that do not identify a topic.
const UNKNOWN_TOPIC: [u8; 16] = [0; 16];

/// A client of real brokers, for one topic.
pub struct Broker {
    topic: String,
    kafka: Kafka,
    /// What reads. It is in no group.
    consumer: Arc<Consumer>,
    /// What asks who leads the partitions. It ends with this.
    _asking: JoinSet<()>,
    properties: Properties,
    /// Each partition that is read, and where the next record to read is. Whoever holds it may move the consumer.
    places: Mutex<BTreeMap<i32, Place>>,
    /// The member that this process becomes when it joins the group.
    joining: Joining,
    /// The membership in the group, once it is joined.
    membership: OnceLock<Membership>,
    /// What identified the topic when it was first asked for.
    id: OnceLock<[u8; 16]>,
}

/// Connects to the brokers of a topic.
///
/// # Errors
/// Nobody answers, or not this client, or the settings contradict each other.
pub async fn connect(address: &Address, properties: &Properties) -> Result<Broker, Error> {
    let brokers: Vec<&str> = address.brokers.iter().chain(&properties.brokers).map(String::as_str).collect();
    let client_id = properties.client_id.as_deref().unwrap_or("millstream");
    // A member that divides the partitions divides those that it knows of.
    let known_for = properties.metadata_interval.map_or(LEADERS_EVERY, |interval| interval.min(LEADERS_EVERY)) / 2;
    let mut builder = Kafka::builder(brokers.join(",")).client_id(client_id).metadata_max_age(known_for);
    if let Some(security) = security(properties) {
        builder = builder.security(security);
    }
    if let Some(timeout) = properties.request_timeout {
        builder = builder.request_timeout(timeout).connect_timeout(timeout.min(CONNECT_WAIT));
    }
    let kafka = builder.connect().await.map_err(|error| Error::Client { message: error.to_string() })?;
    let mut consumer = kafka
        .consumer_without_group()
        // What is out of range is an error, and never another place.
        .auto_offset_reset(AutoOffsetReset::None)
        .enable_auto_commit(false)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_poll_records(POLL_RECORDS_MAX)
        // Partitions that are paused must not keep the others from being read.
        .max_buffered_records(0)
        .fetch_max_bytes(properties.fetch_bytes.unwrap_or(FETCH_BYTES_MAX))
        .fetch_max_wait(properties.fetch_wait.unwrap_or(FETCH_WAIT))
        .metrics_push(false);
    if let Some(bytes) = properties.partition_fetch_bytes {
        consumer = consumer.max_partition_fetch_bytes(bytes);
    }
    if let Some(rack) = &properties.rack {
        consumer = consumer.client_rack(rack);
    }
    let consumer = consumer.build().await.map_err(|error| Error::Client { message: error.to_string() })?;
    let consumer = Arc::new(consumer);
    let mut asking = JoinSet::new();
    asking.spawn(ask_who_leads(Arc::clone(&consumer), address.topic.clone()));
    Ok(Broker {
        topic: address.topic.clone(),
        kafka,
        consumer,
        _asking: asking,
        properties: properties.clone(),
        places: Mutex::default(),
        joining: Joining::default(),
        membership: OnceLock::new(),
        id: OnceLock::new(),
    })
}

async fn ask_who_leads(consumer: Arc<Consumer>, topic: String) {
    loop {
        sleep(LEADERS_EVERY).await;
        // What fails is asked again.
        let _ = consumer.fetch_metadata(Some(&topic)).await;
    }
}

/// How connections are encrypted, and how the client proves who it is.
fn security(properties: &Properties) -> Option<AuthConfig> {
    let tls = properties.tls.then(|| {
        let mut tls = TlsConfig::new();
        tls = match &properties.ca {
            Some(ca) => tls.with_ca_cert(ca.display().to_string()),
            None => tls.with_native_roots(),
        };
        match &properties.certificate {
            Some((certificate, key)) => {
                tls.with_client_cert(certificate.display().to_string(), key.display().to_string())
            }
            None => tls,
        }
    });
    let sasl = properties.sasl.as_ref().map(|sasl| {
        let (username, password) = (sasl.username.as_str(), sasl.password.as_str());
        match sasl.mechanism {
            Mechanism::Plain => AuthConfig::sasl_plain(username, password),
            Mechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(username, password),
            Mechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(username, password),
        }
    });
    match (sasl, tls) {
        (Some(sasl), Some(tls)) => Some(sasl.with_tls(tls)),
        (Some(sasl), None) => Some(sasl),
        (None, Some(tls)) => Some(AuthConfig::ssl(tls)),
        (None, None) => None,
    }
}

impl Client for Broker {
    async fn topic(&self) -> Result<Topic, ClientError> {
        // The consumer would answer from what it remembers.
        let described = self.admin().describe_topics([&self.topic], DescribeTopicsOptions::default()).await;
        let absent = || ClientError::Final(format!("there is no topic {}", self.topic));
        let topic = described.map_err(client_error)?.remove(&self.topic).ok_or_else(absent)?;
        let topic = topic.map_err(|error| match error {
            KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. } => absent(),
            error => client_error(error),
        })?;
        let id = Some(topic.topic_id).filter(|id| *id != UNKNOWN_TOPIC);
        if let Some(id) = id {
            self.id.get_or_init(|| id);
        }
        Ok(Topic { id, partitions: topic.partitions.iter().map(|one| one.partition).collect() })
    }

    async fn marks(&self, partition: i32) -> Result<Marks, ClientError> {
        let (first, end) = self.consumer.fetch_watermarks(&self.topic, partition).await.map_err(client_error)?;
        let first = offset(first)?;
        // The two are asked for at once, so records may be removed in between.
        let end = offset(end)?.max(first);
        // As of the last records that have come of it.
        let seen = self.consumer.lag().await.remove(&TopicPartition::new(self.topic.as_str(), partition));
        let written = seen.and_then(|seen| seen.high_watermark).map(offset).transpose()?;
        Ok(Marks { first, end, written: written.unwrap_or(end).max(end) })
    }

    async fn offset_at(&self, partition: i32, time_ms: i64) -> Result<Option<u64>, ClientError> {
        let asked = [(self.topic.as_str(), partition)];
        let mut found = self.consumer.offsets_for_times(&asked, time_ms).await;
        let found = found.remove(&(self.topic.clone(), partition));
        let found = found.ok_or_else(|| ClientError::Passing("a broker did not answer".into()))?;
        Ok(u64::try_from(found.map_err(client_error)?).ok())
    }

    async fn assign(&self, places: &[(i32, Option<Place>)]) -> Result<(), ClientError> {
        let numbers = places.iter().map(|(number, _)| *number).collect();
        self.consumer.assign(&self.topic, numbers).await.map_err(client_error)?;
        let mut known = self.places.lock().await;
        known.retain(|number, _| places.iter().any(|(one, _)| one == number));
        for (number, place) in places {
            if let Some(place) = place {
                self.move_to(*number, place.offset).await?;
                self.consumer.resume(&self.topic, &[*number]).await;
                known.insert(*number, *place);
            }
        }
        Ok(())
    }

    async fn pause(&self, partition: i32, paused: bool) {
        match paused {
            true => self.consumer.pause(&self.topic, &[partition]).await,
            false => self.consumer.resume(&self.topic, &[partition]).await,
        }
    }

    async fn poll(&self, wait: Duration) -> Result<Vec<Lot>, ClientError> {
        let before: BTreeMap<i32, u64> =
            self.places.lock().await.iter().map(|(number, place)| (*number, place.reading)).collect();
        let mut read: BTreeMap<i32, Vec<Record>> = BTreeMap::new();
        for found in self.consumer.poll(wait).await.map_err(poll_error)? {
            read.entry(found.partition).or_default().push(record(found)?);
        }
        let mut lots = Vec::new();
        for (number, place) in self.places.lock().await.iter_mut() {
            let records = read.remove(number).unwrap_or_default();
            if before.get(number) != Some(&place.reading) {
                // It was placed anew meanwhile, and nobody knows whether these are from before or after that.
                if !records.is_empty() {
                    self.move_to(*number, place.offset).await?;
                }
                continue;
            }
            let behind = records.last().map(|record| record.offset + 1);
            // The client's place may lie behind control records, and behind records that compaction removed.
            let position = self.consumer.position(&self.topic, *number).await.map(offset).transpose()?;
            let next = position.max(behind).unwrap_or(place.offset);
            if next != place.offset || !records.is_empty() {
                place.offset = next;
                lots.push(Lot { partition: *number, reading: place.reading, records, next });
            }
        }
        if !lots.is_empty() {
            self.require_same_topic().await?;
        }
        Ok(lots)
    }

    async fn commit(&self, offsets: &[(i32, u64)]) -> Result<(), ClientError> {
        let Some(group) = &self.properties.group else { return Ok(()) };
        let mut places = Vec::new();
        for (number, offset) in offsets {
            places.push((*number, signed(*offset)?));
        }
        if let Some(membership) = self.membership.get() {
            return membership.commit(&places).await;
        }
        let place = |(number, offset): &(i32, i64)| (TopicPartition::new(self.topic.as_str(), *number), *offset);
        let places: Vec<_> = places.iter().map(place).collect();
        let options = AlterConsumerGroupOffsetsOptions::default();
        let written = self.admin().alter_consumer_group_offsets(group, places, options).await;
        written.map_err(client_error)?.into_values().collect::<Result<(), _>>().map_err(client_error)
    }

    async fn join(&self, say: impl Fn(String) + Send + Sync) -> Result<(), ClientError> {
        let group = self.properties.group.as_deref().ok_or_else(|| ClientError::Final("no group is named".into()))?;
        let begun = Membership::begin(&self.kafka, &self.topic, group, &self.properties, &self.joining, say);
        let membership = Box::pin(begun).await?;
        self.membership.set(membership).map_err(|_| ClientError::Final("the group is joined already".into()))
    }

    async fn decision(&self) -> Result<Decision, ClientError> {
        match self.membership.get() {
            Some(membership) => membership.decision().await,
            None => std::future::pending().await,
        }
    }

    async fn leave(&self) {
        match self.membership.get() {
            Some(membership) => Box::pin(membership.leave()).await,
            None => Box::pin(self.joining.leave()).await,
        }
    }

    async fn members(&self) -> Result<Vec<Member>, ClientError> {
        let Some(group) = self.properties.group.as_deref() else { return Ok(Vec::new()) };
        let described = self.admin().describe_consumer_groups([group], DescribeConsumerGroupsOptions::default()).await;
        let found = described.map_err(client_error)?.remove(group);
        let members = match found {
            Some(Ok(found)) => found.members,
            Some(Err(KrafkaError::Broker { code: ErrorCode::GroupIdNotFound, .. })) | None => Vec::new(),
            Some(Err(error)) => return Err(member_error(error)),
        };
        let member = |member: ConsumerGroupMember| Member {
            id: member.member_id,
            instance: member.instance_id,
            client: member.client_id,
            host: member.client_host.trim_start_matches('/').to_owned(),
            partitions: {
                let assigned = member.assignment.unwrap_or_default().into_iter();
                assigned.filter(|one| one.topic_name == self.topic).flat_map(|one| one.partitions).collect()
            },
        };
        Ok(members.into_iter().map(member).collect())
    }
}

impl Broker {
    fn admin(&self) -> AdminClient {
        self.kafka.admin().default_api_timeout(self.properties.request_timeout.unwrap_or(ADMIN_WAIT))
    }

    /// The client reads a topic that was made again from the offset where it was, if there is one: the records before it
    /// would be missing, and the load would know only later why.
    async fn require_same_topic(&self) -> Result<(), ClientError> {
        let Some(id) = self.id.get() else { return Ok(()) };
        // What the client has read it by. It asks no broker.
        let known = self.consumer.fetch_metadata(None).await.map_err(client_error)?;
        let is_other = |known: &[u8; 16]| *known != UNKNOWN_TOPIC && known != id;
        match known.topics.iter().any(|topic| topic.name == self.topic && is_other(&topic.topic_id)) {
            true => Err(ClientError::Final(format!("topic {} was made again while it was read", self.topic))),
            false => Ok(()),
        }
    }

    /// Lets the consumer read on there. What it has read of the partition is dropped.
    async fn move_to(&self, partition: i32, offset: u64) -> Result<(), ClientError> {
        self.consumer.seek(&self.topic, partition, signed(offset)?).await.map_err(client_error)
    }
}

/// A record as it was read.
fn record(found: ConsumerRecord) -> Result<Record, ClientError> {
    let ConsumerRecord { offset: place, timestamp, key, value, headers, .. } = found;
    Ok(Record { offset: offset(place)?, timestamp_ms: timestamp, key, value, headers })
}

fn signed(offset: u64) -> Result<i64, ClientError> {
    i64::try_from(offset).map_err(|_| ClientError::Final("an offset is too large".into()))
}

fn offset(place: i64) -> Result<u64, ClientError> {
    u64::try_from(place).map_err(|_| ClientError::Passing(format!("a broker answers with the offset {place}")))
}

fn poll_error(error: KrafkaError) -> ClientError {
    match error {
        KrafkaError::Protocol { .. } => {
            let said = error.to_string();
            // Between them is advice for programmers.
            let parts = said.split_once("; ").zip(said.rsplit_once("Underlying error: "));
            ClientError::Undecodable(parts.map_or(said.clone(), |((place, _), (_, cause))| format!("{place}: {cause}")))
        }
        error => client_error(error),
    }
}

fn client_error(error: KrafkaError) -> ClientError {
    match &error {
        KrafkaError::NoOffset { partitions } if !partitions.is_empty() => {
            ClientError::OutOfRange { partition: partitions[0].1 }
        }
        error if error.is_retriable() => ClientError::Passing(error.to_string()),
        error => ClientError::Final(error.to_string()),
    }
}
