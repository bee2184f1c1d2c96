//! The rules that this host has now.

use crate::limits::DENY_SECONDS_MAX;
use crate::nft::asked;
use crate::policy::range;
use crate::rules::{Rules, TABLE, is_digest, name};
use millstream_host::{Sandbox, Ssh};
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Range};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a line has dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drops {
    /// `incoming` or `outgoing`.
    pub direction: String,
    /// Name of the line.
    pub line: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A rule that `plan` adds or takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whether it is new.
    pub is_new: bool,
    /// The line, as nft prints it.
    pub text: String,
}

/// What each line of the policy in effect has dropped, in the order of the rules. `None`: no policy is in effect.
///
/// # Errors
/// nft is missing, or this account may not ask.
pub async fn drops() -> Result<Option<Vec<Drops>>, Refusal> {
    // Terse: without the elements of sets, which may be millions.
    let text = asked(&["--terse", "--json", "list", "table", "inet", TABLE]).await?;
    Ok(text.map(|text| drops_of(&text)))
}

/// Several rules may stand for a line.
fn drops_of(json: &str) -> Vec<Drops> {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let rules = listed["nftables"].as_array().into_iter().flatten().map(|object| &object["rule"]);
    let mut found: Vec<Drops> = Vec::new();
    for rule in rules {
        let (Some(direction), Some(line)) = (rule["chain"].as_str(), rule["comment"].as_str()) else { continue };
        let counters = rule["expr"].as_array().into_iter().flatten().map(|expression| &expression["counter"]);
        for counter in counters.filter(|counter| counter.is_object()) {
            let [packets, bytes] = ["packets", "bytes"].map(|what| counter[what].as_u64().unwrap_or(0));
            match found.iter_mut().find(|one| (one.direction.as_str(), one.line.as_str()) == (direction, line)) {
                Some(one) => {
                    one.packets += packets;
                    one.bytes += bytes;
                }
                None => found.push(Drops { direction: direction.to_owned(), line: line.to_owned(), packets, bytes }),
            }
        }
    }
    found
}

/// What is denied for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// An address, a prefix, or `FIRST-LAST`.
    pub what: String,
    /// Seconds until it is not denied any more.
    pub seconds: u64,
}

/// What is denied for a time now.
///
/// # Errors
/// No policy is in effect, or this account may not ask.
pub async fn denied() -> Result<Vec<Denied>, Refusal> {
    let mut all = Vec::new();
    for set in FAMILIES.map(|family| name("denied", family)) {
        let text = asked(&["--json", "list", "set", "inet", TABLE, &set]).await?.ok_or_else(no_policy)?;
        all.extend(denied_of(&text));
    }
    Ok(all)
}

fn denied_of(json: &str) -> Vec<Denied> {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let sets = listed["nftables"].as_array().into_iter().flatten();
    let elements = sets.filter_map(|object| object["set"]["elem"].as_array()).flatten().map(|one| &one["elem"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let what = |value: &Value| {
        let (prefix, range) = (&value["prefix"], &value["range"]);
        match value {
            _ if prefix.is_object() => format!("{}/{}", text(&prefix["addr"]), prefix["len"]),
            _ if range.is_array() => format!("{}-{}", text(&range[0]), text(&range[1])),
            address => text(address),
        }
    };
    let seconds = |one: &Value| one["expires"].as_u64().unwrap_or(0);
    elements.map(|one| Denied { what: what(&one["val"]), seconds: seconds(one) }).collect()
}

fn no_policy() -> Refusal {
    Refusal::new("no policy is in effect, so nothing can be denied")
        .hint("millstream guard apply POLICY loads the rules of one")
}

/// Denies addresses for a time: an address, a prefix, or `FIRST-LAST`. Returns what is denied.
///
/// # Errors
/// The text is none, your own connection comes from there, no policy is in effect, or this account may not.
pub async fn deny(text: &str, time: Duration) -> Result<String, Refusal> {
    let range = range(text)?;
    let seconds = time.as_secs();
    if !(1..=DENY_SECONDS_MAX).contains(&seconds) {
        let days = DENY_SECONDS_MAX / 86_400;
        return Err(Refusal::new(format!("--for takes from a second to {days} days"))
            .hint("what is to be denied for good belongs in the policy: deny = [\"192.0.2.0/24\"]"));
    }
    let what = shown(range);
    if let Some(ssh) = Ssh::here().filter(|ssh| range.contains(ssh.peer)) {
        return Err(Refusal::new(format!("that would deny {}, from which your own ssh connection comes", ssh.peer)));
    }
    let set = name("denied", range.family);
    let element = format!("{{ {range} timeout {seconds}s }}");
    match asked(&["add", "element", "inet", TABLE, &set, &element]).await {
        Ok(Some(_)) => Ok(what),
        Ok(None) => Err(no_policy()),
        Err(refusal) if refusal.problem.contains("overlap") => {
            Err(Refusal::new(format!("{what} overlaps with what is denied for a time already"))
                .hint("millstream guard deny lists that, and millstream guard deny ADDRESS --remove ends it"))
        }
        Err(refusal) => Err(refusal),
    }
}

/// Ends that addresses are denied for a time. Returns what is not denied any more.
///
/// # Errors
/// The text is none, these are not denied in this way, or this account may not.
pub async fn end_denial(text: &str) -> Result<String, Refusal> {
    let range = range(text)?;
    let set = name("denied", range.family);
    let ended = asked(&["delete", "element", "inet", TABLE, &set, &format!("{{ {range} }}")]).await;
    match ended {
        Ok(Some(_)) => Ok(shown(range)),
        Ok(None) => Err(Refusal::new(format!("{} is not denied for a time", shown(range)))
            .hint("millstream guard deny lists what is, and each goes as it was denied")),
        Err(refusal) => Err(refusal),
    }
}

/// A range as people write it.
fn shown(range: Range) -> String {
    let mut prefixes = range.prefixes();
    match (prefixes.next(), prefixes.next()) {
        (Some((address, length)), None) if length == range.family.bits() => address.to_string(),
        (Some((address, length)), None) => format!("{address}/{length}"),
        _ => range.to_string(),
    }
}

/// How the rules in effect would change. Elements of sets count by their number and hash.
///
/// # Errors
/// nft is missing, this account may not ask, or no network can be made in which the new rules are read.
pub async fn differences(rules: &Rules) -> Result<Vec<Difference>, Refusal> {
    rules.fit_nft()?;
    const LIST: [&str; 6] = ["--stateless", "--terse", "list", "table", "inet", TABLE];
    let now = asked(&LIST).await?.unwrap_or_default();
    let sandbox = Sandbox::make(1)?;
    sandbox.feed(0, "nft", ["-f", "-"], rules.outline())?;
    let planned = sandbox.run(0, "nft", LIST)?.stdout;
    Ok(differences_of(&now, &planned))
}

/// Lines that only one of the texts has, each as often as it has them more: first those that go, then those that come.
fn differences_of(now: &str, planned: &str) -> Vec<Difference> {
    let counts = |text: &str| {
        let mut counts = BTreeMap::new();
        text.lines().map(str::trim).for_each(|line| *counts.entry(line.to_owned()).or_insert(0_usize) += 1);
        counts
    };
    let only = |one: &str, other: &str, is_new| {
        let mut known = counts(other);
        let mut lines = Vec::new();
        let is_said = |line: &&str| !matches!(*line, "" | "}") && !is_digest(line);
        for line in one.lines().map(str::trim).filter(is_said) {
            match known.get_mut(line) {
                Some(left) if *left > 0 => *left -= 1,
                _ => lines.push(Difference { is_new, text: line.to_owned() }),
            }
        }
        lines
    };
    let mut all = only(now, planned, false);
    all.extend(only(planned, now, true));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_line_are_added_up() {
        let rule = |line: &str, packets: u64| {
            format!(
                r#"{{"rule": {{"chain": "incoming", "comment": "{line}", "expr": [{{"match": {{}}}},
                {{"counter": {{"packets": {packets}, "bytes": 60}}}}, {{"drop": null}}]}}}}"#
            )
        };
        let json = format!(
            r#"{{"nftables": [{{"metainfo": {{}}}}, {}, {}, {}, {{"rule": {{"chain": "incoming", "comment": "ping", "expr": []}}}}]}}"#,
            rule("deny", 2),
            rule("everything-else", 9),
            rule("deny", 3)
        );
        let drops: Vec<_> = drops_of(&json).into_iter().map(|one| (one.line, one.packets, one.bytes)).collect();
        assert_eq!(drops, [("deny".to_owned(), 5, 120), ("everything-else".to_owned(), 9, 60)]);
    }

    #[test]
    fn what_is_denied_is_shown_as_people_write_it() {
        let json = r#"{"nftables": [{"metainfo": {}}, {"set": {"elem": [
            {"elem": {"val": "203.0.113.7", "timeout": 3600, "expires": 3500}},
            {"elem": {"val": {"prefix": {"addr": "10.0.0.0", "len": 8}}, "timeout": 60, "expires": 1}},
            {"elem": {"val": {"range": ["192.0.2.1", "192.0.2.9"]}, "timeout": 60, "expires": 0}}]}}]}"#;
        let found: Vec<_> = denied_of(json).into_iter().map(|one| (one.what, one.seconds)).collect();
        let wanted = [("203.0.113.7", 3_500), ("10.0.0.0/8", 1), ("192.0.2.1-192.0.2.9", 0)];
        assert_eq!(found, wanted.map(|(what, seconds)| (what.to_owned(), seconds)));
        for text in ["203.0.113.7", "10.0.0.0/8", "192.0.2.1-192.0.2.9", "2001:db8::/32"] {
            assert_eq!(shown(range(text).unwrap()), text);
        }
    }

    #[test]
    fn lines_that_both_have_are_no_difference() {
        let found = differences_of("a\n  b\n  b\n}\n", "a\n b\n c\n}\n");
        let found: Vec<_> = found.iter().map(|one| (one.is_new, one.text.as_str())).collect();
        assert_eq!(found, [(false, "b"), (true, "c")]);
    }
}
