//! Subjects: what is measured, one file each.

mod copy;
mod millstream;

use crate::bench::{Bench, wal_end};
use crate::data_set::{DataSet, Expected};
use crate::error::Error;
use crate::sample::{Measures, Outcome, Sample, Timing};
use millstream_pg::Connection;
use std::path::PathBuf;
use std::pin::Pin;

/// Something that fills a table, in one phase after the other.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the list.
    pub about: &'static str,
    /// What it does to its table, in this order.
    pub phases: &'static [Phase],
    run: Run,
}

/// One measured step of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Number of the wave of documents that it loads.
    pub wave: u32,
    /// Counter of the receipt that all documents must stand in.
    counter: &'static str,
}

/// Loads a phase's wave into a table and says what that took.
type Run = for<'a> fn(&'a Trial<'a>, &'a Phase, &'a str) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<Timing, Error>> + 'a>>;

/// Every subject, in the order of the report; the first is what the others are compared with.
pub const SUBJECTS: &[Subject] = &[copy::SUBJECT, millstream::SUBJECT];

/// A data set on the disk.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) data_set: DataSet,
    /// A file and what a table holds after it, for each wave.
    pub(crate) waves: Vec<(PathBuf, Expected)>,
    /// The first wave, encoded for COPY, one file a connection.
    pub(crate) streams: Vec<PathBuf>,
}

/// One round of one data set.
pub(crate) struct Trial<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) control: &'a Connection,
    pub(crate) prepared: &'a Prepared,
    pub(crate) lanes: u16,
    pub(crate) round: u32,
    /// The server lets us ask for checkpoints.
    pub(crate) checkpoints: bool,
    /// `create table`, with [`TABLE`] in the place of the name.
    pub(crate) definition: &'a str,
}

/// Stands for the name of the table in a definition.
pub(crate) const TABLE: &str = "the_table";

impl Trial<'_> {
    /// Runs a subject through its phases on a fresh table and drops the table.
    pub(crate) async fn run(&self, subject: &Subject, turn: u32) -> Result<Vec<Sample>, Error> {
        let data_set = self.prepared.data_set.name.replace('-', "_");
        let table = format!("{}_{data_set}_{}", subject.name, self.round);
        let mut samples = Vec::new();
        let mut failed = None;
        for phase in subject.phases {
            let outcome = match failed {
                Some(before) => Outcome::Error(format!("not run, because {before} failed")),
                None => self
                    .measure(subject, phase, &table)
                    .await
                    .map_or_else(|error| Outcome::Error(error_chain(&error)), Outcome::Measured),
            };
            if matches!(outcome, Outcome::Error(_)) {
                failed = failed.or(Some(phase.name));
            }
            samples.push(Sample {
                data_set: self.prepared.data_set.name.clone(),
                round: self.round,
                turn,
                subject: subject.name.to_owned(),
                phase: phase.name.to_owned(),
                rows: self.prepared.data_set.documents,
                outcome,
            });
        }
        let drop = format!("drop table if exists {}", self.bench.quoted(&table));
        self.control.client.batch_execute(&drop).await?;
        Ok(samples)
    }

    /// One phase: a checkpoint, the clock, the proof that the result is right.
    ///
    /// The checkpoint is there so that no subject pays for the writes of the one before. The proof reads the table,
    /// which sets hint bits: a phase after it finds them set, in every round.
    async fn measure(&self, subject: &Subject, phase: &Phase, table: &str) -> Result<Measures, Error> {
        if self.checkpoints {
            self.control.client.batch_execute("checkpoint").await?;
        }
        let wal_before = wal_end(self.control).await?;
        let timing = (subject.run)(self, phase, table).await?;
        let wal_bytes = wal_end(self.control).await?.saturating_sub(wal_before);
        let (_, expected) = self.wave(phase);
        self.bench.verify(self.control, table, expected).await?;
        check_receipt(&timing, phase, expected)?;
        let size = self.bench.size(self.control, table).await?;
        Ok(Measures { timing, wal_bytes, size })
    }

    pub(crate) fn wave(&self, phase: &Phase) -> &(PathBuf, Expected) {
        &self.prepared.waves[phase.wave as usize - 1]
    }
}

/// Waves that the phases of all subjects need.
pub(crate) fn waves() -> u32 {
    SUBJECTS.iter().flat_map(|subject| subject.phases).map(|phase| phase.wave).max().unwrap_or(0)
}

/// A receipt must tell the same as the table.
fn check_receipt(timing: &Timing, phase: &Phase, expected: &Expected) -> Result<(), Error> {
    let Some(receipt) = &timing.receipt else {
        return Ok(());
    };
    for name in ["read", phase.counter] {
        let value = receipt.get(name).and_then(serde_json::Value::as_u64);
        if value != Some(expected.rows) {
            let value = value.map_or("nothing".to_owned(), |value| value.to_string());
            return Err(Error::Wrong(format!("the receipt says {value} for {name} instead of {}", expected.rows)));
        }
    }
    Ok(())
}

/// An error with its causes, in one line.
fn error_chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        next = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_names_and_start_with_a_fresh_table() {
        let mut names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
        names.dedup();
        assert_eq!(names, ["copy", "millstream"]);
        assert!(SUBJECTS.iter().all(|subject| subject.phases[0].wave == 1));
        assert_eq!(waves(), 3);
    }

    #[test]
    fn a_receipt_that_tells_something_else_is_an_error() {
        let expected = Expected { rows: 10, sum: 0 };
        let phase = Phase { name: "changed", wave: 2, counter: "updated" };
        let timing = |receipt| Timing {
            wall_seconds: 1.0,
            client_cpu_seconds: None,
            client_peak_bytes: None,
            receipt: Some(receipt),
        };
        assert!(check_receipt(&timing(serde_json::json!({"read": 10, "updated": 10})), &phase, &expected).is_ok());
        let wrong = check_receipt(&timing(serde_json::json!({"read": 10, "updated": 9})), &phase, &expected);
        assert_eq!(wrong.unwrap_err().to_string(), "wrong result: the receipt says 9 for updated instead of 10");
        assert!(check_receipt(&timing(serde_json::json!({})), &phase, &expected).is_err());
    }
}
