//! The packets that a rule is about: a set that can be met, cut and asked.

use super::ruleset::{ALL_STATES, ESTABLISHED, ICMP, ICMPV6, INVALID, NEW, OTHER, TCP, Test, UDP, UNTRACKED};
use super::spans::Spans;
use crate::policy::{Content, Direction, Flags, Limit, Packet};
use millstream_model::range::{Family, Range, number};

const LAST_PORT: u128 = 0xffff;

/// The ports from which a host asks. Source: `ip_local_port_range` of Linux, at its default.
const ASKING_PORTS: (u128, u128) = (32_768, 60_999);

/// Packets of one family and direction.
#[derive(Debug, Clone)]
pub(super) struct Region {
    pub(super) family: Family,
    pub(super) protocols: u8,
    /// Addresses of the other side.
    pub(super) peers: Spans,
    /// Ports of this host, and of the other side.
    pub(super) own_ports: Spans,
    pub(super) peer_ports: Spans,
    pub(super) interface: Option<String>,
    pub(super) is_not_loopback: bool,
    /// Flags of TCP of which the bit is set.
    pub(super) flags: u64,
    /// Types of ICMP.
    pub(super) icmp: Spans,
    pub(super) states: u8,
    pub(super) is_of_neighbour: bool,
    /// A limit, and whether only what is beyond it counts.
    pub(super) limit: Option<(Limit, bool)>,
    /// Tests that are not known. The packets are some of these, and nobody knows which.
    pub(super) unknown: Vec<String>,
}

/// The bit of ICMP of a family.
pub(super) fn icmp_of(family: Family) -> u8 {
    match family {
        Family::V4 => ICMP,
        Family::V6 => ICMPV6,
    }
}

/// Whether only packets to addresses of the loopback device pass a test of what arrives.
fn is_for_loopback(test: &Test) -> bool {
    let is_local = |range: &Range| range.first().is_loopback() && range.last().is_loopback();
    matches!(test, Test::Address { is_source: false, ranges, is_not: false } if ranges.iter().all(is_local))
}

impl Region {
    /// The packets for which all of these tests hold.
    pub(super) fn of(tests: &[Test], family: Family, direction: Direction) -> Self {
        let mut region = Self {
            family,
            protocols: TCP | UDP | OTHER | icmp_of(family),
            peers: Spans::up_to(family.last()),
            own_ports: Spans::up_to(LAST_PORT),
            peer_ports: Spans::up_to(LAST_PORT),
            interface: None,
            is_not_loopback: false,
            flags: u64::MAX,
            icmp: Spans::up_to(u128::from(u8::MAX)),
            states: ALL_STATES,
            is_of_neighbour: false,
            limit: None,
            unknown: Vec::new(),
        };
        let is_in = direction == Direction::In;
        for test in tests {
            region.narrow(test, is_in);
        }
        // A policy asks how far a packet has come only where it must: for what neighbours say by ICMP.
        if region.is_of_neighbour && region.protocols & !ICMPV6 != 0 {
            region.unknown.push("it asks how many routers have forwarded a packet".to_owned());
        }
        // The kernel drops them itself, before any chain at this hook.
        if region.is_not_loopback && is_in && tests.iter().any(is_for_loopback) {
            region.protocols = 0;
        }
        region
    }

    fn narrow(&mut self, test: &Test, is_in: bool) {
        match test {
            Test::Interface { is_in: arrives, name, is_not } => self.interface(*arrives == is_in, name, *is_not),
            Test::Address { is_source, ranges, is_not } => {
                let own = ranges.iter().filter(|range| range.family == self.family);
                let all = Spans::up_to(self.family.last());
                let named = Spans::of(own.map(|range| (range.start, range.end)));
                let named = if *is_not { all.without(&named) } else { named };
                if *is_source == is_in {
                    self.peers = self.peers.and(&named);
                } else if !named.covers(&all) {
                    self.unknown.push("it asks for an address of this host".to_owned());
                }
            }
            Test::Family(family) if *family != self.family => self.protocols = 0,
            Test::Family(_) => {}
            Test::Protocols(bits) => self.protocols &= bits,
            Test::Ports { protocols, is_source, ports, is_not } => {
                self.protocols &= protocols;
                let named = Spans::of(ports.iter().map(|(first, last)| (u128::from(*first), u128::from(*last))));
                let named = if *is_not { Spans::up_to(LAST_PORT).without(&named) } else { named };
                let side = if *is_source == is_in { &mut self.peer_ports } else { &mut self.own_ports };
                *side = side.and(&named);
            }
            Test::Flags(flags) => {
                self.protocols &= TCP;
                self.flags &= flags;
            }
            Test::Icmp { family, .. } if *family != self.family => self.protocols = 0,
            Test::Icmp { types, is_not, .. } => {
                self.protocols &= icmp_of(self.family);
                let named = Spans::of(types.iter().map(|(first, last)| (u128::from(*first), u128::from(*last))));
                self.icmp = if *is_not { self.icmp.without(&named) } else { self.icmp.and(&named) };
            }
            Test::States(bits) => self.states &= bits,
            Test::OfNeighbour => self.is_of_neighbour = true,
            Test::Limit { .. } if self.limit.is_some() => self.unknown.push("it has two limits".to_owned()),
            Test::Limit { limit, is_over, .. } => self.limit = Some((limit.clone(), *is_over)),
            Test::Pace => self.unknown.push("its limit counts all sources together".to_owned()),
            Test::Never => self.protocols = 0,
            Test::Unknown(what) => self.unknown.push(what.clone()),
        }
    }

    fn interface(&mut self, is_this_side: bool, name: &str, is_not: bool) {
        if !is_this_side {
            self.unknown.push("it asks for an interface of the other direction".to_owned());
        } else if name.ends_with(['+', '*']) {
            self.unknown.push(format!("it asks for all interfaces that are called {name}"));
        } else if is_not && name == "lo" {
            self.is_not_loopback = true;
        } else if is_not {
            self.unknown.push(format!("it asks for all interfaces but {name}"));
        } else if self.interface.as_deref().is_some_and(|one| one != name) {
            self.protocols = 0;
        } else {
            self.interface = Some(name.to_owned());
        }
        if self.is_not_loopback && self.interface.as_deref() == Some("lo") {
            self.protocols = 0;
        }
    }

    fn meets_ports(&self) -> bool {
        !self.own_ports.is_empty() && !self.peer_ports.is_empty()
    }

    /// Whether there is no such packet.
    pub(super) fn is_empty(&self) -> bool {
        let of_protocol = |bit| match bit {
            TCP => self.meets_ports() && self.flags != 0,
            UDP => self.meets_ports(),
            OTHER => true,
            _ => !self.icmp.is_empty(),
        };
        let is_there = |bit: u8| self.protocols & bit != 0 && of_protocol(bit);
        self.peers.is_empty() || self.states == 0 || ![TCP, UDP, OTHER, icmp_of(self.family)].into_iter().any(is_there)
    }

    /// Whether these are all packets that do not come by the loopback device.
    pub(super) fn is_everything(&self) -> bool {
        let all = Self::of(&[], self.family, Direction::In);
        self.is_of_all_peers()
            && self.protocols == all.protocols
            && self.own_ports == all.own_ports
            && self.peer_ports == all.peer_ports
            && self.flags == all.flags
            && self.icmp == all.icmp
            && self.states == all.states
            && !self.is_of_neighbour
            && self.limit.is_none()
            && self.unknown.is_empty()
    }

    /// Whether they come from all addresses, by all interfaces.
    pub(super) fn is_of_all_peers(&self) -> bool {
        self.interface.is_none() && self.peers == Spans::up_to(self.family.last())
    }

    /// Whether only their addresses are asked for.
    pub(super) fn is_of_peers_alone(&self) -> bool {
        let wide = Self { peers: Spans::up_to(self.family.last()), ..self.clone() };
        wide.is_everything()
    }

    pub(super) fn has_all_peer_ports(&self) -> bool {
        self.peer_ports == Spans::up_to(LAST_PORT)
    }

    /// Whether all of them begin connections of TCP.
    pub(super) fn only_begins(&self) -> bool {
        (0..64).all(|bits| (self.flags >> bits) & 1 == 0 || Flags(bits).begins())
    }

    /// Whether a packet that begins a connection may be one of these. A policy lets in no other one that tracking does not
    /// know, so rules that drop others change nothing about it.
    pub(super) fn may_begin(&self) -> bool {
        let begins = (self.flags >> Flags::SYN.0) & 1 == 1;
        self.states & NEW != 0 && (self.protocols != TCP || begins)
    }

    /// Whether a packet of a known connection may be one of these.
    pub(super) fn may_belong(&self) -> bool {
        let is_legal = |bits: u8| (self.flags >> bits) & 1 == 1 && !Flags(bits).are_illegal();
        self.states & ESTABLISHED != 0 && (self.protocols != TCP || (0..64).any(is_legal))
    }

    /// Whether answers to what a host has asked may be among these: they come to any port from which it asks.
    pub(super) fn may_answer(&self) -> bool {
        self.protocols & (TCP | UDP) != 0 && self.may_belong() && self.own_ports.covers(&Spans::of([ASKING_PORTS]))
    }

    /// Whether a packet may be in both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let is_apart = self.interface.is_some() && other.interface.is_some() && self.interface != other.interface;
        let on_loopback = |region: &Self| region.interface.as_deref() == Some("lo");
        let is_apart =
            is_apart || (self.is_not_loopback && on_loopback(other)) || (other.is_not_loopback && on_loopback(self));
        let protocols = self.protocols & other.protocols;
        let have_ports = || self.own_ports.meets(&other.own_ports) && self.peer_ports.meets(&other.peer_ports);
        // Thousands of rules are asked about thousands, so nothing is copied here.
        let is_in_both = |bit: u8| match bit {
            TCP => self.flags & other.flags != 0 && have_ports(),
            UDP => have_ports(),
            OTHER => true,
            _ => self.icmp.meets(&other.icmp),
        };
        let all = [TCP, UDP, OTHER, icmp_of(self.family)];
        self.family == other.family
            && !is_apart
            && self.states & other.states != 0
            && self.peers.meets(&other.peers)
            && all.into_iter().any(|bit| protocols & bit != 0 && is_in_both(bit))
    }

    /// Whether both are alike but for the addresses of the other side.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (self.family, self.protocols, self.flags, self.states)
            == (other.family, other.protocols, other.flags, other.states)
            && (&self.own_ports, &self.peer_ports, &self.icmp) == (&other.own_ports, &other.peer_ports, &other.icmp)
            && (&self.interface, self.is_not_loopback, self.is_of_neighbour)
                == (&other.interface, other.is_not_loopback, other.is_of_neighbour)
            && (&self.limit, &self.unknown) == (&other.limit, &other.unknown)
    }

    /// Whether the other's addresses, ports and protocols are all in this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.protocols & !self.protocols == 0
            && self.peers.covers(&other.peers)
            && self.own_ports.covers(&other.own_ports)
            && self.peer_ports.covers(&other.peer_ports)
            && (self.interface.is_none() || self.interface == other.interface)
    }

    /// The packets that are not in the other one, as regions. `None`: a policy cannot tell them apart.
    pub(super) fn without(&self, other: &Self) -> Option<Vec<Self>> {
        if !self.overlaps(other) {
            return Some(vec![self.clone()]);
        }
        if other.interface.is_some() && self.interface.is_none() {
            return None;
        }
        let (mut pieces, mut rest) = (Vec::new(), self.clone());
        let outside = rest.protocols & !other.protocols;
        pieces.push(Self { protocols: outside, ..rest.clone() });
        rest.protocols &= other.protocols;
        pieces.push(Self { peers: rest.peers.without(&other.peers), ..rest.clone() });
        rest.peers = rest.peers.and(&other.peers);
        // Ports say nothing about packets that have none.
        let with_ports = rest.protocols & (TCP | UDP);
        let own_ports = rest.own_ports.without(&other.own_ports);
        pieces.push(Self { protocols: with_ports, own_ports, ..rest.clone() });
        rest.own_ports = rest.own_ports.and(&other.own_ports);
        let peer_ports = rest.peer_ports.without(&other.peer_ports);
        pieces.push(Self { protocols: with_ports, peer_ports, ..rest.clone() });
        let icmp = rest.icmp.without(&other.icmp);
        pieces.push(Self { protocols: rest.protocols & icmp_of(self.family), icmp, ..rest });
        pieces.retain(|piece| !piece.is_empty());
        Some(pieces)
    }

    /// Whether a packet that tracking does not know yet is one of these. Limits are not reached.
    pub(super) fn has(&self, packet: &Packet) -> bool {
        let is_in = packet.direction == Direction::In;
        let ports = |from: u16, to: u16| {
            let (own, peer) = if is_in { (to, from) } else { (from, to) };
            self.own_ports.has(u128::from(own)) && self.peer_ports.has(u128::from(peer))
        };
        let of_content = match packet.content {
            Content::Tcp { from, to, flags } => {
                self.protocols & TCP != 0 && ports(from, to) && (self.flags >> (flags.0 & 63)) & 1 == 1
            }
            Content::Udp { from, to } => self.protocols & UDP != 0 && ports(from, to),
            Content::Icmp { kind, is_of_neighbour } => {
                self.protocols & icmp_of(self.family) != 0
                    && self.icmp.has(u128::from(kind))
                    && (is_of_neighbour || !self.is_of_neighbour)
            }
            Content::LaterFragment => false,
            Content::Other(_) => self.protocols & OTHER != 0,
        };
        of_content
            && packet.family() == self.family
            && self.peers.has(number(packet.peer()))
            && self.interface.as_ref().is_none_or(|name| *name == packet.interface)
            && !(self.is_not_loopback && packet.interface == "lo")
            && self.states & tracked(packet) != 0
            && self.limit.as_ref().is_none_or(|(_, is_over)| !is_over)
    }
}

/// What tracking says of the first packet that it sees of a connection. Source: `nf_conntrack_proto_tcp.c` and
/// `nf_conntrack_proto_icmp.c` of Linux, with the setting `nf_conntrack_tcp_loose` at its default.
fn tracked(packet: &Packet) -> u8 {
    match (packet.family(), packet.content) {
        (_, Content::Tcp { flags, .. }) => {
            let is_valid = [0x02, 0x22, 0x10, 0x30].contains(&(flags.0 & !Flags::PSH.0));
            if is_valid { NEW } else { INVALID }
        }
        (Family::V4, Content::Icmp { kind: 8 | 13 | 15 | 17, .. }) | (Family::V6, Content::Icmp { kind: 128, .. }) => {
            NEW
        }
        (Family::V6, Content::Icmp { kind: 130..=137 | 143, .. }) => UNTRACKED,
        (_, Content::Icmp { .. }) => INVALID,
        _ => NEW,
    }
}
