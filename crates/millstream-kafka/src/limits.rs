//! Named limits of reading topics: every queue, list, try and wait has one.

use millstream_engine::limits::{SEND_BYTES_MAX, SEND_LINES_MAX, SERVICE_LOADS_MAX};
use std::time::Duration;

/// Most partitions that one process loads. Each is a load with a connection of its own.
pub const PARTITIONS_MAX: usize = SERVICE_LOADS_MAX as usize;

/// Bytes of records that are sent to the engine at once.
pub const PORTION_BYTES: usize = 256 << 10;

/// Most records that are sent to the engine at once.
pub const PORTION_RECORDS: usize = 10_000;

/// Portions of a partition whose commits are awaited. They hold memory of the load until then, so these are few.
pub const COMMITS_MAX: usize = 4_096;

/// Lots of records that wait for a partition besides the one that is sent. The partition is paused meanwhile.
pub const LOTS_MAX: usize = 1;

/// Answers of the client that wait to be dealt out.
pub const POLLS_MAX: usize = 1;

/// Records that the client returns at once, at most.
pub const POLL_RECORDS_MAX: i32 = 10_000;

/// Bytes that a broker returns at once, unless the properties say otherwise.
pub const FETCH_BYTES_MAX: i32 = 16 << 20;

/// How long connecting to a broker may take.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long the client waits for records before it says how far it has come without any.
pub const POLL_WAIT: Duration = Duration::from_millis(500);

/// Wait before the client is asked again after an error that may pass.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Tries to ask the client something before a load begins.
pub const ASK_TRIES_MAX: u32 = 5;

/// Tries after which an error that may pass is reported. Each further report comes after twice as many tries.
pub const RETRIES_SILENT: u32 = 5;

/// How often offsets are written to Kafka, for tools that show how far a group is behind.
pub const OFFSETS_EVERY: Duration = Duration::from_secs(5);

/// How often the topic is looked at for new partitions, and for whether it is still the same topic.
pub const TOPIC_EVERY: Duration = Duration::from_secs(60);

/// Records of a topic from which types are inferred.
pub const SAMPLE_RECORDS: usize = 1_000;

/// Most bytes of them.
pub const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// How long records are awaited for the sample.
pub const SAMPLE_WAIT: Duration = Duration::from_secs(10);

/// Longest file of client settings, in bytes.
pub const PROPERTIES_BYTES_MAX: u64 = 1 << 20;

/// Longest name of a topic, in bytes, as Kafka has it.
pub const TOPIC_BYTES_MAX: usize = 249;

const _: () = assert!(PORTION_BYTES <= SEND_BYTES_MAX && PORTION_RECORDS as u64 <= SEND_LINES_MAX);
