//! Every limit of this crate.

/// Largest file of a topology, in bytes.
pub const TOPOLOGY_BYTES_MAX: u64 = 1 << 20;

/// Most links of a topology: a description of more is made by a program, and nobody reads what it prints.
pub const LINKS_MAX: usize = 1_000;

/// Longest name of a link in Linux, in bytes.
pub const NAME_BYTES_MAX: usize = 15;

/// Longest name of a zone of firewalld, in bytes.
pub const ZONE_BYTES_MAX: usize = 17;

/// Numbers of VLANs: 0 means none, and 4095 is reserved. Source: IEEE 802.1Q.
pub const VLAN_MAX: u16 = 4_094;

/// The smallest packets that a link must take with IPv4 (RFC 791) and with IPv6 (RFC 8200), in bytes.
pub const MTU_MIN: u32 = 68;

/// The smallest packets that a link must take with IPv6, in bytes. Source: RFC 8200.
pub const MTU_MIN_V6: u32 = 1_280;

/// The largest packets of Linux, in bytes.
pub const MTU_MAX: u32 = 65_535;

/// The size of packets on a link that says nothing, in bytes.
pub const MTU_USUAL: u32 = 1_500;

/// Longest time between looks at a leg or questions to a neighbour, in milliseconds.
pub const MONITOR_MS_MAX: u32 = 3_600_000;

/// Addresses that a bond may ask for. Source: Linux, BOND_MAX_ARP_TARGETS.
pub const ARP_TARGETS_MAX: usize = 16;

/// Times of a spanning tree that a bridge takes, in seconds. Source: Linux, br_private_stp.h.
pub const FORWARD_DELAY_SECONDS: std::ops::RangeInclusive<u32> = 2..=30;
/// See [`FORWARD_DELAY_SECONDS`].
pub const HELLO_SECONDS: std::ops::RangeInclusive<u32> = 1..=10;
/// See [`FORWARD_DELAY_SECONDS`].
pub const MAX_AGE_SECONDS: std::ops::RangeInclusive<u32> = 6..=40;

/// Largest metric of a route.
pub const METRIC_MAX: u32 = u32::MAX - 1;
