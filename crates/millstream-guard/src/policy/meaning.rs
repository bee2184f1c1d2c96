//! What a policy means for a packet. The rules for the kernel are written down independently of this; `prove` sends packets
//! to compare the two.

use super::packet::{Content, Direction, Packet};
use super::{Mode, Policy, Ports, Service};
use millstream_model::range::Family;

/// What becomes of a packet, and which line says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it passes.
    pub accepts: bool,
    /// Name of the line.
    pub line: String,
}

fn accept(line: impl Into<String>) -> Option<Decision> {
    Some(Decision { accepts: true, line: line.into() })
}

fn drop(line: impl Into<String>) -> Option<Decision> {
    Some(Decision { accepts: false, line: line.into() })
}

/// What a policy decides about a packet. Limits are not reached, and nobody is denied for a time.
pub fn meaning(policy: &Policy, packet: &Packet) -> Decision {
    let decided = match packet.direction {
        Direction::In => arriving(policy, packet),
        Direction::Out => leaving(policy, packet),
    };
    decided.unwrap_or(Decision { accepts: false, line: "everything-else".to_owned() })
}

fn arriving(policy: &Policy, packet: &Packet) -> Option<Decision> {
    if packet.interface == "lo" {
        return accept("loopback");
    }
    neighbour(packet)
        .or_else(|| {
            let is_denied = policy.has(&policy.deny, packet.source) && !policy.has(&policy.allow, packet.source);
            if is_denied { drop("deny") } else { None }
        })
        .or_else(|| error_of_icmp(policy, packet))
        .or_else(|| denied_text(policy, packet))
        .or_else(|| followed(policy, packet))
        .or_else(|| echo(policy, packet))
        .or_else(|| match packet.content {
            Content::Tcp { flags, .. } if flags.are_illegal() => drop("illegal-flags"),
            _ => None,
        })
        .or_else(|| service(policy, packet))
        .or_else(|| client(policy, packet))
}

fn leaving(policy: &Policy, packet: &Packet) -> Option<Decision> {
    if packet.interface == "lo" {
        return accept("loopback");
    }
    if matches!(packet.content, Content::Icmp { .. }) {
        return accept("outgoing-icmp");
    }
    followed(policy, packet)
        .or_else(|| if policy.send_all { accept("send-all") } else { None })
        .or_else(|| service(policy, packet))
        .or_else(|| client(policy, packet))
}

/// Types of ICMPv6. Source: RFC 4443, 2710, 4861.
fn neighbour(packet: &Packet) -> Option<Decision> {
    match (packet.family(), packet.content) {
        (Family::V6, Content::Icmp { kind: 134..=136, is_of_neighbour: true }) => accept("neighbour-discovery"),
        (Family::V6, Content::Icmp { kind: 130, .. }) => accept("multicast-listener"),
        _ => None,
    }
}

fn error_of_icmp(policy: &Policy, packet: &Packet) -> Option<Decision> {
    match (packet.family(), packet.content) {
        // With tracking, fragments are put together first.
        (Family::V6, Content::LaterFragment) if policy.mode == Mode::Stateless => accept("fragments"),
        (Family::V6, Content::Icmp { kind: 2, .. }) => accept("packet-too-big"),
        (Family::V4, Content::Icmp { kind: 3, .. }) | (Family::V6, Content::Icmp { kind: 1, .. }) => {
            accept("destination-unreachable")
        }
        (Family::V4, Content::Icmp { kind: 11 | 12, .. }) | (Family::V6, Content::Icmp { kind: 3 | 4, .. }) => {
            accept("time-exceeded")
        }
        _ => None,
    }
}

/// A datagram to a service that holds what the service denies. It does not matter whether others came before it.
fn denied_text(policy: &Policy, packet: &Packet) -> Option<Decision> {
    let Content::Udp { to, .. } = packet.content else { return None };
    let denies = |service: &&Service| {
        Ports::has(&service.ports.udp, to)
            && service.interface.as_ref().is_none_or(|interface| *interface == packet.interface)
            && policy.has(&service.from, packet.peer())
            && service.deny_text.as_ref().is_some_and(|denied| denied.is_in(&packet.text))
    };
    if policy.has(&policy.allow, packet.peer()) {
        return None;
    }
    policy.services.iter().find(denies).and_then(|service| drop(format!("services.{}.text", service.name)))
}

fn followed(policy: &Policy, packet: &Packet) -> Option<Decision> {
    let is_followed = policy.mode != Mode::Stateless && packet.is_established;
    if is_followed { accept("established") } else { None }
}

fn echo(policy: &Policy, packet: &Packet) -> Option<Decision> {
    match (packet.family(), packet.content) {
        (Family::V4, Content::Icmp { kind: 8, .. }) | (Family::V6, Content::Icmp { kind: 128, .. }) if policy.ping => {
            accept("ping")
        }
        (Family::V4, Content::Icmp { kind: 0, .. }) | (Family::V6, Content::Icmp { kind: 129, .. })
            if policy.mode == Mode::Stateless =>
        {
            accept("outgoing-icmp")
        }
        _ => None,
    }
}

/// A request that comes to a service, or its answer.
fn service(policy: &Policy, packet: &Packet) -> Option<Decision> {
    let is_in = packet.direction == Direction::In;
    let (port, begins) = match packet.content {
        Content::Tcp { from, to, flags } => (if is_in { to } else { from }, flags.begins()),
        Content::Udp { from, to } => (if is_in { to } else { from }, is_in),
        _ => return None,
    };
    let has = |ports: &Ports| match packet.content {
        Content::Tcp { .. } => Ports::has(&ports.tcp, port),
        _ => Ports::has(&ports.udp, port),
    };
    for service in policy.services.iter().filter(|service| has(&service.ports)) {
        let is_there = service.interface.as_ref().is_none_or(|interface| *interface == packet.interface);
        // An answer never begins a connection. With tracking, only beginnings come here, and no answers.
        let fits = match (is_in, policy.tracks(service)) {
            (true, true) => begins,
            (true, false) => true,
            (false, true) => false,
            (false, false) => !begins,
        };
        if is_there && fits && policy.has(&service.from, packet.peer()) {
            return accept(format!("services.{}", service.name));
        }
    }
    let is_of_a_service = policy.services.iter().any(|service| has(&service.ports));
    if is_in && is_of_a_service { drop("service-ports") } else { None }
}

/// A request to a server elsewhere, or its answer. With tracking, only answers of servers that were not asked come here.
fn client(policy: &Policy, packet: &Packet) -> Option<Decision> {
    let is_in = packet.direction == Direction::In;
    let sides = |from, to| if is_in { (from, to) } else { (to, from) };
    let ((port, own), is_answer) = match packet.content {
        Content::Tcp { from, to, flags } => (sides(from, to), !flags.begins()),
        Content::Udp { from, to } => (sides(from, to), true),
        _ => return None,
    };
    if is_in && !is_answer {
        return None;
    }
    let found = policy.clients.iter().find(|client| {
        let ports = match packet.content {
            Content::Tcp { .. } => &client.ports.tcp,
            _ => &client.ports.udp,
        };
        Ports::has(ports, port)
            && Ports::has(&client.own_ports, own)
            && (!is_in || policy.mode == Mode::Stateless || client.asks_all)
            && client.interface.as_ref().is_none_or(|interface| *interface == packet.interface)
            && policy.has(&client.to, packet.peer())
    });
    found.and_then(|client| accept(format!("clients.{}", client.name)))
}
