//! Named limits of read models: every wait, build and list has one.

use millstream_store::limits::CHANGE_KEYS_MAX;
use std::time::Duration;

/// A walk along an index is left nothing but the index in its order, whatever the statistics say, and ends when
/// nobody is there any more to read its values.
pub const DISTINCT_SETTINGS: &str = "set local enable_seqscan = off; set local enable_bitmapscan = off; \
     set local enable_sort = off; set local client_connection_check_interval = '1s'";

/// How long freezing a collection waits for others to let go of its tables, for each.
pub const FREEZE_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Bytes of tables and indexes that freezing writes anew in a second, about: 60 to 70 MiB on two cores, with documents
/// of 100 bytes and their key's index.
pub const FREEZE_BYTES_PER_SECOND: u64 = 64 << 20;

/// How long publishing and unpublishing wait for writers to let go of the collection's table, for others that publish, and
/// for readers to let go of an index that is to be dropped.
pub const PUBLISH_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Keys of one line of a change record: those of a batch, which grows beyond [`BATCH_ROWS`] by what its last chunk
/// brings. An array ends at 1 GB, and a key of an index at a third of a page: of such, 350,000 fit.
pub const CHANGE_ROW_KEYS: u64 = 250_000;

/// Bytes of a change record beyond which everything counts as changed: some ten million short keys, of
/// which deriving anew is cheaper.
pub const CHANGE_BYTES_MAX: u64 = 256 << 20;

/// Share of a collection's rows up to which a model derives again only what was changed.
pub const INCREMENTAL_SHARE_MAX: f64 = 0.2;

/// Share of dead rows in a model from which on a refresh cleans it itself; half of autovacuum's own share.
pub const LITTER_SHARE_MAX: f64 = 0.1;

/// How long a connection of a build waits for those who wait to change the collection's table, and are waiting for the
/// build themselves: the refresh is begun again behind them.
pub const BUILD_LOCK_WAIT: Duration = Duration::from_secs(1);

/// Tries of a refresh: each but the last fails only when everything changes meanwhile, or somebody waits to change a
/// collection's table.
pub const REFRESH_TRIES_MAX: u32 = 3;

/// Most connections that build a model.
pub const BUILD_WORKERS_MAX: usize = 8;

/// Parts of a collection that one connection of a build derives, so that all end at about one time.
pub const BUILD_RANGES_PER_WORKER: usize = 4;

/// Keys that are named of documents whose value is none of its column's type.
pub const UNCAST_KEYS: usize = 5;

/// How long one try to lock what readers have open may hold up new ones behind running ones.
pub const READERS_HELD_MAX: Duration = Duration::from_millis(50);

/// How long such a lock waits at least for what vacuums or analyzes the table, before the tries that hold up readers: an
/// autovacuum gives way to it after PostgreSQL's `deadlock_timeout`, which is a second.
pub const VACUUM_HELD_WAIT: Duration = Duration::from_secs(3);

/// After how long the server ends a session that has such locks and sends nothing: its client has vanished.
pub const LOCKED_IDLE_MAX: Duration = Duration::from_secs(2);

/// Time between two looks whether old transactions have ended, and first wait after a lock was not to
/// be had.
pub const LOCK_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Longest wait between two tries to lock.
pub const LOCK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a figure of a model waits for others who have its tables locked.
pub const FIGURE_LOCK_WAIT: Duration = Duration::from_secs(1);

/// How long a refresh waits for readers of rows that were replaced before it builds, and once more to show what it has
/// built.
pub const READERS_PATIENCE: Duration = Duration::from_secs(60);

/// How long it waits for readers of the rows that it has replaced; the next refresh tries again.
pub const CLEAR_AFTER_PATIENCE: Duration = Duration::from_millis(500);

const _: () = assert!(CHANGE_ROW_KEYS <= CHANGE_KEYS_MAX, "what fits a line is recorded");
