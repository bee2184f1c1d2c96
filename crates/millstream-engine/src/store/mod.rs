//! Our own tables: collections, loads, lanes and rejects.

mod added;
pub mod collections;
pub mod documents;
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

pub(crate) use added::Added;
pub use freeze::{FreezeEstimate, Frozen, freeze, freeze_estimate};
pub(crate) use lane::{Advance, insert_rejects};
pub use load::slots_of_lane;
pub(crate) use load::{Identity, Opened, OwnedLoad, close, is_ours, lock_again, open};
pub use lock::load_lock_keys;
pub(crate) use registry::{known_collection, remember_collection};
pub(crate) use runs::{settle_appending, settle_lost};
pub(crate) use schema::DISTINCT_WALK;
pub use schema::{SCHEMA_VERSION, Schema};
pub(crate) use versions::{NamedVersion, Versions};
