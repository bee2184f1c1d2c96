//! Commands of iproute2. They last until the machine is started again, and need no NetworkManager.

use crate::topology::{Link, LinkKind, Method, Topology};
use std::fmt::Write;
use std::net::IpAddr;

/// The commands: all links are made, what lies below first, then they are joined. So no command names a link that is not there,
/// whatever the links are called.
pub(super) fn commands(topology: &Topology) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    let links = from_below(topology);
    for link in &links {
        made(link).into_iter().for_each(&mut line);
        if let Some(mtu) = link.mtu {
            line(format!("ip link set {} mtu {mtu}", link.name));
        }
    }
    for link in &links {
        let Some(above) = topology.controller(&link.name) else { continue };
        let is_in_bond = matches!(above.kind, LinkKind::Bond(_));
        // A bond takes no card that is up.
        if is_in_bond {
            line(format!("ip link set {} down", link.name));
        }
        line(format!("ip link set {} master {}", link.name, above.name));
        // A bond has just given it the size of its own packets.
        if let Some(mtu) = link.mtu.filter(|_| is_in_bond && link.mtu != above.mtu) {
            line(format!("ip link set {} mtu {mtu}", link.name));
        }
    }
    for link in &topology.links {
        for address in link.families().into_iter().flat_map(|family| &family.addresses) {
            line(format!("ip address add {address} dev {}", link.name));
        }
    }
    for link in &links {
        line(format!("ip link set {} up", link.name));
    }
    for link in &topology.links {
        for (ip, family) in [("ip", &link.v4), ("ip -6", &link.v6)] {
            for route in family.all_routes() {
                let to = if route.to.length == 0 { "default".to_owned() } else { route.to.to_string() };
                let via = route.via.map(|via| format!(" via {via}")).unwrap_or_default();
                let metric = route.metric.map(|metric| format!(" metric {metric}")).unwrap_or_default();
                line(format!("{ip} route add {to}{via} dev {}{metric}", link.name));
            }
        }
    }
    topology.links.iter().flat_map(unsaid).for_each(|sentence| line(format!("# {sentence}")));
    text
}

/// What a link has that no command of iproute2 makes.
fn unsaid(link: &Link) -> Vec<String> {
    let name = &link.name;
    let mut all = Vec::new();
    for (family, addressing) in [("IPv4", &link.v4), ("IPv6", &link.v6)] {
        if addressing.method == Method::Auto {
            all.push(format!("{name}: ip asks no server for addresses of {family}; a DHCP client does"));
        }
        let server =
            |one: &IpAddr| format!("{name}: ip sets no name servers; write \"nameserver {one}\" into /etc/resolv.conf");
        all.extend(addressing.dns.iter().map(server));
    }
    let (routing, search): (Vec<&str>, Vec<&str>) =
        link.search.iter().map(String::as_str).partition(|domain| domain.starts_with('~'));
    if !search.is_empty() {
        let domains = search.join(" ");
        all.push(format!("{name}: ip sets no search domains; write \"search {domains}\" into /etc/resolv.conf"));
    }
    if !routing.is_empty() {
        let domains = routing.join(" ");
        all.push(format!("{name}: ip sets no routing domains, and /etc/resolv.conf has no place for them: {domains}"));
    }
    if link.starts_ports {
        all.push(format!("{name}: ip starts its ports now and never again, and this is autoconnect_ports = true"));
    }
    all.extend(link.zone.iter().map(|zone| format!("{name}: ip sets no zones of firewalld, and this is {zone}")));
    all
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
