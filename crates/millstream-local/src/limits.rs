//! Named limits of the local server.

use std::time::Duration;

/// Oldest major version of PostgreSQL that Millstream supports.
pub const MAJOR_MIN: u32 = 15;

/// Major version that is downloaded if none is installed.
pub const MAJOR_DOWNLOADED: u32 = 18;

/// Longest wait for a download source to answer; after that the next one is tried.
pub const SOURCE_ANSWER_SECONDS_MAX: u64 = 5;

/// Longest time for a download: 15-60 MB over a bad mobile connection.
pub const DOWNLOAD_SECONDS_MAX: u64 = 600;

/// Port that is tried first; if it is busy, the following ones. It is not PostgreSQL's own 5432, because a server of
/// the distribution may use that. It is below the ports that Linux gives to outgoing connections (32,768 to 60,999): one
/// of those could hold the port of a stopped server at its next start.
pub const PORT_FIRST: u16 = 24_850;

/// Ports that are tried.
pub const PORTS: u16 = 100;

/// Free space below which no new server is made. The empty cluster takes 40 MB, its WAL grows by 16 MB at a time, and
/// documents will follow.
pub const INIT_FREE_BYTES_MIN: u64 = 256 << 20;

/// If the server's log is longer than this, a start begins a new one and keeps the old one, replacing an older one.
pub const LOG_BYTES_MAX: u64 = 64 << 20;

/// Most bytes that are read of a small file of the home or of the data directory, such as `postmaster.pid`.
pub(crate) const DATA_FILE_BYTES_MAX: u64 = 64 << 10;

/// Most bytes that are read of a configuration file of the server. The one that `initdb` makes has 30 KB.
pub(crate) const CONF_BYTES_MAX: u64 = 4 << 20;

/// Lines of the log that an error prints.
pub const LOG_TAIL_LINES: usize = 12;

/// Longest path of a unix socket in bytes: `sun_path` has 108 on Linux, 104 on other systems.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// Longest wait for a server to become ready. After a crash that includes replaying its WAL.
pub const START_SECONDS_MAX: u64 = 600;

/// Longest time for `initdb`, and for `pg_ctl`, which gives up by itself after [`START_SECONDS_MAX`].
pub const PROGRAM_SECONDS_MAX: u64 = 900;

/// Longest wait for a server to stop, including its checkpoint.
pub const STOP_SECONDS_MAX: u64 = 300;

/// Longest wait for another process that starts or stops the server.
pub const LOCK_SECONDS_MAX: u64 = DOWNLOAD_SECONDS_MAX + START_SECONDS_MAX;

/// Time between two checks while waiting.
pub const POLL: Duration = Duration::from_millis(50);

/// Time after which a wait is reported, and reported again.
pub const PROGRESS_SECONDS: u64 = 5;

/// The children of a killed postmaster end by themselves. After this time they get SIGQUIT, and after the same time
/// again SIGKILL.
pub const ORPHAN_SECONDS_MAX: u64 = 5;

/// Times that a keeper starts a server again that has died.
pub const KEEPER_RESTARTS_MAX: u32 = 3;

/// Time between two looks of a keeper.
pub const KEEPER_LOOK: Duration = Duration::from_millis(200);

/// Looks after which a server that runs has not died.
pub const KEEPER_LOOKS_MAX: u32 = 10;

const _: () = assert!(START_SECONDS_MAX < PROGRAM_SECONDS_MAX);
const _: () = assert!(MAJOR_MIN <= MAJOR_DOWNLOADED);
const _: () = assert!(SOURCE_ANSWER_SECONDS_MAX < DOWNLOAD_SECONDS_MAX);
const _: () = assert!(PORT_FIRST.checked_add(PORTS).is_some());
const _: () = assert!(LOCK_SECONDS_MAX > START_SECONDS_MAX && LOCK_SECONDS_MAX > STOP_SECONDS_MAX);
const _: () = assert!(PROGRESS_SECONDS <= ORPHAN_SECONDS_MAX);

/// Home of the server if we are root. The account that runs the server cannot reach root's own home.
pub const ROOT_HOME: &str = "/var/lib/millstream";
