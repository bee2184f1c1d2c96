//! What makes the packets, and between which addresses they go.

use millstream_model::range::{Family, number};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port that packets go to: discard.
pub(super) const PORT: u16 = 9;

/// The port that they come from.
pub(super) const FROM: u16 = 40_009;

/// What makes the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// A socket, which sends them over the loopback device.
    Send,
    /// The kernel, which gives a virtual cable copies of one frame. Nothing is sent, so the time is that of receiving.
    /// Only root may ask for it.
    Live,
}

impl Generator {
    /// Every generator.
    pub const ALL: [Self; 2] = [Self::Send, Self::Live];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Live => "live",
        }
    }

    /// The device that receives the packets.
    pub(super) fn device(self) -> &'static str {
        match self {
            Self::Send => "lo",
            Self::Live => "received",
        }
    }

    /// The address that packets go to.
    pub(super) fn target(self, family: Family) -> IpAddr {
        match (self, family) {
            (Self::Send, Family::V4) => Ipv4Addr::LOCALHOST.into(),
            (Self::Send, Family::V6) => Ipv6Addr::LOCALHOST.into(),
            (Self::Live, _) => next(self.source(0, 1, family)),
        }
    }

    /// The address that sends in this turn. If there is only one, it is the loopback address, or that of a neighbour.
    pub(super) fn source(self, n: u32, sources: u32, family: Family) -> IpAddr {
        match (self, family) {
            // Of 192.0.2.0/24, which is kept for documents: no set has it.
            (Self::Live, Family::V4) => Ipv4Addr::from(0xc000_0201 + n).into(),
            (Self::Live, Family::V6) => Ipv6Addr::from((0xfd76_u128 << 112) + 1 + u128::from(n)).into(),
            (Self::Send, Family::V4) if sources == 1 => Ipv4Addr::LOCALHOST.into(),
            // The whole of 127.0.0.0/8 is local.
            (Self::Send, Family::V4) => Ipv4Addr::from(0x7f01_0000 + n).into(),
            (Self::Send, Family::V6) if sources == 1 => Ipv6Addr::LOCALHOST.into(),
            (Self::Send, Family::V6) => Ipv6Addr::from((0xfd77_u128 << 112) + u128::from(n)).into(),
        }
    }
}

/// The address after this one.
pub(super) fn next(address: IpAddr) -> IpAddr {
    let family = Family::of(address);
    family.address(number(address).saturating_add(1).min(family.last()))
}
