//! Network links as the kernel shows them: how they lie on each other, and whether they work.

use super::file;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

/// Where the kernel has a directory for each link.
pub const LINKS: &str = "/sys/class/net";

/// Where the kernel has a file for each bond.
pub const BONDS: &str = "/proc/net/bonding";

/// Where the kernel lists its routes of IPv4, and its addresses of IPv6.
const ROUTES: &str = "/proc/net/route";
const ADDRESSES: &str = "/proc/net/if_inet6";

/// The address of a partner that has never spoken.
const NOBODY: &str = "00:00:00:00:00:00";

/// A link: a card, or what is made of cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetLink {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NetKind,
    /// The size of its packets in bytes.
    pub mtu: Option<u32>,
    /// Whether it is switched on.
    pub is_on: bool,
    /// Whether something is at the other end of its cable; `None`: unknown, as for a link that is off.
    pub has_carrier: Option<bool>,
    /// Links on which it lies: the ports of a bond or bridge, or the parent of a VLAN.
    pub below: Vec<String>,
    /// Whether the kernel sends packets by it: it has routes of IPv4, or a global address of IPv6.
    pub is_used: bool,
    /// What a bridge does with what comes in by this port.
    pub port_state: Option<PortState>,
}

/// What a link is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetKind {
    /// A network card, real or virtual.
    Card,
    /// Several cards that act as one.
    Bond(BondState),
    /// One of the networks on a link.
    Vlan,
    /// A switch inside the host.
    Bridge,
    /// The loopback device.
    Loopback,
    /// Something else, such as a tunnel.
    Other,
}

/// How a bond does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BondState {
    /// How the cards share the work, as the kernel writes it.
    pub mode: String,
    /// Whether it works.
    pub is_up: bool,
    /// Its cards.
    pub legs: Vec<Leg>,
    /// The hardware address of the switch that speaks LACP. `None`: the mode has no partner, or only root may see it.
    pub partner: Option<String>,
}

/// A card of a bond.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leg {
    /// Its name.
    pub name: String,
    /// Whether the bond can use it.
    pub is_up: bool,
    /// How often it has failed.
    pub failures: u64,
    /// The group of cards to which it belongs. Only one group of a bond is used.
    pub aggregator: Option<u32>,
}

/// What a bridge does with what comes in by a port. Source: Linux, include/uapi/linux/if_bridge.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// Nothing: the port is off.
    Disabled,
    /// It waits whether there is a loop.
    Listening,
    /// It learns who is there.
    Learning,
    /// It passes it on.
    Forwarding,
    /// Nothing: there is a loop.
    Blocking,
}

impl PortState {
    fn of(number: u32) -> Option<Self> {
        [Self::Disabled, Self::Listening, Self::Learning, Self::Forwarding, Self::Blocking]
            .get(number as usize)
            .copied()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Listening => "listening",
            Self::Learning => "learning",
            Self::Forwarding => "forwarding",
            Self::Blocking => "blocking",
        }
    }
}

impl NetKind {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Bond(_) => "bond",
            Self::Vlan => "vlan",
            Self::Bridge => "bridge",
            Self::Loopback => "loopback",
            Self::Other => "other",
        }
    }
}

impl NetLink {
    /// The bond's state, if it is one.
    pub fn bond(&self) -> Option<&BondState> {
        match &self.kind {
            NetKind::Bond(state) => Some(state),
            _ => None,
        }
    }

    /// The links on which it lies that take smaller packets than it sends.
    pub fn larger_than<'a>(&'a self, links: &'a [NetLink]) -> impl Iterator<Item = &'a NetLink> {
        let below = self.below.iter().filter_map(|name| links.iter().find(|link| link.name == *name));
        below.filter(|below| below.mtu < self.mtu && below.mtu.is_some())
    }
}

impl BondState {
    /// Cards that the bond cannot use.
    pub fn dead_legs(&self) -> impl Iterator<Item = &Leg> {
        self.legs.iter().filter(|leg| !leg.is_up)
    }

    /// Whether it waits for a switch that speaks LACP, and none does.
    pub fn has_no_partner(&self) -> bool {
        self.partner.as_deref() == Some(NOBODY)
    }

    /// Whether its working cards are in several groups, of which it uses one.
    pub fn is_split(&self) -> bool {
        let mut groups = self.legs.iter().filter(|leg| leg.is_up).filter_map(|leg| leg.aggregator);
        groups.next().is_some_and(|first| groups.any(|other| other != first))
    }
}

/// The links of a machine whose `/sys` and `/proc` are below a root, by name. `None`: its links cannot be read.
pub fn links(root: &Path) -> Option<Vec<NetLink>> {
    let below_root = |path: &str| root.join(path.trim_start_matches('/'));
    let names = fs::read_dir(below_root(LINKS)).ok()?.flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let bonds = below_root(BONDS);
    let [routes, addresses] = [ROUTES, ADDRESSES].map(|path| file::text(below_root(path)).unwrap_or_default());
    let routed = routes.lines().filter_map(|line| line.split_whitespace().next());
    // Address, number of the link, length of the prefix, scope, flags, name of the link.
    let addressed = addresses.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let addressed = addressed.filter(|words| words.get(3) == Some(&"00")).filter_map(|words| words.get(5).copied());
    let used: BTreeSet<&str> = routed.chain(addressed).collect();
    let read = |name: &String| {
        let dir = below_root(LINKS).join(name);
        // A plain file of that directory lists bonds.
        dir.is_dir().then(|| NetLink { is_used: used.contains(name.as_str()), ..link(name, &dir, &bonds) })
    };
    Some(names.iter().filter_map(read).collect())
}

fn link(name: &str, dir: &Path, bonds: &Path) -> NetLink {
    let number = |file_name: &str| file::word(dir.join(file_name))?.parse::<u32>().ok();
    let inside = |path: &str, beginning: &str| -> Vec<String> {
        let names = fs::read_dir(dir.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            names.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(beginning)?.to_owned())).collect();
        names.sort();
        names
    };
    let state = file::text(bonds.join(name)).map(|text| bond(&text));
    let ports = inside("brif", "");
    let kind = match (state, file::text(dir.join("uevent")).unwrap_or_default()) {
        (Some(state), _) => NetKind::Bond(state),
        _ if dir.join("bridge").is_dir() => NetKind::Bridge,
        (_, uevent) if uevent.lines().any(|line| line == "DEVTYPE=vlan") => NetKind::Vlan,
        // ARPHRD_LOOPBACK and ARPHRD_ETHER.
        _ => match number("type") {
            Some(772) => NetKind::Loopback,
            Some(1) => NetKind::Card,
            _ => NetKind::Other,
        },
    };
    let below = match &kind {
        NetKind::Bond(state) => state.legs.iter().map(|leg| leg.name.clone()).collect(),
        NetKind::Bridge => ports,
        _ => inside("", "lower_"),
    };
    let flags =
        file::word(dir.join("flags")).and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    NetLink {
        name: name.to_owned(),
        kind,
        mtu: number("mtu"),
        is_on: flags.is_some_and(|flags| flags & 1 == 1),
        has_carrier: number("carrier").map(|carrier| carrier == 1),
        below,
        is_used: false,
        port_state: number("brport/state").and_then(PortState::of),
    }
}

/// A bond as its file in `/proc/net/bonding` has it: lines about the bond, then some about each card.
fn bond(text: &str) -> BondState {
    let mut state = BondState::default();
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        let value = value.trim();
        match (key, state.legs.last_mut()) {
            ("Slave Interface", _) => state.legs.push(Leg { name: value.to_owned(), ..Leg::default() }),
            ("Bonding Mode", _) => state.mode = value.to_owned(),
            ("MII Status", None) => state.is_up = value == "up",
            ("Partner Mac Address", None) => state.partner = Some(value.to_owned()),
            ("MII Status", Some(leg)) => leg.is_up = value == "up",
            ("Link Failure Count", Some(leg)) => leg.failures = value.parse().unwrap_or(0),
            ("Aggregator ID", Some(leg)) => leg.aggregator = value.parse().ok(),
            _ => {}
        }
    }
    state
}

/// A link that works worse than it should. Its text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Degraded<'a> {
    /// Cards of a bond do not work.
    LegsDown {
        /// The bond.
        link: &'a NetLink,
        /// Names of the cards.
        dead: Vec<&'a str>,
        /// How many others work.
        working: usize,
    },
    /// No switch speaks LACP with a bond.
    NoPartner(&'a NetLink),
    /// The working cards of a bond are in several groups.
    Split(&'a NetLink),
    /// A link sends larger packets than one takes on which it lies.
    Larger {
        /// The link.
        link: &'a NetLink,
        /// The one below with the smallest packets.
        below: &'a NetLink,
    },
    /// Nothing is at the other end of a card's cable, although packets are sent by it.
    NoCarrier {
        /// The card.
        link: &'a NetLink,
        /// VLANs that lie on it.
        above: Vec<&'a str>,
    },
    /// A port of a bridge passes nothing on.
    Blocked {
        /// The port.
        link: &'a NetLink,
        /// Its state.
        state: PortState,
        /// The bridge.
        bridge: Option<&'a str>,
    },
}

impl<'a> Degraded<'a> {
    /// The link.
    pub fn link(&self) -> &'a NetLink {
        match self {
            Self::NoPartner(link)
            | Self::Split(link)
            | Self::LegsDown { link, .. }
            | Self::NoCarrier { link, .. }
            | Self::Larger { link, .. }
            | Self::Blocked { link, .. } => link,
        }
    }
}

impl fmt::Display for Degraded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.link().name;
        match self {
            Self::LegsDown { dead, working, .. } => {
                let rest = match working {
                    0 => "none of its cards works".to_owned(),
                    1 => "one card is left".to_owned(),
                    some => format!("{some} cards are left"),
                };
                write!(f, "the bond {name} has lost {}: {rest}", dead.join(" and "))
            }
            Self::NoPartner(_) => {
                write!(f, "no switch speaks LACP with the bond {name}, so it uses one of its cards at most")
            }
            Self::Split(_) => write!(f, "the cards of the bond {name} are in several groups, and it uses one of them"),
            Self::Larger { link, below } => {
                let (own, theirs) = (link.mtu.unwrap_or(0), below.mtu.unwrap_or(0));
                write!(f, "{name} sends packets of {own} bytes, and {}, on which it lies, takes {theirs}", below.name)
            }
            Self::NoCarrier { above, .. } => {
                let what = if above.is_empty() { "its addresses".to_owned() } else { above.join(" and ") };
                write!(f, "nothing is at the other end of the cable of {name}, which carries {what}")
            }
            Self::Blocked { state, bridge, .. } => {
                let why = if *state == PortState::Blocking { "there is a loop" } else { "its link is down" };
                write!(f, "{name} passes nothing on to {}: {why}", bridge.unwrap_or("its bridge"))
            }
        }
    }
}

/// What works worse than it should, link by link. Links that are switched off count only as cards of a bond.
pub fn degraded(links: &[NetLink]) -> Vec<Degraded<'_>> {
    links.iter().flat_map(|link| degraded_link(link, links)).collect()
}

fn degraded_link<'a>(link: &'a NetLink, links: &'a [NetLink]) -> Vec<Degraded<'a>> {
    let mut all = Vec::new();
    if let Some(bond) = link.bond() {
        let dead: Vec<&str> = bond.dead_legs().map(|leg| leg.name.as_str()).collect();
        let working = bond.legs.len() - dead.len();
        if !dead.is_empty() {
            all.push(Degraded::LegsDown { link, dead, working });
        }
        if bond.has_no_partner() {
            all.push(Degraded::NoPartner(link));
        } else if bond.is_split() {
            all.push(Degraded::Split(link));
        }
    }
    if link.is_on
        && let Some(below) = link.larger_than(links).min_by_key(|below| below.mtu)
    {
        all.push(Degraded::Larger { link, below });
    }
    if link.kind == NetKind::Card && link.is_on && link.has_carrier == Some(false) {
        let is_above = |one: &&NetLink| one.kind == NetKind::Vlan && one.is_on && one.below.contains(&link.name);
        let above: Vec<&str> = links.iter().filter(is_above).map(|one| one.name.as_str()).collect();
        if link.is_used || !above.is_empty() {
            all.push(Degraded::NoCarrier { link, above });
        }
    }
    if let Some(state @ (PortState::Disabled | PortState::Blocking)) = link.port_state {
        let is_above = |one: &&NetLink| one.kind == NetKind::Bridge && one.below.contains(&link.name);
        let bridge = links.iter().find(is_above).map(|one| one.name.as_str());
        all.push(Degraded::Blocked { link, state, bridge });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const LACP: &str = "\
Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer2 (0)
MII Status: up
MII Polling Interval (ms): 100

802.3ad info
LACP rate: slow
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tPartner Mac Address: 5e:1b:00:00:00:07

Slave Interface: eth0
MII Status: up
Link Failure Count: 0
Aggregator ID: 1

Slave Interface: eth1
MII Status: down
Link Failure Count: 3
Aggregator ID: 2
";

    #[test]
    fn the_state_of_a_bond_is_read() {
        let state = bond(LACP);
        assert_eq!((state.is_up, state.partner.as_deref()), (true, Some("5e:1b:00:00:00:07")));
        assert_eq!(state.dead_legs().map(|leg| (leg.name.as_str(), leg.failures)).collect::<Vec<_>>(), [("eth1", 3)]);
        assert!(!state.is_split() && !state.has_no_partner());
        assert!(bond(&LACP.replace("down", "up")).is_split());
        assert!(bond(&LACP.replace("5e:1b:00:00:00:07", NOBODY)).has_no_partner());
        assert_eq!(bond(""), BondState::default());
    }

    #[test]
    fn links_are_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/class/net/bonding_masters", "bond0\n"),
            ("sys/class/net/bond0/mtu", "1500\n"),
            ("sys/class/net/bond0/flags", "0x1403\n"),
            ("sys/class/net/bond0/carrier", "1\n"),
            ("proc/net/bonding/bond0", LACP),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/type", "1\n"),
            ("sys/class/net/eth0/flags", "0x1002\n"),
            ("sys/class/net/bond0.5/uevent", "DEVTYPE=vlan\nINTERFACE=bond0.5\n"),
            ("sys/class/net/bond0.5/mtu", "9000\n"),
            ("sys/class/net/bond0.5/flags", "0x1003\n"),
            ("sys/class/net/bond0.5/lower_bond0/mtu", "1500\n"),
            ("sys/class/net/bond0.5/brport/state", "4\n"),
            ("sys/class/net/br0/bridge/stp_state", "1\n"),
            ("sys/class/net/br0/brif/bond0.5/state", "4\n"),
            ("sys/class/net/lo/type", "772\n"),
            ("sys/class/net/sfp0/type", "1\n"),
            ("sys/class/net/sfp0/flags", "0x1003\n"),
            ("sys/class/net/sfp0/carrier", "0\n"),
            ("sys/class/net/sfp1/type", "1\n"),
            ("sys/class/net/sfp1/flags", "0x1003\n"),
            ("sys/class/net/sfp1/carrier", "0\n"),
            ("sys/class/net/sfp1.7/uevent", "DEVTYPE=vlan\n"),
            ("sys/class/net/sfp1.7/flags", "0x1003\n"),
            ("sys/class/net/sfp1.7/lower_sfp1/mtu", "1500\n"),
            ("sys/class/net/spare/type", "1\n"),
            ("sys/class/net/spare/flags", "0x1003\n"),
            ("sys/class/net/spare/carrier", "0\n"),
            ("proc/net/route", "Iface Destination Gateway\nsfp0 000200C0 00000000\n"),
            (
                "proc/net/if_inet6",
                "fe800000000000000000000000000001 09 40 20 80 spare\n20010db8000000000000000000000001 02 40 00 80 eth0\n",
            ),
        ] {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let links = links(root.path()).unwrap();
        let names: Vec<_> = links.iter().map(|link| (link.name.as_str(), link.kind.name())).collect();
        assert_eq!(
            names,
            [
                ("bond0", "bond"),
                ("bond0.5", "vlan"),
                ("br0", "bridge"),
                ("eth0", "card"),
                ("lo", "loopback"),
                ("sfp0", "card"),
                ("sfp1", "card"),
                ("sfp1.7", "vlan"),
                ("spare", "card")
            ]
        );
        let [bond, vlan, bridge, card, ..] = &links[..] else { panic!("{links:?}") };
        assert_eq!((bond.is_on, bond.has_carrier, card.is_on, card.has_carrier), (true, Some(true), false, None));
        assert!(card.is_used && !bond.is_used);
        assert_eq!((vlan.port_state, &bridge.below[..]), (Some(PortState::Blocking), &["bond0.5".to_owned()][..]));
        assert_eq!(vlan.larger_than(&links).map(|link| link.name.as_str()).collect::<Vec<_>>(), ["bond0"]);
        let said: Vec<String> = degraded(&links).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "the bond bond0 has lost eth1: one card is left",
                "bond0.5 sends packets of 9000 bytes, and bond0, on which it lies, takes 1500",
                "bond0.5 passes nothing on to br0: there is a loop",
                "nothing is at the other end of the cable of sfp0, which carries its addresses",
                "nothing is at the other end of the cable of sfp1, which carries sfp1.7",
            ]
        );
        assert_eq!(super::links(&root.path().join("none")), None);
    }
}
