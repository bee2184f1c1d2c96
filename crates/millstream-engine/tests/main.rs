//! Tests of the engine against real servers.

mod decode;
mod durability;
mod faults;
mod load;
mod modes;
mod obstacles;
mod plan;
mod refusals;
mod resume;
mod scene;
mod unchanged;
mod verify;
