//! The network of a host as it should be: its links, how they lie on each other, and their addresses.

mod bond;
mod text;

pub use bond::{Bond, BondMode, LacpRate, Monitor, TransmitHash};

use crate::limits::TOPOLOGY_BYTES_MAX;
use millstream_host::read_at_most;
use millstream_model::Refusal;
use millstream_model::range::{Family, number};
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

/// All links of a host. Each is there once, and lies on links that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The links, in the order in which they are made: a bond, then its cards; a bridge, then its VLANs.
    pub links: Vec<Link>,
}

/// A link: a card, or what is made of cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: LinkKind,
    /// The size of its packets in bytes; `None`: as the driver has it.
    pub mtu: Option<u32>,
    /// The zone of firewalld.
    pub zone: Option<String>,
    /// Whether its ports are started with it.
    pub starts_ports: bool,
    /// IPv4.
    pub v4: Addressing,
    /// IPv6.
    pub v6: Addressing,
    /// Domains in which names are looked up.
    pub search: Vec<String>,
}

/// What a link is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// A network card.
    #[default]
    Card,
    /// Several cards that act as one.
    Bond(Bond),
    /// One of the networks on a link, by the number in its packets.
    Vlan {
        /// The link that it lies on.
        parent: String,
        /// Its number.
        id: u16,
    },
    /// A switch inside the host.
    Bridge(Bridge),
}

/// A switch inside the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// The links that it joins.
    pub ports: Vec<String>,
    /// Whether it looks for loops with other switches (STP).
    pub stp: bool,
    /// Seconds for which a new port listens and learns, each; `None`: 15.
    pub forward_delay: Option<u32>,
    /// Seconds between its messages; `None`: 2.
    pub hello_time: Option<u32>,
    /// Seconds after which a switch that is silent counts as gone; `None`: 20.
    pub max_age: Option<u32>,
    /// The switch with the smallest number is the root of the tree; `None`: 32,768.
    pub priority: Option<u16>,
}

/// Addresses of one family; the default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Where they come from.
    pub method: Method,
    /// Those that are given.
    pub addresses: Vec<Prefix>,
    /// The router to all other networks.
    pub gateway: Option<IpAddr>,
    /// Of two routers to all other networks, the one with the smaller number is taken.
    pub gateway_metric: Option<u32>,
    /// Who knows the addresses of names.
    pub dns: Vec<IpAddr>,
    /// Other networks, and the routers to them.
    pub routes: Vec<Route>,
}

/// Where addresses come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// There are none.
    #[default]
    Disabled,
    /// From DHCP, or from a router.
    Auto,
    /// They are given.
    Manual,
    /// NetworkManager does nothing, so the kernel does what it does without: for IPv6 it takes addresses.
    Ignore,
}

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Bits of the network.
    pub length: u8,
}

/// A network, and the router to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Prefix,
    /// The router; `None`: the network is on this link.
    pub via: Option<IpAddr>,
    /// Of two routes to the same network, the one with the smaller number is taken.
    pub metric: Option<u32>,
}

impl Topology {
    /// Reads a topology.
    ///
    /// # Errors
    /// The file cannot be read, or says what cannot be. The message names the place.
    pub fn read(file: &Path) -> Result<Self, Refusal> {
        let text = read_at_most(file, TOPOLOGY_BYTES_MAX, None)?;
        Self::parse(&text).map_err(Refusal::at(file.display()))
    }

    /// The topology of a text.
    ///
    /// # Errors
    /// It says what cannot be.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        text::topology(text)
    }

    /// The link of a name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The bond or bridge of which a link is a port.
    pub fn controller(&self, port: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.ports().iter().any(|name| name == port))
    }

    /// The links on which a link lies: its ports, or the parent of a VLAN.
    pub fn below<'a>(&'a self, link: &'a Link) -> impl Iterator<Item = &'a Link> {
        let parent = match &link.kind {
            LinkKind::Vlan { parent, .. } => Some(parent),
            _ => None,
        };
        link.ports().iter().chain(parent).filter_map(|name| self.link(name))
    }
}

impl Link {
    /// The links that are its ports.
    pub fn ports(&self) -> &[String] {
        match &self.kind {
            LinkKind::Bond(bond) => &bond.ports,
            LinkKind::Bridge(bridge) => &bridge.ports,
            LinkKind::Card | LinkKind::Vlan { .. } => &[],
        }
    }

    /// Both families.
    pub fn families(&self) -> [&Addressing; 2] {
        [&self.v4, &self.v6]
    }

    /// Where the description has it.
    pub fn place(&self) -> String {
        format!("{}s.{}", self.kind.name(), self.name)
    }
}

impl Addressing {
    /// Whether the link has the family.
    pub fn is_on(&self) -> bool {
        matches!(self.method, Method::Auto | Method::Manual)
    }

    /// The routes, with that of the gateway. What is on the link stands first: routers may be reached by it.
    pub fn all_routes(&self) -> Vec<Route> {
        let default = self.gateway.map(|gateway| {
            let to = Prefix { address: Family::of(gateway).address(0), length: 0 };
            Route { to, via: Some(gateway), metric: self.gateway_metric }
        });
        let mut all: Vec<Route> = default.into_iter().chain(self.routes.iter().copied()).collect();
        all.sort_by_key(|route| route.via.is_some());
        all
    }
}

impl LinkKind {
    /// Its name, as in `a bond`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Bond(_) => "bond",
            Self::Vlan { .. } => "vlan",
            Self::Bridge(_) => "bridge",
        }
    }
}

impl Bridge {
    /// The numbers that it has, by their names in NetworkManager.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let numbers = [
            ("forward-delay", self.forward_delay),
            ("hello-time", self.hello_time),
            ("max-age", self.max_age),
            ("priority", self.priority.map(u32::from)),
        ];
        numbers.into_iter().filter_map(|(name, number)| Some((name, number?)))
    }
}

impl Prefix {
    /// The network: the address without the bits of the host.
    pub fn network(self) -> Self {
        Self { address: masked(self.address, self.length), ..self }
    }

    /// Whether the network is the address alone.
    pub fn is_alone(self) -> bool {
        u32::from(self.length) == Family::of(self.address).bits()
    }

    /// Whether the address is valid on its link alone, so that another link may have it, too.
    pub fn is_link_local(self) -> bool {
        match self.address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }

    /// Whether an address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.length) == self.network().address
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    let family = Family::of(address);
    let host = family.last().checked_shr(length.into()).unwrap_or(0);
    family.address(number(address) & !host)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_its_addresses_and_no_others() {
        let of = |address: &str, length| Prefix { address: address.parse().unwrap(), length };
        let holds = |prefix: Prefix, address: &str| prefix.contains(address.parse().unwrap());
        assert!(holds(of("192.0.2.5", 24), "192.0.2.255") && !holds(of("192.0.2.5", 24), "192.0.3.0"));
        assert!(holds(of("0.0.0.0", 0), "255.255.255.255") && !holds(of("0.0.0.0", 0), "::1"));
        assert!(holds(of("192.0.2.5", 32), "192.0.2.5") && !holds(of("192.0.2.5", 32), "192.0.2.4"));
        assert!(holds(of("2001:db8::5", 64), "2001:db8::ffff") && !holds(of("2001:db8::5", 64), "2001:db8:0:1::"));
        assert_eq!(of("192.0.2.5", 24).network().to_string(), "192.0.2.0/24");
    }
}
