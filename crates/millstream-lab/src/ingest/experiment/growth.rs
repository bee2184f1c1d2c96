//! `growth`: how the rate of new keys changes when the table grows.

use super::{Comparison, Experiment, Scale};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::{Part, Stream};

/// A part of the data set in pieces. The table grows to 20 pieces, and a measured phase has two, so there are 22.
const fn piece(from: u64, to: u64) -> Part {
    Part { from, to, of: PIECES }
}

/// Pieces of the data set.
pub(crate) const PIECES: u64 = 22;

/// Number of pieces in the table when it is measured as a large one.
pub(crate) const GROWN: u64 = 20;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "growth",
    about: "how fast new and stored random keys load into a large table, compared with a small one",
    subjects: &["millstream"],
    phases: &[
        Phase::part("first", piece(0, 1)),
        Phase::new("small, stored", Stream::below(2, piece(1, 3)), &["updated", "superseded"]).to_checkpoint(),
        Phase::part("small, new", piece(1, 3)).to_checkpoint(),
        Phase::part("growing", piece(3, GROWN)),
        Phase::part("large, new", piece(GROWN, PIECES)).to_checkpoint(),
        Phase::new("large, stored", Stream::below(3, piece(GROWN, PIECES)), &["updated", "superseded"]).to_checkpoint(),
    ],
    scale: Scale::Growth,
    comparison: Some(Comparison::with_phase("small, new", "OF SMALL, NEW")),
    columns: &[column::RATIO, column::WAL, column::SIZE],
    legend: &[
        "small: a twentieth of the rows. large: all of them. Both phases bring as many documents, a tenth of the rows, \
         and last from the end of one checkpoint to the end of the next, which is part of their time.",
        "of small, new: the rate divided by that of new keys in the small table in the same round, median (min-max).",
    ],
    ..Experiment::PLAIN
};
