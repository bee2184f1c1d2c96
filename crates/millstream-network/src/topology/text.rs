//! A topology as its file holds it.

use super::{
    Addressing, Bond, BondMode, Bridge, LacpRate, Link, LinkKind, Method, Monitor, Prefix, Route, Topology,
    TransmitHash,
};
use crate::limits::{
    ARP_TARGETS_MAX, FORWARD_DELAY_SECONDS, HELLO_SECONDS, LINKS_MAX, MAX_AGE_SECONDS, METRIC_MAX, MONITOR_MS_MAX,
    MTU_MAX, MTU_MIN, NAME_BYTES_MAX, VLAN_MAX, ZONE_BYTES_MAX,
};
use millstream_model::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// Keys that every kind of link has.
const COMMON: [&str; 9] = ["mtu", "zone", "addresses", "gateway", "dns", "search", "routes", "ipv4", "ipv6"];

/// Names that the kernel keeps for itself. Source: NetworkManager, which refuses them.
const RESERVED: [&str; 5] = [".", "..", "all", "default", "bonding_masters"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cards: BTreeMap<String, Table>,
    #[serde(default)]
    bonds: BTreeMap<String, Table>,
    #[serde(default)]
    vlans: BTreeMap<String, Table>,
    #[serde(default)]
    bridges: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
struct CommonText {
    mtu: Option<i64>,
    zone: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    gateway: OneOrMore,
    #[serde(default)]
    dns: Vec<String>,
    #[serde(default)]
    search: Vec<String>,
    #[serde(default)]
    routes: Vec<RouteText>,
    #[serde(default, deserialize_with = "millstream_model::optional_variant")]
    ipv4: Option<Method>,
    #[serde(default, deserialize_with = "millstream_model::optional_variant")]
    ipv6: Option<Method>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a gateway is an address, { via = \"192.0.2.1\", metric = 50 }, or an array of one for each family"
)]
enum OneOrMore {
    One(GatewayText),
    More(Vec<GatewayText>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GatewayText {
    Plain(String),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayTable {
    via: String,
    metric: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteText {
    to: String,
    via: Option<String>,
    metric: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardText {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VlanText {
    parent: String,
    id: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BondText {
    ports: Vec<String>,
    #[serde(deserialize_with = "millstream_model::variant")]
    mode: BondMode,
    miimon: Option<i64>,
    up_delay: Option<i64>,
    down_delay: Option<i64>,
    arp_interval: Option<i64>,
    #[serde(default)]
    arp_targets: Vec<String>,
    primary: Option<String>,
    #[serde(default, deserialize_with = "millstream_model::optional_variant")]
    lacp_rate: Option<LacpRate>,
    #[serde(default, deserialize_with = "millstream_model::optional_variant")]
    transmit_hash: Option<TransmitHash>,
    min_links: Option<i64>,
    #[serde(default)]
    autoconnect_ports: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BridgeText {
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default = "yes")]
    stp: bool,
    forward_delay: Option<i64>,
    hello_time: Option<i64>,
    max_age: Option<i64>,
    priority: Option<i64>,
    #[serde(default)]
    autoconnect_ports: bool,
}

/// Reads what only one kind of link has, and whether its ports start with it. The text is the name of the link.
type Parse = fn(Table, &str) -> Result<(LinkKind, bool), Refusal>;

fn yes() -> bool {
    true
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

fn refused<T>(why: impl Into<String>, hint: &str) -> Result<T, Refusal> {
    Err(Refusal::new(why).hint(hint))
}

pub(super) fn topology(text: &str) -> Result<Topology, Refusal> {
    let file: File = toml::from_str(text).map_err(|error| Refusal::new(error.to_string().trim_end().to_owned()))?;
    let mut all: BTreeMap<String, Link> = BTreeMap::new();
    let tables: [(&str, BTreeMap<String, Table>, Parse); 4] = [
        ("cards", file.cards, card),
        ("bonds", file.bonds, bond),
        ("vlans", file.vlans, vlan),
        ("bridges", file.bridges, bridge),
    ];
    for (table, links, kind) in tables {
        for (name, text) in links {
            named(&name).map_err(Refusal::at(table))?;
            let place = format!("{table}.{name}");
            let link = link(&name, text, kind).map_err(Refusal::at(&place))?;
            if let Some(other) = all.insert(name, link) {
                return Err(Refusal::new(format!("{place}: {} has that name, too", other.place()))
                    .hint("every link of a host has a name of its own"));
            }
        }
    }
    ports_are_links(&mut all)?;
    if all.is_empty() {
        return Err(Refusal::new("there are no links").hint("describe them in tables such as [bonds.bond0]"));
    }
    if all.len() > LINKS_MAX {
        return Err(Refusal::new(format!("{} links are more than {LINKS_MAX}", all.len())));
    }
    for link in all.values() {
        if let LinkKind::Vlan { parent, .. } = &link.kind
            && !all.contains_key(parent)
        {
            return Err(Refusal::new(format!("{}: there is no link {parent:?}", link.place()))
                .hint(format!("describe it, for example as [cards.{parent}]")));
        }
    }
    let topology = Topology { links: in_order(all) };
    topology.links.iter().try_for_each(|link| lies_on_itself(&topology, link))?;
    topology.links.iter().try_for_each(|link| takes_its_ports(&topology, link))?;
    Ok(topology)
}

/// Ports that no table describes are cards. No link is a port twice.
fn ports_are_links(all: &mut BTreeMap<String, Link>) -> Result<(), Refusal> {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for link in all.values() {
        for port in link.ports() {
            named(port).map_err(Refusal::at(format!("{}: ports", link.place())))?;
            if let Some(owner) = owners.insert(port.clone(), link.name.clone()) {
                let both = if owner == link.name { "twice".to_owned() } else { format!("of {owner}, too") };
                let why = format!("{}: {port} is its port {both}", link.place());
                return refused(why, "a link is the port of one bond or bridge");
            }
        }
    }
    for port in owners.into_keys() {
        all.entry(port.clone()).or_insert_with(|| Link { name: port, ..Link::default() });
    }
    Ok(())
}

/// What is above stands before its ports; what has no ports comes last.
fn in_order(mut all: BTreeMap<String, Link>) -> Vec<Link> {
    let mut links = Vec::with_capacity(all.len());
    let rank = |link: &Link| match link.kind {
        LinkKind::Bond(_) => 0,
        LinkKind::Bridge(_) => 1,
        LinkKind::Card => 2,
        LinkKind::Vlan { .. } => 3,
    };
    let mut names: Vec<(u8, String)> = all.values().map(|link| (rank(link), link.name.clone())).collect();
    names.sort();
    for (_, name) in names {
        let Some(link) = all.remove(&name) else { continue };
        let ports: Vec<String> = link.ports().to_vec();
        links.push(link);
        for port in ports {
            // A bond that is a port has its own place.
            if all.get(&port).is_some_and(|link| link.ports().is_empty()) {
                links.extend(all.remove(&port));
            }
        }
    }
    links
}

fn lies_on_itself(topology: &Topology, link: &Link) -> Result<(), Refusal> {
    let mut below: Vec<&Link> = topology.below(link).collect();
    // As many steps as there are links reach every link below.
    for _ in 0..topology.links.len() {
        if below.iter().any(|one| one.name == link.name) {
            return Err(Refusal::new(format!("{}: it lies on itself", link.place()))
                .hint("a port or a parent is another link, which does not lie on this one"));
        }
        below = below.iter().flat_map(|one| topology.below(one)).collect();
    }
    Ok(())
}

/// The kernel has no bridge in a bridge.
fn takes_its_ports(topology: &Topology, link: &Link) -> Result<(), Refusal> {
    let is_bridge = |link: &Link| matches!(link.kind, LinkKind::Bridge(_));
    match topology.below(link).find(|below| is_bridge(link) && is_bridge(below)) {
        Some(port) => {
            let why = format!("{}: ports: {} is a bridge, and no bridge takes another", link.place(), port.name);
            refused(why, "make its ports those of the outer bridge")
        }
        None => Ok(()),
    }
}

fn link(name: &str, mut text: Table, kind: Parse) -> Result<Link, Refusal> {
    let common = COMMON.iter().filter_map(|key| Some(((*key).to_owned(), text.remove(*key)?))).collect();
    let common: CommonText = read(common)?;
    let (kind, starts_ports) = kind(text, name)?;
    let CommonText { mtu, zone, addresses, gateway, dns, search, routes, ipv4, ipv6 } = common;
    let gateways = match gateway {
        OneOrMore::One(gateway) => vec![gateway],
        OneOrMore::More(gateways) => gateways,
    };
    let addresses: Vec<Prefix> = each(&addresses, own_address).map_err(Refusal::at("addresses"))?;
    let gateways = gateways.into_iter().map(router).collect::<Result<Vec<_>, _>>().map_err(Refusal::at("gateway"))?;
    let dns: Vec<IpAddr> = each(&dns, host).and_then(once).map_err(Refusal::at("dns"))?;
    let routes: Vec<Route> = routes.into_iter().map(route).collect::<Result<_, _>>().map_err(Refusal::at("routes"))?;
    let family = |is_v4: bool, method: Option<Method>, key: &str| {
        let of = |address: &IpAddr| address.is_ipv4() == is_v4;
        let mut own = gateways.iter().filter(|(via, _)| of(via));
        let gateway = own.next();
        if own.next().is_some() {
            return refused("gateway: there are two of one family", "a link has one router to all networks");
        }
        let addresses: Vec<Prefix> = addresses.iter().copied().filter(|one| of(&one.address)).collect();
        if is_v4 && method == Some(Method::Ignore) {
            return refused("ipv4: ignore is for IPv6 alone", "write ipv4 = \"disabled\"");
        }
        let method = methods(method, &addresses).map_err(Refusal::at(key))?;
        if addresses.is_empty() && gateway.is_some() {
            return refused(
                "gateway: there is a gateway, and no address of its family",
                "give the link an address in the gateway's network, or leave gateway out: with ipv4 = \"auto\" it comes \
                 with the address",
            );
        }
        Ok(Addressing {
            method,
            addresses,
            gateway: gateway.map(|(via, _)| *via),
            gateway_metric: gateway.and_then(|(_, metric)| *metric),
            dns: dns.iter().copied().filter(of).collect(),
            routes: routes.iter().copied().filter(|route| of(&route.to.address)).collect(),
        })
    };
    Ok(Link {
        name: name.to_owned(),
        kind,
        mtu: mtu.map(|mtu| within(mtu, MTU_MIN..=MTU_MAX)).transpose().map_err(Refusal::at("mtu"))?,
        zone: zone.map(zoned).transpose().map_err(Refusal::at("zone"))?,
        starts_ports,
        v4: family(true, ipv4, "ipv4")?,
        v6: family(false, ipv6, "ipv6")?,
        search: each(&search, domain).and_then(once).map_err(Refusal::at("search"))?,
    })
}

/// Where addresses come from: unless the text says so, from the text.
fn methods(said: Option<Method>, addresses: &[Prefix]) -> Result<Method, Refusal> {
    match (said, addresses.is_empty()) {
        (None, true) => Ok(Method::Disabled),
        (None, false) => Ok(Method::Manual),
        (Some(Method::Manual), true) => refused("manual needs addresses", "give them: addresses = [\"192.0.2.5/24\"]"),
        (Some(Method::Disabled | Method::Ignore), false) => {
            refused("there are addresses, although it is off", "remove the addresses, or leave this key out")
        }
        (Some(said), _) => Ok(said),
    }
}

fn card(text: Table, _: &str) -> Result<(LinkKind, bool), Refusal> {
    let CardText {} = read(text)?;
    Ok((LinkKind::Card, false))
}

fn vlan(text: Table, name: &str) -> Result<(LinkKind, bool), Refusal> {
    let VlanText { parent, id } = read(text)?;
    if parent == name {
        return Err(Refusal::new("parent: it lies on itself").hint("a parent is another link"));
    }
    named(&parent).map_err(Refusal::at("parent"))?;
    let id = u16::try_from(id).ok().filter(|id| (1..=VLAN_MAX).contains(id)).ok_or_else(|| {
        Refusal::new(format!("id: {id} is not the number of a VLAN: those are 1 to {VLAN_MAX}"))
            .hint("0 means that a packet has none, and 4095 is reserved")
    })?;
    Ok((LinkKind::Vlan { parent, id }, false))
}

fn bond(text: Table, _: &str) -> Result<(LinkKind, bool), Refusal> {
    let text: BondText = read(text)?;
    let mode = text.mode.name();
    let milliseconds = |key: &'static str, given: Option<i64>, least: u32| {
        given.map(|given| within(given, least..=MONITOR_MS_MAX)).transpose().map_err(Refusal::at(key))
    };
    let miimon = milliseconds("miimon", text.miimon, 1)?;
    let asks = milliseconds("arp_interval", text.arp_interval, 1)?;
    let (up_delay_ms, down_delay_ms) =
        (milliseconds("up_delay", text.up_delay, 0)?, milliseconds("down_delay", text.down_delay, 0)?);
    let targets = each(&text.arp_targets, neighbour).and_then(once).map_err(Refusal::at("arp_targets"))?;
    let monitor = match (miimon, asks) {
        (Some(_), Some(_)) => {
            return refused("miimon and arp_interval exclude each other", "miimon = 100 suits nearly every card");
        }
        (_, Some(_)) if !text.mode.can_ask() => {
            let why = format!("arp_interval: a bond of mode {mode} cannot ask its neighbours");
            return refused(why, "use miimon = 100");
        }
        (None, Some(_)) if targets.is_empty() => {
            let hint = "name neighbours that are always there: arp_targets = [\"192.0.2.1\"]";
            return refused("arp_interval: there is nobody to ask", hint);
        }
        (None, Some(_)) if targets.len() > ARP_TARGETS_MAX => {
            return refused(format!("arp_targets: {} are more than {ARP_TARGETS_MAX}", targets.len()), "name fewer");
        }
        (_, None) if !targets.is_empty() => {
            return refused("arp_targets: nobody asks them", "add arp_interval = 1000, or leave them out");
        }
        (None, Some(_)) if up_delay_ms.or(down_delay_ms).is_some() => {
            return refused("up_delay and down_delay are for miimon", "leave them out");
        }
        (None, None) if up_delay_ms.or(down_delay_ms).is_some() => {
            return refused("up_delay and down_delay need miimon", "add miimon = 100");
        }
        (Some(interval_ms), None) => Some(Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms }),
        (None, Some(interval_ms)) => Some(Monitor::Arp { interval_ms, targets }),
        (None, None) => None,
    };
    if text.lacp_rate.is_some() && text.mode != BondMode::Lacp {
        let why = format!("lacp_rate: a bond of mode {mode} does not speak LACP");
        return refused(why, "leave it out, or use mode 802.3ad");
    }
    if text.transmit_hash.is_some() && !text.mode.hashes() {
        return refused(format!("transmit_hash: a bond of mode {mode} does not choose by a hash"), "leave it out");
    }
    if let Some(primary) = &text.primary {
        if !text.mode.has_primary() {
            return refused(format!("primary: a bond of mode {mode} prefers no card"), "use mode active-backup");
        }
        if !text.ports.contains(primary) {
            return refused(format!("primary: {primary:?} is not one of its ports"), "name one of the ports");
        }
    }
    let ports = u32::try_from(text.ports.len()).unwrap_or(u32::MAX);
    let min_links =
        text.min_links.map(|links| within(links, 0..=ports)).transpose().map_err(Refusal::at("min_links"))?;
    Ok((
        LinkKind::Bond(Bond {
            ports: text.ports,
            mode: text.mode,
            monitor,
            primary: text.primary,
            lacp_rate: text.lacp_rate,
            transmit_hash: text.transmit_hash,
            min_links,
        }),
        text.autoconnect_ports,
    ))
}

fn bridge(text: Table, _: &str) -> Result<(LinkKind, bool), Refusal> {
    let text: BridgeText = read(text)?;
    let seconds = |key: &'static str, given: Option<i64>, range: RangeInclusive<u32>| {
        given.map(|given| within(given, range)).transpose().map_err(Refusal::at(key))
    };
    // Without a tree nothing waits: 0 says so. NetworkManager takes no other time below the least one.
    let delays = if !text.stp && text.forward_delay == Some(0) { 0..=0 } else { FORWARD_DELAY_SECONDS };
    let bridge = Bridge {
        ports: text.ports,
        stp: text.stp,
        forward_delay: seconds("forward_delay", text.forward_delay, delays)?,
        hello_time: seconds("hello_time", text.hello_time, HELLO_SECONDS)?,
        max_age: seconds("max_age", text.max_age, MAX_AGE_SECONDS)?,
        priority: seconds("priority", text.priority, 0..=u16::MAX.into())?.and_then(|one| one.try_into().ok()),
    };
    Ok((LinkKind::Bridge(bridge), text.autoconnect_ports))
}

fn read<T: DeserializeOwned>(text: Table) -> Result<T, Refusal> {
    Value::Table(text)
        .try_into()
        .map_err(|error: toml::de::Error| Refusal::new(error.to_string().trim_end().to_owned()))
}

fn within(number: i64, range: RangeInclusive<u32>) -> Result<u32, Refusal> {
    let (least, most) = (range.start(), range.end());
    u32::try_from(number)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| Refusal::new(format!("{number} is not one of {least} to {most}")))
}

fn each<T>(texts: &[String], parse: impl Fn(&str) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
    texts.iter().map(|text| parse(text)).collect()
}

fn address(text: &str) -> Result<IpAddr, Refusal> {
    text.parse().map_err(|_| Refusal::new(format!("{text:?} is not an IP address")))
}

/// The address of a host.
fn host(text: &str) -> Result<IpAddr, Refusal> {
    let address = address(text)?;
    let why = match address {
        one if one.is_unspecified() => "means no host",
        one if one.is_multicast() => "means a group of hosts",
        IpAddr::V4(v4) if v4.is_broadcast() => "means all hosts",
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => "is an address of IPv4, written as one of IPv6",
        _ => return Ok(address),
    };
    refused(format!("{text} {why}"), "name the address of one host, such as 192.0.2.5 or 2001:db8::5")
}

/// The address of a host that is not the loopback device of each host.
fn distinct(text: &str) -> Result<IpAddr, Refusal> {
    match host(text)? {
        own if own.is_loopback() => refused(
            format!("{text} belongs to the loopback device of each host"),
            "leave it out, or name an address that one host alone has",
        ),
        address => Ok(address),
    }
}

/// An address of this host on a link.
fn own_address(text: &str) -> Result<Prefix, Refusal> {
    let prefix = prefix(text)?;
    distinct(&prefix.address.to_string()).map(|address| Prefix { address, ..prefix })
}

/// A neighbour that a bond asks for its address. Source: Linux, bond_is_ip_target_ok.
fn neighbour(text: &str) -> Result<Ipv4Addr, Refusal> {
    match distinct(text)? {
        IpAddr::V4(v4) if v4.octets()[0] > 0 => Ok(v4),
        IpAddr::V4(_) => refused(format!("{text} is no neighbour"), "name the address of one host, such as 192.0.2.1"),
        IpAddr::V6(_) => {
            refused(format!("{text:?} is not an address of IPv4"), "a bond asks by ARP, which knows no others")
        }
    }
}

/// Refuses what is there twice: NetworkManager drops one of them, and the kernel refuses the second.
fn once<T: Clone + Ord + Display>(values: Vec<T>) -> Result<Vec<T>, Refusal> {
    let mut known = BTreeSet::new();
    if let Some(twin) = values.iter().find(|value| !known.insert((*value).clone())) {
        return refused(format!("{twin} is there twice"), "name it once");
    }
    Ok(values)
}

/// A router, and what tells it from others.
fn router(text: GatewayText) -> Result<(IpAddr, Option<u32>), Refusal> {
    let (via, metric) = match text {
        GatewayText::Plain(via) => (via, None),
        GatewayText::Table(table) => {
            let GatewayTable { via, metric } = read(table)?;
            (via, metric)
        }
    };
    Ok((distinct(&via)?, weight(metric)?))
}

fn weight(metric: Option<i64>) -> Result<Option<u32>, Refusal> {
    metric.map(|metric| within(metric, 0..=METRIC_MAX)).transpose().map_err(Refusal::at("metric"))
}

/// An address with the length of its network's prefix.
fn prefix(text: &str) -> Result<Prefix, Refusal> {
    let Some((first, bits)) = text.split_once('/') else {
        return Err(Refusal::new(format!("{text:?} has no length of a prefix")).hint("write it as 192.0.2.5/24"));
    };
    let address = address(first)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = bits
        .parse()
        .ok()
        .filter(|length| (0..=most).contains(length))
        .ok_or_else(|| Refusal::new(format!("{text}: the prefix has 0 to {most} bits, not {bits}")))?;
    Ok(Prefix { address, length })
}

fn route(text: RouteText) -> Result<Route, Refusal> {
    let to = prefix(&text.to)?;
    if to.network() != to {
        return Err(Refusal::new(format!("{to} has bits beyond its prefix")).hint(format!("write {}", to.network())));
    }
    let via = text.via.as_deref().map(distinct).transpose()?;
    if via.is_some_and(|via| via.is_ipv4() != to.address.is_ipv4()) {
        return Err(Refusal::new(format!("{to} and its router are of two families")));
    }
    Ok(Route { to, via, metric: weight(text.metric)? })
}

/// Names are passed to the kernel and to shells.
fn named(name: &str) -> Result<(), Refusal> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let why = match name {
        "" => "is empty".to_owned(),
        name if name.len() > NAME_BYTES_MAX => format!("has {} bytes, and Linux takes {NAME_BYTES_MAX}", name.len()),
        name if !name.bytes().all(is_plain) => "has a character that no name of a link should have".to_owned(),
        name if name.starts_with('-') => "begins like an option".to_owned(),
        name if RESERVED.contains(&name) => "means something else to the kernel".to_owned(),
        "lo" => "is the loopback device, which needs no description".to_owned(),
        _ => return Ok(()),
    };
    Err(Refusal::new(format!("the name {name:?} {why}")).hint("use letters, digits, dots, hyphens and underscores"))
}

fn zoned(zone: String) -> Result<String, Refusal> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if (1..=ZONE_BYTES_MAX).contains(&zone.len()) && zone.bytes().all(is_plain) && !zone.starts_with('-') {
        return Ok(zone);
    }
    Err(Refusal::new(format!("{zone:?} is not the name of a zone")).hint("firewall-cmd --get-zones lists them"))
}

/// A domain, or with a tilde one of whose names the servers are asked and that completes none.
fn domain(text: &str) -> Result<String, Refusal> {
    let name = text.strip_prefix('~').unwrap_or(text);
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_plain) && !name.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err(Refusal::new(format!("{text:?} is not a domain")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_may_be_one_for_routing() {
        for text in ["corp.example", "~corp.example", "~."] {
            assert_eq!(domain(text), Ok(text.to_owned()));
        }
        for text in ["", "~", "~~a.org", "-a.org", "~-a.org", "a b"] {
            assert!(domain(text).is_err(), "{text}");
        }
    }

    const HOST: &str = "\
[cards.eth0]
zone = 'trusted'
[bonds.bond0]
ports = ['eth0', 'eth1']
mode = '802.3ad'
miimon = 100
[vlans.'bond0.123']
parent = 'bond0'
id = 123
[bridges.'br.123']
ports = ['bond0.123']
stp = false
forward_delay = 0
addresses = ['192.0.2.5/24', '2001:db8::5/64']
gateway = '192.0.2.1'
dns = ['192.0.2.53']
routes = [{ to = '198.51.100.0/24', via = '192.0.2.9', metric = 50 }]
";

    #[test]
    fn a_topology_is_read_and_its_links_are_in_order() {
        let topology = Topology::parse(HOST).unwrap();
        let names: Vec<&str> = topology.links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["bond0", "eth0", "eth1", "br.123", "bond0.123"]);
        let bridge = topology.link("br.123").unwrap();
        assert_eq!((bridge.v4.method, bridge.v6.method), (Method::Manual, Method::Manual));
        assert_eq!(bridge.v4.routes[0].metric, Some(50));
        assert_eq!(topology.link("bond0").unwrap().v6.method, Method::Disabled);
        assert_eq!(topology.controller("eth1").unwrap().name, "bond0");
        assert_eq!(topology.link("eth0").unwrap().zone.as_deref(), Some("trusted"));
    }

    #[test]
    fn a_gateway_may_have_a_metric() {
        let of = |gateway: &str| {
            let text = format!("[cards.eth0]\naddresses = ['192.0.2.5/24', '2001:db8::5/64']\ngateway = {gateway}");
            let topology = Topology::parse(&text).unwrap();
            topology.links[0]
                .families()
                .map(|family| (family.gateway.map(|one| one.to_string()), family.gateway_metric))
        };
        let (v4, v6) = (Some("192.0.2.1".to_owned()), Some("fe80::1".to_owned()));
        assert_eq!(of("'192.0.2.1'"), [(v4.clone(), None), (None, None)]);
        assert_eq!(of("{ via = '192.0.2.1' }"), [(v4.clone(), None), (None, None)]);
        assert_eq!(of("{ via = 'fe80::1', metric = 0 }"), [(None, None), (v6.clone(), Some(0))]);
        assert_eq!(of("['fe80::1', { via = '192.0.2.1', metric = 50 }]"), [(v4, Some(50)), (v6, None)]);
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let vlan = |rest: &str| format!("[cards.eth0]\n[vlans.v]\nparent = 'eth0'\n{rest}");
        let bond = |rest: &str| format!("[bonds.b]\nports = ['eth0', 'eth1']\n{rest}");
        let card = |rest: &str| format!("[cards.eth0]\n{rest}");
        let asks =
            |targets: &str| bond(&format!("mode = 'active-backup'\narp_interval = 100\narp_targets = [{targets}]"));
        let bridge = |rest: &str| format!("[bridges.br]\nports = ['eth0']\n{rest}");
        for (text, problem) in [
            (String::new(), "there are no links"),
            ("[card.eth0]".to_owned(), "unknown field `card`"),
            (card("mtuu = 5"), "cards.eth0: unknown field `mtuu`"),
            (vlan("id = 0"), "vlans.v: id: 0 is not the number of a VLAN: those are 1 to 4094"),
            (vlan("id = 4095"), "id: 4095 is not the number of a VLAN"),
            ("[vlans.v]\nparent = 'eth9'\nid = 5".to_owned(), "vlans.v: there is no link \"eth9\""),
            ("[vlans.v]\nparent = 'v'\nid = 5".to_owned(), "it lies on itself"),
            ("[vlans.v]\nparent = 'w'\nid = 5\n[vlans.w]\nparent = 'v'\nid = 6".to_owned(), "it lies on itself"),
            ("[bonds.b]\nports = ['b']\nmode = 'broadcast'".to_owned(), "bonds.b: it lies on itself"),
            ("[cards.abcdefghijklmnop]".to_owned(), "has 16 bytes, and Linux takes 15"),
            ("[cards.'a\"b']".to_owned(), "has a character that no name of a link should have"),
            ("[cards.\"a\\nb\"]".to_owned(), "has a character that no name of a link should have"),
            ("[cards.all]".to_owned(), "means something else to the kernel"),
            ("[cards.x]\n[bridges.x]".to_owned(), "bridges.x: cards.x has that name, too"),
            (bond("mode = 'bogus'"), "unknown variant `bogus`"),
            (bond("mode = 4"), "invalid type: integer `4`, expected a string"),
            (bond("mode = 'balance-xor'\nlacp_rate = 1"), "invalid type: integer `1`, expected a string"),
            (card("ipv4 = false"), "invalid type: boolean `false`, expected a string"),
            (bond("mode = 'active-backup'\narp_interval = 100"), "bonds.b: arp_interval: there is nobody to ask"),
            (
                bond("mode = 'active-backup'\nmiimon = 100\narp_interval = 100\narp_targets = ['192.0.2.1']"),
                "exclude each other",
            ),
            (bond("mode = 'active-backup'\narp_targets = ['192.0.2.1']"), "arp_targets: nobody asks them"),
            (
                bond("mode = '802.3ad'\narp_interval = 100\narp_targets = ['192.0.2.1']"),
                "a bond of mode 802.3ad cannot ask its neighbours",
            ),
            (bond("mode = '802.3ad'\nprimary = 'eth0'"), "a bond of mode 802.3ad prefers no card"),
            (bond("mode = 'active-backup'\nprimary = 'eth7'"), "\"eth7\" is not one of its ports"),
            (bond("mode = 'active-backup'\nlacp_rate = 'fast'"), "does not speak LACP"),
            (bond("mode = 'balance-xor'\ntransmit_hash = 'foo'"), "unknown variant `foo`"),
            (bond("mode = '802.3ad'\nmiimon = -1"), "bonds.b: miimon: -1 is not one of 1 to"),
            (bond("mode = 'active-backup'\nup_delay = 100"), "up_delay and down_delay need miimon"),
            (card("addresses = ['192.0.2.5/33']"), "192.0.2.5/33: the prefix has 0 to 32 bits, not 33"),
            (card("addresses = ['192.0.2.500/24']"), "\"192.0.2.500\" is not an IP address"),
            (card("addresses = ['192.0.2.5']"), "has no length of a prefix"),
            (card("ipv4 = 'manual'"), "cards.eth0: ipv4: manual needs addresses"),
            (card("ipv4 = 'disabled'\naddresses = ['192.0.2.5/24']"), "there are addresses, although it is off"),
            (card("ipv4 = 'bogus'"), "unknown variant `bogus`"),
            (card("dns = ['1.2.3']"), "dns: \"1.2.3\" is not an IP address"),
            (card("gateway = ['192.0.2.1', '192.0.2.2']"), "there are two of one family"),
            (card("gateway = { metric = 5 }"), "cards.eth0: gateway: missing field `via`"),
            (card("gateway = ['192.0.2.1', 5]"), "a gateway is an address, { via = "),
            (card("gateway = { via = '192.0.2.1', metric = -1 }"), "gateway: metric: -1 is not one of 0 to"),
            (card("gateway = '127.0.0.1'"), "gateway: 127.0.0.1 belongs to the loopback device of each host"),
            (card("gateway = '::'"), "gateway: :: means no host"),
            (card("addresses = ['224.0.0.5/24']"), "addresses: 224.0.0.5 means a group of hosts"),
            (card("addresses = ['ff02::5/64']"), "addresses: ff02::5 means a group of hosts"),
            (card("addresses = ['127.0.0.1/8']"), "127.0.0.1 belongs to the loopback device of each host"),
            (card("addresses = ['::1/128']"), "::1 belongs to the loopback device of each host"),
            (card("addresses = ['0.0.0.0/24']"), "0.0.0.0 means no host"),
            (card("addresses = ['255.255.255.255/32']"), "255.255.255.255 means all hosts"),
            (card("addresses = ['::ffff:192.0.2.5/96']"), "is an address of IPv4, written as one of IPv6"),
            (card("routes = [{ to = '10.0.0.0/8', via = '0.0.0.0' }]"), "routes: 0.0.0.0 means no host"),
            (card("routes = [{ to = '10.0.0.0/8', via = '224.0.0.1' }]"), "routes: 224.0.0.1 means a group of hosts"),
            (card("dns = ['0.0.0.0']"), "dns: 0.0.0.0 means no host"),
            (card("dns = ['192.0.2.53', '192.0.2.53']"), "dns: 192.0.2.53 is there twice"),
            (card("search = ['a.org', 'b.org', 'a.org']"), "search: a.org is there twice"),
            (card("ipv4 = 'ignore'"), "cards.eth0: ipv4: ignore is for IPv6 alone"),
            (
                "[bridges.a]\nports = ['b']\n[bridges.b]\nports = ['eth0']".to_owned(),
                "bridges.a: ports: b is a bridge, and no bridge takes another",
            ),
            (asks("'0.0.0.0'"), "bonds.b: arp_targets: 0.0.0.0 means no host"),
            (asks("'0.0.0.5'"), "arp_targets: 0.0.0.5 is no neighbour"),
            (asks("'255.255.255.255'"), "arp_targets: 255.255.255.255 means all hosts"),
            (asks("'127.0.0.1'"), "arp_targets: 127.0.0.1 belongs to the loopback device"),
            (asks("'2001:db8::1'"), "arp_targets: \"2001:db8::1\" is not an address of IPv4"),
            (asks("'192.0.2.1', '192.0.2.2', '192.0.2.1'"), "bonds.b: arp_targets: 192.0.2.1 is there twice"),
            (card("mtu = 99999999999"), "cards.eth0: mtu: 99999999999 is not one of 68 to 65535"),
            (card("routes = [{ to = '198.51.100.0/40' }]"), "the prefix has 0 to 32 bits, not 40"),
            (card("routes = [{ to = '198.51.100.7/24' }]"), "198.51.100.7/24 has bits beyond its prefix"),
            (card("zone = 'a b'"), "is not the name of a zone"),
            (bridge("priority = 70000"), "bridges.br: priority: 70000 is not one of 0 to 65535"),
            (bridge("forward_delay = 1"), "forward_delay: 1 is not one of 2 to 30"),
            (bridge("forward_delay = 31"), "31 is not one of 2 to 30"),
            (bridge("stp = false\nforward_delay = 1"), "forward_delay: 1 is not one of 2 to 30"),
            (bridge("forward_delay = 0"), "forward_delay: 0 is not one of 2 to 30"),
            (bridge("max_age = 50"), "max_age: 50 is not one of 6 to 40"),
            (bridge("hello_time = 0"), "hello_time: 0 is not one of 1 to 10"),
            ("[bridges.a]\nports = ['eth0']\n[bridges.b]\nports = ['eth0']".to_owned(), "eth0 is its port of a, too"),
        ] {
            let refusal = Topology::parse(&text).unwrap_err();
            assert!(refusal.problem.contains(problem), "{text}: {refusal}");
        }
    }
}
