//! Millstream's own tables in a database: collections, loads, lanes, rejects, segments and read models.
//!
//! A module is a table, or what several tables together say about one thing. Its SQL is beside it. Nothing here knows
//! how documents come in or how read models are built.

mod added;
mod appended;
mod binding;
mod check;
mod collection;
pub mod collections;
mod counters;
mod definition;
pub mod documents;
mod error;
mod freeze;
mod given_sql;
pub mod lane;
pub mod limits;
pub mod load;
pub mod loads;
mod lock;
mod mark;
pub mod models;
pub mod orphaned_segments;
mod prepared_holder;
pub mod recorded_mode;
mod registry;
pub mod rejects;
mod row;
pub mod runs;
mod schema;
pub mod segments;
mod sql_names;
mod sql_tokens;
mod tables;
pub mod truncation;
mod trust;
mod typed;
mod unfilled;
pub mod unlogged;
mod versions;
mod withdrawal;

pub use added::{Added, added};
pub use appended::{close_lost_appenders, refuse_appended};
pub use binding::Bound;
pub use check::{Check, checks};
pub use definition::{Column, Definition, Resolved};
pub use error::Error;
pub use freeze::{FROZEN_TRIGGER, allow_writes, refuse_frozen, refuse_writes, unfreeze_hint};
pub use given_sql::{GivenSql, names_in_sql};
pub use lane::{Advance, RejectedDocument, insert_rejects};
pub use load::{Identity, await_openings, slots_of_lane};
pub use loads::lock_unfinished;
pub use lock::{load_lock, load_lock_keys};
pub use mark::{GUARD, GUARD_SQLSTATE, Judged, TableMark};
pub use prepared_holder::prepared_holder;
pub use registry::{forget_waiting, known_collection, known_spelling, remember_collection};
pub use runs::{close_locked_run, close_lost_run, is_deleting, lost_for_good, refuse_unchecked_deletes};
pub use schema::{DISTINCT_WALK, SCHEMA_VERSION, Schema};
pub use trust::{Access, POWERS, foreign_code, foreign_owner, has_powers, trusted_owners};
pub use typed::{GeneratedColumn, TypedColumn, column_name_problem, typed_columns};
pub use unlogged::any_row;
pub use versions::{NamedVersion, Versions, forget_tombstones};
pub use withdrawal::{discard_unread, withdraw};
