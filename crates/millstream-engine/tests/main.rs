//! Tests of the engine against real servers.

mod decode;
mod faults;
mod load;
mod plan;
mod refusals;
mod scene;
