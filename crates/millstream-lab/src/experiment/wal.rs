//! `wal`: how much log new documents make, written by each of Millstream's two writers for them.

use super::Experiment;
use crate::column;
use crate::phase::Phase;
use crate::stream::Stream;

/// One key of so many is there already. Each batch that meets one is written by way of the staging table; that one
/// document of a hundred is changed and not new makes no difference that could be seen.
const STORED_ONE_OF: u64 = 100;

/// Direct COPY is what an empty table gets. The other writer needs a table that is not, and so one of its own.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "wal",
    about: "bytes of WAL per byte of new documents, with direct COPY and with the staging table",
    subjects: &["millstream"],
    phases: &[
        Phase::FRESH.by("copy"),
        Phase::new("stored before", Stream::one_of(STORED_ONE_OF), &["inserted"]).anew(),
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
