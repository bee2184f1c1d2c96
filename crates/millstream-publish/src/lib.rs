//! Read models: tables with indexes that are derived from a collection and kept up to date.

mod asked;
mod clear;
mod clock;
mod cold;
mod column_type;
mod definition;
mod derived;
mod distinct;
mod error;
mod failing_document;
mod figures;
mod freeze;
mod in_place;
mod incremental;
mod indexed;
mod invalid_values;
pub mod limits;
mod lock;
mod materialized;
mod model;
mod origin;
mod publish;
mod query;
mod record;
mod refresh;
mod refresh_target;
mod refresh_way;
mod refusal;
mod repair;
mod republish;
mod request;
mod row_wise;
mod runner;
mod shape;
mod storage;
mod swap;
mod switch;
mod typed;
mod unique;
mod volatility;
mod waiting;

pub use cold::{Cold, ColdEstimate, cold_estimate, freeze_cold, vacuum_cold};
pub use distinct::{DistinctRequest, distinct};
pub use error::Error;
pub use figures::{Figures, figures, why_anew};
pub use freeze::{
    FreezeEstimate, Frozen, InPlaceEstimate, freeze, freeze_estimate, freeze_in_place, freeze_in_place_estimate,
};
pub use in_place::unfreeze;
pub use indexed::{IndexedTable, THE_KEY};
pub use invalid_values::InvalidValues;
pub use publish::{publish, take_back, unpublish};
pub use refresh::{Estimate, RefreshRequest, Refreshed, abandon, estimate, refresh};
pub use request::{PublishRequest, Published};
pub use runner::become_runner;
