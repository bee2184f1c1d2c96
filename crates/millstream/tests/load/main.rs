//! Tests of the program with collections: loads, their records and rejects, and read models.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test may panic, and nothing here is reachable from outside"
)]

mod altered;
mod bson;
#[cfg(feature = "columnar")]
mod columnar;
#[cfg(feature = "columnar")]
mod columnar_avro;
mod columns;
mod distinct;
mod enrich;
mod locked;
mod made_text;
mod mending;
mod missing;
mod missing_beside;
mod models;
mod models_obstacles;
mod models_unheard;
mod models_values;
mod names;
#[cfg(feature = "objects")]
mod objects;
mod opening;
mod origin;
mod python;
mod records;
mod refresh_plan;
mod report_queries;
mod reports;
mod sizes;
mod skip_loaded;
mod sources;
mod stream;
mod strict;
mod trust;
mod trust_columns;
mod verify;

use millstream_testkit::process;
