//! Subjects: what is measured, one file each.

mod copy;
mod millstream;
mod mongo;
mod psql;
mod psycopg;

use crate::bench::{Bench, wal_end};
use crate::data_set::{DataSet, Expected};
use crate::durability::Durability;
use crate::error::Error;
use crate::sample::{Measures, Outcome, Sample, Timing};
use crate::tool::{Tool, Tools};
use millstream_pg::Connection;
use std::path::PathBuf;
use std::pin::Pin;

/// Something that fills a table, in one phase after the other.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the report.
    pub about: &'static str,
    /// What it does to its table, in this order.
    pub phases: &'static [Phase],
    /// Where its documents go.
    store: Store,
    /// It is too slow for all documents and gets a data set of few.
    few: bool,
    /// Programs that it needs.
    pub(crate) tools: &'static [&'static Tool],
    run: Run,
}

/// One measured step of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Number of the wave of documents that it loads.
    pub wave: u32,
    /// Counter of the receipt that all documents must stand in; `None` where no receipt is printed.
    counter: Option<&'static str>,
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// A table of the run's schema.
    Postgres,
    /// A collection of the run's database.
    Mongo,
}

/// Loads a phase's wave into a table and says what that took.
type Run = for<'a> fn(&'a Trial<'a>, &'a Phase, &'a str) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<Timing, Error>> + 'a>>;

/// Every subject, in the order of the reports.
pub const SUBJECTS: &[Subject] = &[
    copy::SUBJECT,
    millstream::SUBJECT,
    psycopg::RECIPE,
    psycopg::PIPELINED,
    psycopg::EXECUTEMANY,
    psycopg::SINGLE,
    psql::SUBJECT,
    mongo::IMPORT,
    mongo::BULK_WRITE,
];

/// What a program that keeps no account does: all keys new, then every document changed, in another order.
const UPSERT_PHASES: &[Phase] =
    &[Phase { name: "fresh", wave: 1, counter: None }, Phase { name: "changed", wave: 2, counter: None }];

/// A data set on the disk.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) data_set: DataSet,
    /// A file and what a table holds after it, for each wave.
    pub(crate) waves: Vec<(PathBuf, Expected)>,
    /// The same for subjects that get few documents.
    pub(crate) few: Vec<(PathBuf, Expected)>,
    /// The first wave, encoded for COPY, one file a connection.
    pub(crate) streams: Vec<PathBuf>,
}

/// One round of one data set, with one durability.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) control: &'a Connection,
    pub(crate) prepared: &'a Prepared,
    pub(crate) tools: &'a Tools,
    pub(crate) durability: Durability,
    /// Waves that are measured; phases of later ones are left out.
    pub(crate) waves: u32,
    pub(crate) lanes: u16,
    pub(crate) round: u32,
    /// The server lets us ask for checkpoints.
    pub(crate) checkpoints: bool,
    /// `create table`, with [`TABLE`] in the place of the name.
    pub(crate) definition: &'a str,
}

/// Stands for the name of the table in a definition.
pub(crate) const TABLE: &str = "the_table";

impl Subject {
    /// The subject of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|one| one.name == name)
    }

    /// It writes to MongoDB, and so only where one is named.
    pub(crate) fn is_mongo(&self) -> bool {
        self.store == Store::Mongo
    }

    /// It gets few documents.
    pub(crate) fn is_slow(&self) -> bool {
        self.few
    }
}

impl Trial<'_> {
    /// Runs a subject through its phases on a fresh table and drops the table.
    pub(crate) async fn run(&self, subject: &Subject, turn: u32) -> Result<Vec<Sample>, Error> {
        let data_set = self.prepared.data_set.name.replace('-', "_");
        let table = format!("{}_{}_{data_set}_{}", subject.name, self.durability.name(), self.round);
        let mut samples = Vec::new();
        let mut failed = None;
        for phase in subject.phases.iter().filter(|phase| phase.wave <= self.waves) {
            let outcome = match failed {
                Some(before) => Outcome::Error(format!("not run, because {before} failed")),
                None => self
                    .measure(subject, phase, &table)
                    .await
                    .map_or_else(|error| Outcome::Error(error.chain()), Outcome::Measured),
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
                durability: self.durability,
                rows: self.wave(subject, phase).1.rows,
                outcome,
            });
        }
        match subject.store {
            Store::Postgres => {
                let drop = format!("drop table if exists {}", self.bench.quoted(&table));
                self.control.client.batch_execute(&drop).await?;
            }
            Store::Mongo => self.bench.drop_mongo().await?,
        }
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
        let (_, expected) = self.wave(subject, phase);
        let (state, wal_bytes, size) = match subject.store {
            Store::Postgres => {
                let size = self.bench.size(self.control, table).await?;
                (self.bench.state(self.control, table).await?, Some(wal_bytes), Some(size))
            }
            Store::Mongo => (mongo::state(self, table).await?, None, None),
        };
        state.verify(expected)?;
        check_receipt(&timing, phase, expected)?;
        Ok(Measures { timing, wal_bytes, size })
    }

    /// Makes the table if the phase is the first of its subject.
    pub(crate) async fn create_first(&self, phase: &Phase, table: &str) -> Result<(), Error> {
        if phase.wave == 1 {
            let name = self.bench.quoted(table);
            self.control.client.batch_execute(&self.definition.replacen(TABLE, &name, 1)).await?;
        }
        Ok(())
    }

    /// The documents that a subject gets in a phase.
    pub(crate) fn wave(&self, subject: &Subject, phase: &Phase) -> &(PathBuf, Expected) {
        let waves = if subject.few { &self.prepared.few } else { &self.prepared.waves };
        &waves[phase.wave as usize - 1]
    }
}

/// A receipt must tell the same as the table.
fn check_receipt(timing: &Timing, phase: &Phase, expected: &Expected) -> Result<(), Error> {
    let Some(receipt) = &timing.receipt else {
        let missing = |counter| Error::Wrong(format!("no receipt that says how many documents were {counter}"));
        return phase.counter.map_or(Ok(()), |counter| Err(missing(counter)));
    };
    for name in std::iter::once("read").chain(phase.counter) {
        let value = receipt.get(name).and_then(serde_json::Value::as_u64);
        if value != Some(expected.rows) {
            let value = value.map_or("nothing".to_owned(), |value| value.to_string());
            return Err(Error::Wrong(format!("the receipt says {value} for {name} instead of {}", expected.rows)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_names_of_their_own_and_start_with_a_fresh_table() {
        for subject in SUBJECTS {
            assert_eq!(Subject::by_name(subject.name).unwrap().about, subject.about);
            assert_eq!(subject.phases[0].wave, 1, "{}", subject.name);
        }
        assert!(Subject::by_name("nothing").is_none());
    }

    #[test]
    fn a_receipt_that_tells_something_else_is_an_error() {
        let expected = Expected { rows: 10, sum: 0 };
        let phase = Phase { name: "changed", wave: 2, counter: Some("updated") };
        let timing = |receipt| Timing { wall_seconds: 1.0, client_cpu_seconds: None, client_peak_bytes: None, receipt };
        let good = timing(Some(serde_json::json!({"read": 10, "updated": 10})));
        assert!(check_receipt(&good, &phase, &expected).is_ok());
        let wrong = timing(Some(serde_json::json!({"read": 10, "updated": 9})));
        let wrong = check_receipt(&wrong, &phase, &expected).unwrap_err();
        assert_eq!(wrong.to_string(), "wrong result: the receipt says 9 for updated instead of 10");
        assert!(check_receipt(&timing(Some(serde_json::json!({}))), &phase, &expected).is_err());
        assert!(check_receipt(&timing(None), &phase, &expected).is_err());
        let plain = Phase { counter: None, ..phase };
        assert!(check_receipt(&timing(None), &plain, &expected).is_ok());
        assert!(check_receipt(&timing(Some(serde_json::json!({"read": 9}))), &plain, &expected).is_err());
    }
}
