//! A trial: a subject that runs through the phases of an experiment, measured and verified.

use super::{Store, Subject, Trait, log, mongo, published};
use crate::core::Proxy;
use crate::core::{DataSet, Measures, Outcome, Run, ServerCpu, number};
use crate::error::Error;
use crate::ingest::bench::{Bench, TABLE};
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::run;
use crate::ingest::sent;
use crate::ingest::shared_table;
use crate::ingest::stream::Expected;
use crate::ingest::tool::Tools;
use crate::ingest::wal;
use millstream_pg::Connection;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

/// A data set on the disk.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) data_set: DataSet,
    /// For each phase: its file, and what a table holds after it.
    pub(crate) phases: Vec<(PathBuf, Expected)>,
    /// As `phases`, for subjects that are slow.
    pub(crate) small: Vec<(PathBuf, Expected)>,
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
    /// The server's processes, if they can be seen.
    pub(crate) server_cpu: Option<&'a ServerCpu>,
}

impl Trial<'_> {
    /// Runs a subject through its phases on a fresh table and drops the table.
    pub(crate) async fn run(&self, subject: &Subject, turn: u32) -> Result<Vec<Run>, Error> {
        let data_set = self.prepared.data_set.name.replace('-', "_");
        let table = format!("{}_{}_{data_set}_{}", subject.name, self.durability.name(), self.round);
        let mut runs = Vec::new();
        let mut failed = None;
        for phase in self.phases.iter().filter(|phase| subject.takes(phase)) {
            let table = if subject.only_reads() { shared_table::name(phase) } else { table.clone() };
            if phase.new_table {
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
            runs.push(Run {
                experiment: self.experiment.to_owned(),
                arm: subject.name.to_owned(),
                factors: run::factors(&self.prepared.data_set.name, phase.name, self.durability, self.round_trip_ms),
                block: self.round,
                turn,
                outcome,
            });
        }
        self.drop(subject, &table).await?;
        Ok(runs)
    }

    async fn drop(&self, subject: &Subject, table: &str) -> Result<(), Error> {
        match subject.store {
            Store::Mongo => return self.bench.drop_mongo().await,
            Store::Shared => return Ok(()),
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
        let server_before = self.server_cpu_seconds(subject, table).await?;
        let timing = (subject.run)(self, phase, table).await?;
        let wal_bytes = wal::end(self.control).await?.saturating_sub(wal_before);
        let mut measures = timing.into_measures();
        self.measure_server(subject, table, server_before, &mut measures).await?;
        let (file, expected) = self.input(subject, phase);
        measures.set("rows", Some(number(expected.documents)));
        measures.set("stored", Some(number(expected.rows)));
        if phase.checkpoint {
            measures.set("checkpoint_seconds", self.checkpoint().await?);
        }
        if subject.is(Trait::Appending) {
            log::merge(self, table).await?;
        }
        let state = match subject.store {
            Store::Postgres => {
                measures.set("wal_bytes", Some(number(wal_bytes)));
                if self.page_images {
                    let schema = &self.bench.schema;
                    let bytes = wal::page_image_bytes(self.control, schema, wal_before).await;
                    measures.set("page_image_bytes", bytes.map(number));
                }
                self.bench.measure_table(self.control, table, &mut measures).await?;
                self.bench.state(self.control, table).await?
            }
            Store::Mongo => mongo::state(self, table).await?,
            // The subject has verified its answer itself.
            Store::Shared => return Ok(measures),
        };
        if subject.is(Trait::Unordered) {
            state.verify_keys(expected)?;
            sent::verify(&self.control.client, file, &self.bench.quoted(table)).await?;
        } else {
            state.verify(expected)?;
        }
        if subject.is(Trait::Receipt) {
            let rejected = if subject.is(Trait::Refusing) { expected.documents - expected.rows } else { 0 };
            check_receipt(measures.receipt.as_ref(), phase, expected.documents, rejected)?;
        }
        Ok(measures)
    }

    /// Processor time so far of the server that the subject writes to. A checkpoint has just been made.
    async fn server_cpu_seconds(&self, subject: &Subject, table: &str) -> Result<Option<f64>, Error> {
        match subject.store {
            Store::Postgres | Store::Shared => Ok(self.server_cpu.and_then(ServerCpu::seconds)),
            Store::Mongo => {
                let server = self.bench.mongo_server(table).await?;
                Ok(server.and_then(|server| server.cpu_seconds_after_checkpoint))
            }
        }
    }

    /// Measures what the subject's server took since its processor time was `before`.
    async fn measure_server(
        &self,
        subject: &Subject,
        table: &str,
        before: Option<f64>,
        measures: &mut Measures,
    ) -> Result<(), Error> {
        let after = match subject.store {
            Store::Postgres | Store::Shared => self.server_cpu.and_then(ServerCpu::seconds),
            Store::Mongo => {
                let server = self.bench.mongo_server(table).await?;
                measures.set("store_bytes", server.as_ref().and_then(|server| server.store_bytes));
                server.and_then(|server| server.cpu_seconds)
            }
        };
        // It is less after a restart of the server.
        let seconds = after.zip(before).map(|(after, before)| after - before).filter(|seconds| *seconds >= 0.0);
        measures.set("server_cpu_seconds", seconds);
        Ok(())
    }

    /// Verifies that a relation derived from the table shows what the table must hold after the phase.
    pub(super) async fn verify(&self, subject: &Subject, phase: &Phase, relation: &str) -> Result<(), Error> {
        self.bench.state(self.control, relation).await?.verify(&self.input(subject, phase).1)
    }

    /// Makes an empty collection, for what must exist before the clock starts.
    pub(super) async fn make_collection(&self, table: &str) -> Result<(), Error> {
        let none = self.bench.script("none.ndjson", "")?;
        self.bench.load(&none, table, &[], None).await?;
        Ok(())
    }

    /// Requests a checkpoint and returns its seconds; `None` if the server does not let us.
    pub(super) async fn checkpoint(&self) -> Result<Option<f64>, Error> {
        if !self.checkpoints {
            return Ok(None);
        }
        let start = Instant::now();
        self.control.client.batch_execute("checkpoint").await?;
        Ok(Some(start.elapsed().as_secs_f64()))
    }

    /// Creates the table if the phase finds none.
    pub(crate) async fn create_first(&self, phase: &Phase, table: &str) -> Result<(), Error> {
        if phase.is_fresh() || phase.new_table {
            let statement = self.definition.replacen(TABLE, &self.bench.quoted(table), 1);
            let kind = if self.durability == Durability::Unlogged { "create unlogged table" } else { "create table" };
            self.control.client.batch_execute(&statement.replacen("create table", kind, 1)).await?;
        }
        Ok(())
    }

    /// The documents that a subject gets in a phase, and what its table holds after them.
    pub(crate) fn input(&self, subject: &Subject, phase: &Phase) -> &(PathBuf, Expected) {
        let inputs = match subject {
            slow if slow.is(Trait::Slow) => &self.prepared.small,
            refusing if refusing.is(Trait::Refusing) => &self.prepared.refused,
            _ => &self.prepared.phases,
        };
        let at = self.phases.iter().position(|one| one == phase);
        &inputs[at.expect("a trial runs the phases of its experiment")]
    }
}

/// Checks that the receipt agrees with the table and names the writer that the phase measures.
pub(super) fn check_receipt(
    receipt: Option<&Value>,
    phase: &Phase,
    documents: u64,
    rejected: u64,
) -> Result<(), Error> {
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
