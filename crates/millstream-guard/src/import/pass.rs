//! One pass over the rules for packets of a family and direction: what each rule says in the words of a policy.
//!
//! One thing always holds: a policy accepts no packet that the rules drop, but for what every policy accepts. So a rule that may
//! drop and cannot be said takes away the later rules that accept some of the same packets.

use super::LeftOut;
use super::region::{Region, icmp_of};
use super::ruleset::{ALL_STATES, Chain, Does, ESTABLISHED, NEW, OTHER, RELATED, Rule, TCP, Test, UDP};
use super::spans::Spans;
use crate::limits::{IMPORTED_PIECES_MAX, INTERFACE_BYTES_MAX, RATE_MAX};
use crate::policy::{Direction, Limit, Packet};
use millstream_model::range::Family;

/// Ports that a policy can name.
const PORTS: (u128, u128) = (1, 0xffff);

/// Types of ICMP that every policy accepts, by family.
const ERRORS: [&[u128]; 2] = [&[3, 11, 12], &[1, 2, 3, 4, 130, 134, 135, 136]];

/// The request of echo, by family.
const ECHO: [u128; 2] = [8, 128];

/// The ports of servers and clients of DHCP, by family.
const DHCP: [(u128, u128); 2] = [(67, 68), (547, 546)];

/// A service or a client.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) tcp: Spans,
    pub(super) udp: Spans,
    /// Ports of this host that ask.
    pub(super) own_ports: Spans,
    /// Addresses of the other side, by family.
    pub(super) peers: [Spans; 2],
    pub(super) interface: Option<String>,
    pub(super) limit: Option<Limit>,
    /// The rule that drops what is beyond the limit, if it is another one.
    pub(super) beyond: Option<Rule>,
    /// The rules that say so.
    pub(super) rules: Vec<Rule>,
}

impl Entry {
    /// Whether both are alike but for ports and addresses of the other side.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (&self.own_ports, &self.interface, &self.limit) == (&other.own_ports, &other.interface, &other.limit)
    }

    /// Whether a packet may be for both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let is_apart = self.interface.is_some() && other.interface.is_some() && self.interface != other.interface;
        let ports = self.tcp.meets(&other.tcp) || self.udp.meets(&other.udp);
        !is_apart && ports && self.meets_peers(other)
    }

    /// Whether some address may use both.
    pub(super) fn meets_peers(&self, other: &Self) -> bool {
        self.peers.iter().zip(&other.peers).any(|(ours, theirs)| ours.meets(theirs))
    }
}

/// The rules of a pass, to be asked about packets.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) direction: Direction,
    pub(super) family: Family,
    steps: Vec<(Region, Does)>,
    accepts: bool,
}

impl Path {
    /// Whether the rules accept the first packet that they see of a connection. `None`: a rule decides that is not known.
    pub(super) fn accepts(&self, packet: &Packet) -> Option<bool> {
        let decides =
            |(region, does): &&(Region, Does)| !matches!(does, Does::Log | Does::Nothing) && region.has(packet);
        match self.steps.iter().find(decides) {
            None => Some(self.accepts),
            Some((region, _)) if !region.unknown.is_empty() => None,
            Some((_, Does::Accept)) => Some(true),
            Some((_, Does::Drop { .. })) => Some(false),
            Some(_) => None,
        }
    }
}

/// What the rules say about packets of a family and direction.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) entries: Vec<Entry>,
    pub(super) dhcp: Spans,
    pub(super) deny: Spans,
    /// The rule that accepts requests of echo from everybody.
    pub(super) echo: Option<Rule>,
    /// The rule that lets this host send everything.
    pub(super) sends_all: Option<Rule>,
    /// Whether packets of accepted connections are accepted.
    pub(super) follows: bool,
    pub(super) logs: bool,
    /// A rule that drops answers to what this host asks, before those of known connections are accepted.
    pub(super) cuts: Option<String>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) path: Path,
    /// A rule that logs, until it is known whether others accept after it.
    logging: Option<Rule>,
    /// Rules that may drop and were left out.
    blockers: Vec<(Region, String)>,
    drops: Vec<(Region, String)>,
    /// Limits beyond which is dropped.
    limits: Vec<(Region, Limit, Rule)>,
    /// What is accepted up to a limit.
    limited: Vec<(Region, String)>,
    /// Whether a rule has decided about everything.
    is_over: bool,
}

impl Pass {
    fn new(direction: Direction, family: Family, accepts: bool) -> Self {
        Self {
            entries: Vec::new(),
            dhcp: Spans::default(),
            deny: Spans::default(),
            echo: None,
            sends_all: None,
            follows: false,
            logs: false,
            cuts: None,
            left_out: Vec::new(),
            path: Path { direction, family, steps: Vec::new(), accepts },
            logging: None,
            blockers: Vec::new(),
            drops: Vec::new(),
            limits: Vec::new(),
            limited: Vec::new(),
            is_over: false,
        }
    }

    /// No rules, which accept everything.
    pub(super) fn open(direction: Direction, family: Family) -> Self {
        let mut pass = Self::new(direction, family, true);
        let text = "no chain filters what this host sends".to_owned();
        pass.sends_all = Some(Rule { place: String::new(), text, tests: Vec::new(), does: Does::Accept });
        pass
    }

    /// The rules of a chain, with those that it jumps to.
    pub(super) fn over(chain: &Chain, rules: Vec<Rule>, direction: Direction, family: Family) -> Self {
        let accepts = chain.base.as_ref().is_some_and(|base| base.accepts);
        let mut pass = Self::new(direction, family, accepts);
        for rule in rules {
            pass.rule(rule);
        }
        if accepts && !pass.is_over {
            let text = format!("the chain {} accepts what no rule decides", chain.name);
            pass.rule(Rule { place: chain.place.clone(), text, tests: Vec::new(), does: Does::Accept });
        }
        if let Some(rule) = pass.logging.take() {
            let asked: Vec<Test> = rule.tests.iter().filter(|test| !matches!(test, Test::Pace)).cloned().collect();
            if direction == Direction::In && Region::of(&asked, family, direction).is_everything() {
                pass.logs = true;
            } else if direction == Direction::In {
                pass.leave_out(&rule, "a policy logs all that no line accepts, or nothing");
            }
        }
        pass
    }

    fn leave_out(&mut self, rule: &Rule, why: &str) {
        self.left_out.push(LeftOut::of(rule, why));
    }

    fn rule(&mut self, rule: Rule) {
        let Path { direction, family, .. } = self.path;
        let region = Region::of(&rule.tests, family, direction);
        if region.is_empty() || self.is_over {
            return;
        }
        self.path.steps.push((region.clone(), rule.does.clone()));
        match &rule.does {
            Does::Nothing => {}
            Does::Log => {
                if let Some(before) = self.logging.replace(rule.clone()) {
                    self.leave_out(&before, "a policy logs once, what no line accepts");
                }
            }
            Does::Accept => self.accept(&rule, &region),
            Does::Drop { is_answered } => self.drop(&rule, region, *is_answered),
            Does::Unknown(why) if region.unknown.is_empty() => self.block(&rule, region, why),
            Does::Unknown(_) => {
                let why = region.unknown.join("; ");
                self.block(&rule, region, &why);
            }
            Does::Return | Does::Jump(_) => self.block(&rule, region, "it leaves the chain"),
        }
    }

    /// Leaves out a rule that may drop.
    fn block(&mut self, rule: &Rule, region: Region, why: &str) {
        self.leave_out(rule, why);
        if region.may_begin() {
            self.blockers.push((region, rule.place.clone()));
        }
    }

    fn drop(&mut self, rule: &Rule, region: Region, is_answered: bool) {
        if !region.may_begin() {
            if !self.follows && region.may_belong() {
                self.leave_out(rule, "it drops packets of connections that are known");
            }
            return;
        }
        if !region.unknown.is_empty() {
            let why = region.unknown.join("; ");
            return self.block(rule, region, &why);
        }
        if let Some((limit, is_over)) = region.limit.clone() {
            if !is_over || !self.counts(&region) {
                return self.block(rule, region, "its limit counts other packets than that of a policy");
            }
            return self.limits.push((region, limit, rule.clone()));
        }
        if is_answered {
            self.leave_out(rule, "only its answer: a policy drops without one");
        }
        let is_first = self.entries.is_empty() && !self.follows && self.limited.is_empty();
        if region.is_everything() {
            self.is_over = true;
        } else if self.path.direction == Direction::In && region.is_of_peers_alone() && is_first {
            self.deny = self.deny.or(&region.peers);
        } else {
            if !self.follows && self.path.direction == Direction::In && region.may_answer() {
                self.cuts.get_or_insert_with(|| rule.place.clone());
            }
            // Thousands of rules that each drop one address cost no more than one that drops them all.
            match self.drops.last_mut().filter(|(before, _)| before.is_beside(&region)) {
                Some((before, _)) => before.peers = before.peers.or(&region.peers),
                None => self.drops.push((region, rule.place.clone())),
            }
        }
    }

    /// Whether a limit of these packets counts as that of a policy does: what begins connections of TCP, and all datagrams.
    fn counts(&self, region: &Region) -> bool {
        match region.protocols {
            TCP => region.only_begins() || region.states & ESTABLISHED == 0 || self.follows,
            UDP => region.states & ESTABLISHED != 0 && !self.follows,
            _ => false,
        }
    }

    fn accept(&mut self, rule: &Rule, region: &Region) {
        if let Some(before) = self.logging.take() {
            self.leave_out(&before, "a policy logs only what no line accepts");
        }
        if region.states & NEW == 0 {
            return self.follow(rule, region);
        }
        let pieces = match self.remaining(region) {
            Ok(pieces) => pieces,
            Err(why) => return self.leave_out(rule, &why),
        };
        if region.interface.as_deref() == Some("lo") {
            return;
        }
        let is_in = self.path.direction == Direction::In;
        if region.is_everything() {
            self.is_over = true;
            if is_in {
                return self.leave_out(rule, "a policy drops what no line accepts");
            }
            if let [piece] = pieces.as_slice()
                && piece.is_everything()
            {
                self.sends_all = Some(rule.clone());
                return;
            }
        }
        let mut rest = Vec::new();
        for piece in &pieces {
            self.say(rule, piece, &mut rest);
        }
        if region.limit.is_some() {
            self.limited.push((region.clone(), rule.place.clone()));
        }
        rest.sort();
        rest.dedup();
        if !rest.is_empty() {
            let why = format!("a policy cannot say it about {}", rest.join(", "));
            self.leave_out(rule, &why);
        }
    }

    /// What is left of the packets of a rule that accepts, after all rules before it that drop.
    fn remaining(&self, region: &Region) -> Result<Vec<Region>, String> {
        if !region.unknown.is_empty() {
            return Err(region.unknown.join("; "));
        }
        if region.limit.as_ref().is_some_and(|(_, is_over)| *is_over) {
            return Err("it accepts what is beyond a limit".to_owned());
        }
        let before =
            |all: &[(Region, String)]| all.iter().find(|(one, _)| one.overlaps(region)).map(|(_, place)| place.clone());
        if let Some(place) = before(&self.blockers) {
            return Err(format!("{place} may drop some of these packets before, and was left out"));
        }
        if let Some(place) = before(&self.limited) {
            return Err(format!("{place} accepts some of these packets up to a limit"));
        }
        let mut pieces = vec![region.clone()];
        for (drop, place) in &self.drops {
            let mut left = Vec::new();
            for piece in &pieces {
                let of_piece = piece.without(drop);
                left.extend(
                    of_piece
                        .ok_or_else(|| format!("{place} drops some of these packets before, by their interface"))?,
                );
            }
            pieces = left;
            if pieces.len() > IMPORTED_PIECES_MAX {
                return Err("too many rules before it drop some of these packets".to_owned());
            }
        }
        Ok(pieces)
    }

    /// A rule that accepts only packets of known connections.
    fn follow(&mut self, rule: &Rule, region: &Region) {
        if !region.unknown.is_empty() {
            let why = region.unknown.join("; ");
            return self.leave_out(rule, &why);
        }
        if region.states & (ESTABLISHED | RELATED) == 0 {
            return self.leave_out(rule, "it accepts packets that tracking cannot make sense of, or does not track");
        }
        let wide = Region { states: ALL_STATES, ..region.clone() };
        // Those that accept some of these packets alone say less than the line of every policy, which accepts them all.
        self.follows |= wide.is_everything() && region.states & ESTABLISHED != 0;
    }

    /// Says what a policy has words for. The rest is added to the list.
    fn say(&mut self, rule: &Rule, piece: &Region, rest: &mut Vec<String>) {
        let family = self.path.family;
        if piece.protocols & OTHER != 0 {
            rest.push("protocols other than TCP, UDP and ICMP".to_owned());
        }
        // A policy lets a host send all of ICMP.
        if piece.protocols & icmp_of(family) != 0 && self.path.direction == Direction::In {
            let (errors, echo) = (ERRORS[family as usize], ECHO[family as usize]);
            let said = Spans::of(errors.iter().chain([&echo]).map(|kind| (*kind, *kind)));
            if !piece.icmp.without(&said).is_empty() {
                rest.push("types of ICMP other than echo requests and errors".to_owned());
            }
            let is_of_all = piece.is_of_all_peers() && !piece.is_of_neighbour && piece.limit.is_none();
            if piece.icmp.has(echo) && is_of_all {
                self.echo = Some(rule.clone());
            } else if piece.icmp.has(echo) {
                rest.push("echo requests of some senders alone, or up to a limit".to_owned());
            }
        }
        for protocol in [TCP, UDP] {
            if piece.protocols & protocol != 0
                && let Err(what) = self.say_ports(rule, &Region { protocols: protocol, ..piece.clone() })
            {
                rest.push(what);
            }
        }
    }

    fn say_ports(&mut self, rule: &Rule, piece: &Region) -> Result<(), String> {
        let is_in = self.path.direction == Direction::In;
        let family = self.path.family as usize;
        if !piece.may_begin() {
            return Err("packets of TCP that begin no connection".to_owned());
        }
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let is_word =
            |name: &&String| name.len() <= INTERFACE_BYTES_MAX && !name.starts_with('-') && name.bytes().all(is_plain);
        if let Some(name) = piece.interface.as_ref().filter(|name| !is_word(name)) {
            return Err(format!("the interface {name}"));
        }
        let all = Spans::of([PORTS]);
        let (ports, own_ports) = if is_in { (&piece.own_ports, &all) } else { (&piece.peer_ports, &piece.own_ports) };
        let (ports, own_ports) = (ports.and(&all), own_ports.and(&all));
        if ports.is_empty() || own_ports.is_empty() {
            return Ok(());
        }
        if is_in && !piece.has_all_peer_ports() {
            let (server, client) = DHCP[family];
            let is_dhcp = piece.protocols == UDP
                && piece.peer_ports == Spans::of([(server, server)])
                && ports == Spans::of([(client, client)])
                && piece.interface.is_none()
                && piece.limit.is_none();
            if is_dhcp {
                self.dhcp = self.dhcp.or(&piece.peers);
                return Ok(());
            }
            return Err("packets by the port of their sender".to_owned());
        }
        let (limit, beyond) = self.limit_of(piece)?.unzip();
        let mut peers = <[Spans; 2]>::default();
        peers[family] = piece.peers.clone();
        let (tcp, udp) = if piece.protocols == TCP { (ports, Spans::default()) } else { (Spans::default(), ports) };
        let interface = piece.interface.clone();
        let (beyond, rules) = (beyond.flatten(), vec![rule.clone()]);
        self.entries.push(Entry { tcp, udp, own_ports, peers, interface, limit, beyond, rules });
        Ok(())
    }

    /// The limit of what a service accepts, by its own rule or by one that drops what is beyond it, which is given, too.
    fn limit_of(&self, piece: &Region) -> Result<Option<(Limit, Option<Rule>)>, String> {
        let mut found = Vec::new();
        if let Some((limit, _)) = &piece.limit {
            if !self.counts(piece) {
                return Err("a limit that counts other packets than that of a policy".to_owned());
            }
            found.push((limit, None));
        }
        for (region, limit, rule) in self.limits.iter().filter(|(region, ..)| region.overlaps(piece)) {
            if !region.covers(piece) {
                return Err(format!("packets of which {} limits some", rule.place));
            }
            found.push((limit, Some(rule)));
        }
        match found.as_slice() {
            [] => Ok(None),
            [_] if self.path.direction == Direction::Out => Err("limits of what this host sends".to_owned()),
            [(one, beyond)] if is_valid(one) => Ok(Some(((*one).clone(), beyond.cloned()))),
            [_] => Err("such a limit".to_owned()),
            _ => Err("two limits".to_owned()),
        }
    }
}

/// Whether a policy may have such a limit.
fn is_valid(limit: &Limit) -> bool {
    let is_number = |number: u32| (1..=RATE_MAX).contains(&number);
    is_number(limit.count) && is_number(limit.burst) && (1..=32).contains(&limit.v4) && (1..=128).contains(&limit.v6)
}
