//! Tests of the engine against real servers.

mod added;
mod checks;
mod deadlocks;
mod decode;
mod durability;
mod emptied;
mod faults;
mod key_columns;
mod load;
mod log;
mod modes;
mod obstacles;
mod partitioned;
mod plan;
mod producers;
mod refusals;
mod refused;
mod resume;
mod round_trips;
mod scene;
mod segments;
mod times;
mod unchanged;
mod unread;
mod verify;
mod versions;
