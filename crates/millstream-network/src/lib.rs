//! The network of a host: its description, the mistakes in it, and what programs make of it.

pub mod claim;
pub mod difference;
pub mod limits;
pub mod lint;
pub mod output;
pub mod profile;
pub mod proof;
pub mod topology;
pub mod warning;
