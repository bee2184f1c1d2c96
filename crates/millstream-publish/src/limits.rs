//! Named limits of read models: every wait, build and list has one.

use millstream_store::limits::CHANGE_KEYS_MAX;
use std::time::Duration;

/// Settings of a skip scan. They leave the planner only the index in its order, whatever the statistics say.
pub const DISTINCT_SETTINGS: &str = "set local enable_seqscan = off; set local enable_bitmapscan = off; \
     set local enable_sort = off";

/// How long freezing a collection waits for each lock.
pub const FREEZE_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Bytes of tables and indexes that freezing rewrites in a second, roughly: 60 to 70 MiB on two cores, with documents
/// of 100 bytes and their key's index.
pub const FREEZE_BYTES_PER_SECOND: u64 = 64 << 20;

/// The same for a rewrite in the order of the key, which sorts the rows first: half of that is assumed.
pub const COLD_BYTES_PER_SECOND: u64 = FREEZE_BYTES_PER_SECOND / 2;

/// How long publishing and unpublishing wait: for writers to release the collection's table, for others that publish,
/// and for readers to release an index that is to be dropped.
pub const PUBLISH_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Most keys in one row of a change record. A usual batch fits: it can exceed the engine's `BATCH_ROWS` by the rows of
/// its last chunk. An array is limited to 1 GB, and a key in an index to a third of a page: 350,000 such keys fit.
pub const CHANGE_ROW_KEYS: u64 = 250_000;

/// Bytes of a change record beyond which everything counts as changed. That is some ten million short keys; deriving
/// everything anew is cheaper then.
pub const CHANGE_BYTES_MAX: u64 = 256 << 20;

/// Largest share of a collection's rows for which a refresh derives only the changed rows again.
pub const INCREMENTAL_SHARE_MAX: f64 = 0.2;

/// Share of dead rows in a model above which a refresh vacuums it itself: half of autovacuum's own share.
pub const BLOAT_SHARE_MAX: f64 = 0.1;

/// How long a connection of a build waits behind a session that waits to change the collection's table. That session
/// waits for the build itself, so the refresh starts over after it.
pub const BUILD_LOCK_WAIT: Duration = Duration::from_secs(1);

/// Most columns among which those that tell the rows of a query apart are looked for. An index has no more.
pub const UNIQUE_COLUMNS: usize = 32;

/// Most tries of a refresh. A try is repeated only if everything changed meanwhile, or if a session waits to change a
/// collection's table.
pub const REFRESH_TRIES_MAX: u32 = 3;

/// Most connections that build a model.
pub const BUILD_WORKERS_MAX: usize = 8;

/// How long a refresh waits for one free connection, if the server, the database or the role allows no more now: a session
/// that has just ended still counts for a moment.
pub const CONNECTION_WAIT: Duration = Duration::from_secs(5);

/// Pause between two tries to get it.
pub const CONNECTION_PAUSE: Duration = Duration::from_millis(100);

/// Parts of a collection for each connection of a build, so that all connections end at about the same time.
pub const BUILD_RANGES_PER_WORKER: usize = 4;

/// Most keys that are reported of documents whose value is not valid for its column's type.
pub const INVALID_VALUE_KEYS: usize = 5;

/// How long one try to lock tables may block new readers behind running ones.
pub const READERS_HELD_MAX: Duration = Duration::from_millis(50);

/// How long we wait at least for a vacuum or analyze of the table, before the tries that block readers. An autovacuum
/// yields to a waiting lock after PostgreSQL's `deadlock_timeout`, which is a second.
pub const VACUUM_HELD_WAIT: Duration = Duration::from_secs(3);

/// How long a session that holds such locks may be idle. Then its client has vanished, and the server ends it.
pub const LOCKED_IDLE_MAX: Duration = Duration::from_secs(2);

/// Pause between two checks whether old transactions have ended, and first pause between two tries to lock.
pub const LOCK_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Longest pause between two tries to lock.
pub const LOCK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long reading the figures of a model waits for each table that others have locked.
pub const FIGURE_LOCK_WAIT: Duration = Duration::from_secs(1);

/// How long a refresh waits for readers: of replaced rows before it builds, and of the model before it shows what it
/// has built.
pub const READERS_PATIENCE: Duration = Duration::from_secs(60);

/// How long a refresh then waits for readers of the rows that it has replaced. The next refresh tries again.
pub const CLEAR_AFTER_PATIENCE: Duration = Duration::from_millis(500);

const _: () = assert!(CHANGE_ROW_KEYS <= CHANGE_KEYS_MAX, "what fits a line is recorded");
