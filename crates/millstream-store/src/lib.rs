//! Our own tables: collections, loads, lanes and rejects.

mod added;
mod binding;
pub mod collections;
pub mod documents;
mod emptied;
mod freeze;
pub(crate) mod gone;
mod lane;
mod load;
pub mod loads;
mod lock;
pub mod models;
mod registry;
pub mod rejects;
pub(crate) mod runs;
mod schema;
pub mod segments;
mod unlogged;
mod versions;
mod withdrawal;

pub(crate) use added::Added;
pub use binding::Bound;
pub(crate) use emptied::start_over;
pub use freeze::{FreezeEstimate, Frozen, freeze, freeze_estimate};
pub(crate) use lane::{Advance, insert_rejects};
pub use load::slots_of_lane;
pub(crate) use load::{Identity, Opened, OwnedLoad, close, is_ours, lock_again, open};
pub use lock::load_lock_keys;
pub(crate) use registry::{forget_waiting, known_collection, known_spelling, remember_collection};
pub(crate) use runs::{is_deleting, settle_appending, settle_lost};
pub(crate) use schema::DISTINCT_WALK;
pub use schema::{SCHEMA_VERSION, Schema};
pub(crate) use unlogged::any_row;
pub(crate) use versions::{NamedVersion, Versions};
pub(crate) use withdrawal::withdraw;
