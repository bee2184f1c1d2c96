//! Tests of read models against real servers.

mod change_record;
mod cold;
mod contention;
mod distinct;
mod freeze;
mod freeze_in_place;
mod key_columns;
mod publish;
mod repair;
mod republish;
mod restore;
mod rights;
mod row_wise;
// The module is the engine's. Not all of it is used here.
#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "../../millstream-engine/tests/scene.rs"]
mod scene;
mod segments;
mod without_key;
