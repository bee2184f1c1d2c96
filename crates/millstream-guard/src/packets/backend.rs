//! The programs that give the kernel a row's rules.

use millstream_model::range::Family;
use serde::{Deserialize, Serialize};

/// A program that gives the kernel rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// `nft`.
    Nft,
    /// `iptables`, which makes nftables of its rules.
    IptablesNft,
    /// `iptables` with the kernel's older filter.
    IptablesLegacy,
    /// A program of XDP of our own, which needs root.
    Xdp,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Nft, Self::IptablesNft, Self::IptablesLegacy, Self::Xdp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
            Self::Xdp => "xdp",
        }
    }

    /// A program of iptables.
    pub(super) fn tool(self, family: Family, what: &str) -> String {
        let program = if family == Family::V4 { self.name().to_owned() } else { self.name().replace("ip", "ip6") };
        format!("{program}-{what}")
    }
}
