//! Commands of iproute2. They last until the machine is started again, and need no NetworkManager.

use crate::topology::{Link, LinkKind, Topology};
use std::fmt::Write;

/// The commands, what lies below first.
pub(super) fn commands(topology: &Topology) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    for link in &topology.links {
        made(link).into_iter().for_each(&mut line);
        if let Some(above) = topology.controller(&link.name) {
            // A bond takes no card that is up.
            if matches!(above.kind, LinkKind::Bond(_)) {
                line(format!("ip link set {} down", link.name));
            }
            line(format!("ip link set {} master {}", link.name, above.name));
        }
        if let Some(mtu) = link.mtu {
            line(format!("ip link set {} mtu {mtu}", link.name));
        }
    }
    for link in &topology.links {
        for address in link.families().into_iter().flat_map(|family| &family.addresses) {
            line(format!("ip address add {address} dev {}", link.name));
        }
    }
    for link in from_below(topology) {
        line(format!("ip link set {} up", link.name));
    }
    for link in &topology.links {
        for (ip, family) in [("ip", &link.v4), ("ip -6", &link.v6)] {
            if let Some(gateway) = family.gateway {
                line(format!("{ip} route add default via {gateway} dev {}", link.name));
            }
            for route in &family.routes {
                let via = route.via.map(|via| format!(" via {via}")).unwrap_or_default();
                let metric = route.metric.map(|metric| format!(" metric {metric}")).unwrap_or_default();
                line(format!("{ip} route add {}{via} dev {}{metric}", route.to, link.name));
            }
        }
    }
    text
}

/// The command that makes a link, if it is no card.
fn made(link: &Link) -> Option<String> {
    let name = &link.name;
    match &link.kind {
        LinkKind::Card => None,
        LinkKind::Bond(bond) => {
            let options = bond.options().into_iter().map(|(name, value)| format!(" {name} {value}"));
            Some(format!("ip link add {name} type bond{}", options.collect::<String>()))
        }
        LinkKind::Vlan { parent, id } => Some(format!("ip link add link {parent} name {name} type vlan id {id}")),
        LinkKind::Bridge(bridge) => {
            let mut text = format!("ip link add {name} type bridge stp_state {}", u8::from(bridge.stp));
            for (key, number) in bridge.numbers() {
                // The kernel counts hundredths of a second here.
                let number = if key == "priority" { number } else { 100 * number };
                let _ = write!(text, " {} {number}", key.replace('-', "_"));
            }
            Some(text)
        }
    }
}

/// The links in an order in which each stands behind those on which it lies.
fn from_below(topology: &Topology) -> Vec<&Link> {
    let mut placed: Vec<&Link> = Vec::with_capacity(topology.links.len());
    let mut left: Vec<&Link> = topology.links.iter().collect();
    while !left.is_empty() {
        let is_placed = |link: &Link| placed.iter().any(|one| one.name == link.name);
        let (ready, waiting): (Vec<&Link>, Vec<&Link>) =
            left.into_iter().partition(|link| topology.below(link).all(is_placed));
        // No link lies on itself, so some are always ready.
        if ready.is_empty() {
            break;
        }
        placed.extend(ready);
        left = waiting;
    }
    placed
}
