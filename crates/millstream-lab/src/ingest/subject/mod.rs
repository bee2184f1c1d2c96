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
mod trial;

use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::ingest::tool::Tool;
use std::pin::Pin;
use trial::check_receipt;
pub(crate) use trial::{Prepared, Trial};

/// Something that is measured, in one phase of an experiment after the other.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the report.
    pub about: &'static str,
    /// Where its documents go.
    store: Store,
    /// What distinguishes it from a subject that loads all documents in their order and prints nothing.
    traits: &'static [Trait],
    /// Programs that it needs.
    pub(crate) tools: &'static [&'static Tool],
    run: RunPhase,
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// A table of the run's schema.
    Postgres,
    /// A collection of the run's database.
    Mongo,
    /// Nowhere: it reads a shared table.
    Shared,
}

/// What distinguishes a subject from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    /// It is too slow for all documents and gets a small data set.
    Slow,
    /// Documents of a key take effect in an order that nobody knows.
    Unordered,
    /// Its table refuses documents that do not meet [`crate::ingest::stream::ACCEPTED`].
    Refusing,
    /// It sends documents that were encoded for it. So it loads only the first wave, into a table of its own.
    Encoded,
    /// It prints a receipt.
    Receipt,
    /// Its documents wait in segments, which are merged outside the measured time before the table is verified.
    Appending,
    /// It is measured where its programs are: not everybody has a MongoDB or has built the example.
    Optional,
}

/// Runs a phase on a table and returns what it took.
type RunPhase = for<'a> fn(&'a Trial<'a>, &'a Phase, &'a str) -> Running<'a>;
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

impl Subject {
    /// What most subjects have in common: loads all documents in their order into a table on the server, and needs no
    /// program.
    const PLAIN: Self = Self {
        name: "",
        about: "",
        store: Store::Postgres,
        traits: &[],
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

    /// Whether this distinguishes it.
    pub(crate) fn is(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }

    /// It changes nothing and reads the shared tables (`shared_table.rs`).
    pub(crate) fn only_reads(&self) -> bool {
        self.store == Store::Shared
    }

    /// Whether it takes part in a phase.
    pub(crate) fn takes(&self, phase: &Phase) -> bool {
        !self.is(Trait::Encoded) || phase.is_fresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_names_of_their_own() {
        for subject in SUBJECTS {
            assert_eq!(Subject::by_name(subject.name).unwrap().about, subject.about);
            assert!(subject.takes(&Phase::FRESH), "{}", subject.name);
        }
        assert!(Subject::by_name("nothing").is_none());
    }
}
