//! Named limits of reading topics: every queue, list, try and wait has one.

use millstream_engine::limits::{SEND_BYTES_MAX, SEND_LINES_MAX, SERVICE_LOADS_MAX};
use std::time::Duration;

/// Most partitions that one process loads. Each is a load with a connection of its own.
pub const PARTITIONS_MAX: usize = SERVICE_LOADS_MAX as usize;

/// Partitions that are opened at once when a load begins. One waits for the session that they share while others connect.
pub const OPENINGS_MAX: usize = 8;

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

/// Records that the client returns at once, at most. Of what a broker has returned, the client decodes twice as many, throws
/// the rest away, and asks for it again.
pub const POLL_RECORDS_MAX: i32 = 10_000;

/// Bytes that a broker returns at once, unless the properties say otherwise: as many as the client decodes of records of 150
/// bytes. Every partition that is read may be in it, so with more, most of it would be thrown away if there are many: with 16
/// MiB, of a topic of 64 partitions it was fetched seven times. A record that waits also keeps all that it came with.
pub const FETCH_BYTES_MAX: i32 = 3 << 20;

/// How long a broker may wait for new records before it answers, unless the properties say otherwise. All brokers are asked at
/// once, and the answer of one waits for those of the others: with Kafka's default of 500 ms, a broker without news would let the
/// others send two answers a second.
pub const FETCH_WAIT: Duration = Duration::from_millis(50);

/// How often the client asks which brokers lead the partitions. By itself it asks only if a broker answers that it does not lead
/// one any more, and a broker that has crashed does not answer.
pub const LEADERS_EVERY: Duration = Duration::from_secs(10);

/// How long connecting to a broker may take.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long the client waits for records before it says how far it has come without any.
pub const POLL_WAIT: Duration = Duration::from_millis(500);

/// Wait before the client is asked again after an error that may pass.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Tries to ask the client something before a load begins.
pub const ASK_TRIES_MAX: u32 = 5;

/// How long after the first of these tries another one may begin.
pub const ASK_WAIT_MAX: Duration = Duration::from_secs(15);

/// How long the client asks the brokers something about the topic or the group, with tries of its own, unless the properties
/// say otherwise.
pub const ADMIN_WAIT: Duration = Duration::from_secs(10);

/// Tries after which an error that may pass is reported. Each further report comes after twice as many tries.
pub const RETRIES_SILENT: u32 = 5;

/// How often offsets are written to Kafka, for tools that show how far a group is behind.
pub const OFFSETS_EVERY: Duration = Duration::from_secs(5);

/// How often the topic is looked at for new partitions, and for whether it is still the same topic.
pub const TOPIC_EVERY: Duration = Duration::from_secs(60);

/// How long what was read of a partition may be committed when a group takes it back, by default.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long a member waits, beyond that, for another one to release a partition, by default. A member sends a heartbeat every few
/// seconds, so one that lives knows by then that the partition is not its own any more.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a group waits at most, beyond the drain, for a partition to be released. A member that answers later than its group
/// allows would lose all of its partitions.
pub const RELEASE_SLACK: Duration = Duration::from_secs(5);

/// Pause between two looks whether a partition that runs elsewhere is released.
pub const HOLDER_EVERY: Duration = Duration::from_millis(250);

/// Looks after which a partition that waits is reported. Each further report comes after four times as many.
pub const HOLDER_LOOKS_SILENT: u32 = 8;

/// Decisions of a group that wait to be carried out.
pub const DECISIONS_MAX: usize = 16;

/// How long one call of a client that is a member of a group may take. Each shows the group that the member works.
pub const MEMBER_POLL: Duration = Duration::from_millis(200);

/// How long leaving a group may take. Then the group notices by itself.
pub const LEAVE_WAIT: Duration = Duration::from_secs(5);

/// How long a client may take to accept a list of partitions. Then the list is sent again.
pub const ASSIGN_WAIT: Duration = Duration::from_secs(10);

/// How often what takes too long is looked for.
pub const BEAT: Duration = Duration::from_secs(1);

/// How long writing the last offsets to Kafka may take, when a load ends.
pub const LAST_OFFSETS_WAIT: Duration = Duration::from_secs(5);

/// How long a broker goes without a heartbeat before a member counts as gone, unless the properties say otherwise. Source: the
/// defaults of Kafka, `session.timeout.ms` and `group.consumer.session.timeout.ms`.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(45);

/// Tries to join under a name that another member has, after which that is said.
pub const NAME_TRIES_SILENT: u32 = 3;

/// Heartbeats of a member in that time, if the members divide the partitions.
pub const HEARTBEATS_OF_SESSION: u32 = 4;

/// How often a member sends a heartbeat at least, if the members divide the partitions. With each, it may learn that they are
/// divided anew.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(3);

/// The part of that time which a member that lives may take to notice that partitions are not its own any more: one in so many.
pub const PATIENCE_SHARE: u32 = 4;

/// How long a member may take to release partitions, unless the properties say otherwise. Source: the default of Kafka,
/// `max.poll.interval.ms`.
pub const POLL_INTERVAL: Duration = Duration::from_secs(300);

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

const _: () = assert!(HEARTBEATS_OF_SESSION >= PATIENCE_SHARE, "who lives notices it in that time");
const _: () = assert!(PORTION_BYTES <= SEND_BYTES_MAX && PORTION_RECORDS as u64 <= SEND_LINES_MAX);
