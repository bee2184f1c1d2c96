//! A policy from rules of others: what they say, what no policy can say, and in what both differ.
//!
//! The rules are read as text, and nothing is asked of the kernel. A rule of which one word is not known is left out as a whole.

mod conversion;
mod iptables;
mod nft;
mod nft_rule;
mod nft_set;
mod nft_word;
mod pass;
mod region;
mod ruleset;
mod spans;
#[cfg(test)]
mod tests;
mod written;

use crate::limits::{POLICY_BYTES_MAX, RULE_SHOWN_MAX};
use crate::policy::{self, Content, Direction, Flags, Packet, Policy, meaning};
use crate::prove::{Differences, samples};
use conversion::Conversion;
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Family};
use ruleset::{Rule, Ruleset};
use std::net::IpAddr;

/// Rules of others as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The name of its file, which stands before each line that is named.
    pub file: String,
    /// What `iptables-save`, `ip6tables-save`, `ipset save` or `nft list ruleset` has printed.
    pub text: String,
}

/// A policy from rules of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The policy as the text of its file.
    pub text: String,
    /// The same, read back.
    pub policy: Policy,
    /// What the rules say and the policy does not.
    pub left_out: Vec<LeftOut>,
    /// What the policy decides otherwise than the rules, by its lines. Packets were tried, as by a proof, but without a kernel.
    pub differences: Differences,
    /// What else must be known, as sentences.
    pub remarks: Vec<String>,
}

/// A rule that a policy cannot say, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The file and the number of the line.
    pub place: String,
    /// The rule.
    pub rule: String,
    /// Why it was left out.
    pub why: String,
}

impl LeftOut {
    fn of(rule: &Rule, why: &str) -> Self {
        Self { place: rule.place.clone(), rule: shown(&rule.text), why: shown(why) }
    }
}

/// A text of others that can stand in a line: without signs that control a terminal, and not too long.
fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(RULE_SHOWN_MAX).map(|one| if one.is_control() { ' ' } else { one }).collect();
    if text.chars().nth(RULE_SHOWN_MAX).is_some() {
        shown += "..";
    }
    shown
}

/// Makes a policy of rules.
///
/// # Errors
/// A text is not what these programs print, or nothing in it filters what comes in. The message names the line.
pub fn import(texts: &[Text]) -> Result<Import, Refusal> {
    let mut sets = iptables::Sets::default();
    texts.iter().for_each(|text| sets.add(&text.text));
    let mut rules = Ruleset::default();
    for Text { file, text } in texts {
        if text.trim_start().starts_with('{') {
            return Err(Refusal::new(format!("{file}: this is JSON"))
                .hint("give the text that nft list ruleset prints, without an option for JSON"));
        }
        let is_nft = text.lines().any(|line| line.trim_start().starts_with("table "));
        if is_nft {
            nft::read(file, text, &mut rules)?;
        } else {
            iptables::read(file, text, &sets, &mut rules)?;
        }
    }
    let conversion = Conversion::of(&rules)?;
    let files: Vec<&str> = texts.iter().map(|text| text.file.as_str()).collect();
    let text = written::text(&conversion, &files);
    if text.len() as u64 > POLICY_BYTES_MAX {
        return Err(Refusal::new(format!("the policy would have more than {POLICY_BYTES_MAX} bytes"))
            .hint("write it by hand, with the addresses in lists that are files of their own"));
    }
    let policy = policy::of_text(&text)?;
    let differences = differences(&policy, &conversion);
    Ok(Import { text, policy, left_out: conversion.left_out.clone(), differences, remarks: remarks(&conversion) })
}

/// What a policy decides otherwise than the rules.
fn differences(policy: &Policy, conversion: &Conversion) -> Differences {
    let mut differences = Differences::default();
    for packet in samples(policy).iter().chain(&of_loopback()) {
        let is_of = |path: &&pass::Path| (path.direction, path.family) == (packet.direction, packet.family());
        let path = conversion.paths.iter().find(is_of);
        let meant = meaning(policy, packet);
        if path.and_then(|path| path.accepts(packet)).is_some_and(|accepts| accepts != meant.accepts) {
            differences.add(&meant, packet);
        }
    }
    differences
}

/// Packets between programs of a host.
fn of_loopback() -> Vec<Packet> {
    let here = |family| -> IpAddr {
        match family {
            Family::V4 => [127, 0, 0, 1].into(),
            Family::V6 => [0, 0, 0, 0, 0, 0, 0, 1].into(),
        }
    };
    let each = |(family, direction)| Packet {
        direction,
        interface: "lo".to_owned(),
        source: here(family),
        destination: here(family),
        content: Content::Tcp { from: 50_000, to: 5_432, flags: Flags::SYN },
        text: Vec::new(),
        is_established: false,
    };
    FAMILIES.into_iter().flat_map(|family| [Direction::In, Direction::Out].map(|way| (family, way))).map(each).collect()
}

fn remarks(conversion: &Conversion) -> Vec<String> {
    let mut remarks = conversion.remarks.clone();
    let families = &conversion.families;
    if let Some(family) = FAMILIES.into_iter().find(|family| !families.contains(family)) {
        let (name, program) = match family {
            Family::V4 => ("IPv4", "iptables-save"),
            Family::V6 => ("IPv6", "ip6tables-save"),
        };
        remarks.push(format!(
            "the rules say nothing about {name}, of which the policy lets in only what every policy does; add the text of {program}"
        ));
    }
    if !conversion.follows {
        remarks.push(
            "established: the policy accepts all packets of connections that it has accepted; the rules do not, or only some"
                .to_owned(),
        );
    }
    remarks
}
