//! Rules of others as they are written: chains, tests and targets, before anybody asks what they mean.

use crate::limits::{IMPORTED_RULES_MAX, JUMPS_MAX};
use crate::policy::{Flags, Limit};
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Family, Range};
use std::collections::BTreeMap;

/// Protocols, as bits.
pub(super) const TCP: u8 = 1;
pub(super) const UDP: u8 = 2;
pub(super) const ICMP: u8 = 4;
pub(super) const ICMPV6: u8 = 8;
pub(super) const OTHER: u8 = 16;

/// What tracking says, as bits.
pub(super) const NEW: u8 = 1;
pub(super) const ESTABLISHED: u8 = 2;
pub(super) const RELATED: u8 = 4;
pub(super) const INVALID: u8 = 8;
pub(super) const UNTRACKED: u8 = 16;
pub(super) const ALL_STATES: u8 = 31;

/// All rules of the texts.
#[derive(Debug, Default)]
pub(super) struct Ruleset {
    pub(super) chains: Vec<Chain>,
}

/// A chain of rules.
#[derive(Debug)]
pub(super) struct Chain {
    /// The table and its family, such as `inet filter`.
    pub(super) table: String,
    pub(super) name: String,
    /// The families whose packets it sees.
    pub(super) families: Vec<Family>,
    /// Where the kernel asks it. `None`: only where a rule jumps to it.
    pub(super) base: Option<Base>,
    pub(super) place: String,
    pub(super) rules: Vec<Rule>,
}

/// Where the kernel asks a chain.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) hook: Hook,
    /// Whether it accepts what no rule decides.
    pub(super) accepts: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hook {
    /// What comes to this host, in a table that filters.
    In,
    /// What this host sends, in such a table.
    Out,
    /// Elsewhere, why a policy has nothing of it, and whether it sees what comes to this host, too.
    Elsewhere { why: String, is_arriving: bool },
}

/// A rule: all of its tests must hold.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// The file and the number of the line.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) tests: Vec<Test>,
    pub(super) does: Does,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    Accept,
    /// Without an answer, or with one.
    Drop {
        is_answered: bool,
    },
    Log,
    Nothing,
    Return,
    Jump(String),
    /// Something else, by name.
    Unknown(String),
}

#[derive(Debug, Clone)]
pub(super) enum Test {
    Interface {
        is_in: bool,
        name: String,
        is_not: bool,
    },
    Address {
        is_source: bool,
        ranges: Vec<Range>,
        is_not: bool,
    },
    Family(Family),
    /// One of these protocols, as bits.
    Protocols(u8),
    /// A port of one of these protocols.
    Ports {
        protocols: u8,
        is_source: bool,
        ports: Vec<(u16, u16)>,
        is_not: bool,
    },
    /// TCP with flags of which the bit is set.
    Flags(u64),
    /// One of these types.
    Icmp {
        family: Family,
        types: Vec<(u8, u8)>,
        is_not: bool,
    },
    /// One of these states of tracking, as bits.
    States(u8),
    /// No router has forwarded it.
    OfNeighbour,
    /// A source comes more often than this, or not more often.
    Limit {
        limit: Limit,
        is_over: bool,
        /// By what name the kernel counts: rules of one name count together.
        counter: Option<String>,
    },
    /// A limit for all sources together.
    Pace,
    /// It never holds.
    Never,
    /// What it asks is not known, but this is how it is written.
    Unknown(String),
}

/// Flags of TCP for which a test of some of them holds, as bits.
pub(super) fn flags_where(holds: impl Fn(Flags) -> bool) -> u64 {
    (0..64).filter(|bits| holds(Flags(*bits))).fold(0, |all, bits| all | (1 << bits))
}

/// The flag of a name.
pub(super) fn flag(name: &str) -> Option<u8> {
    Flags::ALL.iter().find(|(_, one)| one.eq_ignore_ascii_case(name)).map(|(flag, _)| flag.0)
}

/// The bit of a state of tracking.
pub(super) fn state(name: &str) -> Option<u8> {
    let states = [
        ("new", NEW),
        ("established", ESTABLISHED),
        ("related", RELATED),
        ("invalid", INVALID),
        ("untracked", UNTRACKED),
    ];
    states.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, bit)| *bit)
}

/// Types of ICMP by the names that programs print. Source: the manuals of nft and iptables.
pub(super) fn icmp_type(family: Family, name: &str) -> Option<u8> {
    const V4: &[(&str, u8)] = &[
        ("echo-reply", 0),
        ("destination-unreachable", 3),
        ("source-quench", 4),
        ("redirect", 5),
        ("echo-request", 8),
        ("router-advertisement", 9),
        ("router-solicitation", 10),
        ("time-exceeded", 11),
        ("parameter-problem", 12),
        ("timestamp-request", 13),
        ("timestamp-reply", 14),
    ];
    const V6: &[(&str, u8)] = &[
        ("destination-unreachable", 1),
        ("packet-too-big", 2),
        ("time-exceeded", 3),
        ("parameter-problem", 4),
        ("echo-request", 128),
        ("echo-reply", 129),
        ("mld-listener-query", 130),
        ("mld-listener-report", 131),
        ("mld-listener-done", 132),
        ("mld-listener-reduction", 132),
        ("nd-router-solicit", 133),
        ("nd-router-advert", 134),
        ("nd-neighbor-solicit", 135),
        ("nd-neighbor-advert", 136),
        ("nd-redirect", 137),
        ("mld2-listener-report", 143),
    ];
    let names = if family == Family::V4 { V4 } else { V6 };
    name.parse().ok().or_else(|| names.iter().find(|(one, _)| *one == name).map(|(_, kind)| *kind))
}

impl Ruleset {
    /// The chain of a name in a table.
    fn chain(&self, table: &str, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.table == table && chain.name == name)
    }

    /// The chain that decides at a hook about packets of a family.
    ///
    /// # Errors
    /// There are several of which each may drop.
    pub(super) fn deciding(&self, hook: &Hook, family: Family) -> Result<Option<&Chain>, Refusal> {
        let is_there = |chain: &&Chain| {
            chain.families.contains(&family) && chain.base.as_ref().is_some_and(|base| base.hook == *hook)
        };
        let all: Vec<&Chain> = self.chains.iter().filter(is_there).collect();
        let decides = |chain: &&&Chain| {
            let is_idle = |rule: &Rule| matches!(rule.does, Does::Accept | Does::Log | Does::Nothing | Does::Return);
            !(chain.base.as_ref().is_some_and(|base| base.accepts) && chain.rules.iter().all(is_idle))
        };
        let deciding: Vec<&&Chain> = all.iter().filter(decides).collect();
        match deciding.as_slice() {
            [] => Ok(all.first().copied()),
            [one] => Ok(Some(**one)),
            [one, other, ..] => Err(Refusal::new(format!(
                "{}: the chains {} {} and {} {} both decide about the same packets, which must pass both",
                other.place, one.table, one.name, other.table, other.name
            ))
            .hint("give the rules of one table, and look at the others yourself")),
        }
    }

    /// The rules that count together with others, each with the name of the counter and the place of another one.
    pub(super) fn sharing(&self) -> Vec<(&Rule, &str, &str)> {
        let mut users: BTreeMap<(bool, bool, &str), Vec<&Rule>> = BTreeMap::new();
        for chain in &self.chains {
            let [v4, v6] = FAMILIES.map(|family| chain.families.contains(&family));
            for rule in &chain.rules {
                for test in &rule.tests {
                    let Test::Limit { counter: Some(counter), .. } = test else { continue };
                    let of_counter = users.entry((v4, v6, counter.as_str())).or_default();
                    // Those that are made of one line stand behind each other.
                    if of_counter.last().is_none_or(|last| last.place != rule.place) {
                        of_counter.push(rule);
                    }
                }
            }
        }
        let mut sharing = Vec::new();
        for ((_, _, counter), rules) in users.into_iter().filter(|(_, rules)| rules.len() > 1) {
            for (n, rule) in rules.iter().enumerate() {
                let other = rules[usize::from(n == 0)];
                sharing.push((*rule, counter, other.place.as_str()));
            }
        }
        sharing
    }

    /// The rules of a chain in their order, with those of the chains that it jumps to in their places.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn flat(&self, chain: &Chain) -> Result<Vec<Rule>, Refusal> {
        let (mut all, mut visited) = (Vec::new(), 0);
        self.flatten(chain, &[], 0, &mut visited, &mut all)?;
        Ok(all)
    }

    fn flatten(
        &self,
        chain: &Chain,
        before: &[Test],
        depth: usize,
        visited: &mut usize,
        all: &mut Vec<Rule>,
    ) -> Result<(), Refusal> {
        let mut left: Option<String> = None;
        for rule in &chain.rules {
            // Those that jump count, too: chains that jump to each other several times have many ways and no other rules.
            *visited += 1;
            if *visited > IMPORTED_RULES_MAX {
                return Err(Refusal::new(format!("{}: the rules are more than {IMPORTED_RULES_MAX}", rule.place))
                    .hint("a policy has lists of addresses; these rules are better written anew"));
            }
            let mut tests = [before, rule.tests.as_slice()].concat();
            // Who has left the chain before does not come here, and a policy has no words for that.
            tests.extend(
                left.as_ref().map(|place| Test::Unknown(format!("it stands behind {place}, which leaves the chain"))),
            );
            match &rule.does {
                Does::Return if chain.base.is_none() => {
                    if rule.tests.is_empty() {
                        return Ok(());
                    }
                    left = left.or_else(|| Some(rule.place.clone()));
                }
                Does::Return => {
                    let accepts = chain.base.as_ref().is_some_and(|base| base.accepts);
                    let does = if accepts { Does::Accept } else { Does::Drop { is_answered: false } };
                    all.push(Rule { tests, does, ..rule.clone() });
                }
                Does::Jump(name) => match self.chain(&chain.table, name) {
                    Some(next) if depth < JUMPS_MAX => self.flatten(next, &tests, depth + 1, visited, all)?,
                    found => {
                        let why = if found.is_some() { "jumps too deep" } else { "is not in the text" };
                        all.push(Rule {
                            tests,
                            does: Does::Unknown(format!("the chain {name} {why}")),
                            ..rule.clone()
                        });
                    }
                },
                _ => all.push(Rule { tests, ..rule.clone() }),
            }
        }
        Ok(())
    }
}
