//! Mistakes in addresses, gateways and routes.

use super::{Found, Level, Lint};
use crate::topology::{Addressing, Link, Method, Prefix, Topology};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) const GATEWAY_OUTSIDE: Lint = Lint {
    name: "gateway-outside",
    level: Level::Error,
    reason: "the host cannot reach a router that is in none of the link's networks; check the address and the prefix",
    find: |topology| {
        each_family(topology, |family| {
            let gateway = family.gateway.filter(|gateway| !is_near(family, *gateway))?;
            Some(format!("the gateway {gateway} is in none of its networks"))
        })
    },
};

pub(super) const GATEWAY_OWN: Lint = Lint {
    name: "gateway-own",
    level: Level::Error,
    reason: "packets to other networks would go nowhere; name the router's address",
    find: |topology| {
        each_family(topology, |family| {
            let is_own = |gateway: &IpAddr| family.addresses.iter().any(|one| one.address == *gateway);
            Some(format!("the gateway {} is its own address", family.gateway.filter(is_own)?))
        })
    },
};

pub(super) const DEFAULT_ROUTES: Lint = Lint {
    name: "default-routes",
    level: Level::Error,
    reason: "packets to other networks take one of the routes, and answers may come back by another; leave gateway out but once",
    find: |topology| {
        let mut found = Vec::new();
        for family in 0..2 {
            let with: Vec<&Link> =
                topology.links.iter().filter(|link| link.families()[family].gateway.is_some()).collect();
            for link in with.iter().skip(1) {
                found.push((link.place(), format!("{} has a default route, too", with[0].name)));
            }
        }
        found
    },
};

pub(super) const NOT_A_HOST: Lint = Lint {
    name: "not-a-host",
    level: Level::Error,
    reason: "the first address of a network of IPv4 is its name, and the last one means all hosts of it",
    find: |topology| {
        each_family(topology, |family| {
            let wrong = family.addresses.iter().find(|one| is_name_or_broadcast(**one))?;
            Some(format!("{wrong} is the name or the broadcast address of its network"))
        })
    },
};

pub(super) const SAME_ADDRESS: Lint = Lint {
    name: "same-address",
    level: Level::Error,
    reason: "an address belongs to one link, or neighbours get two answers to whose it is",
    find: |topology| {
        let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
        let mut found = Vec::new();
        for link in &topology.links {
            for one in link.families().into_iter().flat_map(|family| &family.addresses) {
                if let Some(owner) = owners.insert(one.address, &link.name) {
                    found.push((link.place(), format!("{owner} has the address {}, too", one.address)));
                }
            }
        }
        found
    },
};

pub(super) const ROUTER_OUTSIDE: Lint = Lint {
    name: "router-outside",
    level: Level::Error,
    reason: "the host cannot reach a router that is in none of the link's networks",
    find: |topology| {
        each_family(topology, |family| {
            let is_far = |via: &IpAddr| family.method == Method::Manual && !is_near(family, *via);
            let (route, via) = family.routes.iter().find_map(|route| Some((route, route.via.filter(is_far)?)))?;
            Some(format!("the router {via} to {} is in none of its networks", route.to))
        })
    },
};

pub(super) const IPV6_IGNORED: Lint = Lint {
    name: "ipv6-ignored",
    level: Level::Warning,
    reason: "NetworkManager then leaves the kernel's own IPv6 on: the link gets an address, and more if a router offers them; \
             write ipv6 = \"disabled\"",
    find: |topology| {
        let ignored = topology
            .links
            .iter()
            .filter(|link| link.v6.method == Method::Ignore && topology.controller(&link.name).is_none());
        ignored.map(|link| (link.place(), "ipv6 = \"ignore\" does not turn IPv6 off".to_owned())).collect()
    },
};

pub(super) const NOBODY_TO_ASK: Lint = Lint {
    name: "nobody-to-ask",
    level: Level::Note,
    reason: "names cannot be looked up unless something else writes /etc/resolv.conf; add dns = [..] beside the gateway",
    find: |topology| {
        let families = || topology.links.iter().flat_map(Link::families);
        if families().any(|family| !family.dns.is_empty() || family.method == Method::Auto) {
            return Vec::new();
        }
        let with = topology.links.iter().find(|link| link.families().iter().any(|family| family.gateway.is_some()));
        with.map(|link| (link.place(), "there is a gateway, and no link has dns".to_owned())).into_iter().collect()
    },
};

/// What is wrong with a family of a link, for each.
fn each_family(topology: &Topology, wrong: impl Fn(&Addressing) -> Option<String>) -> Vec<Found> {
    let of = |link: &Link| {
        link.families().into_iter().filter_map(|family| Some((link.place(), wrong(family)?))).collect::<Vec<_>>()
    };
    topology.links.iter().flat_map(of).collect()
}

/// Whether a router can be reached on the link: it is in one of its networks, or has an address that is valid there alone.
fn is_near(family: &Addressing, router: IpAddr) -> bool {
    let is_link_local = matches!(router, IpAddr::V6(v6) if v6.is_unicast_link_local());
    is_link_local || family.addresses.iter().any(|one| one.contains(router))
}

/// A network of two addresses has neither. Source: RFC 3021.
fn is_name_or_broadcast(prefix: Prefix) -> bool {
    let Prefix { address: IpAddr::V4(address), length: 0..=30 } = prefix else { return false };
    let host = address.to_bits() & u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
    host == 0 || host == u32::MAX >> prefix.length
}
