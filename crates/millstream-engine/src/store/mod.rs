//! Our own tables: collections, loads, lanes and rejects.

pub mod collections;
pub mod documents;
mod finished;
mod freeze;
pub(crate) mod gone;
mod lane;
mod load;
pub mod loads;
mod lock;
pub mod models;
mod registry;
pub mod rejects;
mod schema;
pub mod segments;
mod unlogged;

pub use freeze::{FreezeEstimate, Frozen, freeze, freeze_estimate};
pub(crate) use lane::{Advance, insert_rejects};
pub use load::slots_of_lane;
pub(crate) use load::{Identity, Opened, OwnedLoad, close, lock_again, open};
pub use lock::load_lock_keys;
pub(crate) use registry::{known_collection, remember_collection};
pub(crate) use schema::DISTINCT_WALK;
pub use schema::{SCHEMA_VERSION, Schema};
