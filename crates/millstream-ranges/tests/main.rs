//! Stores on a real disk, their twins in a real PostgreSQL, and the programs of others that read and write them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod agreement;
mod build;
mod damage;
mod dirty;
mod disk;
mod generation;
mod kill;
mod oracle;
mod pages;
mod process;
mod programs;
mod query;
mod readers;
mod recursor;
mod rejects;
mod return_trip;
mod stored;
mod table;
mod table_rights;
