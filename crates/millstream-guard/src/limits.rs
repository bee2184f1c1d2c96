//! Every limit of this crate.

use std::time::Duration;

/// Bytes of a packet's payload. The article sent as many.
pub const PAYLOAD_BYTES: usize = 128;

/// Packets that are sent before anything is measured: all of them must be counted as the row declares.
pub const GATE_PACKETS: u64 = 1_000;

/// Packets that one call of the system sends.
pub const BATCH_PACKETS: usize = 64;

/// Live frames that one call of the system makes. Each call also prepares memory for them, which takes as long as some
/// thousand frames (500 us measured on Linux 6.18). With so many frames, that adds 30 ns to each.
pub(crate) const FRAMES_AT_ONCE: usize = 1 << 14;

/// Room for all of them at the socket that is read afterwards: each takes a page of memory and a little more. The kernel
/// doubles the number.
pub(crate) const READER_BYTES: usize = FRAMES_AT_ONCE * 4_096;

/// Longest measurement, in seconds.
pub const SECONDS_MAX: f64 = 3_600.0;

/// Largest file of a policy, in bytes.
pub const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Most bytes that are read of a file that names resolvers or says how they are asked.
pub(crate) const RESOLVED_BYTES_MAX: u64 = 1 << 20;

/// Largest file of a list, in bytes: more than as many ranges of IPv6 as a list may have take.
pub const LIST_BYTES_MAX: u64 = 256 << 20;

/// Largest script of rules that is proved, in bytes.
pub const SCRIPT_BYTES_MAX: u64 = LIST_BYTES_MAX;

/// Longest text that a service may deny, in bytes, and the last byte of a datagram at which it may begin. Both together fit into
/// what a proof receives of a packet.
pub(crate) const DENIED_TEXT_BYTES_MAX: usize = 64;
pub(crate) const DENIED_TEXT_AT_MAX: u16 = 128;

/// Bytes that a proof receives of a packet that has passed.
pub(crate) const SEEN_BYTES_MAX: usize = 256;

const _: () = assert!(20 + 8 + DENIED_TEXT_AT_MAX as usize + DENIED_TEXT_BYTES_MAX <= SEEN_BYTES_MAX);

/// Most ranges of a list.
pub const RANGES_MAX: usize = 2_000_000;

/// Prefixes that a set of ipset may have. They take memory only once they are there, and a set can take the place of
/// another only if this number is the same.
pub const PREFIXES_MAX: u32 = 1 << 28;

/// Longest name of a list, service or client, in bytes. With what goes before and after it, it is the name of a set,
/// which may have 31 bytes in ipset.
pub const NAME_BYTES_MAX: usize = 16;

/// Longest name of an interface in Linux, in bytes.
pub const INTERFACE_BYTES_MAX: usize = 15;

/// Largest number of a rate, and largest burst: iptables counts a second in 10,000 parts.
pub const RATE_MAX: u32 = 10_000;

/// What a limit lets through at once unless the policy says otherwise: as nft and iptables do.
pub const BURST: u32 = 5;

/// Sources that a limit of nft counts at once. What comes from further ones is accepted.
pub const LIMIT_SOURCES_MAX: u32 = 65_535;

/// Dropped packets that are logged in a second, at most.
pub const LOG_PER_SECOND: u32 = 5;

/// Ports in one rule of iptables.
pub const MULTIPORT_MAX: usize = 15;

/// Longest wait until a packet of a proof has arrived. It takes microseconds.
pub const ARRIVAL_MAX: Duration = Duration::from_secs(20);

/// Longest silence in a conversation of a proof: then it has failed.
pub const TALK_MAX: Duration = Duration::from_secs(5);

/// Bytes that a host sends to a client whose router has smaller packets.
pub const LARGE_BYTES: usize = 200_000;

/// Bytes of a datagram that is sent in fragments.
pub const FRAGMENTED_BYTES: usize = 3_000;

/// Most packets of one pass of a proof beyond those that each line needs.
pub const PROBES_MAX: u64 = 6_000;

/// Ranges of each group of addresses of which a proof tries the ends.
pub const SAMPLE_RANGES: usize = 3;

/// Most rules that a policy is made of, with those of the chains that are jumped to.
pub(crate) const IMPORTED_RULES_MAX: usize = 10_000;

/// Most parts into which rules that drop may cut one that accepts.
pub(crate) const IMPORTED_PIECES_MAX: usize = 500;

/// How deep rules may jump. The kernel takes no more.
pub(crate) const JUMPS_MAX: usize = 16;

/// Longest text of a rule that is repeated, in characters.
pub(crate) const RULE_SHOWN_MAX: usize = 200;

/// Longest time of nft: a million ranges take a minute.
pub const NFT_MAX: Duration = Duration::from_secs(600);

/// Most bytes that nft and iptables may print of all rules of this host, without the elements of sets. A rule takes some hundred
/// bytes as JSON, so that is more than a hundred thousand rules.
pub const RULES_BYTES_MAX: u64 = 64 << 20;

/// Most bytes that nft may print of our own table with the elements of its sets. A policy may have several lists.
pub const TABLE_BYTES_MAX: u64 = 4 * LIST_BYTES_MAX;

const _: () = assert!(RULES_BYTES_MAX <= TABLE_BYTES_MAX);

/// Most connections that are tried beside the rules of others: two or four for each service.
pub const EXCHANGES_MAX: usize = 256;

/// So many of those that fail are tried once more, each alone: the first few say enough.
pub const SUSPECTS_MAX: usize = 8;

/// Longest silence in one of them. They take milliseconds, and one that fails is tried once more.
pub const EXCHANGE_MAX: Duration = Duration::from_secs(2);

/// So many of them at once. One that nobody answers takes [`EXCHANGE_MAX`].
pub const EXCHANGES_AT_ONCE: usize = 32;

/// Packets that are shown of those about which rules decide otherwise than a line of a policy.
pub(crate) const EXAMPLES_SHOWN: usize = 3;

/// Packets of a proof beyond twice the burst of a limit.
pub const MORE_THAN_BURST: u32 = 10;

/// Most packets that a proof of a limit sends.
pub const LIMITED_MAX: u32 = 10_000;

/// Longest time for which something is denied, in seconds: a year.
pub const DENY_SECONDS_MAX: u64 = 365 * 86_400;
