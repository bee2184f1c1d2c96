//! Bonds: several cards that act as one.

use serde::Deserialize;
use std::net::Ipv4Addr;

/// Several cards that act as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bond {
    /// The cards.
    pub ports: Vec<String>,
    /// How they share the work.
    pub mode: BondMode,
    /// How a dead card is noticed; `None`: not at all.
    pub monitor: Option<Monitor>,
    /// The card that is used while it works.
    pub primary: Option<String>,
    /// How often the partner is asked to speak LACP.
    pub lacp_rate: Option<LacpRate>,
    /// What of a packet chooses the card that sends it.
    pub transmit_hash: Option<TransmitHash>,
    /// Cards that must work for the bond to work.
    pub min_links: Option<u32>,
}

/// How the cards of a bond share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// Packet by packet.
    BalanceRr,
    /// One works, the others wait.
    ActiveBackup,
    /// By a hash of the packet.
    BalanceXor,
    /// All send everything.
    Broadcast,
    /// As the switch and the host agree by LACP.
    #[serde(rename = "802.3ad")]
    Lacp,
    /// By load, for what is sent.
    BalanceTlb,
    /// By load, also for what comes.
    BalanceAlb,
}

/// How a dead card is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Monitor {
    /// The driver says whether it has a carrier.
    Carrier {
        /// Milliseconds between looks.
        interval_ms: u32,
        /// Milliseconds for which a card with a carrier is not used yet.
        up_delay_ms: Option<u32>,
        /// Milliseconds for which a card without one is still used.
        down_delay_ms: Option<u32>,
    },
    /// Neighbours are asked for their address.
    Arp {
        /// Milliseconds between questions.
        interval_ms: u32,
        /// The neighbours.
        targets: Vec<Ipv4Addr>,
    },
}

/// How often the partner is asked to speak LACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LacpRate {
    /// Every 30 seconds.
    Slow,
    /// Every second.
    Fast,
}

/// What of a packet chooses the card that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum TransmitHash {
    /// The addresses of the hardware.
    #[serde(rename = "layer2")]
    Layer2,
    /// Those, and the addresses of IP.
    #[serde(rename = "layer2+3")]
    Layer23,
    /// The addresses of IP and the ports.
    #[serde(rename = "layer3+4")]
    Layer34,
    /// As layer2+3, of the inner packet of a tunnel.
    #[serde(rename = "encap2+3")]
    Encap23,
    /// As layer3+4, of the inner packet of a tunnel.
    #[serde(rename = "encap3+4")]
    Encap34,
    /// The number of the VLAN and the sender's hardware.
    #[serde(rename = "vlan+srcmac")]
    VlanSource,
}

impl BondMode {
    /// Its name in Linux.
    pub fn name(self) -> &'static str {
        match self {
            Self::BalanceRr => "balance-rr",
            Self::ActiveBackup => "active-backup",
            Self::BalanceXor => "balance-xor",
            Self::Broadcast => "broadcast",
            Self::Lacp => "802.3ad",
            Self::BalanceTlb => "balance-tlb",
            Self::BalanceAlb => "balance-alb",
        }
    }

    /// Whether a hash of each packet chooses the card.
    pub fn hashes(self) -> bool {
        matches!(self, Self::BalanceXor | Self::Lacp | Self::BalanceTlb)
    }

    /// Whether Linux lets a bond of this mode ask its neighbours.
    pub fn can_ask(self) -> bool {
        !matches!(self, Self::Lacp | Self::BalanceTlb | Self::BalanceAlb)
    }

    /// Whether one card may be preferred.
    pub fn has_primary(self) -> bool {
        matches!(self, Self::ActiveBackup | Self::BalanceTlb | Self::BalanceAlb)
    }
}

impl LacpRate {
    /// Its name in Linux.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Fast => "fast",
        }
    }
}

impl TransmitHash {
    /// Its name in Linux.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer2 => "layer2",
            Self::Layer23 => "layer2+3",
            Self::Layer34 => "layer3+4",
            Self::Encap23 => "encap2+3",
            Self::Encap34 => "encap3+4",
            Self::VlanSource => "vlan+srcmac",
        }
    }
}

impl Bond {
    /// Its options as the kernel names them, in the order in which they are set: the mode first.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("mode", self.mode.name().to_owned())];
        match &self.monitor {
            Some(Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms }) => {
                options.push(("miimon", interval_ms.to_string()));
                options.extend(up_delay_ms.map(|delay| ("updelay", delay.to_string())));
                options.extend(down_delay_ms.map(|delay| ("downdelay", delay.to_string())));
            }
            Some(Monitor::Arp { interval_ms, targets }) => {
                let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
                options.push(("arp_interval", interval_ms.to_string()));
                options.push(("arp_ip_target", targets.join(",")));
            }
            None => {}
        }
        options.extend(self.primary.clone().map(|primary| ("primary", primary)));
        options.extend(self.lacp_rate.map(|rate| ("lacp_rate", rate.name().to_owned())));
        options.extend(self.transmit_hash.map(|hash| ("xmit_hash_policy", hash.name().to_owned())));
        options.extend(self.min_links.map(|links| ("min_links", links.to_string())));
        options
    }
}
