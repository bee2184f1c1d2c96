//! Rules for the kernel: what a policy becomes, before it is written in the language of a program.

mod iptables;
mod nft;
mod of_policy;
mod set;

use set::Set;
pub(crate) use set::name;

use crate::policy::{DeniedText, Flags, Limit, Policy};
use millstream_model::Refusal;
use millstream_model::range::{Family, Range};
use std::collections::{BTreeMap, BTreeSet};

/// The table of nft that is ours alone.
pub const TABLE: &str = "millstream";

/// Commands that remove the table whether it was there or not: nft before 1.0.7 knows no `destroy`.
pub(crate) fn removal() -> String {
    format!("add table inet {TABLE}\ndelete table inet {TABLE}\n")
}

/// How the comment of the table begins that tells its rules from others.
const DIGEST: &str = "rules ";

/// The digest of rules as nft prints them, or of a script of ours. Rules of others have none.
pub(crate) fn digest(text: &str) -> String {
    let comments = text.lines().filter_map(|line| line.trim().strip_prefix("comment \"")?.strip_suffix('"'));
    let ours = comments.into_iter().find(|comment| comment.starts_with(DIGEST));
    digest_of(ours.unwrap_or_default())
}

/// The digest that stands in the comment of a table. Rules of others have none.
pub(crate) fn digest_of(comment: &str) -> String {
    if comment.starts_with(DIGEST) { comment.to_owned() } else { "rules of unknown origin".to_owned() }
}

/// Whether a line is the comment of the table that tells its rules from others.
pub(crate) fn is_digest(line: &str) -> bool {
    line.strip_prefix("comment \"").is_some_and(|comment| comment.starts_with(DIGEST))
}

/// Rules in the order in which they are asked, and the sets that they look addresses up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    sets: BTreeMap<String, Set>,
    log: bool,
}

/// One rule: all of its tests must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    hook: Hook,
    /// `None`: both.
    family: Option<Family>,
    tests: Vec<Test>,
    action: Action,
    /// The line of the policy that it stands for.
    line: String,
}

/// Where a rule is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hook {
    /// Before connections are tracked.
    BeforeIn,
    /// The same for what this host sends.
    BeforeOut,
    /// What comes to this host.
    In,
    /// What this host sends.
    Out,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// The packet is for this host.
    ForUs,
    /// It comes in, or goes out, by this interface.
    Interface(String),
    Protocol(Protocol),
    /// The address of the other side is in a set, or is not.
    Peer {
        set: String,
        is_in: bool,
    },
    /// A port of this host (of the other side, if `is_peer`) is one of these.
    Port {
        ports: Vec<(u16, u16)>,
        is_peer: bool,
    },
    /// It begins a connection of TCP, or does not.
    Begins(bool),
    IllegalFlags,
    /// It is ICMP of one of these types.
    Icmp(Vec<u8>),
    /// No router has forwarded it.
    OfNeighbour,
    /// It is a fragment of IPv6 after the first.
    LaterFragment,
    State(State),
    /// The datagram holds it.
    Text(DeniedText),
    /// The source begins more often than this, with a name for what the kernel counts.
    Over {
        limit: Limit,
        name: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

/// What tracking says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It belongs to a known connection, or is an error about one.
    Established,
    /// It belongs to none, and cannot begin one.
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Accept,
    /// And count it.
    Drop,
    /// Do not track it.
    Notrack,
}

impl Rules {
    /// The rules of a policy.
    pub fn of(policy: &Policy) -> Self {
        of_policy::rules(policy)
    }

    /// How many rules there are.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// Ranges of all sets.
    pub fn ranges(&self) -> usize {
        self.sets.values().map(|set| set.ranges.len()).sum()
    }

    /// The lines of the policy for which there are rules, in the order in which they are asked first.
    pub fn lines(&self) -> Vec<String> {
        let last = "everything-else".to_owned();
        let mut seen = BTreeSet::new();
        let all = self.rules.iter().map(|rule| rule.line.clone()).chain([last]);
        all.filter(|line| seen.insert(line.clone())).collect()
    }

    /// Whether nft has words for all of them.
    ///
    /// # Errors
    /// It has none for a line, which is named.
    pub fn fit_nft(&self) -> Result<(), Refusal> {
        let is_loose = |test: &Test| matches!(test, Test::Text(DeniedText { at: None, .. }));
        match self.rules.iter().find(|rule| rule.tests.iter().any(is_loose)) {
            None => Ok(()),
            Some(rule) => Err(Refusal::new(format!(
                "{}: nft cannot look for a text anywhere in a datagram, only at one place of it",
                rule.line
            ))
            .hint(
                "say where the text begins, as in deny_text = { text = \"..\", at = 0 }, or use the rules for iptables",
            )),
        }
    }

    /// As a script for `nft -f`, which replaces the table of these rules in one transaction.
    pub fn nft(&self) -> String {
        nft::script(self, true)
    }

    /// The same without the ranges of sets, whose comments still tell them apart: nft takes seconds for many ranges.
    pub(crate) fn outline(&self) -> String {
        nft::script(self, false)
    }

    /// As a shell script for `ipset`, `iptables-restore` and `ip6tables-restore`, which replace all rules of the tables raw
    /// and filter.
    pub fn iptables(&self) -> String {
        iptables::script(self)
    }

    /// What a program of iptables reads, by its name: `ipset restore`, `iptables-restore`, `ip6tables-restore`.
    pub fn iptables_inputs(&self) -> [(&'static str, String); 3] {
        iptables::inputs(self)
    }
}

/// All combinations of flags that no connection has, as the bits of the header.
fn illegal_flags() -> impl Iterator<Item = u8> {
    (0..64).filter(|bits| Flags(*bits).are_illegal())
}

/// A range of ports as programs write it.
fn ports(ports: &[(u16, u16)], hyphen: &str) -> Vec<String> {
    let each = |(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}{hyphen}{last}") }
    };
    ports.iter().map(each).collect()
}

/// A range of addresses as programs write it.
fn addresses(range: &Range) -> String {
    if range.start == range.end { range.first().to_string() } else { range.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{LINES, reason};
    use std::path::Path;

    #[test]
    fn every_line_has_a_reason_and_every_reason_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = BTreeSet::new();
        for mode in ["stateless", "stateful", "stateful'\nsend_all = true # '"] {
            let file = dir.path().join("policy.toml");
            let text = format!(
                "mode = '{mode}'\nresolvers = ['192.0.2.53']\ndeny = ['192.0.2.0/25', '2001:db8::/64']\n[services.ssh]\n\
                 limit = '1/second'\n[clients.dns]\n"
            );
            std::fs::write(&file, text).unwrap();
            seen.extend(Rules::of(&Policy::read(Path::new(&file), &|_| Ok(Vec::new())).unwrap()).lines());
        }
        let without: Vec<_> = seen.iter().filter(|line| reason(line).is_empty()).collect();
        assert!(without.is_empty(), "{without:?}");
        let unused: Vec<_> = LINES.iter().filter(|(line, _)| !seen.contains(*line)).collect();
        assert!(unused.is_empty(), "{unused:?}");
    }
}
