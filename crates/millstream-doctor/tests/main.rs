//! Tests of the doctor against real servers.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod alike;
mod beginnings;
mod bloat;
mod checks;
mod counted;
mod counters;
mod databases;
mod definitions;
mod false_facts;
mod healthy;
mod host;
mod hypothetical;
mod index;
mod join_workload;
mod machine;
mod missing;
mod odd_names;
mod ordered;
mod over_time;
mod page;
mod partition;
mod profile;
mod proof;
mod replication;
mod role_setting;
mod server_faults;
mod server_more;
mod servers;
mod standby;
mod tables;
mod vacuum_causes;
mod written_setting;
