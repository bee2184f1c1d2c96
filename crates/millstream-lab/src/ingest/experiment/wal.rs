//! `wal`: how much WAL new documents make, also where some keys are stored already.

use super::Experiment;
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;

/// One of this many keys is stored beforehand. One changed document in a hundred makes no visible difference.
const STORED_ONE_OF: u64 = 100;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "wal",
    about: "bytes of WAL per byte of new documents, with direct COPY and where one key of 100 is stored already",
    subjects: &["millstream"],
    phases: &[
        Phase::FRESH.by("copy"),
        Phase::new("stored before", Stream::one_of(STORED_ONE_OF), &["inserted"]).in_new_table(),
        Phase::new("1 % stored", Stream::wave(2), &["inserted", "updated"]).by("divided"),
    ],
    page_images: true,
    columns: &[column::WAL, column::WAL_PER_BYTE, column::IMAGES, column::SIZE],
    legend: &[
        "fresh: an empty table, by direct COPY. 1 % stored: the same keys, of which one of 100 is stored before. \
         Millstream asks which, and copies the others.",
    ],
    ..Experiment::PLAIN
};
