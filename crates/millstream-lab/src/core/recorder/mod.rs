//! The recorder: a process beside every run that writes down each second what machine and server did.
//!
//! It is the program itself, with a hidden command, so that its cost can be told from the cost of the run. Its values
//! have names such as `disk.data.flush_ms`: the source, what of it, and the unit last.

mod checkpoints;
mod database;
mod disks;
mod file;
mod io;
mod memory;
mod network;
mod place;
mod pressure;
mod process;
mod processor;
mod reading;
mod schedule;
mod session;
mod statements;
mod throttling;
mod track;
mod waits;
mod wal;

pub use file::Recording;
pub use process::{Recorder, Watched};
pub use schedule::{Options, run};

use place::Surroundings;
use reading::{Delta, Sample, Values};

/// A source of values.
struct Source {
    /// Its name in notes.
    name: &'static str,
    /// How it is read.
    read: Read,
    /// The values of two readings. Names end with the unit.
    values: fn(&Delta<'_>, &mut Values),
}

/// How a source is read.
enum Read {
    /// From files of the kernel.
    Kernel(fn(&Surroundings) -> Sample),
    /// From the server: the query for this version of it (such as 150014), if it has the source. The query's columns of
    /// type float8 become counters by their names; a column `label` comes before the name. Nulls are left out.
    Server(fn(i32) -> Option<&'static str>),
}

/// Every source, by name. What sessions wait for is sampled more often, by [`waits`].
const SOURCES: &[Source] = &[
    checkpoints::SOURCE,
    database::SOURCE,
    disks::SOURCE,
    io::SOURCE,
    memory::SOURCE,
    network::SOURCE,
    pressure::SOURCE,
    processor::SOURCE,
    statements::SOURCE,
    throttling::SOURCE,
    wal::SOURCE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_reads_this_machine_or_has_a_query_for_the_newest_server() {
        for source in SOURCES {
            match source.read {
                Read::Kernel(read) => {
                    let reading = read(&Surroundings::default());
                    assert!(reading.counters.values().chain(reading.gauges.values()).all(|value| *value >= 0.0));
                }
                Read::Server(query) => {
                    assert!(query(180_000).is_some_and(|sql| sql.contains("float8")), "{}", source.name)
                }
            }
        }
    }
}
