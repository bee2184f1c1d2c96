//! The packets and conversations of a proof: what lies inside and just outside each line of a policy.

use super::network::{Cable, Ground};
use super::talk::Talk;
use crate::limits::{LIMITED_MAX, MORE_THAN_BURST, PROBES_MAX, SAMPLE_RANGES};
use crate::policy::{Addresses, Content, Direction, Flags, Mode, Packet, Policy, Ports, meaning};
use millstream_model::range::{FAMILIES, Family, Range};
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Protocols of each family that can be seen: ICMP, TCP, UDP, and one that no policy knows (GRE). Of IPv6, fragments too.
pub(super) const PROTOCOLS: [&[u8]; 2] = [&[1, 6, 17, GRE], &[58, 6, 17, 44, GRE]];
const GRE: u8 = 47;

/// Ports at which no service is, unless the policy says so.
const OTHER_PORTS: [u16; 3] = [9, 5_432, 40_000];

/// Where free ports of the other side begin.
pub(super) const FREE: u16 = 50_000;

/// Combinations of flags that are sent: those of connections, then those of scanners.
const FLAGS: [Flags; 12] = [
    Flags::SYN,
    Flags::ACK,
    Flags::SYN.and(Flags::ACK),
    Flags::PSH.and(Flags::ACK),
    Flags::FIN.and(Flags::ACK),
    Flags::RST,
    Flags::RST.and(Flags::ACK),
    Flags(0),
    Flags::FIN.and(Flags::PSH).and(Flags::URG),
    Flags::SYN.and(Flags::FIN),
    Flags::FIN,
    Flags::SYN.and(Flags::RST),
];

/// The packets of a proof.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    pub(super) packets: Vec<Packet>,
    /// How many there would be with every combination of addresses, ports and flags.
    pub(super) possible: u64,
}

/// The packets: of each port of a service or a client those that matter most, and then as many others as there is time
/// for. Each has a connection of its own where the mode tracks, so that no packet belongs to an earlier one.
pub(super) fn packets(policy: &Policy, cables: &[Cable], with_fragments: bool) -> Probes {
    let mut all = Vec::new();
    let mut grids = Vec::new();
    for cable in cables {
        for family in FAMILIES {
            let peers = peers(policy, cable.ground, family);
            of_lines(policy, cable, family, &mut all);
            of_texts(policy, cable, family, &mut all);
            of_icmp(cable, family, &peers, &mut all);
            for peer in &peers {
                all.push(packet(Direction::In, cable, *peer, Content::Other(GRE)));
                // If this host sends everything, what comes back is an answer.
                if !policy.send_all {
                    all.push(packet(Direction::Out, cable, *peer, Content::Other(GRE)));
                }
                if with_fragments && family == Family::V6 {
                    all.push(packet(Direction::In, cable, *peer, Content::LaterFragment));
                }
            }
            grids.push(Grid { cable, peers, own: own_ports(policy), theirs: peer_ports(policy) });
        }
    }
    let combinations: u64 = grids.iter().map(Grid::combinations).sum();
    let possible = all.len() as u64 + combinations;
    for grid in &grids {
        all.extend(grid.sample(PROBES_MAX * grid.combinations() / combinations.max(1)));
    }
    if policy.mode != Mode::Stateless {
        let mut connections = HashSet::new();
        all.retain(|packet| match packet.content {
            Content::Tcp { from, to, .. } | Content::Udp { from, to } => {
                let is_in = packet.direction == Direction::In;
                connections.insert((packet.peer(), if is_in { (to, from) } else { (from, to) }))
            }
            _ => true,
        });
    }
    Probes { packets: all, possible }
}

/// Every combination of addresses, ports and flags on a cable.
struct Grid<'a> {
    cable: &'a Cable,
    peers: Vec<IpAddr>,
    own: Vec<u16>,
    theirs: Vec<u16>,
}

/// A step that visits the combinations of a grid in an order without a pattern: a prime, and no grid is a multiple of it.
const STEP: u64 = 2_654_435_761;

impl Grid<'_> {
    /// How many there are: the other side has each of its ports or a free one, and a packet of TCP any of the flags.
    fn combinations(&self) -> u64 {
        (self.peers.len() * self.own.len() * (self.theirs.len() + 1) * 2 * (FLAGS.len() + 1)) as u64
    }

    /// So many of them.
    fn sample(&self, wanted: u64) -> impl Iterator<Item = Packet> {
        let all = self.combinations();
        (0..wanted.min(all)).map(move |n| self.at(n.wrapping_mul(STEP) % all, n))
    }

    /// The combination of a number. A free port is that of its turn.
    fn at(&self, number: u64, turn: u64) -> Packet {
        let mut rest = usize::try_from(number).unwrap_or(0);
        let mut digit = |base: usize| {
            let digit = rest % base;
            rest /= base;
            digit
        };
        let flags = FLAGS.get(digit(FLAGS.len() + 1));
        let direction = [Direction::In, Direction::Out][digit(2)];
        let free = FREE + u16::try_from(turn % u64::from(u16::MAX - FREE)).unwrap_or(0);
        let their = self.theirs.get(digit(self.theirs.len() + 1)).copied().unwrap_or(free);
        let (own, peer) = (self.own[digit(self.own.len())], self.peers[digit(self.peers.len())]);
        packet(direction, self.cable, peer, content(direction, own, their, flags.copied()))
    }
}

/// TCP with these flags, or UDP, between a port of the host and one of the other side.
fn content(direction: Direction, own: u16, their: u16, flags: Option<Flags>) -> Content {
    let (from, to) = if direction == Direction::In { (their, own) } else { (own, their) };
    match flags {
        Some(flags) => Content::Tcp { from, to, flags },
        None => Content::Udp { from, to },
    }
}

/// For each port of a service or a client: a beginning, an answer and a datagram, from a stranger and from the ends of
/// its addresses, where it counts and elsewhere.
fn of_lines(policy: &Policy, cable: &Cable, family: Family, all: &mut Vec<Packet>) {
    let services = policy.services.iter().map(|one| (Direction::In, &one.ports, &one.from, &one.interface));
    let clients = policy.clients.iter().map(|one| (Direction::Out, &one.ports, &one.to, &one.interface));
    let mut free = FREE;
    for (direction, ports, addresses, interface) in services.chain(clients) {
        // Of the interfaces at which a line does not count, the first is enough.
        let is_here = interface.as_ref().is_none_or(|name| *name == cable.interface);
        if !is_here && cable.interface != super::network::PLAIN {
            continue;
        }
        let mut peers = edges(policy, cable.ground, addresses, family);
        peers.push(stranger(policy, cable.ground, family));
        for port in distinct(ends(ports)) {
            for peer in &peers {
                for flags in [Some(Flags::SYN), Some(Flags::ACK), None] {
                    free = if free < u16::MAX { free + 1 } else { FREE };
                    let (own, their) = if direction == Direction::In { (port, free) } else { (free, port) };
                    all.push(packet(direction, cable, *peer, content(direction, own, their, flags)));
                }
            }
        }
    }
}

/// Datagrams with the text that a service denies: alone, behind and before others, a byte too early or too late, and cut.
fn of_texts(policy: &Policy, cable: &Cable, family: Family, all: &mut Vec<Packet>) {
    let denying = policy.services.iter().filter_map(|service| Some((service, service.deny_text.as_ref()?)));
    let mut free = FREE - 1;
    for (service, denied) in denying {
        let is_here = service.interface.as_ref().is_none_or(|name| *name == cable.interface);
        if !is_here && cable.interface != super::network::PLAIN {
            continue;
        }
        let text = denied.text.as_bytes();
        let at = usize::from(denied.at.unwrap_or(0));
        // What stands before it is no byte of it, so that it is nowhere else.
        let other = (0..=u8::MAX).find(|byte| !text.contains(byte)).unwrap_or(0);
        let texts =
            [at, at + 1, at.saturating_sub(1)].map(|before| [vec![other; before].as_slice(), text, &[other]].concat());
        let cut = [vec![other; at], text[1..].to_vec()].concat();
        let mut peers = edges(policy, cable.ground, &service.from, family);
        peers.push(stranger(policy, cable.ground, family));
        peers.extend(edges(policy, cable.ground, &policy.allow, family));
        for port in distinct(service.ports.udp.iter().flat_map(|(first, last)| [*first, *last])) {
            for peer in &peers {
                for text in texts.iter().chain([&cut]) {
                    // Ports that no other packet comes from, because tracking would know the connection.
                    free = if free > FREE / 2 { free - 1 } else { FREE - 1 };
                    let content = Content::Udp { from: free, to: port };
                    all.push(Packet { text: text.clone(), ..packet(Direction::In, cable, *peer, content) });
                }
            }
        }
    }
}

pub(super) fn packet(direction: Direction, cable: &Cable, peer: IpAddr, content: Content) -> Packet {
    let is_of_neighbour = matches!(content, Content::Icmp { is_of_neighbour: true, .. });
    let family = Family::of(peer);
    let (host, peer) = (cable.host(family), if is_of_neighbour { cable.router(family) } else { peer });
    let (source, destination) = if direction == Direction::In { (peer, host) } else { (host, peer) };
    let text = if matches!(content, Content::Udp { .. }) { Packet::USUAL_TEXT.to_vec() } else { Vec::new() };
    Packet { direction, interface: cable.interface.clone(), source, destination, content, text, is_established: false }
}

fn of_icmp(cable: &Cable, family: Family, peers: &[IpAddr], all: &mut Vec<Packet>) {
    let kinds: Vec<u8> = if family == Family::V4 { (0..=18).collect() } else { (1..=4).chain(128..=143).collect() };
    for peer in peers {
        for kind in &kinds {
            all.push(packet(Direction::In, cable, *peer, Content::Icmp { kind: *kind, is_of_neighbour: false }));
        }
        all.push(packet(Direction::Out, cable, *peer, Content::Icmp { kind: kinds[0], is_of_neighbour: false }));
    }
    if let (Some(peer), Family::V6) = (peers.first(), family) {
        for kind in kinds {
            all.push(packet(Direction::In, cable, *peer, Content::Icmp { kind, is_of_neighbour: true }));
        }
    }
}

/// Every group of addresses that a policy names.
fn groups(policy: &Policy) -> impl Iterator<Item = &Addresses> {
    let services = policy.services.iter().map(|service| &service.from);
    let clients = policy.clients.iter().map(|client| &client.to);
    services.chain(clients).chain([&policy.allow, &policy.deny])
}

fn ranges<'a>(policy: &'a Policy, addresses: &'a Addresses, family: Family) -> impl Iterator<Item = &'a Range> {
    let lists = addresses.lists.iter().filter_map(|list| policy.lists.get(list));
    lists.chain([&addresses.ranges]).flatten().filter(move |range| range.family == family)
}

/// An address that the policy does not name, or at least one that it does not deny. Usually it is one for examples.
fn stranger(policy: &Policy, ground: Ground, family: Family) -> IpAddr {
    let usual: IpAddr = match family {
        Family::V4 => [203, 0, 113, 77].into(),
        Family::V6 => [0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0x77].into(),
    };
    let others = (1_u8..=223).map(move |first| match family {
        Family::V4 => IpAddr::from([first, 77, 113, 77]),
        Family::V6 => [0x2000 + u16::from(first), 0xdb8, 0xffff, 0, 0, 0, 0, 0x77].into(),
    });
    let all = || std::iter::once(usual).chain(others.clone()).filter(move |one| is_routed(*one, ground));
    let is_named = |one: &IpAddr| groups(policy).any(|group| !group.is_all && policy.has(group, *one));
    all().find(|one| !is_named(one)).or_else(|| all().find(|one| !policy.has(&policy.deny, *one))).unwrap_or(usual)
}

/// The ends of some ranges of these addresses, and their neighbours.
fn edges(policy: &Policy, ground: Ground, addresses: &Addresses, family: Family) -> Vec<IpAddr> {
    let of = |range: &Range| {
        let (before, after) = (range.start.checked_sub(1), range.end.checked_add(1));
        let ends = [Some(range.start), Some(range.end), before, after.filter(|after| *after <= family.last())];
        ends.into_iter().flatten().map(|number| family.address(number)).collect::<Vec<_>>()
    };
    let all = ranges(policy, addresses, family).take(SAMPLE_RANGES).flat_map(of);
    all.filter(|address| is_routed(*address, ground)).collect()
}

/// A stranger, and addresses at the ends of the policy's ranges.
pub(super) fn peers(policy: &Policy, ground: Ground, family: Family) -> Vec<IpAddr> {
    let edges = groups(policy).flat_map(|addresses| edges(policy, ground, addresses, family));
    let mut seen = HashSet::new();
    std::iter::once(stranger(policy, ground, family)).chain(edges).filter(|peer| seen.insert(*peer)).collect()
}

fn ends(ports: &Ports) -> impl Iterator<Item = u16> {
    ports.tcp.iter().chain(&ports.udp).flat_map(|(first, last)| [*first, *last])
}

fn distinct(ports: impl Iterator<Item = u16>) -> Vec<u16> {
    ports.collect::<BTreeSet<_>>().into_iter().collect()
}

fn own_ports(policy: &Policy) -> Vec<u16> {
    let of_services = policy.services.iter().flat_map(|service| ends(&service.ports));
    let of_clients = policy.clients.iter().flat_map(|client| client.own_ports.iter().map(|ports| ports.0));
    distinct(of_services.chain(of_clients).chain(OTHER_PORTS))
}

fn peer_ports(policy: &Policy) -> Vec<u16> {
    distinct(policy.clients.iter().flat_map(|client| ends(&client.ports)).chain([53]))
}

/// Packets that a limit lets through until it is reached.
#[derive(Debug, Clone)]
pub(super) struct Limited {
    /// The line of the limit.
    pub(super) line: String,
    pub(super) packets: Vec<Packet>,
    pub(super) burst: u32,
    pub(super) per_second: f64,
}

/// More packets from one source than the first limit of a policy lets through at once. `None`: there is no limit.
pub(super) fn limited(policy: &Policy, cable: &Cable) -> Option<Limited> {
    let limits = policy.services.iter().filter_map(|service| Some((service, service.limit.as_ref()?)));
    limits.into_iter().find_map(|(service, limit)| {
        let is_tcp = !service.ports.tcp.is_empty();
        let port = ends(&service.ports).next()?;
        let content = |from| match is_tcp {
            true => Content::Tcp { from, to: port, flags: Flags::SYN },
            false => Content::Udp { from, to: port },
        };
        let is_fit = |peer: &IpAddr| {
            let is_accepted = meaning(policy, &packet(Direction::In, cable, *peer, content(FREE))).accepts;
            is_accepted && !policy.has(&policy.allow, *peer)
        };
        let peer = FAMILIES.into_iter().flat_map(|family| peers(policy, cable.ground, family)).find(is_fit)?;
        let count = (2 * limit.burst + MORE_THAN_BURST).min(LIMITED_MAX);
        // Each connection of TCP has a port of its own. Datagrams come from one, and the first of them gets an answer: after
        // that, tracking knows them all.
        let ports = (0..count).map(|n| FREE + if is_tcp { u16::try_from(n).unwrap_or(0) } else { 0 });
        let mut packets: Vec<Packet> = ports.map(|from| packet(Direction::In, cable, peer, content(from))).collect();
        if !is_tcp {
            packets.insert(1, packet(Direction::Out, cable, peer, Content::Udp { from: port, to: FREE }));
        }
        let per_second = f64::from(limit.count) / f64::from(limit.unit.seconds());
        Some(Limited { line: format!("services.{}.limit", service.name), packets, burst: limit.burst, per_second })
    })
}

/// The conversations, which must succeed.
pub(super) fn talks(policy: &Policy, cable: &Cable) -> Vec<Talk> {
    let mut talks = Vec::new();
    for family in FAMILIES {
        let loopback: IpAddr =
            if family == Family::V4 { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() };
        talks.push(Talk::Loopback(SocketAddr::new(loopback, 5_432)));
        talks.extend(large(policy, cable, family));
        talks.extend(fragments(policy, cable, family));
    }
    talks
}

/// Addresses of the client that conversations use.
pub(super) fn talking(talks: &[Talk]) -> Vec<IpAddr> {
    let addresses = talks.iter().filter_map(|talk| match talk {
        Talk::Loopback(_) => None,
        Talk::Large { client, .. } | Talk::Fragments { client, .. } => Some(client.ip()),
    });
    let mut seen = HashSet::new();
    addresses.filter(|address| seen.insert(*address)).collect()
}

/// The first packet of a conversation that a line accepts: its peer and its port.
fn accepted<'a>(
    policy: &Policy,
    cable: &Cable,
    family: Family,
    mut ports: impl Iterator<Item = &'a (u16, u16)>,
    content: impl Fn(u16) -> (Direction, Content),
) -> Option<(IpAddr, u16)> {
    let peers = peers(policy, cable.ground, family);
    ports.find_map(|(port, _)| {
        let (direction, content) = content(*port);
        let is_fit = |peer: &&IpAddr| {
            !denies(policy, **peer) && meaning(policy, &packet(direction, cable, **peer, content)).accepts
        };
        peers.iter().find(is_fit).map(|peer| (*peer, *port))
    })
}

/// Whether nothing from an address comes in. It gets questions, but its answers do not arrive.
fn denies(policy: &Policy, address: IpAddr) -> bool {
    policy.has(&policy.deny, address) && !policy.has(&policy.allow, address)
}

/// `None` also if the policy denies the router, which says that a packet is too large.
fn large(policy: &Policy, cable: &Cable, family: Family) -> Option<Talk> {
    if denies(policy, cable.router(family)) {
        return None;
    }
    let host = cable.host(family);
    let begins = |from, to| Content::Tcp { from, to, flags: Flags::SYN };
    let services = policy.services.iter().flat_map(|service| &service.ports.tcp);
    let served = accepted(policy, cable, family, services, |port| (Direction::In, begins(FREE, port)));
    if let Some((peer, port)) = served {
        let (host, client) = (SocketAddr::new(host, port), SocketAddr::new(peer, 0));
        return Some(Talk::Large { host, client, is_served: true });
    }
    let servers = policy.clients.iter().flat_map(|client| &client.ports.tcp);
    let (peer, port) = accepted(policy, cable, family, servers, |port| (Direction::Out, begins(FREE, port)))?;
    let (host, client) = (SocketAddr::new(host, 0), SocketAddr::new(peer, port));
    Some(Talk::Large { host, client, is_served: false })
}

/// An answer in fragments where answers need no tracking, else a request.
fn fragments(policy: &Policy, cable: &Cable, family: Family) -> Option<Talk> {
    let host = cable.host(family);
    let arrives = |from, to| (Direction::In, Content::Udp { from, to });
    let servers = policy.clients.iter().flat_map(|client| &client.ports.udp);
    if let Some((peer, port)) = accepted(policy, cable, family, servers, |port| arrives(port, FREE)) {
        return Some(Talk::Fragments { client: SocketAddr::new(peer, port), host: SocketAddr::new(host, FREE) });
    }
    // Its bytes could be a text that the service denies.
    let services = policy.services.iter().filter(|service| service.deny_text.is_none());
    let services = services.flat_map(|service| &service.ports.udp);
    let (peer, port) = accepted(policy, cable, family, services, |port| arrives(FREE, port))?;
    Some(Talk::Fragments { client: SocketAddr::new(peer, FREE), host: SocketAddr::new(host, port) })
}

/// Whether an address can be the source of a packet that a router forwards. Those of the proof's own networks cannot.
fn is_routed(address: IpAddr, ground: Ground) -> bool {
    let is_usual = match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            !matches!((first, second), (0 | 127 | 224.., _) | (169, 254))
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            !(first < 0x100 || first & 0xffc0 == 0xfe80 || first >= 0xff00)
        }
    };
    is_usual && !ground.has(address)
}
