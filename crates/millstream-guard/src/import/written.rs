//! The text of a policy.

use super::LeftOut;
use super::conversion::Conversion;
use super::pass::Entry;
use super::spans::Spans;
use crate::limits::{BURST, NAME_BYTES_MAX};
use crate::policy::Limit;
use millstream_model::range::{FAMILIES, Family, Range};
use std::collections::BTreeSet;
use std::fmt::Write;

const TCP: &str = "tcp";
const UDP: &str = "udp";

/// Services and clients that have a name for their ports: of TCP, and of UDP.
const NAMES: [(&str, &[u16], &[u16]); 6] = [
    ("ssh", &[22], &[]),
    ("http", &[80], &[]),
    ("https", &[443], &[]),
    ("postgres", &[5_432], &[]),
    ("dns", &[53], &[53]),
    ("ntp", &[], &[123]),
];

/// The policy that says what the rules of these files do.
pub(super) fn text(conversion: &Conversion, files: &[&str]) -> String {
    let files: Vec<String> = files.iter().map(|file| super::shown(file)).collect();
    let mut text = format!("# Made from the rules of {}.\nmode = \"stateful\"\n", files.join(", "));
    for (is_there, line) in [
        (!conversion.pings, "ping = false"),
        (conversion.logs, "log = true"),
        (conversion.sends_all, "send_all = true"),
    ] {
        if is_there {
            let _ = writeln!(text, "{line}");
        }
    }
    let denied = addresses(&conversion.deny);
    if !denied.is_empty() {
        let _ = writeln!(text, "deny = {}", list(&denied));
    }
    let mut names = BTreeSet::new();
    for service in &conversion.services {
        let name = name(service, &mut names);
        entry(&mut text, "services", &name, service, &conversion.families);
    }
    let mut names = BTreeSet::new();
    for client in &conversion.clients {
        let name = name(client, &mut names);
        entry(&mut text, "clients", &name, client, &conversion.families);
    }
    for (family, name) in FAMILIES.into_iter().zip(["dhcp", "dhcpv6"]) {
        let servers = &conversion.dhcp[family as usize];
        if !servers.is_empty() {
            let mut peers = <[Spans; 2]>::default();
            peers[family as usize] = servers.clone();
            let _ = writeln!(text, "\n[clients.{name}]\nto = {}", list(&addresses(&peers)));
        }
    }
    if !conversion.left_out.is_empty() {
        text += "\n# Left out:\n";
    }
    for LeftOut { place, rule, why } in &conversion.left_out {
        let _ = writeln!(text, "# {}: {rule}\n#   {why}", super::shown(place));
    }
    text
}

fn entry(text: &mut String, table: &str, name: &str, entry: &Entry, families: &[Family]) {
    let mut places: Vec<&str> = entry.rules.iter().map(|rule| rule.place.as_str()).collect();
    places.dedup();
    let _ = writeln!(text, "\n# {}\n[{table}.{name}]", super::shown(&places.join(", ")));
    for (protocol, ports) in [(TCP, &entry.tcp), (UDP, &entry.udp)] {
        if !ports.is_empty() {
            let _ = writeln!(text, "{protocol} = {}", ports_of(ports));
        }
    }
    let is_service = table == "services";
    if !is_service {
        let _ = writeln!(text, "own_ports = {}", ports_of(&entry.own_ports));
    }
    let is_all = |family: &Family| entry.peers[*family as usize] == Spans::up_to(family.last());
    // A client of this name asks the resolvers unless the policy says whom else.
    if !FAMILIES.iter().all(is_all) || (!is_service && name == "dns") {
        let key = if is_service { "from" } else { "to" };
        let _ = writeln!(text, "{key} = {}", list(&addresses(&entry.peers)));
    }
    if let Some(interface) = &entry.interface {
        let _ = writeln!(text, "interface = \"{interface}\"");
    }
    if let Some(limit) = &entry.limit {
        let _ = writeln!(text, "limit = {}", limit_of(limit, families));
    }
}

fn limit_of(limit: &Limit, families: &[Family]) -> String {
    let rate = format!("\"{}/{}\"", limit.count, limit.unit.name());
    let has = |family: Family| families.contains(&family);
    let mut more = String::new();
    if limit.burst != BURST {
        let _ = write!(more, ", burst = {}", limit.burst);
    }
    if has(Family::V4) && limit.v4 != 32 {
        let _ = write!(more, ", v4 = {}", limit.v4);
    }
    if has(Family::V6) && limit.v6 != 64 {
        let _ = write!(more, ", v6 = {}", limit.v6);
    }
    if more.is_empty() { rate } else { format!("{{ rate = {rate}{more} }}") }
}

fn ports_of(ports: &Spans) -> String {
    let each =
        ports.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("\"{first}-{last}\"") });
    format!("[{}]", each.collect::<Vec<_>>().join(", "))
}

fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// Addresses as people write them: prefixes where they are some.
fn addresses(peers: &[Spans; 2]) -> Vec<String> {
    let of_family =
        |family: Family| peers[family as usize].iter().map(move |(start, end)| Range { family, start, end });
    FAMILIES.into_iter().flat_map(of_family).map(shown).collect()
}

fn shown(range: Range) -> String {
    let mut prefixes = range.prefixes();
    match (prefixes.next(), prefixes.next()) {
        _ if range.start == range.end => range.first().to_string(),
        (Some((address, length)), None) => format!("{address}/{length}"),
        _ => range.to_string(),
    }
}

/// A name that says the ports, and that no other one has.
fn name(entry: &Entry, taken: &mut BTreeSet<String>) -> String {
    let of = |ports: &[u16]| Spans::of(ports.iter().map(|port| (u128::from(*port), u128::from(*port))));
    let known = NAMES.iter().find(|(_, tcp, udp)| (&of(tcp), &of(udp)) == (&entry.tcp, &entry.udp));
    let wanted = known.map_or_else(|| described(entry), |(name, ..)| (*name).to_owned());
    let mut name = wanted.clone();
    for n in 2.. {
        if taken.insert(name.clone()) {
            break;
        }
        let end = format!("-{n}");
        name = wanted.chars().take(NAME_BYTES_MAX - end.len()).chain(end.chars()).collect();
    }
    name
}

fn described(entry: &Entry) -> String {
    let (protocol, ports) = match (entry.tcp.is_empty(), entry.udp.is_empty()) {
        (false, true) => (TCP, &entry.tcp),
        (true, _) => (UDP, &entry.udp),
        (false, false) => ("both", &entry.tcp),
    };
    let mut all = ports.iter();
    match (all.next(), all.next()) {
        (Some((1, 0xffff)), _) => format!("all-{protocol}"),
        (Some((first, last)), None) if first != last => format!("{protocol}-{first}-{last}"),
        (Some((first, _)), None) => format!("{protocol}-{first}"),
        (Some((first, _)), Some(_)) => format!("{protocol}-{first}-more"),
        (None, _) => protocol.to_owned(),
    }
}
