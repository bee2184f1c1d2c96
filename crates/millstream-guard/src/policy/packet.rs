//! A packet, as far as a policy can tell packets apart.

use millstream_model::range::Family;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A packet that comes in or goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Its direction.
    pub direction: Direction,
    /// The interface; `lo` is the loopback device.
    pub interface: String,
    /// The address from which it comes.
    pub source: IpAddr,
    /// The address to which it goes.
    pub destination: IpAddr,
    /// What is in it.
    pub content: Content,
    /// The text of a datagram of UDP. Those of other packets say nothing.
    pub text: Vec<u8>,
    /// Whether tracking knows its connection, which a line has accepted. Without tracking, that says nothing.
    pub is_established: bool,
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// To this host.
    In,
    /// From this host.
    Out,
}

/// What is in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// TCP.
    Tcp {
        /// Port of the source.
        from: u16,
        /// Port of the destination.
        to: u16,
        /// Its flags.
        flags: Flags,
    },
    /// UDP.
    Udp {
        /// Port of the source.
        from: u16,
        /// Port of the destination.
        to: u16,
    },
    /// ICMP of the addresses' family.
    Icmp {
        /// Its type.
        kind: u8,
        /// Whether no router has forwarded it: its hop limit is still 255.
        is_of_neighbour: bool,
    },
    /// A fragment after the first.
    LaterFragment,
    /// Another protocol.
    Other(u8),
}

/// Flags of TCP, as the bits of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has sent everything.
    pub const FIN: Self = Self(1);
    /// The sender begins a connection.
    pub const SYN: Self = Self(2);
    /// The sender knows no such connection.
    pub const RST: Self = Self(4);
    /// The receiver should not wait for more.
    pub const PSH: Self = Self(8);
    /// The sender has received something.
    pub const ACK: Self = Self(16);
    /// Some bytes are urgent.
    pub const URG: Self = Self(32);

    /// Each flag with its name in nft and iptables, in the order of the bits.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::FIN, "fin"),
        (Self::SYN, "syn"),
        (Self::RST, "rst"),
        (Self::PSH, "psh"),
        (Self::ACK, "ack"),
        (Self::URG, "urg"),
    ];

    /// All of these flags.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of these are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether it is the first packet of a connection.
    pub const fn begins(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK)
    }

    /// Whether no packet of a connection can have them. Source: RFC 9293, section 3.10.7.
    pub const fn are_illegal(self) -> bool {
        let ends = Self::FIN.0 | Self::RST.0;
        let needs_ack = Self::FIN.0 | Self::PSH.0 | Self::URG.0;
        self.0 & 0x3f == 0
            || (self.has(Self::SYN) && self.0 & ends != 0)
            || self.has(Self::FIN.and(Self::RST))
            || (!self.has(Self::ACK) && self.0 & needs_ack != 0)
    }
}

impl Packet {
    /// The text of a datagram for which it does not matter.
    pub const USUAL_TEXT: &'static [u8] = b"test";

    /// The address on the other side.
    pub fn peer(&self) -> IpAddr {
        match self.direction {
            Direction::In => self.source,
            Direction::Out => self.destination,
        }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.source)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set: Vec<&str> = Self::ALL.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        f.write_str(if set.is_empty() { "none".to_owned() } else { set.join("+") }.as_str())
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, interface, .. } = self;
        match self.content {
            Content::Tcp { from, to, flags } => {
                write!(f, "tcp ({flags}) from {source} port {from} to {destination} port {to}")?;
            }
            Content::Udp { from, to } => {
                write!(f, "udp from {source} port {from} to {destination} port {to}")?;
                if !self.text.is_empty() && self.text != Self::USUAL_TEXT {
                    write!(f, " with the text {:?}", String::from_utf8_lossy(&self.text))?;
                }
            }
            Content::Icmp { kind, .. } => write!(f, "icmp type {kind} from {source} to {destination}")?,
            Content::LaterFragment => write!(f, "a later fragment from {source} to {destination}")?,
            Content::Other(protocol) => write!(f, "protocol {protocol} from {source} to {destination}")?,
        }
        let way = match self.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        write!(f, ", {way} by {interface}")
    }
}
