//! `rivals`: how fast documents load, compared with what people use today.

use super::{Comparison, Experiment, SIZES};
use crate::ingest::column;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// Three keys of 100, into a table of their own.
const STORED_BEFORE: Phase = Phase::new("stored before", Stream::one_of(33), &["inserted"]).in_new_table();

/// All keys, once each: some rivals do not keep the order of a key's documents.
const MIXED: Phase = Phase::new("mixed", Stream::wave(3), &["inserted", "updated"]);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rivals",
    about: "how fast documents load, compared with what people use today, durable and async, in one run",
    subjects: &[
        "copy",
        "millstream",
        "recipe",
        "pipelined",
        "executemany",
        "single",
        "merge",
        "mongoimport",
        "bulkwrite",
    ],
    phases: &[Phase::FRESH, Phase::CHANGED, STORED_BEFORE, MIXED],
    durabilities: &[Durability::Durable, Durability::Async],
    sizes: SIZES,
    comparison: Some(Comparison::lead_of("millstream")),
    columns: &[column::RATIO, column::CPU, column::SERVER, column::MEMORY, column::WAL, column::SIZE],
    legend: &[
        "rows/s: documents by wall clock, median over the rounds, of whole processes from start to exit; only copy \
         has its connections open and its data encoded before the clock starts.",
        "lead: millstream's rate divided by this one's in the same round and phase, with the same durability, median \
         (min-max) over the rounds.",
        "size: of the rivals in MongoDB, data and indexes on disk, compressed.",
        "async: synchronous_commit is off in the subject's sessions. fresh: all keys are new. changed: all keys are \
         there. mixed: all keys, of which 3 of 100 were stored before.",
    ],
    ..Experiment::PLAIN
};
