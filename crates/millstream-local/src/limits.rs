//! Named limits of the local server.

use std::time::Duration;

/// Oldest major version of PostgreSQL that Millstream supports.
pub const MAJOR_MIN: u32 = 15;

/// Major version that is downloaded where none is installed.
pub const MAJOR_DOWNLOADED: u32 = 18;

/// A download source that has not answered after this many seconds is given up for the next one.
pub const SOURCE_ANSWER_SECONDS_MAX: u64 = 5;

/// Longest a download may take: 15-60 MB, at the speed of a bad mobile line.
pub const DOWNLOAD_SECONDS_MAX: u64 = 600;

/// Sessions of the local server.
pub const CONNECTIONS_MAX: u32 = 100;

/// Port that is tried first; the following ones when it is busy. Not PostgreSQL's own 5432, which
/// belongs to a server of the distribution.
pub const PORT_FIRST: u16 = 54_850;

/// Ports that are tried.
pub const PORTS: u16 = 100;

/// Free space below which no new server is made: the empty cluster has 40 MB, its log of changes
/// grows by 16 MB at a time, and documents are to come.
pub const INIT_FREE_BYTES_MIN: u64 = 256 << 20;

/// The server's own log begins anew at a start when it is longer than this; one old one is kept.
pub const LOG_BYTES_MAX: u64 = 64 << 20;

/// Lines of the log that an error shows.
pub const LOG_TAIL_LINES: usize = 12;

/// Longest path of a unix socket in bytes: `sun_path` has 108 on Linux, 104 on other systems.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// Longest wait for a server to become ready, which after a crash includes replaying its log.
pub const START_SECONDS_MAX: u64 = 600;

/// Longest wait for a server to stop, which includes a checkpoint.
pub const STOP_SECONDS_MAX: u64 = 300;

/// Longest wait for another process that starts or stops the server.
pub const LOCK_SECONDS_MAX: u64 = DOWNLOAD_SECONDS_MAX + START_SECONDS_MAX;

/// Time between two looks at something that one waits for.
pub const POLL: Duration = Duration::from_millis(50);

/// Time after which a wait is explained, and again.
pub const PROGRESS_SECONDS: u64 = 5;

/// Children of a killed postmaster end by themselves; after this they are told to, and after the
/// same time again killed.
pub const ORPHAN_SECONDS_MAX: u64 = 5;

const _: () = assert!(MAJOR_MIN <= MAJOR_DOWNLOADED);
const _: () = assert!(SOURCE_ANSWER_SECONDS_MAX < DOWNLOAD_SECONDS_MAX);
const _: () = assert!(PORT_FIRST.checked_add(PORTS).is_some());
const _: () = assert!(LOCK_SECONDS_MAX > START_SECONDS_MAX && LOCK_SECONDS_MAX > STOP_SECONDS_MAX);
const _: () = assert!(PROGRESS_SECONDS <= ORPHAN_SECONDS_MAX);

/// Home of the server when we are root: root's own home cannot be reached by the account that
/// runs the server.
pub const ROOT_HOME: &str = "/var/lib/millstream";
