//! Packet filters: what a host accepts, how the kernel is told, and what each construct costs, all tried in networks of
//! our own.

mod connection;
pub mod in_effect;
pub mod limits;
pub mod packet_filter;
pub mod packets;
pub mod policy;
pub mod prove;
pub mod rules;
pub mod warning;
