//! Mistakes in routes to one network, of which only one is taken.

use super::{Found, Level, Lint};
use crate::topology::{Addressing, Link, Method, Route, Topology};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What the kernel gives a route of IPv6 without a metric, and one to a network in which the link has an address.
/// Source: Linux, IP6_RT_PRIO_USER and IP6_RT_PRIO_ADDRCONF.
const USUAL_V6: u32 = 1_024;
const OWN_V6: u32 = 256;

pub(super) const DEFAULT_ROUTES: Lint = Lint {
    name: "default-routes",
    level: Level::Error,
    reason: "the host takes the route with the smaller metric, and two with the same exclude each other; give each gateway a \
             metric: { via = \"192.0.2.1\", metric = 50 }",
    find: |topology| twins(topology, is_default),
};

pub(super) const SAME_ROUTE: Lint = Lint {
    name: "same-route",
    level: Level::Error,
    reason: "the kernel refuses a second route to a network with the same metric; give each one a metric of its own",
    find: |topology| twins(topology, |route| !is_default(route)),
};

pub(super) const UNCLEAR_DEFAULT: Lint = Lint {
    name: "unclear-default",
    level: Level::Warning,
    reason: "each program gives a route without a metric another one, so packets to other networks, and answers, may take either; \
             give the gateway a metric: { via = \"192.0.2.1\", metric = 50 }, and let one link alone ask for addresses",
    find: |topology| {
        let mut found = Vec::new();
        for (family, name) in ["IPv4", "IPv6"].into_iter().enumerate() {
            // What comes with the addresses has the metric of a gateway of the link, if it has one.
            let asks = |link: &&Link| {
                let own = link.families()[family];
                let is_port = topology.controller(&link.name).is_some();
                own.method == Method::Auto && own.gateway_metric.is_none() && !is_port
            };
            let mut asking = topology.links.iter().filter(asks);
            if let Some(first) = asking.next() {
                let sentence = format!(
                    "it asks for addresses of {name}, as {} does, and each may get a default route",
                    first.name
                );
                found.extend(asking.map(|link| (link.place(), sentence.clone())));
            }
            let defaults = |link: &Link| {
                let mut all = link.families()[family].all_routes();
                all.retain(is_default);
                all
            };
            for link in &topology.links {
                let own = defaults(link);
                let Some(bare) = own.iter().find(|route| route.metric.is_none()) else { continue };
                let is_rival = |other: &&Link| {
                    let is_auto = other.families()[family].method == Method::Auto;
                    let others = defaults(other);
                    other.name != link.name && (is_auto || others.iter().any(|route| weight(route) != weight(bare)))
                };
                if let Some(rival) = topology.links.iter().find(is_rival) {
                    let sentence = format!("its default route has no metric, and {} may have one, too", rival.name);
                    found.push((link.place(), sentence));
                }
            }
        }
        found
    },
};

fn is_default(route: &Route) -> bool {
    route.to.length == 0
}

/// The metric that the kernel gives a route.
fn weight(route: &Route) -> u32 {
    match (route.to.address, route.metric) {
        (IpAddr::V4(_), metric) => metric.unwrap_or(0),
        (IpAddr::V6(_), None | Some(0)) => USUAL_V6,
        (IpAddr::V6(_), Some(metric)) => metric,
    }
}

/// Routes to a network to which the host has one with the same metric, of those that are meant: by the kernel, or by
/// NetworkManager, which gives every route of a link without a metric that of its gateway.
fn twins(topology: &Topology, is_meant: fn(&Route) -> bool) -> Vec<Found> {
    let mut found = alike(topology, is_meant, |_, metric| metric);
    let more = alike(topology, is_meant, |family, metric| metric.or(family.gateway_metric));
    let more: Vec<Found> = more.into_iter().filter(|one| !found.contains(one)).collect();
    found.extend(more.into_iter().map(|(place, sentence)| {
        (place, format!("{sentence}: NetworkManager gives the routes of a link without a metric that of its gateway"))
    }));
    found
}

/// Those that have the same metric, if a metric, or none, means this one.
fn alike(
    topology: &Topology,
    is_meant: fn(&Route) -> bool,
    meaning: fn(&Addressing, Option<u32>) -> Option<u32>,
) -> Vec<Found> {
    let mut owners: BTreeMap<(IpAddr, u8, u32), &str> = BTreeMap::new();
    for link in &topology.links {
        for family in link.families() {
            for own in family.addresses.iter().filter(|own| !own.is_alone()) {
                let usual = if own.address.is_ipv4() { 0 } else { OWN_V6 };
                let (network, metric) = (own.network(), meaning(family, None).unwrap_or(usual));
                owners.insert((network.address, network.length, metric), &link.name);
            }
        }
    }
    let mut found = Vec::new();
    for link in &topology.links {
        for family in link.families() {
            for route in family.all_routes().into_iter().filter(is_meant) {
                let metric = meaning(family, route.metric);
                let key = (route.to.address, route.to.length, weight(&Route { metric, ..route }));
                if let Some(owner) = owners.insert(key, &link.name) {
                    found
                        .push((link.place(), format!("{owner} has a route to {} with the same metric, too", route.to)));
                }
            }
        }
    }
    found
}
