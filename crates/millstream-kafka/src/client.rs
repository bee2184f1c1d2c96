//! What is needed of a client of Kafka: a few methods, so that one can take the place of another.

use bytes::Bytes;
use std::time::Duration;
use tokio::sync::oneshot;

/// A client that reads one topic, and may be a member of a consumer group.
pub trait Client: Send + Sync + 'static {
    /// The topic as it is now.
    fn topic(&self) -> impl Future<Output = Result<Topic, ClientError>> + Send;

    /// Where the records of a partition begin and end now. Records of open transactions come after the end.
    fn marks(&self, partition: i32) -> impl Future<Output = Result<Marks, ClientError>> + Send;

    /// The first offset whose record was written at this time or later, in milliseconds since 1970. `None` if there is
    /// no such record.
    fn offset_at(&self, partition: i32, time_ms: i64) -> impl Future<Output = Result<Option<u64>, ClientError>> + Send;

    /// Reads these partitions, and no others. One with a place begins a new reading there, and is not paused. One without
    /// a place goes on as before. If the future is dropped before it ends, call this again.
    fn assign(&self, places: &[(i32, Option<Place>)]) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// Reads nothing more of a partition for now, or reads it again.
    fn pause(&self, partition: i32, paused: bool) -> impl Future<Output = ()> + Send;

    /// Waits for records, for so long. Records of aborted transactions and control records are left out.
    fn poll(&self, wait: Duration) -> impl Future<Output = Result<Vec<Lot>, ClientError>> + Send;

    /// Writes offsets to Kafka, only for tools that show how far a group is behind.
    fn commit(&self, offsets: &[(i32, u64)]) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// Becomes a member of the group. From then on it shows the group that this process lives, whatever else it does. `say`
    /// hears the reason if joining takes long.
    fn join(&self, say: impl Fn(String) + Send + Sync) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// The next decision of the group. No decision is lost if the future is dropped. Without membership it never resolves.
    fn decision(&self) -> impl Future<Output = Result<Decision, ClientError>> + Send;

    /// Leaves the group, so that others get what was assigned to this member. Takes a few seconds at most.
    fn leave(&self) -> impl Future<Output = ()> + Send;

    /// The members of the group.
    fn members(&self) -> impl Future<Output = Result<Vec<Member>, ClientError>> + Send;
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// What identifies it, if the brokers say so. A topic that is made again has another one.
    pub id: Option<[u8; 16]>,
    /// The numbers of its partitions.
    pub partitions: Vec<i32>,
}

/// Where the records of a partition begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// The first offset that is left.
    pub first: u64,
    /// The offset behind the last record that can be read.
    pub end: u64,
    /// The offset behind the last record that is written. The records in between wait for a transaction that is open.
    pub written: u64,
}

/// Where a reading of a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The first offset that is read.
    pub offset: u64,
    /// The number of this reading. What is on the way of an earlier one has another number.
    pub reading: u64,
}

/// Records of a partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lot {
    /// The partition.
    pub partition: i32,
    /// The reading that they come from.
    pub reading: u64,
    /// Its records, perhaps none.
    pub records: Vec<Record>,
    /// The offset from which the client reads on. It may lie beyond the last record: offsets of control records, and of
    /// records that compaction removed, have none.
    pub next: u64,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Its offset.
    pub offset: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The message's key.
    pub key: Option<Bytes>,
    /// The message.
    pub value: Option<Bytes>,
    /// Its headers, in order. A name may come more than once.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// What a group decides about partitions.
#[derive(Debug)]
pub enum Decision {
    /// They are read here from now on.
    Assigned(Vec<i32>),
    /// They are read elsewhere as soon as they are released here.
    Revoked(Vec<i32>, Released),
    /// The group has not heard of this member for too long. They may be read elsewhere already.
    Lost(Vec<i32>),
}

/// A group waits for partitions until this is dropped.
#[derive(Debug)]
pub struct Released {
    _waited_for: oneshot::Sender<()>,
}

impl Released {
    /// One, and what ends when it is dropped.
    pub fn new() -> (Self, impl Future<Output = ()> + Send) {
        let (sender, dropped) = oneshot::channel();
        let dropped = async move {
            // Nothing is ever sent.
            let _ = dropped.await;
        };
        (Self { _waited_for: sender }, dropped)
    }
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the group calls it.
    pub id: String,
    /// What it calls itself, if it keeps its partitions when it is restarted.
    pub instance: Option<String>,
    /// What the brokers call its client.
    pub client: String,
    /// Where it runs.
    pub host: String,
    /// The partitions of the topic that are assigned to it.
    pub partitions: Vec<i32>,
}

/// Why a client did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It may pass.
    #[error("{0}")]
    Passing(String),
    /// It does not pass.
    #[error("{0}")]
    Final(String),
    /// Records have come, and cannot be decoded.
    #[error("{0}")]
    Undecodable(String),
    /// A partition has no record at the offset from which it should be read: it begins later, or ends earlier.
    #[error("partition {partition} does not have the offset that is read next")]
    OutOfRange {
        /// The partition.
        partition: i32,
    },
}
