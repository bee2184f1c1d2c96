//! A state for nmstate, in YAML. Source: https://nmstate.io/devel/yaml_api.html

use crate::topology::{Addressing, Bridge, Link, LinkKind, Method, Route, Topology};
use std::fmt::{Display, Write};

pub(super) fn state(topology: &Topology) -> String {
    let mut text = "---\ninterfaces:\n".to_owned();
    topology.links.iter().for_each(|link| interface(&mut text, topology, link));
    let mut routes = String::new();
    for link in &topology.links {
        for Route { to, via, metric } in link.families().into_iter().flat_map(Addressing::all_routes) {
            line(&mut routes, 2, &format!("- destination: {}", string(to)));
            if let Some(via) = via {
                line(&mut routes, 4, &format!("next-hop-address: {}", string(via)));
            }
            line(&mut routes, 4, &format!("next-hop-interface: {}", string(&link.name)));
            if let Some(metric) = metric {
                line(&mut routes, 4, &format!("metric: {metric}"));
            }
        }
    }
    if !routes.is_empty() {
        let _ = write!(text, "routes:\n  config:\n{routes}");
    }
    let families = || topology.links.iter().flat_map(Link::families);
    let servers: Vec<String> = families().flat_map(|family| &family.dns).map(string).collect();
    let search: Vec<String> = topology.links.iter().flat_map(|link| &link.search).map(string).collect();
    if !servers.is_empty() || !search.is_empty() {
        text.push_str("dns-resolver:\n  config:\n");
        line(&mut text, 4, &format!("server: [{}]", servers.join(", ")));
        line(&mut text, 4, &format!("search: [{}]", search.join(", ")));
    }
    topology.links.iter().flat_map(unsaid).for_each(|sentence| line(&mut text, 0, &format!("# {sentence}")));
    text
}

/// What a link has that no word of a state says.
fn unsaid(link: &Link) -> Vec<String> {
    let name = &link.name;
    let mut all = Vec::new();
    if let LinkKind::Bridge(Bridge { stp: false, forward_delay: Some(delay), .. }) = link.kind {
        all.push(format!(
            "{name}: nmstate sets no forward-delay without STP, where it has no effect, and this is {delay}"
        ));
    }
    if link.v6.method == Method::Ignore {
        all.push(format!("{name}: nmstate cannot ignore IPv6, and turns it off"));
    }
    if link.starts_ports {
        all.push(format!(
            "{name}: nmstate does not say whether ports start with it, and these do: autoconnect_ports = true"
        ));
    }
    all.extend(link.zone.iter().map(|zone| format!("{name}: nmstate sets no zones of firewalld, and this is {zone}")));
    all
}

fn interface(text: &mut String, topology: &Topology, link: &Link) {
    let kind = match link.kind {
        LinkKind::Bridge(_) => "linux-bridge",
        _ => super::kind(link),
    };
    line(text, 0, &format!("- name: {}", string(&link.name)));
    line(text, 2, &format!("type: {kind}"));
    line(text, 2, "state: up");
    if let Some(mtu) = link.mtu {
        line(text, 2, &format!("mtu: {mtu}"));
    }
    match &link.kind {
        LinkKind::Card => {}
        LinkKind::Bond(bond) => {
            let ports: Vec<String> = bond.ports.iter().map(string).collect();
            line(text, 2, "link-aggregation:");
            line(text, 4, &format!("mode: {}", string(bond.mode.name())));
            line(text, 4, &format!("port: [{}]", ports.join(", ")));
            let options: Vec<_> = bond.options().into_iter().filter(|(name, _)| *name != "mode").collect();
            if !options.is_empty() {
                line(text, 4, "options:");
            }
            for (name, value) in options {
                line(text, 6, &format!("{name}: {}", string(value)));
            }
        }
        LinkKind::Vlan { parent, id } => {
            line(text, 2, "vlan:");
            line(text, 4, &format!("base-iface: {}", string(parent)));
            line(text, 4, &format!("id: {id}"));
        }
        LinkKind::Bridge(bridge) => of_bridge(text, bridge),
    }
    // What is a port has no addresses.
    if topology.controller(&link.name).is_none() {
        addresses(text, "ipv4", "dhcp", &link.v4);
        addresses(text, "ipv6", "autoconf", &link.v6);
    }
}

fn of_bridge(text: &mut String, bridge: &Bridge) {
    line(text, 2, "bridge:");
    line(text, 4, "options:");
    line(text, 6, "stp:");
    line(text, 8, &format!("enabled: {}", bridge.stp));
    // nmstate refuses a delay of 0, and without STP the kernel does not wait anyway.
    for (key, value) in bridge.numbers().filter(|(key, _)| bridge.stp || *key != "forward-delay") {
        line(text, 8, &format!("{key}: {value}"));
    }
    if !bridge.ports.is_empty() {
        line(text, 4, "port:");
    }
    for port in &bridge.ports {
        line(text, 4, &format!("- name: {}", string(port)));
    }
}

fn addresses(text: &mut String, family: &str, automatic: &str, addressing: &Addressing) {
    let Addressing { method, addresses, .. } = addressing;
    line(text, 2, &format!("{family}:"));
    if matches!(method, Method::Disabled | Method::Ignore) {
        return line(text, 4, "enabled: false");
    }
    line(text, 4, "enabled: true");
    let is_automatic = *method == Method::Auto;
    line(text, 4, &format!("{automatic}: {is_automatic}"));
    if automatic == "autoconf" {
        line(text, 4, &format!("dhcp: {is_automatic}"));
    }
    if !addresses.is_empty() {
        line(text, 4, "address:");
    }
    for one in addresses {
        line(text, 6, &format!("- ip: {}", string(one.address)));
        line(text, 8, &format!("prefix-length: {}", one.length));
    }
}

fn line(text: &mut String, indent: usize, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:indent$}{line}", "");
}

/// A string of YAML: between quotes, so that `802.3ad` or `no` stay what they are.
fn string(value: impl Display) -> String {
    format!("\"{value}\"")
}
