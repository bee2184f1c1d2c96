//! Subjects: the programs and statements that are measured, one file each.

mod compact;
mod concurrently;
mod copy;
mod distinct;
mod indexes;
mod log;
mod millstream;
mod mongo;
mod producers;
mod psql;
mod psycopg;
mod published;
mod refused;

use crate::bench::{Bench, TABLE};
use crate::data_set::DataSet;
use crate::durability::Durability;
use crate::error::Error;
use crate::network::Proxy;
use crate::phase::Phase;
use crate::sample::{Measures, Outcome, Sample, Timing};
use crate::sent;
use crate::standing;
use crate::stream::Expected;
use crate::tool::{Tool, Tools};
use crate::wal;
use millstream_pg::Connection;
use serde_json::Value;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Instant;

/// Something that is measured, in one phase of an experiment after the other.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the report.
    pub about: &'static str,
    /// Where its documents go.
    store: Store,
    /// It is too slow for all documents and gets a small data set.
    few: bool,
    /// Documents of a key take effect in the order of the file.
    ordered: bool,
    /// Its table refuses documents that do not meet [`crate::stream::ACCEPTED`].
    refuses: bool,
    /// It sends documents that were encoded for it. So it loads only the first wave, into a table of its own.
    encoded: bool,
    /// It prints a receipt.
    accounts: bool,
    /// Its documents wait in segments, which are merged outside the measured time before the table is verified.
    appends: bool,
    /// Programs that it needs.
    pub(crate) tools: &'static [&'static Tool],
    run: Run,
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// A table of the run's schema.
    Postgres,
    /// A collection of the run's database.
    Mongo,
    /// Nowhere: it reads a standing table.
    Standing,
}

/// Runs a phase on a table and returns what it took.
type Run = for<'a> fn(&'a Trial<'a>, &'a Phase, &'a str) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<Timing, Error>> + 'a>>;

/// Every subject, in the order of the reports.
pub const SUBJECTS: &[Subject] = &[
    copy::SUBJECT,
    compact::SUBJECT,
    millstream::SUBJECT,
    producers::SUBJECT,
    refused::CONSTRAINT,
    refused::TRIGGER,
    refused::CHECK,
    published::LISTENING,
    indexes::SUBJECT,
    published::REFRESHED,
    concurrently::SUBJECT,
    log::APPENDED,
    log::MERGED,
    distinct::SELECT,
    distinct::FUNCTION,
    distinct::WALK,
    distinct::COMMAND,
    psycopg::RECIPE,
    psycopg::PIPELINED,
    psycopg::EXECUTEMANY,
    psycopg::SINGLE,
    psql::SUBJECT,
    mongo::IMPORT,
    mongo::BULK_WRITE,
];

/// A data set on the disk.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) data_set: DataSet,
    /// For each phase: its file, and what a table holds after it.
    pub(crate) phases: Vec<(PathBuf, Expected)>,
    /// As `phases`, for subjects that get few documents.
    pub(crate) few: Vec<(PathBuf, Expected)>,
    /// As `phases`, for subjects whose tables refuse some documents.
    pub(crate) refused: Vec<(PathBuf, Expected)>,
    /// The first wave, encoded for COPY, one file per connection.
    pub(crate) streams: Vec<PathBuf>,
}

/// One round of one data set, with one durability, over one network.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// The experiment's name.
    pub(crate) experiment: &'static str,
    pub(crate) phases: &'static [Phase],
    /// Whether to look for full-page images in the WAL after each phase.
    pub(crate) page_images: bool,
    pub(crate) bench: &'a Bench,
    pub(crate) control: &'a Connection,
    pub(crate) prepared: &'a Prepared,
    pub(crate) tools: &'a Tools,
    pub(crate) durability: Durability,
    /// The proxy to the server; `None` for a direct connection.
    pub(crate) proxy: Option<&'a Proxy>,
    pub(crate) round_trip_ms: Option<u32>,
    pub(crate) lanes: u16,
    pub(crate) round: u32,
    /// We may request checkpoints from the server.
    pub(crate) checkpoints: bool,
    /// The `create table` statement, with [`TABLE`] in place of the name.
    pub(crate) definition: &'a str,
}

impl Subject {
    /// What most subjects have in common: loads all documents in their order into a table on the server, and needs no
    /// program.
    const PLAIN: Self = Self {
        name: "",
        about: "",
        store: Store::Postgres,
        few: false,
        ordered: true,
        refuses: false,
        encoded: false,
        accounts: false,
        appends: false,
        tools: &[],
        run: |_, _, _| Box::pin(async { Err(Error::Wrong("a subject that does nothing".to_owned())) }),
    };

    /// The subject of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|one| one.name == name)
    }

    /// It writes to MongoDB, so it needs the address of one.
    pub(crate) fn is_mongo(&self) -> bool {
        self.store == Store::Mongo
    }

    /// It is measured if it is available: not everybody has a MongoDB or has built the example.
    pub(crate) fn may_be_absent(&self) -> bool {
        self.is_mongo() || self.name == producers::SUBJECT.name
    }

    /// It changes nothing and reads the standing tables (`standing.rs`).
    pub(crate) fn only_reads(&self) -> bool {
        self.store == Store::Standing
    }

    /// It gets few documents.
    pub(crate) fn is_slow(&self) -> bool {
        self.few
    }

    /// It sends the first wave encoded.
    pub(crate) fn is_encoded(&self) -> bool {
        self.encoded
    }

    /// Whether it takes part in a phase.
    pub(crate) fn takes(&self, phase: &Phase) -> bool {
        !self.encoded || phase.is_fresh()
    }
}

impl Trial<'_> {
    /// Runs a subject through its phases on a fresh table and drops the table.
    pub(crate) async fn run(&self, subject: &Subject, turn: u32) -> Result<Vec<Sample>, Error> {
        let data_set = self.prepared.data_set.name.replace('-', "_");
        let table = format!("{}_{}_{data_set}_{}", subject.name, self.durability.name(), self.round);
        let mut samples = Vec::new();
        let mut failed = None;
        for phase in self.phases.iter().filter(|phase| subject.takes(phase)) {
            let table = if subject.only_reads() { standing::name(phase) } else { table.clone() };
            if phase.anew {
                self.drop(subject, &table).await?;
            }
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
            let (_, expected) = self.input(subject, phase);
            samples.push(Sample {
                experiment: self.experiment.to_owned(),
                data_set: self.prepared.data_set.name.clone(),
                round: self.round,
                turn,
                subject: subject.name.to_owned(),
                phase: phase.name.to_owned(),
                durability: self.durability,
                round_trip_ms: self.round_trip_ms,
                rows: expected.documents,
                stored: (expected.rows != expected.documents).then_some(expected.rows),
                outcome,
            });
        }
        self.drop(subject, &table).await?;
        Ok(samples)
    }

    async fn drop(&self, subject: &Subject, table: &str) -> Result<(), Error> {
        match subject.store {
            Store::Mongo => return self.bench.drop_mongo().await,
            Store::Standing => return Ok(()),
            Store::Postgres => {}
        }
        published::unpublish(self, table).await?;
        let drop = format!("drop table if exists {} cascade", self.bench.quoted(table));
        Ok(self.control.client.batch_execute(&drop).await?)
    }

    /// Runs one phase: a checkpoint, the measured run, the verification of the result.
    ///
    /// Because of the checkpoint, no subject pays for the writes of the one before. The verification reads the table,
    /// which sets hint bits; the next phase finds them set, in every round.
    async fn measure(&self, subject: &Subject, phase: &Phase, table: &str) -> Result<Measures, Error> {
        self.checkpoint().await?;
        let wal_before = wal::end(self.control).await?;
        let timing = (subject.run)(self, phase, table).await?;
        let wal_bytes = wal::end(self.control).await?.saturating_sub(wal_before);
        let mut measures = Measures {
            timing,
            wal_bytes: None,
            page_image_bytes: None,
            checkpoint_seconds: None,
            autovacuums: None,
            size: None,
        };
        if phase.checkpoint {
            measures.checkpoint_seconds = self.checkpoint().await?;
        }
        if subject.appends {
            log::merge(self, table).await?;
        }
        let (file, expected) = self.input(subject, phase);
        let state = match subject.store {
            Store::Postgres => {
                measures.wal_bytes = Some(wal_bytes);
                if self.page_images {
                    let schema = &self.bench.schema;
                    measures.page_image_bytes = wal::page_image_bytes(self.control, schema, wal_before).await;
                }
                let (size, autovacuums) = self.bench.size(self.control, table).await?;
                (measures.size, measures.autovacuums) = (Some(size), Some(autovacuums));
                self.bench.state(self.control, table).await?
            }
            Store::Mongo => mongo::state(self, table).await?,
            // The subject has verified its answer itself.
            Store::Standing => return Ok(measures),
        };
        if subject.ordered {
            state.verify(expected)?;
        } else {
            state.verify_keys(expected)?;
            sent::verify(&self.control.client, file, &self.bench.quoted(table)).await?;
        }
        if subject.accounts {
            let rejected = if subject.refuses { expected.documents - expected.rows } else { 0 };
            check_receipt(measures.timing.receipt.as_ref(), phase, expected.documents, rejected)?;
        }
        Ok(measures)
    }

    /// Verifies that a relation derived from the table shows what the table must hold after the phase.
    async fn verify(&self, subject: &Subject, phase: &Phase, relation: &str) -> Result<(), Error> {
        self.bench.state(self.control, relation).await?.verify(&self.input(subject, phase).1)
    }

    /// Makes an empty collection, for what must exist before the clock starts.
    async fn make_collection(&self, table: &str) -> Result<(), Error> {
        let none = self.bench.script("none.ndjson", "")?;
        self.bench.load(&none, table, &[], None).await?;
        Ok(())
    }

    /// Requests a checkpoint and returns its seconds; `None` if the server does not let us.
    async fn checkpoint(&self) -> Result<Option<f64>, Error> {
        if !self.checkpoints {
            return Ok(None);
        }
        let start = Instant::now();
        self.control.client.batch_execute("checkpoint").await?;
        Ok(Some(start.elapsed().as_secs_f64()))
    }

    /// Creates the table if this is the phase that loads the first wave.
    pub(crate) async fn create_first(&self, phase: &Phase, table: &str) -> Result<(), Error> {
        if phase.is_fresh() {
            let statement = self.definition.replacen(TABLE, &self.bench.quoted(table), 1);
            let kind = if self.durability == Durability::Unlogged { "create unlogged table" } else { "create table" };
            self.control.client.batch_execute(&statement.replacen("create table", kind, 1)).await?;
        }
        Ok(())
    }

    /// The documents that a subject gets in a phase, and what its table holds after them.
    pub(crate) fn input(&self, subject: &Subject, phase: &Phase) -> &(PathBuf, Expected) {
        let inputs = match subject {
            Subject { few: true, .. } => &self.prepared.few,
            Subject { refuses: true, .. } => &self.prepared.refused,
            _ => &self.prepared.phases,
        };
        let at = self.phases.iter().position(|one| one == phase);
        &inputs[at.expect("a trial runs the phases of its experiment")]
    }
}

/// Checks that the receipt agrees with the table and names the writer that the phase measures.
fn check_receipt(receipt: Option<&Value>, phase: &Phase, documents: u64, rejected: u64) -> Result<(), Error> {
    let number = |name: &str| receipt?.get(name)?.as_u64();
    let counted = phase.counters.iter().map(|name| number(name)).sum::<Option<u64>>();
    for (name, value, expected) in [
        ("read", number("read"), documents),
        (&*phase.counters.join(" and "), counted, documents - rejected),
        ("rejected", number("rejected"), rejected),
    ] {
        if value != Some(expected) {
            let value = value.map_or("nothing".to_owned(), |value| value.to_string());
            return Err(Error::Wrong(format!("the receipt says {value} for {name} instead of {expected}")));
        }
    }
    let Some(writer) = phase.writer else { return Ok(()) };
    let batches = |value: &Value| value.as_u64().unwrap_or(0);
    let writers = receipt.and_then(|receipt| receipt.get("writers")?.as_object());
    let all: u64 = writers.iter().flat_map(|one| one.values()).map(batches).sum();
    let own = writers.and_then(|writers| writers.get(writer)).map_or(0, batches);
    if own == 0 || own * 2 < all {
        return Err(Error::Wrong(format!("the writer {writer} wrote {own} batches of {all}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subjects_have_names_of_their_own() {
        for subject in SUBJECTS {
            assert_eq!(Subject::by_name(subject.name).unwrap().about, subject.about);
            assert!(subject.takes(&Phase::FRESH), "{}", subject.name);
        }
        assert!(Subject::by_name("nothing").is_none());
    }

    #[test]
    fn a_receipt_with_other_counts_is_an_error() {
        let check = |phase: &Phase, receipt| check_receipt(Some(&receipt), phase, 10, 0);
        assert!(check(&Phase::CHANGED, json!({"read": 10, "updated": 10, "rejected": 0})).is_ok());
        let wrong = check(&Phase::CHANGED, json!({"read": 10, "updated": 9, "rejected": 0})).unwrap_err();
        assert_eq!(wrong.to_string(), "wrong result: the receipt says 9 for updated instead of 10");
        assert!(check(&Phase::CHANGED, json!({"read": 9, "updated": 10, "rejected": 0})).is_err());
        assert!(check(&Phase::CHANGED, json!({"read": 10, "updated": 10, "rejected": 1})).is_err());
        assert!(check(&Phase::CHANGED, json!({})).is_err());
        assert!(check_receipt(None, &Phase::CHANGED, 10, 0).is_err());
        let two = Phase { counters: &["updated", "superseded"], ..Phase::CHANGED };
        assert!(check(&two, json!({"read": 10, "updated": 9, "superseded": 1, "rejected": 0})).is_ok());
        let wrong = check(&two, json!({"read": 10, "updated": 9, "superseded": 2, "rejected": 0})).unwrap_err();
        assert!(wrong.to_string().contains("says 11 for updated and superseded"), "{wrong}");
        let refused = |updated, rejected| {
            let receipt = json!({"read": 10, "updated": updated, "rejected": rejected});
            check_receipt(Some(&receipt), &Phase::CHANGED, 10, 1).is_ok()
        };
        assert!(refused(9, 1) && !refused(10, 0) && !refused(9, 2));
    }

    #[test]
    fn a_phase_of_a_writer_fails_if_another_wrote_more() {
        let check = |writers| {
            let receipt = json!({"read": 10, "inserted": 10, "rejected": 0, "writers": writers});
            check_receipt(Some(&receipt), &Phase::FRESH.by("staged"), 10, 0).is_ok()
        };
        assert!(check(json!({"staged": 2, "copy": 1})));
        assert!(!check(json!({"staged": 2, "copy": 3})));
        assert!(!check(json!({"copy": 1})));
        assert!(!check(json!(null)));
    }
}
