//! Experiments, workloads and what is recorded of a server, by the library. The numbers that they measure mean nothing.

mod drive;
mod environment;
mod experiments;
mod pages;

use millstream_pg::{ConnInfo, Environment};
use millstream_testkit::TestDatabase;

/// How to reach a database of the tests.
fn conninfo(database: &TestDatabase) -> ConnInfo {
    ConnInfo::parse(&database.url(), &Environment::from_variables([])).expect("the tests have good URLs")
}
