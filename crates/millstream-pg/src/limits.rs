//! The limits of this crate, with the relations between them.

/// Oldest PostgreSQL we work with, as `server_version_num`.
pub const SERVER_VERSION_MIN: i32 = 150_000;

/// Seconds one address may take until the session stands, unless `connect_timeout` says otherwise.
/// libpq waits for the operating system (about two minutes); a loader should say sooner that nobody answers.
pub const CONNECT_TIMEOUT_S: u64 = 15;

/// Longest wait for a closing connection to say goodbye, in milliseconds.
pub const CLOSE_TIMEOUT_MS: u64 = 2_000;

/// Seconds of silence before TCP asks whether the server is still there.
pub const KEEPALIVE_IDLE_S: u64 = 60;
/// Seconds between two such questions.
pub const KEEPALIVE_INTERVAL_S: u64 = 10;
/// Unanswered questions after which the connection is given up.
pub const KEEPALIVE_RETRIES: u32 = 6;

/// Longest identifier PostgreSQL keeps, in bytes (`NAMEDATALEN - 1`).
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// Largest password or service file we read, in bytes.
pub const PASSFILE_BYTES_MAX: u64 = 1 << 20;

/// Hosts in one connection string.
pub const HOSTS_MAX: usize = 64;

/// Longest wait of a lane for a lock somebody else holds, in seconds; the batch is tried again then.
pub const LOCK_TIMEOUT_S: u64 = 60;

/// Longest pause inside a transaction before the server ends the session, in seconds. A stopped client must not hold
/// locks for ever; a batch is sent without pause, so a living lane never gets near it.
pub const IDLE_IN_TRANSACTION_TIMEOUT_S: u64 = 300;

/// Rounds of the search for a transaction pooler, each with two backends compared.
pub const POOLER_ROUNDS: usize = 4;

/// Longest wait for an answer in that search, in seconds.
pub const POOLER_TIMEOUT_S: u64 = 10;

const _: () = assert!(IDLE_IN_TRANSACTION_TIMEOUT_S > LOCK_TIMEOUT_S);
const _: () = assert!(POOLER_ROUNDS >= 2, "a pooler that rotates its servers shows itself in the second round");
