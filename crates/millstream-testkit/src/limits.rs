//! Named limits of the test servers.

use std::ops::Range;
use std::time::Duration;

/// Most builds of PostgreSQL that one process tests against.
pub(crate) const BUILDS_MAX: usize = 64;

/// Ports of test servers. They are below the range of ports for outgoing connections, so that a stopped server finds
/// its own port free when it starts again, and above those that Millstream's local servers try.
pub(crate) const PORTS: Range<u16> = 25_000..32_000;

/// Most ports that are tried.
pub(crate) const PORT_TRIES_MAX: usize = 20;

/// Longest wait for a server to start or stop.
pub(crate) const WAIT_SECONDS_MAX: u64 = 120;

/// Time between two checks of a stopping server.
pub(crate) const STOP_POLL: Duration = Duration::from_millis(20);

/// Longest wait of a test for an event.
pub(crate) const EVENT_TIME_MAX: Duration = Duration::from_secs(120);

/// Time between two looks whether it has happened.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Longest time for a program. `pg_ctl` gives up by itself before.
pub(crate) const PROGRAM_TIME_MAX: Duration = Duration::from_secs(WAIT_SECONDS_MAX * 2);

/// Memory that must be free to keep servers in it: the databases of all tests together.
pub(crate) const MEMORY_BYTES_MIN: u64 = 8 << 30;

/// Time that a page has in a browser, by the browser's own clock, which runs faster while it waits.
pub(crate) const PAGE_TIME_MAX: Duration = Duration::from_secs(10);

/// Size of a page that is too large for a telephone.
pub(crate) const PAGE_BYTES_MAX: usize = 2_000_000;

/// Longest time for a browser, its start included.
pub(crate) const BROWSER_TIME_MAX: Duration = Duration::from_secs(60);

const _: () = assert!(PORTS.end < 32_768, "the first port of outgoing connections on Linux");
