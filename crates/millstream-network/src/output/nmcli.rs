//! Commands of NetworkManager's client.

use super::{Words, kind};
use crate::topology::{Addressing, Link, LinkKind, Topology};
use millstream_host::shell_line;
use std::fmt::Display;

/// One command for each link, in the order of the topology.
pub(super) fn commands(topology: &Topology, words: Words) -> String {
    let command = |link| format!("nmcli {}\n", shell_line(arguments(topology, link, words)));
    topology.links.iter().map(command).collect()
}

/// The arguments of the command that adds a link.
pub(super) fn arguments(topology: &Topology, link: &Link, words: Words) -> Vec<String> {
    let mut args: Vec<String> = ["connection", "add", "type", kind(link), "con-name", &link.name, "ifname", &link.name]
        .map(str::to_owned)
        .to_vec();
    let mut add = |property: &str, value: &dyn Display| args.extend([property.to_owned(), value.to_string()]);
    if let LinkKind::Vlan { parent, id } = &link.kind {
        add("dev", parent);
        add("id", id);
    }
    let controller = topology.controller(&link.name);
    if let Some(above) = controller {
        add(words.controller, &above.name);
        add(words.port_type, &kind(above));
    }
    match &link.kind {
        LinkKind::Bond(bond) => {
            // A comma in a value is escaped.
            let option = |(name, value): (&str, String)| format!("{name}={}", value.replace(',', "\\,"));
            let options: Vec<String> = bond.options().into_iter().map(option).collect();
            add("bond.options", &options.join(","));
        }
        LinkKind::Bridge(bridge) => {
            add("bridge.stp", &if bridge.stp { "yes" } else { "no" });
            bridge.numbers().for_each(|(key, value)| add(&format!("bridge.{key}"), &value));
        }
        LinkKind::Card | LinkKind::Vlan { .. } => {}
    }
    if let Some(mtu) = link.mtu {
        add("ethernet.mtu", &mtu);
    }
    if link.starts_ports {
        add(&format!("connection.{}", words.autoconnect_ports), &1);
    }
    // A port has no addresses, and NetworkManager no settings for them.
    if controller.is_none() {
        for (family, addressing) in [("ipv4", &link.v4), ("ipv6", &link.v6)] {
            for (property, value) in settings(addressing, &link.search) {
                add(&format!("{family}.{property}"), &value);
            }
        }
    }
    if let Some(zone) = &link.zone {
        add("connection.zone", zone);
    }
    args
}

fn settings(addressing: &Addressing, search: &[String]) -> Vec<(&'static str, String)> {
    let Addressing { method, addresses, gateway, gateway_metric, dns, routes } = addressing;
    let mut settings = vec![("method", super::keyfile::method(*method).to_owned())];
    // The lints find what such a family says, and NetworkManager would refuse.
    if !addressing.is_on() {
        return settings;
    }
    let mut list = |property, values: Vec<String>| {
        if !values.is_empty() {
            settings.push((property, values.join(",")));
        }
    };
    list("addresses", addresses.iter().map(ToString::to_string).collect());
    list("gateway", gateway.iter().map(ToString::to_string).collect());
    list("route-metric", gateway_metric.iter().map(ToString::to_string).collect());
    list("dns", dns.iter().map(ToString::to_string).collect());
    list("dns-search", search.to_vec());
    let route = |route: &crate::topology::Route| {
        let (via, metric) = (route.via.map(|via| format!(" {via}")), route.metric.map(|metric| format!(" {metric}")));
        format!("{}{}{}", route.to, via.unwrap_or_default(), metric.unwrap_or_default())
    };
    list("routes", routes.iter().map(route).collect());
    settings
}
