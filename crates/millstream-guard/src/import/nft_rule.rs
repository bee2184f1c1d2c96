//! A rule of nft, as its words say it.

use super::nft_set::{Set, port};
use super::nft_word::{Line, Word};
use super::ruleset::{
    ALL_STATES, Does, ICMP, ICMPV6, OTHER, Rule, TCP, Test, UDP, flag, flags_where, icmp_type, state,
};
use crate::limits::BURST;
use crate::policy::{Limit, Unit, range};
use millstream_model::range::Family;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A statement of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) line: &'a Line,
    pub(super) sets: &'a BTreeMap<String, Set>,
    /// The table of the chain.
    pub(super) table: &'a str,
}

impl Statement<'_> {
    /// Its rules: one, or one for each interface that it names and each verdict of a map.
    pub(super) fn rules(self) -> Vec<Rule> {
        let words = &self.line.words;
        let mut reading = Reading {
            words,
            sets: self.sets,
            table: self.table,
            at: 0,
            alternatives: vec![Vec::new()],
            branches: Vec::new(),
            logs: false,
            does: Does::Nothing,
        };
        while reading.at < words.len() {
            let begun = reading.at;
            if reading.expression().is_none() {
                let rest: Vec<&str> = words[begun..].iter().map(|word| word.text.as_str()).collect();
                reading.add(&Test::Unknown(format!("not known: {}", rest.join(" "))));
                reading.does = verdict(words);
                reading.branches.clear();
                break;
            }
        }
        let text = words.iter().map(shown).collect::<Vec<_>>().join(" ");
        let rule =
            |tests: Vec<Test>, does: Does| Rule { place: self.line.place.clone(), text: text.clone(), tests, does };
        let mut rules = Vec::new();
        for tests in reading.alternatives {
            if reading.logs {
                rules.push(rule(tests.clone(), Does::Log));
            }
            for (test, does) in &reading.branches {
                rules.push(rule([tests.as_slice(), std::slice::from_ref(test)].concat(), does.clone()));
            }
            rules.push(rule(tests, reading.does.clone()));
        }
        rules
    }
}

fn shown(word: &Word) -> String {
    if word.is_quoted { format!("\"{}\"", word.text) } else { word.text.clone() }
}

/// What a rule does that is not known otherwise.
fn verdict(words: &[Word]) -> Does {
    // A map has several verdicts, of which the last one says nothing about the others.
    if words.iter().any(|word| !word.is_quoted && word.text == "vmap") {
        return Does::Unknown("it may decide elsewhere".to_owned());
    }
    let last = words.iter().rev().filter(|word| !word.is_quoted).find_map(|word| match word.text.as_str() {
        "accept" => Some(Does::Accept),
        "drop" => Some(Does::Drop { is_answered: false }),
        "reject" => Some(Does::Drop { is_answered: true }),
        "jump" | "goto" | "queue" | "return" => Some(Does::Unknown("it may decide elsewhere".to_owned())),
        _ => None,
    });
    last.unwrap_or_else(|| Does::Unknown("what it does is not known".to_owned()))
}

struct Reading<'a> {
    words: &'a [Word],
    sets: &'a BTreeMap<String, Set>,
    table: &'a str,
    at: usize,
    /// The tests, once for each interface.
    alternatives: Vec<Vec<Test>>,
    /// What a map says, each with the test before it.
    branches: Vec<(Test, Does)>,
    logs: bool,
    does: Does,
}

impl<'a> Reading<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|word| word.text.as_str())
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    fn skip(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn add(&mut self, test: &Test) {
        self.alternatives.iter_mut().for_each(|tests| tests.push(test.clone()));
    }

    /// Reads one test or statement. `None`: it is not known.
    fn expression(&mut self) -> Option<()> {
        match self.next()? {
            "iif" | "iifname" => self.interface(true),
            "oif" | "oifname" => self.interface(false),
            "meta" => match self.next()? {
                "iif" | "iifname" => self.interface(true),
                "oif" | "oifname" => self.interface(false),
                "l4proto" => self.field(&protocols),
                "nfproto" => self.field(&|items, is_not| match (items, is_not) {
                    (["ipv4"], false) | (["ipv6"], true) => Some(Test::Family(Family::V4)),
                    (["ipv6"], false) | (["ipv4"], true) => Some(Test::Family(Family::V6)),
                    _ => None,
                }),
                _ => None,
            },
            "ip" => self.of_header(Family::V4),
            "ip6" => self.of_header(Family::V6),
            "tcp" => self.of_ports(TCP),
            "udp" => self.of_ports(UDP),
            "th" => self.of_ports(TCP | UDP),
            "icmp" => self.icmp(Family::V4),
            "icmpv6" => self.icmp(Family::V6),
            "ct" => match self.next()? {
                "state" => self.field(&|items, is_not| {
                    let bits = items.iter().try_fold(0, |all, name| Some(all | state(name)?))?;
                    Some(Test::States(if is_not { ALL_STATES & !bits } else { bits }))
                }),
                _ => None,
            },
            "limit" => {
                self.rate()?;
                self.add(&Test::Pace);
                Some(())
            }
            "update" | "add" | "meter" => self.limit_of_source(),
            "counter" => {
                if self.skip("packets") {
                    self.at += 3;
                } else if self.skip("name") {
                    self.at += 1;
                }
                Some(())
            }
            "log" => {
                self.logs = true;
                while self
                    .peek()
                    .is_some_and(|word| matches!(word, "prefix" | "level" | "group" | "snaplen" | "queue-threshold"))
                {
                    self.at += 2;
                }
                if self.skip("flags") { self.next().filter(|all| *all == "all").map(drop) } else { Some(()) }
            }
            "comment" => self.next().map(drop),
            "reject" => {
                self.does = Does::Drop { is_answered: true };
                while self.peek().is_some_and(|word| word != "comment") {
                    self.at += 1;
                }
                Some(())
            }
            _ => {
                self.at -= 1;
                self.does = self.verdict()?;
                Some(())
            }
        }
    }

    /// A verdict, behind a rule or in a map.
    fn verdict(&mut self) -> Option<Does> {
        Some(match self.next()? {
            "accept" => Does::Accept,
            "drop" => Does::Drop { is_answered: false },
            "return" => Does::Return,
            "continue" => Does::Nothing,
            "jump" => Does::Jump(self.next()?.to_owned()),
            "goto" => Does::Unknown(format!("it goes to the chain {} and does not come back", self.next()?)),
            _ => return None,
        })
    }

    /// The values behind a field, and whether it must have none of them.
    fn items(&mut self) -> Option<(Vec<&'a str>, bool)> {
        let is_not = self.skip("!=");
        self.skip("==");
        let mut items = Vec::new();
        if self.skip("{") {
            while !self.skip("}") {
                items.push(self.next()?);
                // Neither a value of several parts nor one with more words.
                if !self.skip(",") && self.peek()? != "}" {
                    return None;
                }
            }
        } else {
            items.push(self.next()?);
            while self.skip(",") {
                items.push(self.next()?);
            }
        }
        Some((items, is_not))
    }

    /// A field with its values, or with a map from values to verdicts.
    fn field(&mut self, test: &dyn Fn(&[&str], bool) -> Option<Test>) -> Option<()> {
        if !self.skip("vmap") {
            let (items, is_not) = self.items()?;
            self.add(&test(&items, is_not)?);
            return Some(());
        }
        if !self.skip("{") || !self.branches.is_empty() {
            return None;
        }
        while !self.skip("}") {
            let key = self.next()?;
            if !self.skip(":") {
                return None;
            }
            let does = self.verdict()?;
            self.branches.push((test(&[key], false)?, does));
            if !self.skip(",") && self.peek()? != "}" {
                return None;
            }
        }
        Some(())
    }

    fn interface(&mut self, is_in: bool) -> Option<()> {
        let (names, is_not) = self.items()?;
        if is_not && names.len() > 1 {
            return None;
        }
        let each = |tests: &Vec<Test>| {
            let of = |name: &&str| {
                let test = Test::Interface { is_in, name: (*name).to_owned(), is_not };
                [tests.as_slice(), &[test]].concat()
            };
            names.iter().map(of).collect::<Vec<_>>()
        };
        self.alternatives = self.alternatives.iter().flat_map(each).collect();
        Some(())
    }

    fn of_header(&mut self, family: Family) -> Option<()> {
        let sets = self.sets;
        match self.next()? {
            side @ ("saddr" | "daddr") => {
                let is_source = side == "saddr";
                self.field(&|items, is_not| {
                    let mut ranges = Vec::new();
                    for item in items {
                        match item.strip_prefix('@').map(|name| (name, sets.get(name))) {
                            Some((_, Some(Set::Addresses(of_set)))) => ranges.extend_from_slice(of_set),
                            Some((name, Some(Set::Strange(why)))) => {
                                return Some(Test::Unknown(format!("not known: the set {name}: {why}")));
                            }
                            Some(_) => return None,
                            None => ranges.push(range(item).ok()?),
                        }
                    }
                    Some(Test::Address { is_source, ranges, is_not })
                })?;
            }
            "protocol" | "nexthdr" => self.field(&protocols)?,
            "hoplimit" if family == Family::V6 => {
                self.field(&|items, is_not| (items == ["255"] && !is_not).then_some(Test::OfNeighbour))?;
            }
            _ => return None,
        }
        self.add(&Test::Family(family));
        Some(())
    }

    fn of_ports(&mut self, bits: u8) -> Option<()> {
        let sets = self.sets;
        match self.next()? {
            side @ ("sport" | "dport") => {
                let is_source = side == "sport";
                self.field(&|items, is_not| {
                    let mut ports = Vec::new();
                    for item in items {
                        match item.strip_prefix('@').map(|name| (name, sets.get(name))) {
                            Some((_, Some(Set::Ports(of_set)))) => ports.extend_from_slice(of_set),
                            Some((name, Some(Set::Strange(why)))) => {
                                return Some(Test::Unknown(format!("not known: the set {name}: {why}")));
                            }
                            Some(_) => return None,
                            None => ports.push(port(item)?),
                        }
                    }
                    Some(Test::Ports { protocols: bits, is_source, ports, is_not })
                })
            }
            "flags" if bits == TCP => {
                let flags = self.flags()?;
                self.add(&Test::Flags(flags));
                Some(())
            }
            _ => None,
        }
    }

    fn icmp(&mut self, family: Family) -> Option<()> {
        if self.next()? != "type" {
            return None;
        }
        self.field(&|items, is_not| {
            let one = |text: &&str| match icmp_type(family, text) {
                Some(kind) => Some((kind, kind)),
                None => {
                    let (first, last) = text.split_once('-')?;
                    Some((first.parse().ok()?, last.parse().ok()?))
                }
            };
            Some(Test::Icmp { family, types: items.iter().map(one).collect::<Option<_>>()?, is_not })
        })
    }

    /// The flags for which a test holds, in each of the ways in which nft prints it.
    fn flags(&mut self) -> Option<u64> {
        if self.skip("&") {
            let mask = self.flag_bits()?;
            let is_not = self.skip("!=");
            if !is_not && !self.skip("==") {
                return None;
            }
            let set = self.flag_bits()?;
            return Some(flags_where(|flags| (flags.0 & mask == set) != is_not));
        }
        let is_exact = self.skip("==");
        let is_not = self.skip("!=");
        let is_none = self.skip("!");
        let set = self.flag_bits()?;
        if self.skip("/") {
            let mask = self.flag_bits()?;
            return Some(flags_where(|flags| (flags.0 & mask == set) != is_not));
        }
        Some(flags_where(|flags| match (is_exact || is_not, is_none) {
            (true, _) => (flags.0 == set) != is_not,
            (false, true) => flags.0 & set == 0,
            (false, false) => flags.0 & set != 0,
        }))
    }

    fn flag_bits(&mut self) -> Option<u8> {
        let is_closed = self.skip("(");
        let mut bits = 0;
        loop {
            let word = self.next()?;
            let number = word.strip_prefix("0x").map(|hex| u8::from_str_radix(hex, 16).ok());
            bits |= match number {
                Some(number) => number?,
                None => word.parse().ok().or_else(|| flag(word))?,
            };
            if !self.skip("|") && !self.skip(",") {
                break;
            }
        }
        (!is_closed || self.skip(")")).then_some(bits)
    }

    /// A rate behind `limit`: whether only what is beyond it counts, how often, and the burst.
    fn rate(&mut self) -> Option<(bool, u32, Unit, u32)> {
        if !self.skip("rate") {
            return None;
        }
        let is_over = self.skip("over");
        let (count, unit) = self.next()?.split_once('/')?;
        let units = [Unit::Second, Unit::Minute, Unit::Hour];
        let unit = units.into_iter().find(|one| one.name() == unit)?;
        let mut burst = BURST;
        if self.skip("burst") {
            burst = self.next()?.parse().ok()?;
            if !self.skip("packets") {
                return None;
            }
        }
        Some((is_over, count.parse().ok()?, unit, burst))
    }

    /// A limit for each source, which a set or a meter counts.
    fn limit_of_source(&mut self) -> Option<()> {
        let name = self.next()?.trim_start_matches('@');
        if self.skip("size") {
            self.next()?;
        }
        if !self.skip("{") {
            return None;
        }
        let family = match self.next()? {
            "ip" => Family::V4,
            "ip6" => Family::V6,
            _ => return None,
        };
        if !self.skip("saddr") {
            return None;
        }
        let mut length = family.bits();
        if self.skip("&") || self.skip("and") {
            length = length_of(self.next()?)?;
        }
        if self.skip("timeout") {
            self.next()?;
        }
        if !self.skip("limit") {
            return None;
        }
        let (is_over, count, unit, burst) = self.rate()?;
        if !self.skip("}") {
            return None;
        }
        let mut limit = Limit { count, unit, burst, v4: 32, v6: 64 };
        match family {
            Family::V4 => limit.v4 = length,
            Family::V6 => limit.v6 = length,
        }
        self.add(&Test::Family(family));
        let counter = Some(format!("the set {name} of {}", self.table));
        self.add(&Test::Limit { limit, is_over, counter });
        Some(())
    }
}

/// The length of the prefix that a mask keeps.
fn length_of(mask: &str) -> Option<u32> {
    let (bits, ones, zeros) = match mask.parse::<IpAddr>().ok()? {
        IpAddr::V4(v4) => (32, v4.to_bits().leading_ones(), v4.to_bits().trailing_zeros()),
        IpAddr::V6(v6) => (128, v6.to_bits().leading_ones(), v6.to_bits().trailing_zeros()),
    };
    (ones + zeros == bits).then_some(ones)
}

fn protocols(items: &[&str], is_not: bool) -> Option<Test> {
    let mut bits = 0;
    for item in items {
        bits |= match *item {
            "tcp" | "6" => TCP,
            "udp" | "17" => UDP,
            "icmp" | "1" => ICMP,
            "icmpv6" | "ipv6-icmp" | "58" => ICMPV6,
            _ if is_not || item.starts_with(['@', '.', '&', '<', '>']) => return None,
            _ => OTHER,
        };
    }
    Some(Test::Protocols(if is_not { !bits } else { bits }))
}
