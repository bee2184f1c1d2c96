//! Tests of the engine against real servers.

mod change_record;
mod checks;
mod deadlocks;
mod decode;
mod distinct;
mod durability;
mod faults;
mod freeze;
mod load;
mod log;
mod modes;
mod obstacles;
mod plan;
mod producers;
mod publish;
mod refusals;
mod refused;
mod republish;
mod resume;
mod rights;
mod round_trips;
mod scene;
mod segments;
mod unchanged;
mod verify;
