//! Mistakes in addresses, gateways and routes.

use super::{Found, Level, Lint};
use crate::topology::{Addressing, Link, Method, Prefix, Topology};
use millstream_model::range::number;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) const GATEWAY_OUTSIDE: Lint = Lint {
    name: "gateway-outside",
    level: Level::Error,
    reason: "the host cannot reach a router that is in none of the link's networks; check the address and the prefix, or add the \
             router to routes, without a via of its own: { to = \"203.0.113.1/32\" }",
    find: |topology| {
        each_family(topology, |family| {
            let gateway = family.gateway.filter(|gateway| !is_near(family, *gateway))?;
            Some(format!("the gateway {gateway} is in none of its networks"))
        })
    },
};

pub(super) const ROUTER_OUTSIDE: Lint = Lint {
    name: "router-outside",
    level: Level::Error,
    reason: "the host cannot reach a router that is in none of the link's networks; check the address and the prefix, or add the \
             router to routes, without a via of its own: { to = \"203.0.113.1/32\" }",
    find: |topology| {
        each_family(topology, |family| {
            let is_far = |via: &IpAddr| !is_near(family, *via);
            let (route, via) = family.routes.iter().find_map(|route| Some((route, route.via.filter(is_far)?)))?;
            Some(format!("the router {via} to {} is in none of its networks", route.to))
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

pub(super) const NOT_A_HOST: Lint = Lint {
    name: "not-a-host",
    level: Level::Error,
    reason: "the first address of a network of IPv4 is its name, and the last one means all hosts of it",
    find: |topology| {
        each_family(topology, |family| {
            let own = family.addresses.iter().find(|one| is_name(**one) || is_broadcast(**one)).copied();
            // The kernel takes a router by the name of a network, and refuses the other.
            let is_in = |router: IpAddr| {
                let mut networks = family.addresses.iter().filter(|one| one.contains(router));
                networks.find_map(|one| Some(Prefix { address: router, ..*one }).filter(|one| is_broadcast(*one)))
            };
            let wrong = own.or_else(|| family.all_routes().iter().filter_map(|route| route.via).find_map(is_in))?;
            Some(format!("{wrong} is the name or the broadcast address of its network"))
        })
    },
};

pub(super) const SAME_ADDRESS: Lint = Lint {
    name: "same-address",
    level: Level::Error,
    reason: "an address belongs to one link, or neighbours get two answers to whose it is; only /32, /128 and addresses that are \
             valid on their link alone may be on several",
    find: |topology| {
        let mut owners: BTreeMap<IpAddr, Vec<(&str, Prefix)>> = BTreeMap::new();
        let mut found = Vec::new();
        for link in &topology.links {
            for one in link.families().into_iter().flat_map(|family| &family.addresses) {
                let known = owners.entry(one.address).or_default();
                let is_shared = |other: Prefix| one.is_link_local() || one.is_alone() || other.is_alone();
                if known.iter().any(|(owner, _)| *owner == link.name) {
                    found.push((link.place(), format!("it has the address {} twice", one.address)));
                } else if let Some((owner, _)) = known.iter().find(|(_, other)| !is_shared(*other)) {
                    found.push((link.place(), format!("{owner} has the address {}, too", one.address)));
                }
                known.push((link.name.as_str(), *one));
            }
        }
        found
    },
};

pub(super) const SAME_NETWORK: Lint = Lint {
    name: "same-network",
    level: Level::Warning,
    reason: "the host sends to a network by one of its links, so the answers to what comes in by another take that one, too; join the \
             cards by a bond or a bridge, or give each link a network of its own",
    find: |topology| {
        let of =
            |link: &Link| link.families().into_iter().flat_map(|family| family.addresses.clone()).collect::<Vec<_>>();
        let all = topology.links.iter().flat_map(|link| of(link).into_iter().map(move |one| (one, link)));
        let mut all: Vec<(Prefix, &Link)> = all.filter(|(one, _)| !one.is_alone() && !one.is_link_local()).collect();
        // Two networks are apart, or one lies in the other. The larger one of these comes first.
        all.sort_by_key(|(one, _)| (one.address.is_ipv6(), number(one.network().address), one.length));
        let mut around: Vec<(Prefix, &Link)> = Vec::new();
        let mut found = Vec::new();
        for (one, link) in all {
            while around.last().is_some_and(|(larger, _)| !larger.contains(one.address)) {
                around.pop();
            }
            if let Some((larger, other)) = around.iter().find(|(_, other)| other.name != link.name) {
                let (own, theirs) = (one.network(), larger.network());
                found.push((link.place(), format!("its network {own} lies in {theirs} of {}", other.name)));
            }
            // Of many addresses in a network, one is enough.
            let is_new = |(last, owner): &(Prefix, &Link)| last.network() != one.network() || owner.name != link.name;
            if around.last().is_none_or(is_new) {
                around.push((one, link));
            }
        }
        found
    },
};

pub(super) const FAMILY_OFF: Lint = Lint {
    name: "family-off",
    level: Level::Error,
    reason: "NetworkManager refuses or drops what belongs to a family of addresses that the link does not have; give the link an \
             address of the family or write \"auto\" for it, or move this to a link that has the family",
    find: |topology| {
        let mut found = Vec::new();
        // Of a port, another lint says so.
        for link in topology.links.iter().filter(|link| topology.controller(&link.name).is_none()) {
            let families = link.families().into_iter().zip(["IPv4", "IPv6"]);
            for (family, name) in families.filter(|(family, _)| !family.is_on()) {
                let servers = family.dns.iter().map(|one| format!("the name server {one}"));
                let routes = family.routes.iter().map(|one| format!("the route to {}", one.to));
                let all = servers.chain(routes);
                found
                    .extend(all.map(|one| (link.place(), format!("{one} is of {name}, which the link does not have"))));
            }
            if !link.search.is_empty() && !link.families().into_iter().any(Addressing::is_on) {
                found.push((link.place(), "it has search domains, and neither IPv4 nor IPv6".to_owned()));
            }
        }
        found
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

/// Whether a router can be reached on the link: it is in one of its networks, has an address that is valid there alone, or has a
/// route on the link. Networks that come by DHCP are not known.
fn is_near(family: &Addressing, router: IpAddr) -> bool {
    let is_link_local = matches!(router, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let on_link = family.routes.iter().filter(|route| route.via.is_none()).map(|route| route.to);
    let mut networks = family.addresses.iter().copied().chain(on_link);
    family.method != Method::Manual || is_link_local || networks.any(|one| one.contains(router))
}

/// The bits of an address of IPv4 that tell the host, and all bits that do. A network of two addresses has neither a name nor a
/// broadcast address. Source: RFC 3021.
fn host(prefix: Prefix) -> Option<(u32, u32)> {
    let Prefix { address: IpAddr::V4(address), length: 0..=30 } = prefix else { return None };
    let all = u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
    Some((address.to_bits() & all, all))
}

fn is_name(prefix: Prefix) -> bool {
    host(prefix).is_some_and(|(own, _)| own == 0)
}

fn is_broadcast(prefix: Prefix) -> bool {
    host(prefix).is_some_and(|(own, all)| own == all)
}
