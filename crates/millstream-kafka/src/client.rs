//! What is needed of a client of Kafka: a few methods, so that one can take the place of another.

use bytes::Bytes;
use std::time::Duration;

/// A client that reads one topic.
pub trait Client: Send + Sync + 'static {
    /// The topic as it is now.
    fn topic(&self) -> impl Future<Output = Result<Topic, ClientError>> + Send;

    /// Where the records of a partition begin and end now. Records of open transactions come after the end.
    fn marks(&self, partition: i32) -> impl Future<Output = Result<Marks, ClientError>> + Send;

    /// The first offset whose record was written at this time or later, in milliseconds since 1970. `None` if there is
    /// no such record.
    fn offset_at(&self, partition: i32, time_ms: i64) -> impl Future<Output = Result<Option<u64>, ClientError>> + Send;

    /// Reads these partitions, and no others, from these offsets on, also if they were paused. Partitions that it reads
    /// already stay as they are, if their offset is `None`.
    fn assign(&self, places: &[(i32, Option<u64>)]) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// Reads a partition from this offset on.
    fn seek(&self, partition: i32, offset: u64) -> impl Future<Output = Result<(), ClientError>> + Send;

    /// Reads nothing more of a partition for now, or reads it again.
    fn pause(&self, partition: i32, paused: bool) -> impl Future<Output = ()> + Send;

    /// Waits for records, for so long. Records of aborted transactions and control records are left out.
    fn poll(&self, wait: Duration) -> impl Future<Output = Result<Vec<Lot>, ClientError>> + Send;

    /// Writes offsets to Kafka, only for tools that show how far a group is behind.
    fn commit(&self, offsets: &[(i32, u64)]) -> impl Future<Output = Result<(), ClientError>> + Send;
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
    /// The offset behind the last record.
    pub end: u64,
}

/// Records of a partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lot {
    /// The partition.
    pub partition: i32,
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

/// Why a client did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It may pass.
    #[error("{0}")]
    Passing(String),
    /// It does not pass.
    #[error("{0}")]
    Final(String),
    /// A partition has no record at the offset from which it should be read: it begins later, or ends earlier.
    #[error("partition {partition} does not have the offset that is read next")]
    OutOfRange {
        /// The partition.
        partition: i32,
    },
}
