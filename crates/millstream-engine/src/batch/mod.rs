//! Turns chunks into batches, which a lane commits at once: split by slot, folded by key, sorted.

mod classes;
mod fold;
mod keys;
mod met;
mod part;
mod split;

pub(crate) use classes::{Classes, ShardRanges};
pub(crate) use fold::{Batch, Group};
pub(crate) use keys::Keys;
pub(crate) use met::Met;
pub(crate) use part::{Hold, Part};
pub(crate) use split::{Splitter, attach, kept_bytes};
