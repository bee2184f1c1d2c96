//! The limits of this crate, with the relations between them.

/// Oldest PostgreSQL version that we support, as `server_version_num`.
pub const SERVER_VERSION_MIN: i32 = 150_000;

/// Time limit for opening a session at one address, in seconds, unless `connect_timeout` sets another.
/// libpq waits for the operating system (about two minutes). A loader should report sooner that nobody answers.
pub const CONNECT_TIMEOUT_S: u64 = 15;

/// How long further sessions may take when the first of several is open, in seconds. A server that has answered once
/// answers the others in milliseconds.
pub const FURTHER_SESSIONS_WAIT_S: u64 = 5;

/// Tries in a row for one more session that a limit may refuse, when it has refused some that were begun at once.
pub const FURTHER_SESSIONS_TRIES_MAX: u32 = 3;

/// Wait before each of those tries, in milliseconds: a session that was refused or has ended counts until its process is
/// gone.
pub const SESSION_END_WAIT_MS: u64 = 100;

/// How long to wait for one session while the server, the database or the role allows no more, in seconds: those that
/// have just ended are gone by then.
pub const FREE_SESSION_WAIT_S: u64 = 5;

/// Longest wait for a connection to close, in milliseconds.
pub const CLOSE_TIMEOUT_MS: u64 = 2_000;

/// Longest wait for a server to take requests to cancel, in milliseconds.
pub const CANCEL_TIMEOUT_MS: u64 = 1_000;

/// Longest standstill without a word, in seconds. Then a line says why nothing moves.
pub const STANDSTILL_AFTER_S: u64 = 10;

/// Each further line comes after this many times as long as the one before.
pub const STANDSTILL_GROWTH: u32 = 3;

/// Looks at the progress in the time after which a standstill is reported.
pub const STANDSTILL_LOOKS: u32 = 10;

/// Longest time that the server may take to say what its sessions wait for, in seconds.
pub const STANDSTILL_TIMEOUT_S: u64 = 5;

/// Idle seconds before TCP sends the first keepalive probe.
pub const KEEPALIVE_IDLE_S: u64 = 60;
/// Seconds between two probes.
pub const KEEPALIVE_INTERVAL_S: u64 = 10;
/// Unanswered probes after which the connection is dead.
pub const KEEPALIVE_RETRIES: u32 = 6;

/// Longest identifier that PostgreSQL keeps, in bytes (`NAMEDATALEN - 1`).
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// Largest password or service file that we read, in bytes.
pub const PASSFILE_BYTES_MAX: u64 = 1 << 20;

/// Largest file of certificates or of a key that we read, in bytes. All authorities of a system take some 200 kB.
pub const CERTIFICATES_BYTES_MAX: u64 = 16 << 20;

/// Most bytes that are read from a server before the login is done. Certificates, settings and notices take some thousand.
pub const LOGIN_BYTES_MAX: u64 = 1 << 20;

/// Most hosts in one connection string.
pub const HOSTS_MAX: usize = 64;

/// Longest wait of a lane for a lock that another session holds, in seconds. Then the batch is tried again.
pub const LOCK_TIMEOUT_S: u64 = 60;

/// Longest pause inside a transaction before the server ends the session, in seconds. A stopped client must not hold
/// locks for ever. A lane sends a batch without pause, so a live lane never gets near this limit.
pub const IDLE_IN_TRANSACTION_TIMEOUT_S: u64 = 300;

/// Rounds of the check for a transaction pooler. Each compares two backends.
pub const POOLER_ROUNDS: usize = 4;

/// Longest wait for an answer in that check, in seconds.
pub const POOLER_TIMEOUT_S: u64 = 10;

const _: () = assert!(FURTHER_SESSIONS_WAIT_S < CONNECT_TIMEOUT_S && FURTHER_SESSIONS_WAIT_S < STANDSTILL_AFTER_S);
const _: () = assert!(IDLE_IN_TRANSACTION_TIMEOUT_S > LOCK_TIMEOUT_S);
const _: () = assert!(POOLER_ROUNDS >= 2, "a pooler that rotates its servers shows itself in the second round");

/// Most sessions of a server that we set up (`max_connections`).
pub const SESSIONS_MAX: u32 = 100;
