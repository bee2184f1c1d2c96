//! `replace`: the new document takes the place of the old one.

use super::{Mode, Written};
use millstream_model::Counters;

pub(super) static MODE: Mode = Mode {
    name: "replace",
    about: "the new document takes the place of the stored one; the last of a key wins",
    fold: |places| places.end - 1,
    set: Some("{new}"),
    count: |w: Written| Counters {
        inserted: w.inserted,
        updated: w.updated,
        superseded: w.documents - w.keys,
        ..Counters::default()
    },
};
