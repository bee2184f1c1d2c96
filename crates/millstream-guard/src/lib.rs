//! The packet filter of a host: its policy, the rules for the kernel, their proof by packets, and what each rule costs.

mod connection;
pub mod import;
pub mod in_effect;
pub mod limits;
mod netlink;
mod nft;
pub mod others;
pub mod packet_filter;
pub mod packets;
pub mod policy;
mod prober;
pub mod prove;
pub mod rules;
pub mod warning;
mod wire;

pub use prober::Prober;
