//! Rules of others that may drop a packet or turn connection tracking off, and the packets that they are limited to.

use crate::policy::{Client, Ports};
use serde_json::Value;

/// A rule, and the packets that it is limited to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The rule, as a sentence names it.
    pub rule: String,
    pub(super) limits: Limits,
    pub(super) way: Way,
}

/// Which packets of this host a rule can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    In,
    Out,
}

/// The packets that a rule is limited to. What cannot be read limits nothing, and neither do addresses and devices: those of
/// your clients are not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Limits {
    protocol: Option<String>,
    from: Option<Vec<(u16, u16)>>,
    to: Option<Vec<(u16, u16)>>,
    /// Packets of the loopback device alone, which every policy accepts.
    is_loopback: bool,
}

/// What payloads of nft name that is no protocol with ports of its own.
const LAYERS: [&str; 6] = ["arp", "ether", "ip", "ip6", "th", "vlan"];

/// How the protocols of ICMP are named.
const ICMP: [&str; 5] = ["1", "58", "icmp", "icmpv6", "ipv6-icmp"];

const ALL: [(u16, u16); 1] = [(0, u16::MAX)];

impl Limited {
    /// One with the limits of these words of iptables, as a test wants it.
    #[cfg(test)]
    pub(crate) fn of_words(rule: &str, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Self { rule: rule.to_owned(), limits: Limits::of_words(&words), way: Way::In }
    }

    /// Whether it may be about packets of a service with these ports.
    #[must_use]
    pub fn is_about(&self, service: &Ports) -> bool {
        self.meets("tcp", &service.tcp, &ALL) || self.meets("udp", &service.udp, &ALL)
    }

    /// Whether it may be about questions of a client, which come from these ports, or about the answers.
    #[must_use]
    pub fn is_about_client(&self, client: &Client, own_ports: &[(u16, u16)]) -> bool {
        self.meets("tcp", own_ports, &client.ports.tcp) || self.meets("udp", own_ports, &client.ports.udp)
    }

    /// Whether it may be about ICMP.
    #[must_use]
    pub fn is_about_icmp(&self) -> bool {
        let Limits { protocol, from, to, is_loopback } = &self.limits;
        let is_icmp = protocol.as_ref().is_none_or(|one| ICMP.contains(&one.as_str()));
        is_icmp && from.is_none() && to.is_none() && !is_loopback
    }

    /// Whether it is about packets of the loopback device alone, which every policy accepts.
    #[must_use]
    pub fn is_of_loopback(&self) -> bool {
        self.limits.is_loopback
    }

    /// Whether it may be about packets of a protocol between these ports of this host and these of others.
    fn meets(&self, protocol: &str, here: &[(u16, u16)], there: &[(u16, u16)]) -> bool {
        let Limits { protocol: only, from, to, is_loopback } = &self.limits;
        let (source, target) = match self.way {
            Way::In => (there, here),
            Way::Out => (here, there),
        };
        let shares = |limit: Option<&[(u16, u16)]>, ports: &[(u16, u16)]| {
            let limit = limit.unwrap_or(&ALL);
            ports.iter().any(|(first, last)| limit.iter().any(|(from, to)| from <= last && first <= to))
        };
        let is_of_protocol = only.as_ref().is_none_or(|one| one == protocol);
        !is_loopback && is_of_protocol && shares(from.as_deref(), source) && shares(to.as_deref(), target)
    }
}

impl Limits {
    /// Adds what a statement of nft demands.
    pub(super) fn add_statement(&mut self, statement: &Value) {
        let condition = &statement["match"];
        let (left, right, is_equal) = (&condition["left"], &condition["right"], condition["op"] == "==");
        let (payload, meta) = (&left["payload"], &left["meta"]["key"]);
        let (layer, field) = (payload["protocol"].as_str().unwrap_or_default(), &payload["field"]);
        if !payload["tunnel"].is_null() {
            return;
        }
        if !layer.is_empty() && !LAYERS.contains(&layer) {
            self.protocol.get_or_insert_with(|| layer.to_owned());
        }
        let names_protocol =
            meta == "l4proto" || (layer == "ip" && field == "protocol") || (layer == "ip6" && field == "nexthdr");
        if !is_equal {
            return;
        }
        if names_protocol && let Some(name) = protocol(right) {
            self.protocol.get_or_insert(name);
        }
        if ["iif", "iifname", "oif", "oifname"].iter().any(|key| meta == key) {
            self.is_loopback |= right == "lo";
        }
        let place = match field.as_str() {
            Some("dport") => &mut self.to,
            Some("sport") => &mut self.from,
            _ => return,
        };
        if let Some(ports) = ports_of_nft(right) {
            place.get_or_insert(ports);
        }
    }

    /// What a rule is limited to in a chain to which only such packets come.
    pub(super) fn and(&self, more: &Self) -> Self {
        let Self { protocol, from, to, is_loopback } = self.clone();
        Self {
            protocol: protocol.or_else(|| more.protocol.clone()),
            from: from.or_else(|| more.from.clone()),
            to: to.or_else(|| more.to.clone()),
            is_loopback: is_loopback || more.is_loopback,
        }
    }

    /// What a rule of iptables demands.
    pub(super) fn of_words(words: &[String]) -> Self {
        let mut limits = Self::default();
        for (n, pair) in words.windows(2).enumerate() {
            if n > 0 && words[n - 1] == "!" {
                continue;
            }
            let value = &pair[1];
            let place = match pair[0].as_str() {
                "-p" => {
                    limits.protocol = protocol(&Value::from(value.as_str()));
                    continue;
                }
                "-i" | "-o" => {
                    limits.is_loopback |= value == "lo";
                    continue;
                }
                "--dport" | "--dports" => &mut limits.to,
                "--sport" | "--sports" => &mut limits.from,
                _ => continue,
            };
            if let Some(ports) = value.split(',').map(range).collect::<Option<Vec<_>>>() {
                place.get_or_insert(ports);
            }
        }
        limits
    }
}

/// The name of a protocol. `None`: several, or not readable.
fn protocol(value: &Value) -> Option<String> {
    let name = value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))?;
    Some(match name.as_str() {
        "6" => "tcp".to_owned(),
        "17" => "udp".to_owned(),
        // The last one is a set with a name.
        "all" | "0" => return None,
        _ if name.starts_with('@') => return None,
        _ => name,
    })
}

fn ports_of_nft(value: &Value) -> Option<Vec<(u16, u16)>> {
    let one = |value: &Value| {
        let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
        match value["range"].as_array().map(Vec::as_slice) {
            Some([first, last]) => Some((port(first)?, port(last)?)),
            Some(_) => None,
            None => port(value).map(|port| (port, port)),
        }
    };
    match value["set"].as_array() {
        Some(all) => all.iter().map(one).collect(),
        None => one(value).map(|range| vec![range]),
    }
}

/// A port or a range, as iptables prints it.
fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let port = |text: &str, open: u16| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some((port(first, 0)?, port(last, u16::MAX)?))
}
