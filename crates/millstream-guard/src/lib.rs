//! Packet filters: what each of their constructs costs, measured in networks of our own.

pub mod limits;
pub mod packets;
