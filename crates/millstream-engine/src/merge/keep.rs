//! `keep`: a stored document stays; only new keys are written.

use super::{Mode, Written};
use millstream_model::Counters;

pub(super) static MODE: Mode = Mode {
    name: "keep",
    about: "a stored document stays; the first of a new key is written",
    fold: |places| places.start,
    set: None,
    count: |w: Written| Counters { inserted: w.inserted, kept: w.documents - w.inserted, ..Counters::default() },
};
