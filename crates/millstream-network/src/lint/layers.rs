//! Mistakes in how links lie on each other.

use super::{Level, Lint};
use crate::limits::{MTU_MIN_V6, MTU_USUAL};
use crate::topology::{Link, LinkKind, Method, Topology};
use std::collections::BTreeMap;

pub(super) const PORT_WITH_ADDRESS: Lint = Lint {
    name: "port-with-address",
    level: Level::Error,
    reason: "what comes in by a port goes to its bond or bridge, so addresses, and what belongs to them, must be there",
    find: |topology| {
        let wrong = |link: &Link| {
            let own = of_addresses(link).next()?;
            let above = topology.controller(&link.name)?;
            Some((link.place(), format!("it is a port of {}, and has {own} of its own", above.name)))
        };
        topology.links.iter().filter_map(wrong).collect()
    },
};

pub(super) const LARGER_THAN_BELOW: Lint = Lint {
    name: "larger-than-below",
    level: Level::Error,
    reason: "what lies on a link cannot send larger packets than the link; set mtu on the links below, too",
    find: |topology| {
        let mut found = Vec::new();
        for link in &topology.links {
            let Some(mtu) = link.mtu.or_else(|| given(topology, link)) else { continue };
            for below in topology.below(link).filter(|below| size(topology, below) < mtu) {
                let below = format!("{} ({} bytes)", below.name, size(topology, below));
                found.push((link.place(), format!("its packets of {mtu} bytes are larger than those of {below}")));
            }
        }
        found
    },
};

pub(super) const SMALL_FOR_IPV6: Lint = Lint {
    name: "small-for-ipv6",
    level: Level::Error,
    reason: "IPv6 needs packets of 1,280 bytes: the kernel turns it off on a link that takes less",
    find: |topology| {
        let uses = |link: &&Link| !matches!(link.v6.method, Method::Disabled | Method::Ignore);
        let sizes = topology.links.iter().filter(uses).map(|link| (link, size(topology, link)));
        let small = sizes.filter(|(_, mtu)| *mtu < MTU_MIN_V6);
        small.map(|(link, mtu)| (link.place(), format!("it has IPv6, and packets of {mtu} bytes"))).collect()
    },
};

pub(super) const PORTS_NOT_STARTED: Lint = Lint {
    name: "ports-not-started",
    level: Level::Note,
    reason: "if you start the bond or bridge by hand, NetworkManager leaves its ports down; write autoconnect_ports = true",
    find: |topology| {
        let without = topology.links.iter().filter(|link| !link.ports().is_empty() && !link.starts_ports);
        without.map(|link| (link.place(), "its ports do not start with it".to_owned())).collect()
    },
};

pub(super) const SAME_VLAN: Lint = Lint {
    name: "same-vlan",
    level: Level::Error,
    reason: "a link has each VLAN once: the kernel refuses the second",
    find: |topology| {
        let mut owners: BTreeMap<(&str, u16), &str> = BTreeMap::new();
        let mut found = Vec::new();
        for link in &topology.links {
            if let LinkKind::Vlan { parent, id } = &link.kind
                && let Some(owner) = owners.insert((parent.as_str(), *id), &link.name)
            {
                found.push((link.place(), format!("{owner} is the VLAN {id} of {parent}, too")));
            }
        }
        found
    },
};

/// What a link has that belongs to addresses.
fn of_addresses(link: &Link) -> impl Iterator<Item = &'static str> {
    let families = link.families();
    let all = [
        ("addresses", families.iter().any(|family| family.method != Method::Disabled)),
        ("name servers", families.iter().any(|family| !family.dns.is_empty())),
        ("search domains", !link.search.is_empty()),
        ("routes", families.iter().any(|family| !family.routes.is_empty())),
    ];
    all.into_iter().filter_map(|(what, is_there)| is_there.then_some(what))
}

/// The size of a link's packets: as it says, as its bond gives it, or as what it lies on has it.
fn size(topology: &Topology, link: &Link) -> u32 {
    let below = || match link.kind {
        // A bond does not look at its ports.
        LinkKind::Bond(_) => None,
        _ => topology.below(link).map(|below| size(topology, below)).min(),
    };
    link.mtu.or_else(|| given(topology, link)).or_else(below).unwrap_or(MTU_USUAL)
}

/// The size that the bond of a port gives it. Source: Linux, bond_enslave and bond_change_mtu.
fn given(topology: &Topology, port: &Link) -> Option<u32> {
    topology.controller(&port.name).filter(|above| matches!(above.kind, LinkKind::Bond(_)))?.mtu
}
