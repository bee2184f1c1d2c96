//! `wal`: how much WAL new documents make, with each of the two writers that Millstream uses for them.

use super::Experiment;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// One of this many keys is stored beforehand. A batch that meets a stored key goes through the staging table. One
/// changed document in a hundred makes no visible difference.
const STORED_ONE_OF: u64 = 100;

/// An empty table gets direct COPY. The other writer needs a table that is not empty, so it has its own.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "wal",
    about: "bytes of WAL per byte of new documents, with direct COPY and with the staging table",
    subjects: &["millstream"],
    phases: &[
        Phase::FRESH.by("copy"),
        Phase::new("stored before", Stream::one_of(STORED_ONE_OF), &["inserted"]).in_new_table(),
        Phase::new("staged", Stream::wave(2), &["inserted", "updated"]).by("staged"),
    ],
    page_images: true,
    columns: &[column::WAL, column::WAL_PER_BYTE, column::IMAGES, column::SIZE],
    legend: &[
        "fresh: an empty table, by direct COPY. staged: the same keys, of which one of 100 is stored before, which \
         keeps Millstream from direct COPY.",
    ],
    ..Experiment::PLAIN
};
