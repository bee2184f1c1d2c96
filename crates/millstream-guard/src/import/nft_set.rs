//! A set of nft with a name, and how nft writes ports.

use super::nft_word::Words;
use crate::policy::range;
use millstream_model::Refusal;
use millstream_model::range::Range;

/// A set with a name.
#[derive(Debug)]
pub(super) enum Set {
    Addresses(Vec<Range>),
    Ports(Vec<(u16, u16)>),
    /// Why its elements cannot be taken.
    Strange(&'static str),
}

impl Set {
    /// Reads a set behind the bracket that opens it.
    pub(super) fn read(words: &mut Words) -> Result<Self, Refusal> {
        let mut elements: Vec<Vec<String>> = Vec::new();
        let mut strange = None;
        loop {
            let line = words.statement()?;
            let texts: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
            match texts.as_slice() {
                ["elements", "=", "{", of_set @ .., "}"] => {
                    let each = of_set.split(|word| *word == ",").filter(|words| !words.is_empty());
                    elements = each.map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
                }
                ["flags", flags @ ..] if flags.contains(&"dynamic") => strange = Some("rules fill it"),
                _ => {}
            }
            if line.ends_block {
                return Ok(strange.map_or_else(|| Self::of(&elements), Self::Strange));
            }
        }
    }

    fn of(elements: &[Vec<String>]) -> Self {
        let has = |word: &str| elements.iter().flatten().any(|one| one == word);
        if elements.is_empty() {
            // A terse listing has no elements, and looks like that of an empty set.
            return Self::Strange("the text does not have its elements");
        }
        if has("timeout") || has("expires") {
            return Self::Strange("its elements go after a time");
        }
        if has(".") {
            return Self::Strange("each of its elements has several values");
        }
        let firsts = || elements.iter().filter_map(|words| words.first());
        if let Some(ports) = firsts().map(|text| port(text)).collect::<Option<Vec<_>>>() {
            return Self::Ports(ports);
        }
        let ranges = firsts().map(|text| range(text).ok()).collect::<Option<Vec<_>>>();
        ranges.map_or(Self::Strange("it holds neither addresses nor ports"), Self::Addresses)
    }
}

/// A port or a range of ports. Older versions of nft print some by name.
pub(super) fn port(text: &str) -> Option<(u16, u16)> {
    const NAMED: [(&str, u16); 8] = [
        ("ssh", 22),
        ("smtp", 25),
        ("domain", 53),
        ("http", 80),
        ("ntp", 123),
        ("snmp", 161),
        ("https", 443),
        ("postgresql", 5_432),
    ];
    let number =
        |text: &str| text.parse().ok().or_else(|| NAMED.iter().find(|(name, _)| *name == text).map(|(_, port)| *port));
    if let Some(one) = number(text) {
        return Some((one, one));
    }
    let (first, last) = text.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}
