//! What a topology would change on this machine.

use crate::topology::{Link, LinkKind, Method, Prefix, Topology};
use millstream_host::kernel::link::{NetKind, NetLink, links};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The links of this machine, and their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// The links.
    pub links: Vec<NetLink>,
    /// Addresses by the name of their link.
    pub addresses: BTreeMap<String, Vec<Prefix>>,
    /// Hardware addresses that the makers gave, by the name of their link.
    pub hardware: BTreeMap<String, String>,
}

impl Live {
    /// Reads them. Without the program `ip`, there are no addresses. `None`: the links cannot be read.
    pub fn read() -> Option<Self> {
        let listed = millstream_host::Command::new("ip").args(["-json", "address", "show"]).run_blocking();
        let listed = listed.map(|ended| ended.stdout).unwrap_or_default();
        let (addresses, hardware) = listed_addresses(&listed);
        Some(Self { links: links(Path::new("/"))?, addresses, hardware })
    }

    fn link(&self, name: &str) -> Option<&NetLink> {
        self.links.iter().find(|link| link.name == name)
    }
}

/// Addresses as `ip -json address show` lists them, and those of the hardware. A card of a bond has that of the bond, too.
fn listed_addresses(json: &str) -> (BTreeMap<String, Vec<Prefix>>, BTreeMap<String, String>) {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let (mut all, mut hardware) = (BTreeMap::new(), BTreeMap::new());
    for link in listed.as_array().into_iter().flatten() {
        let own = link["addr_info"].as_array().into_iter().flatten();
        let prefix = |one: &Value| {
            let (address, length) = (one["local"].as_str()?.parse().ok()?, one["prefixlen"].as_u64()?.try_into().ok()?);
            Some(Prefix { address, length })
        };
        if let Some(name) = link["ifname"].as_str() {
            all.insert(name.to_owned(), own.filter_map(prefix).collect());
            let address = link["permaddr"].as_str().or_else(|| link["address"].as_str());
            hardware.extend(address.map(|address| (name.to_owned(), address.to_ascii_lowercase())));
        }
    }
    (all, hardware)
}

/// What would change, as sentences, in the order of the topology. Links that it does not describe stay as they are.
pub fn differences(topology: &Topology, live: &Live) -> Vec<String> {
    topology.links.iter().flat_map(|link| differences_of(topology, link, live)).collect()
}

/// Cards of a topology that a machine does not have.
pub fn missing_cards<'a>(topology: &'a Topology, live: &Live) -> impl Iterator<Item = &'a str> {
    let cards = topology.links.iter().filter(|link| link.kind == LinkKind::Card && live.link(&link.name).is_none());
    cards.map(|link| link.name.as_str())
}

/// Links of a topology that have addresses on a machine now.
pub fn addressed<'a>(topology: &'a Topology, live: &Live) -> impl Iterator<Item = &'a str> {
    let names = topology.links.iter().map(|link| link.name.as_str());
    let is_given = |one: &Prefix| !one.is_link_local();
    names.filter(move |name| live.addresses.get(*name).is_some_and(|own| own.iter().any(is_given)))
}

fn differences_of(topology: &Topology, link: &Link, live: &Live) -> Vec<String> {
    let (name, kind) = (&link.name, link.kind.name());
    let Some(now) = live.link(name) else {
        return vec![match link.kind {
            LinkKind::Card => format!("there is no card {name} on this machine"),
            _ => format!("{name} is new: a {kind}"),
        }];
    };
    let mut all = Vec::new();
    if now.kind.name() != kind {
        all.push(format!("{name} is a {} now, and becomes a {kind}", now.kind.name()));
    }
    if let (Some(mtu), Some(before)) = (link.mtu, now.mtu.filter(|before| Some(*before) != link.mtu)) {
        all.push(format!("{name} takes packets of {before} bytes now, and then of {mtu}"));
    }
    // A card of a machine has nothing below it, and a VLAN keeps its parent.
    if matches!(now.kind, NetKind::Bond(_) | NetKind::Bridge) {
        let (before, after): (BTreeSet<&String>, BTreeSet<&String>) =
            (now.below.iter().collect(), link.ports().iter().collect());
        all.extend(after.difference(&before).map(|port| format!("{name} gets the port {port}")));
        all.extend(before.difference(&after).map(|port| format!("{name} loses the port {port}")));
    }
    if topology.controller(name).is_none() {
        all.extend(addresses_of(link, live.addresses.get(name).map_or(&[], Vec::as_slice)));
    }
    all
}

/// Addresses of a family that come from elsewhere are not known.
fn addresses_of(link: &Link, before: &[Prefix]) -> Vec<String> {
    let mut all = Vec::new();
    for (is_v4, family) in [(true, &link.v4), (false, &link.v6)] {
        let is_given = matches!(family.method, Method::Manual | Method::Disabled);
        let before: Vec<&Prefix> = before.iter().filter(|one| one.address.is_ipv4() == is_v4).collect();
        let new = family.addresses.iter().filter(|one| !before.contains(one));
        all.extend(new.map(|one| format!("{} gets the address {one}", link.name)));
        // The kernel makes those of each link itself.
        let lost = before.iter().filter(|one| is_given && !one.is_link_local() && !family.addresses.contains(one));
        all.extend(lost.map(|one| format!("{} loses the address {one}", link.name)));
    }
    all
}

/// A card that is on, for tests.
#[cfg(test)]
pub(crate) fn card(name: &str) -> NetLink {
    NetLink {
        name: name.to_owned(),
        kind: NetKind::Card,
        mtu: None,
        is_on: true,
        has_carrier: None,
        below: Vec::new(),
        is_used: false,
        port_state: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(name: &str, kind: NetKind, mtu: u32, below: &[&str]) -> NetLink {
        let below = below.iter().map(|name| (*name).to_owned()).collect();
        NetLink { kind, mtu: Some(mtu), below, ..card(name) }
    }

    #[test]
    fn what_would_change_is_said_in_sentences() {
        let topology = Topology::parse(
            "[bridges.br0]\nports = ['eth0', 'eth1']\nmtu = 9000\n\
             addresses = ['192.0.2.5/24', '2001:db8::5/64', 'fe80::5/64', 'fe80::6/64']\n\
             [vlans.v5]\nparent = 'eth2'\nid = 5\n[cards.eth2]\nipv4 = 'auto'\n[cards.eth9]\n",
        );
        let (addresses, hardware) = listed_addresses(
            r#"[{"ifname": "br0", "addr_info": [{"local": "192.0.2.5", "prefixlen": 24, "scope": "global"},
            {"local": "198.51.100.5", "prefixlen": 24, "scope": "global"}, {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            {"local": "fe80::5", "prefixlen": 64, "scope": "link"}]},
            {"ifname": "eth2", "address": "52:54:00:00:00:99", "permaddr": "52:54:00:00:00:0A", "addr_info": [{"local": "203.0.113.9", "prefixlen": 24, "scope": "global"}]}]"#,
        );
        let links = vec![
            live("br0", NetKind::Bridge, 1_500, &["eth0", "eth7"]),
            live("eth0", NetKind::Card, 1_500, &[]),
            live("eth1", NetKind::Vlan, 1_500, &[]),
            live("eth2", NetKind::Card, 1_500, &[]),
        ];
        assert_eq!(hardware, BTreeMap::from([("eth2".to_owned(), "52:54:00:00:00:0a".to_owned())]));
        let said = differences(&topology.unwrap(), &Live { links, addresses, hardware });
        assert_eq!(
            said,
            [
                "br0 takes packets of 1500 bytes now, and then of 9000",
                "br0 gets the port eth1",
                "br0 loses the port eth7",
                "br0 loses the address 198.51.100.5/24",
                "br0 gets the address 2001:db8::5/64",
                "br0 gets the address fe80::6/64",
                "eth1 is a vlan now, and becomes a card",
                "there is no card eth9 on this machine",
                "v5 is new: a vlan",
            ]
        );
    }
}
