//! The rules that this host has now.

use crate::nft::listed;
use crate::rules::{Rules, TABLE, is_digest, name};
use millstream_host::Sandbox;
use millstream_model::Refusal;
use millstream_model::range::{Range, Reading};
use millstream_model::words::{command, option};
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
    let text = listed(&["--terse", "--json", "list", "table", "inet", TABLE]).await?;
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

/// Denies addresses for a time: an address, a prefix, or `FIRST-LAST`. Returns what is denied.
///
/// # Errors
/// The text is none, no policy is in effect, or this account may not.
pub async fn deny(text: &str, time: Duration) -> Result<Range, Refusal> {
    let range = Range::parse(text, Reading { unmap: true, numbers: None }).map_err(Refusal::new)?;
    let seconds = time.as_secs();
    if seconds == 0 {
        return Err(Refusal::new(format!("{} takes at least a second", option("for"))));
    }
    let set = name("denied", range.family);
    let element = format!("{{ {range} timeout {seconds}s }}");
    match listed(&["add", "element", "inet", TABLE, &set, &element]).await {
        Ok(Some(_)) => Ok(range),
        Ok(None) => Err(Refusal::new("no policy is in effect, so nothing can be denied")
            .hint(format!("{} loads the rules of one", command("guard apply POLICY")))),
        Err(refusal) if refusal.problem.contains("overlap") => {
            Err(Refusal::new(format!("{range} overlaps with what is denied for a time already")))
        }
        Err(refusal) => Err(refusal),
    }
}

/// How the rules in effect would change. Elements of sets count by their number and hash.
///
/// # Errors
/// nft is missing, this account may not ask, or no network can be made in which the new rules are read.
pub async fn differences(rules: &Rules) -> Result<Vec<Difference>, Refusal> {
    const LIST: [&str; 6] = ["--stateless", "--terse", "list", "table", "inet", TABLE];
    let now = listed(&LIST).await?.unwrap_or_default();
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
    fn lines_that_both_have_are_no_difference() {
        let found = differences_of("a\n  b\n  b\n}\n", "a\n b\n c\n}\n");
        let found: Vec<_> = found.iter().map(|one| (one.is_new, one.text.as_str())).collect();
        assert_eq!(found, [(false, "b"), (true, "c")]);
    }
}
