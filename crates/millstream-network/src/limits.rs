//! Every limit of this crate.

use std::time::Duration;

/// Largest file of a topology, in bytes.
pub const TOPOLOGY_BYTES_MAX: u64 = 1 << 20;

/// Most bytes that are read of a profile of NetworkManager.
pub(crate) const PROFILE_BYTES_MAX: u64 = 1 << 20;

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
/// How long a new port of a bridge listens, and then learns, if nobody says, in seconds. Source: IEEE 802.1D.
pub const FORWARD_DELAY_USUAL: u32 = 15;
/// See [`FORWARD_DELAY_SECONDS`].
pub const HELLO_SECONDS: std::ops::RangeInclusive<u32> = 1..=10;
/// See [`FORWARD_DELAY_SECONDS`].
pub const MAX_AGE_SECONDS: std::ops::RangeInclusive<u32> = 6..=40;

/// Largest metric of a route.
pub const METRIC_MAX: u32 = u32::MAX - 1;

/// Longest time of a question to NetworkManager.
pub const BUS_MAX: Duration = Duration::from_secs(30);

/// Longest wait for a profile that NetworkManager starts by itself.
pub const SELF_START_MAX: Duration = Duration::from_secs(2);

/// How often a profile is started. As many links may lie on each other.
pub const TRIES_MAX: u32 = 4;

/// Longest wait for a profile to start. NetworkManager's own longest wait for DHCP is 45 seconds.
pub const START_MAX: Duration = Duration::from_secs(60);

/// Longest wait for a daemon that is about to start.
pub const DAEMON_START_MAX: Duration = Duration::from_secs(2);

/// Time between two looks at something that is about to happen.
pub const LOOK: Duration = Duration::from_millis(250);

/// What a checkpoint's time is longer at first than the one for a confirmation: as much as activation may take.
pub const CHECKPOINT_START: Duration = Duration::from_secs(180);

/// What a checkpoint's time is longer at last: as much as our own process needs to go back before.
pub const CHECKPOINT_TAIL: Duration = Duration::from_secs(5);

/// Longest time until a topology must work.
pub const VERIFY_MAX: Duration = Duration::from_secs(30);

/// Longest wait for a bond to find its switch, and for a bridge to let packets pass, before that is a warning. A slow LACP asks
/// every 30 seconds.
pub const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Longest wait for an answer of the gateway's or of a port.
pub const ANSWER_MAX: Duration = Duration::from_secs(2);
