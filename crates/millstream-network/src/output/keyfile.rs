//! NetworkManager's own files, as it writes them itself.

use super::{Words, kind};
use crate::limits::FORWARD_DELAY_USUAL;
use crate::topology::{Addressing, Link, LinkKind, Method, Topology};
use millstream_model::range::Family;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where those are that last.
pub const DIRECTORY: &str = "/etc/NetworkManager/system-connections";

/// One of NetworkManager's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// One file for each link.
pub fn files(topology: &Topology, words: Words) -> Vec<File> {
    let file = |link: &Link| File { name: file_name(link), text: keyfile(topology, link, words) };
    topology.links.iter().map(file).collect()
}

/// The name of a link's file.
pub(crate) fn file_name(link: &Link) -> String {
    format!("{}.nmconnection", link.name)
}

/// All files, each below its path.
pub(super) fn text(topology: &Topology, words: Words) -> String {
    let mut all = String::new();
    for File { name, text } in files(topology, words) {
        let _ = write!(all, "# {DIRECTORY}/{name}\n{text}\n");
    }
    all
}

/// What NetworkManager calls a way to get addresses.
pub(super) fn method(method: Method) -> &'static str {
    match method {
        Method::Disabled => "disabled",
        Method::Auto => "auto",
        Method::Manual => "manual",
        Method::Ignore => "ignore",
    }
}

type Keys = BTreeMap<String, String>;

fn keyfile(topology: &Topology, link: &Link, words: Words) -> String {
    let mut text = String::new();
    let mut section = |name: &str, first: &[(&str, &str)], keys: Keys| {
        let _ = writeln!(text, "{}[{name}]", if text.is_empty() { "" } else { "\n" });
        let first = first.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        for (key, value) in first.chain(keys) {
            let _ = writeln!(text, "{key}={value}");
        }
    };
    let controller = topology.controller(&link.name);
    let mut connection = Keys::from([("interface-name".to_owned(), link.name.clone())]);
    if let Some(above) = controller {
        connection.insert(words.controller.to_owned(), above.name.clone());
        connection.insert(words.port_type.to_owned(), kind(above).to_owned());
    }
    if link.starts_ports {
        connection.insert(words.autoconnect_ports.to_owned(), "1".to_owned());
    }
    connection.extend(link.zone.clone().map(|zone| ("zone".to_owned(), zone)));
    section("connection", &[("id", &link.name), ("type", kind(link))], connection);

    let mtu: Keys = link.mtu.map(|mtu| ("mtu".to_owned(), mtu.to_string())).into_iter().collect();
    if !matches!(link.kind, LinkKind::Bond(_)) || !mtu.is_empty() {
        section("ethernet", &[], mtu);
    }
    match &link.kind {
        LinkKind::Card => {}
        LinkKind::Bond(bond) => {
            let options = bond.options().into_iter().map(|(name, value)| (name.to_owned(), value));
            section("bond", &[], options.collect());
        }
        LinkKind::Vlan { parent, id } => {
            // 1: packets keep their order. NetworkManager sets it on each VLAN.
            let keys = [("flags", "1".to_owned()), ("id", id.to_string()), ("parent", parent.clone())];
            section("vlan", &[], keys.map(|(key, value)| (key.to_owned(), value)).into());
        }
        LinkKind::Bridge(bridge) => {
            // What is as usual is left out.
            let usual =
                [("forward-delay", FORWARD_DELAY_USUAL), ("hello-time", 2), ("max-age", 20), ("priority", 32_768)];
            let numbers = bridge.numbers().filter(|number| !usual.contains(number));
            let mut keys: Keys = numbers.map(|(key, value)| (key.to_owned(), value.to_string())).collect();
            if !bridge.stp {
                keys.insert("stp".to_owned(), "false".to_owned());
            }
            section("bridge", &[], keys);
        }
    }
    match controller {
        Some(above) => section(&format!("{}-port", kind(above)), &[], Keys::new()),
        None => {
            section("ipv4", &[], addressing(&link.v4, &link.search));
            let mut v6 = addressing(&link.v6, &link.search);
            v6.insert("addr-gen-mode".to_owned(), "default".to_owned());
            section("ipv6", &[], v6);
            section("proxy", &[], Keys::new());
        }
    }
    text
}

fn addressing(family: &Addressing, search: &[String]) -> Keys {
    let mut keys = Keys::from([("method".to_owned(), method(family.method).to_owned())]);
    if !family.is_on() {
        return keys;
    }
    for (n, address) in family.addresses.iter().enumerate() {
        let gateway = family.gateway.filter(|_| n == 0).map(|gateway| format!(",{gateway}")).unwrap_or_default();
        keys.insert(format!("address{}", n + 1), format!("{address}{gateway}"));
    }
    if let Some(metric) = family.gateway_metric {
        keys.insert("route-metric".to_owned(), metric.to_string());
    }
    for (n, route) in family.routes.iter().enumerate() {
        // The router may be left out, but its place not, if a metric follows.
        let nobody = || Family::of(route.to.address).address(0);
        let value = match (route.via, route.metric) {
            (None, None) => route.to.to_string(),
            (Some(via), None) => format!("{},{via}", route.to),
            (via, Some(metric)) => format!("{},{},{metric}", route.to, via.unwrap_or_else(nobody)),
        };
        keys.insert(format!("route{}", n + 1), value);
    }
    let list = |values: Vec<String>| values.iter().map(|value| format!("{value};")).collect::<String>();
    if !family.dns.is_empty() {
        keys.insert("dns".to_owned(), list(family.dns.iter().map(ToString::to_string).collect()));
    }
    if !search.is_empty() {
        keys.insert("dns-search".to_owned(), list(search.to_vec()));
    }
    keys
}
