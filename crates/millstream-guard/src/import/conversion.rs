//! What rules say in the words of a policy, and what no policy can say.

use super::LeftOut;
use super::pass::{Entry, Pass, Path};
use super::ruleset::{Does, Hook, Rule, Ruleset};
use super::spans::Spans;
use crate::policy::Direction;
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Family};
use std::collections::BTreeSet;

/// What a policy is written from.
#[derive(Debug, Default)]
pub(super) struct Conversion {
    pub(super) services: Vec<Entry>,
    pub(super) clients: Vec<Entry>,
    /// Servers of DHCP, by family: their answers come from addresses that were not asked.
    pub(super) dhcp: [Spans; 2],
    pub(super) deny: [Spans; 2],
    pub(super) pings: bool,
    pub(super) logs: bool,
    pub(super) sends_all: bool,
    /// The families about which the rules say something.
    pub(super) families: Vec<Family>,
    /// Whether the rules accept all packets of accepted connections, as every policy does.
    pub(super) follows: bool,
    pub(super) left_out: Vec<LeftOut>,
    /// What else must be known, as sentences.
    pub(super) remarks: Vec<String>,
    /// The rules, to be asked about packets.
    pub(super) paths: Vec<Path>,
}

impl Conversion {
    /// What these rules say.
    ///
    /// # Errors
    /// Nothing filters what comes in, two chains decide about the same packets, or there are too many rules.
    pub(super) fn of(rules: &Ruleset) -> Result<Self, Refusal> {
        let mut conversion = Self { follows: true, ..Self::default() };
        conversion.elsewhere(rules);
        let (mut services, mut clients, mut echoes, mut sending) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for family in FAMILIES {
            let Some(chain) = rules.deciding(&Hook::In, family)? else { continue };
            conversion.families.push(family);
            let arriving = Pass::over(chain, rules.flat(chain)?, Direction::In, family);
            services.extend(arriving.entries);
            echoes.push(arriving.echo);
            conversion.logs |= arriving.logs;
            conversion.follows &= arriving.follows;
            conversion.dhcp[family as usize] = arriving.dhcp;
            conversion.deny[family as usize] = arriving.deny;
            conversion.left_out.extend(arriving.left_out);
            if let Some(place) = arriving.cuts.filter(|_| arriving.follows) {
                conversion.remarks.push(format!(
                    "{place}: it also drops packets of connections that this host has begun, which the policy accepts"
                ));
            }
            conversion.paths.push(arriving.path);
            let leaving = match rules.deciding(&Hook::Out, family)? {
                Some(chain) => Pass::over(chain, rules.flat(chain)?, Direction::Out, family),
                // Without a chain, nothing stops what this host sends.
                None => Pass::open(Direction::Out, family),
            };
            clients.extend(leaving.entries);
            conversion.follows &= leaving.follows || leaving.sends_all.is_some();
            sending.push(leaving.sends_all);
            conversion.left_out.extend(leaving.left_out);
            conversion.paths.push(leaving.path);
        }
        if conversion.families.is_empty() {
            return Err(Refusal::new("no chain of these rules filters what comes in")
                .hint("there must be a chain INPUT of the table filter, or a chain of type filter at the hook input"));
        }
        conversion.pings = conversion.both(&echoes, "echo requests", "ping");
        conversion.sends_all = conversion.both(&sending, "everything that this host sends", "send_all");
        conversion.services = conversion.without_shared_limits(merged(services));
        conversion.shared_counts();
        conversion.clients = merged(clients);
        conversion.shared_counters(rules);
        let place = |one: &LeftOut| {
            let (file, line) = one.place.rsplit_once(':').unwrap_or((one.place.as_str(), ""));
            (file.to_owned(), line.parse::<usize>().unwrap_or(0), one.why.clone())
        };
        conversion.left_out.sort_by_key(place);
        conversion.left_out.dedup();
        Ok(conversion)
    }

    /// Rules that are asked where a policy has none.
    fn elsewhere(&mut self, rules: &Ruleset) {
        for chain in &rules.chains {
            let Some(base) = &chain.base else { continue };
            let Hook::Elsewhere { why, is_arriving } = &base.hook else { continue };
            let mut drops = None;
            for rule in &chain.rules {
                if matches!(rule.does, Does::Drop { .. } | Does::Jump(_)) {
                    drops = drops.or(Some(rule.place.as_str()));
                }
                self.left_out.push(LeftOut::of(rule, why));
            }
            if !base.accepts {
                drops = drops.or(Some(chain.place.as_str()));
            }
            if let Some(place) = drops.filter(|_| *is_arriving) {
                self.remarks.push(format!(
                    "{place}: the chain {} {} may drop packets that the policy lets in; keep its rules",
                    chain.table, chain.name
                ));
            }
        }
    }

    /// Whether the rules of all families say something for which a policy has one switch. Where only those of one do, they are
    /// left out.
    fn both(&mut self, said_by: &[Option<Rule>], what: &str, switch: &str) -> bool {
        let said: Vec<&Rule> = said_by.iter().flatten().collect();
        if said.len() < said_by.len() {
            let why = format!("the other family does not accept {what}, and {switch} of a policy is for both");
            self.left_out.extend(said.iter().map(|rule| LeftOut::of(rule, &why)));
        }
        !said.is_empty() && said.len() == said_by.len()
    }

    /// A rule that limits several services counts their packets together, and a policy those of each service alone.
    fn shared_counts(&mut self) {
        let why = "it counts the packets of several services together, and a policy those of each one alone";
        for (n, service) in self.services.iter().enumerate() {
            let Some(rule) = &service.beyond else { continue };
            let is_shared = |other: &Entry| {
                other.beyond.as_ref().is_some_and(|one| one.place == rule.place) && other.meets_peers(service)
            };
            if self.services[..n].iter().any(is_shared) {
                self.left_out.push(LeftOut::of(rule, why));
            }
        }
    }

    /// Rules of one counter count their packets together. Those that are left out are named already.
    fn shared_counters(&mut self, rules: &Ruleset) {
        let left_out: BTreeSet<String> = self.left_out.iter().map(|one| one.place.clone()).collect();
        for (rule, counter, other) in rules.sharing() {
            if !left_out.contains(&rule.place) {
                let why =
                    format!("it counts together with {other}, in {counter}; a policy counts for each service alone");
                self.left_out.push(LeftOut::of(rule, &why));
            }
        }
    }

    /// A service whose limit would also count packets that another one accepts without it cannot be said.
    fn without_shared_limits(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let is_shared = |n: usize| {
            let mut others = entries.iter().enumerate().filter(|(other, _)| *other != n);
            entries[n].limit.is_some() && others.any(|(_, other)| other.meets(&entries[n]))
        };
        let shared: Vec<bool> = (0..entries.len()).map(is_shared).collect();
        let why = "another rule accepts some of these packets without this limit";
        let mut kept = Vec::new();
        for (entry, is_shared) in entries.into_iter().zip(shared) {
            if is_shared {
                self.left_out.extend(entry.rules.iter().map(|rule| LeftOut::of(rule, why)));
            } else {
                kept.push(entry);
            }
        }
        kept
    }
}

/// Entries that differ in their addresses alone, or in the protocol of the same ports, become one.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let mut of_ports: Vec<Entry> = Vec::new();
    for entry in entries {
        let is_same = |one: &&mut Entry| (&one.tcp, &one.udp) == (&entry.tcp, &entry.udp) && one.is_beside(&entry);
        match of_ports.iter_mut().find(is_same) {
            Some(one) => {
                for family in FAMILIES {
                    one.peers[family as usize] = one.peers[family as usize].or(&entry.peers[family as usize]);
                }
                one.rules.extend(entry.rules);
            }
            None => of_ports.push(entry),
        }
    }
    let mut all: Vec<Entry> = Vec::new();
    for entry in of_ports {
        let is_twin = |one: &&mut Entry| {
            let ports = (&one.tcp, &one.udp) == (&entry.udp, &entry.tcp) && (one.tcp.is_empty() || one.udp.is_empty());
            ports && one.peers == entry.peers && one.limit.is_none() && one.is_beside(&entry)
        };
        match all.iter_mut().find(is_twin) {
            Some(one) => {
                (one.tcp, one.udp) = (one.tcp.or(&entry.tcp), one.udp.or(&entry.udp));
                one.rules.extend(entry.rules);
            }
            None => all.push(entry),
        }
    }
    all
}
