//! Throw-away PostgreSQL servers, and faults, for tests.
//!
//! ```no_run
//! # async fn example() {
//! // A fresh database on the default build.
//! let database = millstream_testkit::database().await;
//! let client = database.client().await;
//! client.batch_execute("create table t (a int)").await.unwrap();
//!
//! // The same test on one of the builds of PostgreSQL that this machine has; at night on each of them.
//! millstream_testkit::each_build(async |database| {
//!     let _ = database.client().await;
//! })
//! .await;
//! # }
//! ```
//!
//! | variable | meaning |
//! |---|---|
//! | `MILLSTREAM_TEST_POSTGRES` | major versions to test, such as `15,18`, the first for single-build tests; default: every version installed, and a downloaded 18 |
//! | `MILLSTREAM_TEST_NO_SKIP` | `1`: a test that cannot run here fails instead of printing `skipped:` |
//! | `MILLSTREAM_TEST_SCALE` | factor on the number of cases of property tests and kills; above 1, every build gets every test, and tests that take minutes run too |
//! | `MILLSTREAM_TEST_DEAL` | a number; the next one deals to most tests another build |
//! | `MILLSTREAM_TEST_SEED` | seed of property tests, to replay a failure |
//! | `MILLSTREAM_TEST_NETWORKMANAGER` | a directory in which NetworkManager and what it needs are unpacked |
//! | `MILLSTREAM_TEST_KAFKA` | a directory with the jars of a broker of Kafka |
//! | `MILLSTREAM_TEST_CITUS` | a directory with the programs of a PostgreSQL that has Citus |
//! | `MILLSTREAM_TEST_SPARK` | a Python that has pyspark, such as `/opt/spark/bin/python`; without it, even where skips fail, its test is skipped |
//! | `MILLSTREAM_TEST_KERNEL` | a Debian package with a kernel, which a test boots in qemu |

#![expect(clippy::print_stdout, reason = "tests speak on stdout, which the harness captures")]

pub mod avro;
mod browser;
mod bucket;
mod build;
mod cases;
mod certificate;
mod citus;
mod compress;
mod database;
mod feature;
mod kafka;
mod kernel_package;
mod limits;
mod loop_disk;
mod need;
mod pieces;
mod place;
mod pooler;
mod port;
pub mod process;
mod proxy;
mod schema;
mod server;
mod small_disk;
mod ssh;
mod template;
mod wait;
mod watchdog;

pub use browser::assert_shown_whole;
pub use bucket::{Answer, Asked, Bucket};
pub use build::{Build, build_with, builds, builds_with, dealt_builds, dealt_builds_with, default_build};
pub use cases::{Cases, cases, dealt, is_night, todays};
pub use certificate::Certificates;
pub use citus::CitusCluster;
pub use compress::{gzip, zstd};
pub use database::{
    DECOYS, TestDatabase, connect, database, database_on, database_with, each_build, each_build_with, every_build,
    every_build_dealing,
};
pub use feature::Feature;
pub use kafka::{KafkaBroker, SecondBroker};
pub use kernel_package::{kernel_package, networkmanager, seldom};
pub use loop_disk::LoopDisk;
pub use need::{Need, machine_has};
pub use pieces::Pieces;
pub use place::Place;
pub use pooler::Pooler;
pub use port::Port;
pub use proxy::{Proxy, Traffic};
pub use schema::misfit;
pub use server::{Server, Settings, StopMode, shared};
pub use small_disk::SmallDisk;
pub use ssh::{RsyncDaemon, SshServer};
pub use wait::{until, until_blocking, until_some};
pub use watchdog::LocalHome;

use std::io::Write;

/// Prints that a test cannot run here, to stderr, which the harness does not capture. With `MILLSTREAM_TEST_NO_SKIP=1`
/// that is a failure.
///
/// # Panics
/// If skips are failures.
pub fn skip(reason: &str) {
    let failing = std::env::var("MILLSTREAM_TEST_NO_SKIP").is_ok_and(|value| value == "1");
    assert!(!failing, "skipped: {reason}");
    aloud("skipped", reason);
}

/// Prints a line about this test, which the harness does not capture.
fn aloud(what: &str, reason: &str) {
    let name = build::test_name().map_or_else(String::new, |name| format!("{name}: "));
    // One write, so that lines of two tests do not mix.
    let _ = std::io::stderr().write_all(format!("{what}: {name}{reason}\n").as_bytes());
}
