//! Rows: what is measured.

use super::backend::Backend;
use super::generator::{Generator, next};
use millstream_model::Refusal;
use millstream_model::range::Family;
use serde::Deserialize;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The file with all rows. Its comment says what the words mean.
pub const ROWS: &str = include_str!("rows.toml");

/// What a row does with every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It goes on to the socket.
    Accept,
    /// It ends here.
    Drop,
}

/// One construct of a packet filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it does, as a phrase.
    pub about: String,
    /// What happens to every packet.
    pub verdict: Verdict,
    /// Whether somebody reads the port.
    pub bound: bool,
    /// Whether its rules turn connection tracking on.
    pub tracks: bool,
    /// Whether the deciding rule counts accepted packets, which belong to connections that were answered.
    pub counts: bool,
    /// Addresses that send in turn.
    pub sources: u32,
    /// Whether a raw socket sends the packets, one by one.
    pub raw: bool,
    /// Of the packets of the gate, at most so many pass although they are declared as dropped: a limit lets the first
    /// ones through.
    pub passes_max: u64,
    /// Nanoseconds that the article's figure means for a packet.
    pub ns_2016: Option<u32>,
    others: u32,
    size: u32,
    text: Text,
}

/// A row as the file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    about: String,
    /// The row whose rules and verdict it has.
    like: Option<String>,
    verdict: Option<Verdict>,
    #[serde(default)]
    bound: bool,
    #[serde(default)]
    tracks: bool,
    #[serde(default)]
    counts: bool,
    #[serde(default = "one")]
    sources: u32,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    passes_max: u64,
    #[serde(default)]
    others: Vec<u32>,
    #[serde(default)]
    size: Vec<u32>,
    #[serde(default)]
    ns_2016: Vec<u32>,
    nft: Option<String>,
    nft_lacks: Option<String>,
    iptables: Option<String>,
    iptables_lacks: Option<String>,
    ipset: Option<String>,
    #[serde(default)]
    xdp: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Text>,
}

/// Words of rules that depend on the family: of IPv4, and of IPv6.
const WORDS: [(&str, [&str; 2]); 7] = [
    ("{ip}", ["ip", "ip6"]),
    ("{type}", ["ipv4_addr", "ipv6_addr"]),
    ("{family}", ["inet", "inet6"]),
    ("{mask}", ["255.255.0.0", "ffff:ffff:ffff:ffff::"]),
    ("{bits}", ["16", "64"]),
    ("{payload}", ["28", "48"]),
    ("{payload_end}", ["36", "56"]),
];

fn one() -> u32 {
    1
}

/// Every row, in the order of the file.
///
/// # Errors
/// The file is not what it should be, which a test would have found.
pub fn rows() -> Result<Vec<Row>, Refusal> {
    let wrong = |why: String| Refusal::new(format!("rows.toml: {why}"));
    let file: File = toml::from_str(ROWS).map_err(|error| wrong(error.to_string()))?;
    let mut rows = Vec::new();
    for text in &file.row {
        let name = text.like.as_ref().unwrap_or(&text.name);
        let rules = file.row.iter().find(|other| other.name == *name);
        let (rules, verdict) = rules
            .and_then(|rules| Some((rules, rules.verdict?)))
            .ok_or_else(|| wrong(format!("{} has no verdict", text.name)))?;
        rows.extend(text.rows(rules, verdict));
    }
    Ok(rows)
}

impl Text {
    /// One row for each of its numbers, with these rules.
    fn rows(&self, rules: &Self, verdict: Verdict) -> Vec<Row> {
        let turns = self.others.len().max(self.size.len()).max(1);
        let row = |n: usize| {
            let (others, size) = (self.others.get(n).copied(), self.size.get(n).copied());
            let named = |text: &str| {
                let text = others.map_or(text.to_owned(), |others| text.replace("{others}", &others.to_string()));
                size.map_or(text.clone(), |size| text.replace("{size}", &size.to_string()))
            };
            Row {
                name: named(&self.name),
                about: named(&self.about),
                verdict,
                bound: rules.bound,
                tracks: rules.tracks,
                counts: rules.counts,
                sources: self.sources,
                raw: self.raw,
                passes_max: self.passes_max,
                ns_2016: self.ns_2016.get(n).copied(),
                others: others.unwrap_or(0),
                size: size.unwrap_or(0),
                text: rules.clone(),
            }
        };
        (0..turns).map(row).collect()
    }
}

impl Row {
    /// Why a backend has no such construct, if it has none.
    pub fn lacks(&self, backend: Backend) -> Option<&str> {
        match backend {
            Backend::Nft => self.text.nft_lacks.as_deref(),
            Backend::IptablesNft | Backend::IptablesLegacy => self.text.iptables_lacks.as_deref(),
            Backend::Xdp => (!self.text.xdp).then_some("XDP has no such rule: our program only counts and drops"),
        }
    }

    /// Why a generator cannot make its packets, if it cannot.
    pub fn lacks_packets(&self, generator: Generator) -> Option<&'static str> {
        if generator == Generator::Send {
            None
        } else if self.raw {
            Some("live frames are copies of one frame, which no socket sends")
        } else if self.counts {
            Some("nobody is there to be answered: live frames have no sender")
        } else if self.verdict == Verdict::Accept && !self.bound {
            Some("the kernel answers only a few of the packets that nobody reads, except on its loopback device")
        } else {
            None
        }
    }

    /// Whether its rules for iptables need a set of `ipset`.
    pub fn needs_ipset(&self) -> bool {
        self.text.ipset.is_some()
    }

    /// The rules in nft's language.
    pub(super) fn nft(&self, generator: Generator, family: Family) -> String {
        self.filled(self.text.nft.as_deref().unwrap_or_default(), generator, family)
    }

    /// The rules as `iptables-restore` reads them.
    pub(super) fn iptables(&self, generator: Generator, family: Family) -> String {
        self.filled(self.text.iptables.as_deref().unwrap_or_default(), generator, family)
    }

    /// The table of the rules for iptables.
    pub(super) fn table(&self) -> &str {
        let lines = self.text.iptables.as_deref().unwrap_or_default().lines();
        lines.filter_map(|line| line.strip_prefix('*')).next().unwrap_or("filter")
    }

    /// The sets as `ipset restore` reads them.
    pub(super) fn ipset(&self, generator: Generator, family: Family) -> Option<String> {
        self.text.ipset.as_deref().map(|text| self.filled(text, generator, family))
    }

    fn filled(&self, text: &str, generator: Generator, family: Family) -> String {
        let text = text.replace("{device}", generator.device());
        let text = WORDS.iter().fold(text, |text, (mark, words)| text.replace(mark, words[family as usize]));
        let mut all = String::with_capacity(text.len() + 40 * self.size as usize);
        for line in text.lines() {
            let times = match line {
                line if line.contains("{other}") => self.others,
                line if line.contains("{element}") || line.contains("{first}") => self.size,
                _ => 1,
            };
            for n in 0..times {
                let line = self.line(line, n, generator, family);
                // Writing to a string cannot fail.
                let _ = writeln!(all, "{line}");
            }
        }
        all
    }

    /// One line, with the addresses of its turn.
    fn line(&self, line: &str, n: u32, generator: Generator, family: Family) -> String {
        if !line.contains('{') {
            return line.to_owned();
        }
        // The sources stand at the end of a set.
        let own = self.size.saturating_sub(self.sources);
        let (element, first, last) = match n.checked_sub(own) {
            Some(n) => {
                let source = generator.source(n, self.sources, family);
                (source, source, next(source))
            }
            None => (stranger(n, family), stranger(2 * n, family), stranger(2 * n + 1, family)),
        };
        line.replace("{other}", &other(n, family).to_string())
            .replace("{element}", &element.to_string())
            .replace("{first}", &first.to_string())
            .replace("{last}", &last.to_string())
    }
}

/// An address of a set that sends nothing.
fn stranger(n: u32, family: Family) -> IpAddr {
    match family {
        // 10.0.0.0/8. Every other address, so that intervals do not touch.
        Family::V4 => Ipv4Addr::from(0x0a00_0000 + n + n / 2 * 2).into(),
        Family::V6 => Ipv6Addr::from((0xfd78_u128 << 112) + u128::from(n + n / 2 * 2)).into(),
    }
}

/// An address of a rule that matches nothing, of the ranges that are kept for documents.
fn other(n: u32, family: Family) -> IpAddr {
    match family {
        // 198.18.0.0/15, RFC 2544.
        Family::V4 => Ipv4Addr::from(0xc612_0000 + n).into(),
        Family::V6 => Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(n)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_whole_and_has_a_name_of_its_own() {
        let rows = rows().unwrap();
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        for mut row in rows {
            // A large set has the same marks, and takes seconds to write.
            row.size = row.size.min(1_000);
            let Text { nft, nft_lacks, iptables, iptables_lacks, .. } = &row.text;
            assert!(nft.is_some() != nft_lacks.is_some(), "{}", row.name);
            assert!(iptables.is_some() != iptables_lacks.is_some(), "{}", row.name);
            for (generator, family) in Generator::ALL.into_iter().flat_map(|one| [(one, Family::V4), (one, Family::V6)])
            {
                let sets = row.ipset(generator, family).unwrap_or_default();
                let texts = [row.nft(generator, family), row.iptables(generator, family), sets];
                for text in &texts {
                    let marks = [
                        "{device}",
                        "{other}",
                        "{element}",
                        "{first}",
                        "{ip}",
                        "{type}",
                        "{family}",
                        "{size}",
                        "{payload",
                    ];
                    assert!(!marks.iter().any(|mark| text.contains(mark)), "{}: {text:.300}", row.name);
                }
                assert!(row.size == 0 || texts[0].lines().count() > row.size as usize);
            }
        }
    }

    #[test]
    fn addresses_of_a_set_are_different_and_the_sources_are_its_last() {
        let rows = rows().unwrap();
        for (generator, name) in [(Generator::Send, "set-265537-many"), (Generator::Live, "set-265537")] {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            for family in [Family::V4, Family::V6] {
                let text = row.ipset(generator, family).unwrap();
                let elements: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("add sources ")).collect();
                assert_eq!(elements.iter().collect::<BTreeSet<_>>().len(), 265_537);
                let last = generator.source(row.sources - 1, row.sources, family);
                assert_eq!(elements[265_536], last.to_string());
            }
        }
    }
}
