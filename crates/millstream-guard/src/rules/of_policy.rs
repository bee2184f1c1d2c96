//! The rules of a policy.

use super::set::{Set, name};
use super::{Action, Hook, Protocol, Rule, Rules, State, Test};
use crate::policy::{Addresses, Client, Mode, Policy, Ports, Service};
use millstream_model::range::{FAMILIES, Family, Range};
use std::collections::BTreeMap;

const ICMP: Family = Family::V4;
const ICMPV6: Family = Family::V6;

struct Writer<'a> {
    policy: &'a Policy,
    rules: Vec<Rule>,
    sets: BTreeMap<String, Set>,
}

pub(super) fn rules(policy: &Policy) -> Rules {
    let mut writer = Writer { policy, rules: Vec::new(), sets: BTreeMap::new() };
    writer.before_tracking();
    writer.arriving();
    writer.leaving();
    Rules { rules: writer.rules, sets: writer.sets, log: policy.log }
}

impl Writer<'_> {
    fn add(&mut self, hook: Hook, tests: Vec<Test>, action: Action, line: &str) {
        self.add_of(None, hook, tests, action, line);
    }

    fn add_of(&mut self, family: Option<Family>, hook: Hook, tests: Vec<Test>, action: Action, line: &str) {
        self.rules.push(Rule { hook, family, tests, action, line: line.to_owned() });
    }

    /// Packets of other hosts are tracked as before.
    fn before_tracking(&mut self) {
        let line = "no-tracking";
        match self.policy.mode {
            Mode::Stateless => {
                self.add(Hook::BeforeIn, vec![Test::ForUs], Action::Notrack, line);
                self.add(Hook::BeforeOut, Vec::new(), Action::Notrack, line);
            }
            Mode::Stateful => {}
            Mode::Hybrid => {
                for service in self.policy.services.iter().filter(|service| service.hot) {
                    for tests in protocols(None, &service.ports, false) {
                        let to_us = [vec![Test::ForUs], tests.clone()].concat();
                        self.add(Hook::BeforeIn, to_us, Action::Notrack, line);
                        self.add(Hook::BeforeOut, tests, Action::Notrack, line);
                    }
                }
            }
        }
    }

    fn arriving(&mut self) {
        let icmp = |types: &[u8]| vec![Test::Icmp(types.to_vec())];
        let is_stateless = self.policy.mode == Mode::Stateless;
        let hook = Hook::In;
        self.add(hook, vec![Test::Interface("lo".to_owned())], Action::Accept, "loopback");
        let of_neighbour = vec![Test::Icmp(vec![134, 135, 136]), Test::OfNeighbour];
        self.add_of(Some(ICMPV6), hook, of_neighbour, Action::Accept, "neighbour-discovery");
        self.add_of(Some(ICMPV6), hook, icmp(&[130]), Action::Accept, "multicast-listener");
        self.denied();
        if is_stateless {
            self.add_of(Some(Family::V6), hook, vec![Test::LaterFragment], Action::Accept, "fragments");
        }
        self.add_of(Some(ICMPV6), hook, icmp(&[2]), Action::Accept, "packet-too-big");
        self.add_of(Some(ICMP), hook, icmp(&[3]), Action::Accept, "destination-unreachable");
        self.add_of(Some(ICMPV6), hook, icmp(&[1]), Action::Accept, "destination-unreachable");
        self.add_of(Some(ICMP), hook, icmp(&[11, 12]), Action::Accept, "time-exceeded");
        self.add_of(Some(ICMPV6), hook, icmp(&[3, 4]), Action::Accept, "time-exceeded");
        self.denied_texts();
        if !is_stateless {
            self.tracked_datagrams();
            self.add(hook, vec![Test::State(State::Established)], Action::Accept, "established");
            self.add(hook, vec![Test::State(State::Invalid)], Action::Drop, "invalid");
        }
        if self.policy.ping {
            self.add_of(Some(ICMP), hook, icmp(&[8]), Action::Accept, "ping");
            self.add_of(Some(ICMPV6), hook, icmp(&[128]), Action::Accept, "ping");
        }
        if is_stateless {
            self.add_of(Some(ICMP), hook, icmp(&[0]), Action::Accept, "outgoing-icmp");
            self.add_of(Some(ICMPV6), hook, icmp(&[129]), Action::Accept, "outgoing-icmp");
        }
        self.add(hook, vec![Test::Protocol(Protocol::Tcp), Test::IllegalFlags], Action::Drop, "illegal-flags");
        for service in &self.policy.services {
            self.service(service, hook);
        }
        self.service_ports();
        for client in self.policy.clients.iter().filter(|client| is_stateless || client.asks_all) {
            self.client(client, hook);
        }
    }

    fn leaving(&mut self) {
        let hook = Hook::Out;
        self.add(hook, vec![Test::Interface("lo".to_owned())], Action::Accept, "loopback");
        self.add_of(Some(ICMP), hook, vec![Test::Icmp(Vec::new())], Action::Accept, "outgoing-icmp");
        self.add_of(Some(ICMPV6), hook, vec![Test::Icmp(Vec::new())], Action::Accept, "outgoing-icmp");
        if self.policy.mode != Mode::Stateless {
            self.add(hook, vec![Test::State(State::Established)], Action::Accept, "established");
        }
        if self.policy.send_all {
            return self.add(hook, Vec::new(), Action::Accept, "send-all");
        }
        for service in self.policy.services.iter().filter(|service| !self.policy.tracks(service)) {
            self.service(service, hook);
        }
        for client in &self.policy.clients {
            self.client(client, hook);
        }
    }

    /// The limits of datagrams whose connection is tracked: once one is answered, all further ones belong to it.
    fn tracked_datagrams(&mut self) {
        for service in self.policy.services.iter().filter(|service| self.policy.tracks(service)) {
            for tests in protocols(service.interface.as_deref(), &service.ports, false) {
                if tests.contains(&Test::Protocol(Protocol::Udp)) {
                    self.limit(service, &tests);
                }
            }
        }
    }

    /// Datagrams by their texts. They stand before what tracking knows: once one is answered, all further ones belong to it.
    fn denied_texts(&mut self) {
        for service in &self.policy.services {
            let Some(denied) = &service.deny_text else { continue };
            let line = format!("services.{}.text", service.name);
            for tests in protocols(service.interface.as_deref(), &service.ports, false) {
                if tests.contains(&Test::Protocol(Protocol::Udp)) {
                    self.drop_of(service, &tests, &line, |_| Test::Text(denied.clone()));
                }
            }
        }
    }

    /// What is denied for a time, and for good.
    fn denied(&mut self) {
        for family in FAMILIES {
            let timed = Set { family, ranges: Vec::new(), is_timed: true };
            self.sets.insert(name("denied", family), timed);
        }
        let allowed: Vec<(Family, String)> = self.sets_of("allow", &self.policy.allow);
        for (line, sets) in [
            ("denied", FAMILIES.map(|family| (family, name("denied", family))).to_vec()),
            ("deny", self.sets_of("deny", &self.policy.deny)),
        ] {
            for (family, set) in sets {
                let mut tests = vec![Test::Peer { set, is_in: true }];
                // Who denies an address for a time means it.
                if line == "deny" {
                    tests.extend(not_in(&allowed, family));
                }
                self.add_of(Some(family), Hook::In, tests, Action::Drop, line);
            }
        }
    }

    fn service(&mut self, service: &Service, hook: Hook) {
        let line = format!("services.{}", service.name);
        let is_in = hook == Hook::In;
        for mut all in protocols(service.interface.as_deref(), &service.ports, false) {
            let is_tcp = all.contains(&Test::Protocol(Protocol::Tcp));
            // The limits of tracked datagrams stand before the others.
            if is_in && (is_tcp || !self.policy.tracks(service)) {
                self.limit(service, &all);
            }
            match (is_tcp, is_in, self.policy.tracks(service)) {
                (true, true, true) => all.push(Test::Begins(true)),
                (true, false, false) => all.push(Test::Begins(false)),
                _ => {}
            }
            self.for_each_set(&line, &service.from, &all, hook);
        }
    }

    /// Drops what comes more often than a service lets it. `all`: the tests of the service's packets.
    fn limit(&mut self, service: &Service, all: &[Test]) {
        let Some(limit) = &service.limit else { return };
        let begins = all.contains(&Test::Protocol(Protocol::Tcp)).then_some(Test::Begins(true));
        let all: Vec<Test> = all.iter().cloned().chain(begins).collect();
        let over =
            |family| Test::Over { limit: limit.clone(), name: name(&format!("limits.{}", service.name), family) };
        self.drop_of(service, &all, &format!("services.{}.limit", service.name), over);
    }

    /// Drops packets of a service for which one more test holds, of all sources that it accepts but those that are allowed.
    fn drop_of(&mut self, service: &Service, all: &[Test], line: &str, last: impl Fn(Family) -> Test) {
        let allowed = self.sets_of("allow", &self.policy.allow);
        // Another service may have the same port for others, so only the sources of this one count.
        let sources: Vec<(Family, Option<String>)> = if service.from.is_all {
            FAMILIES.map(|family| (family, None)).to_vec()
        } else {
            let sets = self.sets_of(&format!("services.{}", service.name), &service.from);
            sets.into_iter().map(|(family, set)| (family, Some(set))).collect()
        };
        let mut counted = allowed;
        for (family, source) in sources {
            let mut tests = all.to_vec();
            tests.extend(not_in(&counted, family));
            if let Some(set) = source {
                // Who is in two sets counts once.
                counted.push((family, set.clone()));
                tests.push(Test::Peer { set, is_in: true });
            }
            tests.push(last(family));
            self.add_of(Some(family), Hook::In, tests, Action::Drop, line);
        }
    }

    fn client(&mut self, client: &Client, hook: Hook) {
        let line = format!("clients.{}", client.name);
        for mut all in protocols(client.interface.as_deref(), &client.ports, true) {
            let is_tcp = all.contains(&Test::Protocol(Protocol::Tcp));
            all.push(Test::Port { ports: client.own_ports.clone(), is_peer: false });
            if is_tcp && hook == Hook::In {
                all.push(Test::Begins(false));
            }
            self.for_each_set(&line, &client.to, &all, hook);
        }
    }

    /// A rule for all addresses, or one for each set of them.
    fn for_each_set(&mut self, line: &str, addresses: &Addresses, tests: &[Test], hook: Hook) {
        if addresses.is_all {
            return self.add(hook, tests.to_vec(), Action::Accept, line);
        }
        for (family, set) in self.sets_of(line, addresses) {
            let mut all = tests.to_vec();
            all.push(Test::Peer { set, is_in: true });
            self.add_of(Some(family), hook, all, Action::Accept, line);
        }
    }

    /// Nothing after this may accept what comes to a port of a service: not even what looks like an answer.
    fn service_ports(&mut self) {
        let services = || self.policy.services.iter();
        let tcp: Vec<(u16, u16)> = services().flat_map(|service| &service.ports.tcp).copied().collect();
        let udp: Vec<(u16, u16)> = services().flat_map(|service| &service.ports.udp).copied().collect();
        for (protocol, mut ports) in [(Protocol::Tcp, tcp), (Protocol::Udp, udp)] {
            ports.sort_unstable();
            let mut merged: Vec<(u16, u16)> = Vec::new();
            for (first, last) in ports {
                match merged.last_mut() {
                    Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                    _ => merged.push((first, last)),
                }
            }
            if !merged.is_empty() {
                let tests = vec![Test::Protocol(protocol), Test::Port { ports: merged, is_peer: false }];
                self.add(Hook::In, tests, Action::Drop, "service-ports");
            }
        }
    }

    /// The sets of these addresses, which are made if they are not there.
    fn sets_of(&mut self, line: &str, addresses: &Addresses) -> Vec<(Family, String)> {
        let lists = addresses.lists.iter().map(|list| (format!("lists.{list}"), &self.policy.lists[list]));
        let here = std::iter::once((line.to_owned(), &addresses.ranges));
        let mut found = Vec::new();
        for (what, ranges) in here.chain(lists) {
            for family in FAMILIES {
                let ranges: Vec<Range> = ranges.iter().filter(|range| range.family == family).copied().collect();
                if !ranges.is_empty() {
                    let name = name(&what, family);
                    self.sets.entry(name.clone()).or_insert(Set { family, ranges, is_timed: false });
                    found.push((family, name));
                }
            }
        }
        found
    }
}

/// The tests that an address of a family is in none of these sets.
fn not_in(sets: &[(Family, String)], family: Family) -> impl Iterator<Item = Test> {
    let of_family = sets.iter().filter(move |(one, _)| *one == family);
    of_family.map(|(_, set)| Test::Peer { set: set.clone(), is_in: false })
}

/// The tests of interface, protocol and port, for each protocol that has ports.
fn protocols(interface: Option<&str>, ports: &Ports, is_peer: bool) -> Vec<Vec<Test>> {
    let tests = |(protocol, ports): (Protocol, &Vec<(u16, u16)>)| {
        let interface = interface.map(|name| Test::Interface(name.to_owned()));
        let own = [Test::Protocol(protocol), Test::Port { ports: ports.clone(), is_peer }];
        interface.into_iter().chain(own).collect()
    };
    let each = [(Protocol::Tcp, &ports.tcp), (Protocol::Udp, &ports.udp)];
    each.into_iter().filter(|(_, ports)| !ports.is_empty()).map(tests).collect()
}
