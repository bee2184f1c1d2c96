//! Checks every entry of a generation, and what its receipt says about it.

mod last_address;

use crate::error::Error;
use crate::jsonb;
use crate::limits::PROBLEMS_NAMED;
use crate::store::{Entry, Generation};
use millstream_model::range::{FAMILIES, Family, Range};
use serde::Serialize;

/// What a check of a generation found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Entries of the file.
    pub entries: u64,
    /// Those whose key is an IPv4 address.
    pub v4: u64,
    /// Those whose key is an IPv6 address.
    pub v6: u64,
    /// Whether the hash of the file was compared with its receipt when it was opened. A file that another program wrote
    /// has no receipt: it may have changed since.
    pub hashed: bool,
    /// Problems found.
    pub problems: u64,
    /// The first [`PROBLEMS_NAMED`] of them, each as a sentence.
    pub named: Vec<String>,
}

/// Reads all entries and checks them: keys, their order, overlaps, the JSON of the values and whether jsonb could hold
/// it, the last addresses, and the counts in the receipt and in the database `meta`. What is wrong becomes a problem, not
/// an error. The hash and the pages of the file were checked when it was opened.
///
/// # Errors
/// LMDB cannot read the file.
pub fn verify(generation: &Generation) -> Result<Verification, Error> {
    let mut scan = Scan::default();
    for family in FAMILIES {
        scan.begin(family);
        for entry in generation.entries(family)? {
            scan.check(entry?);
        }
    }
    scan.found.hashed = generation.receipt().is_some();
    if let Some(receipt) = generation.receipt() {
        if !receipt.adds_up() {
            scan.problem("the receipt does not add up".into());
        }
        let said = serde_json::to_value(receipt).unwrap_or_default();
        scan.compare("the receipt", &said);
    }
    if let Some(counts) = generation.meta("counts")? {
        match serde_json::from_slice(counts) {
            Ok(said) => scan.compare("the database \"meta\"", &said),
            Err(_) => scan.problem("the counts in the database \"meta\" are not JSON".into()),
        }
    }
    Ok(scan.found)
}

/// The pass over the entries.
#[derive(Default)]
struct Scan {
    found: Verification,
    /// Whose entries come, once any come.
    family: Option<Family>,
    /// The first address of the entry before.
    before: Option<u128>,
    /// Of the family's ranges so far, the one that ends last.
    reach: Option<Range>,
}

impl Scan {
    /// The entries that follow belong to this family.
    fn begin(&mut self, family: Family) {
        (self.family, self.before, self.reach) = (Some(family), None, None);
    }

    fn check(&mut self, entry: Entry<'_>) {
        self.found.entries += 1;
        let (family, start) = match entry.start() {
            Ok(start) => start,
            Err(problem) => return self.problem(format!("{problem}: {}", shown(entry.key))),
        };
        match family {
            Family::V4 => self.found.v4 += 1,
            Family::V6 => self.found.v6 += 1,
        }
        let first = family.address(start);
        if let Some(expected) = self.family.filter(|expected| *expected != family) {
            return self.problem(format!("the key {first} is in the database {:?}", expected.name()));
        }
        if let Some(before) = self.before.filter(|before| start <= *before) {
            self.problem(format!("the key {first} does not come after the one before it, {}", family.address(before)));
        }
        self.before = Some(start);
        let end = match last_address::strict(family, entry.value) {
            Ok(end) => end,
            Err(problem) => return self.problem(format!("the range that begins at {first}: {problem}")),
        };
        if let Some(problem) = std::str::from_utf8(entry.value).ok().and_then(jsonb::problem) {
            self.problem(format!("the range that begins at {first}: {problem}"));
        }
        if end < start {
            let last = family.address(end);
            return self.problem(format!("the range that begins at {first} ends before it, at {last}"));
        }
        let range = Range { family, start, end };
        if let Some(reach) = self.reach.filter(|reach| start <= reach.end) {
            self.problem(format!("{range} overlaps {reach}, which is before it"));
        }
        if self.reach.is_none_or(|reach| reach.end < end) {
            self.reach = Some(range);
        }
    }

    /// Compares counts with what was counted.
    fn compare(&mut self, who: &str, said: &serde_json::Value) {
        let Verification { entries, v4, v6, .. } = self.found;
        for (name, counted) in [("stored", entries), ("stored_v4", v4), ("stored_v6", v6)] {
            match said[name].as_u64() {
                Some(number) if number == counted => {}
                Some(number) => {
                    self.problem(format!("{who} says that {name} is {number}, but the file has {counted}"));
                }
                None => self.problem(format!("{who} does not say how many ranges there are: {name} is missing")),
            }
        }
    }

    fn problem(&mut self, problem: String) {
        self.found.problems += 1;
        if self.found.named.len() < PROBLEMS_NAMED {
            self.found.named.push(problem);
        }
    }
}

/// A key in hex, cut if it is long.
fn shown(key: &[u8]) -> String {
    const SHOWN: usize = 32;
    let mut hex: String = key.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if key.len() > SHOWN {
        hex.push_str("..");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(entries: &[(Family, &[u8], &str)]) -> Verification {
        let mut scan = Scan::default();
        for family in FAMILIES {
            scan.begin(family);
            for (_, key, value) in entries.iter().filter(|entry| entry.0 == family) {
                scan.check(Entry { key, value: value.as_bytes() });
            }
        }
        scan.found
    }

    #[test]
    fn good_entries_are_counted() {
        let found = scanned(&[
            (Family::V4, &[1, 0, 0, 0], "{\"end\":\"010000ff\",\"cc\":\"AU\"}"),
            (Family::V4, &[1, 0, 1, 0], "{ \"cc\": {\"end\": 1}, \"end\": \"010001FF\" }"),
            (Family::V6, &[0; 16], "{\"end\":\"00000000000000000000000000000001\"}"),
        ]);
        assert_eq!(found, Verification { entries: 3, v4: 2, v6: 1, ..Verification::default() });
    }

    #[test]
    fn problems_are_named() {
        let good = "{\"end\":\"01000009\"}";
        for (entries, problems) in [
            (&[(Family::V4, &[1, 0, 0][..], good)][..], &["a key of 3 bytes is not an address: 010000"][..]),
            (&[(Family::V4, &[0; 16][..], good)], &["the key :: is in the database \"v4\""]),
            (
                &[(Family::V4, &[1, 0, 0, 5][..], good), (Family::V4, &[1, 0, 0, 5][..], good)],
                &[
                    "the key 1.0.0.5 does not come after the one before it, 1.0.0.5",
                    "1.0.0.5-1.0.0.9 overlaps 1.0.0.5-1.0.0.9, which is before it",
                ],
            ),
            (
                &[(Family::V4, &[1, 0, 0, 10][..], good)],
                &["the range that begins at 1.0.0.10 ends before it, at 1.0.0.9"],
            ),
            (
                &[
                    (Family::V4, &[1, 0, 0, 0][..], "{\"end\":\"010000ff\"}"),
                    (Family::V4, &[1, 0, 0, 1][..], "{\"end\":\"01000002\"}"),
                    (Family::V4, &[1, 0, 0, 8][..], good),
                    (Family::V4, &[1, 0, 1, 0][..], "{\"end\":\"01000100\"}"),
                ],
                &[
                    "1.0.0.1-1.0.0.2 overlaps 1.0.0.0-1.0.0.255, which is before it",
                    "1.0.0.8-1.0.0.9 overlaps 1.0.0.0-1.0.0.255, which is before it",
                ],
            ),
            (
                &[(Family::V4, &[1, 0, 0, 0][..], "{\"end\":\"01000000\",\"a\":[\"x\\u0000\"]}")],
                &["the range that begins at 1.0.0.0: a string holds \\u0000, which jsonb cannot hold"],
            ),
            (
                &[(Family::V4, &[1, 0, 0, 0][..], "{\"end\":\"01000\"}")],
                &["the range that begins at 1.0.0.0: the member \"end\" has 5 characters; an address of v4 has 8 hex \
                   digits"],
            ),
        ] {
            let found = scanned(entries);
            assert_eq!(found.named, problems);
            assert_eq!((found.problems, found.entries), (problems.len() as u64, entries.len() as u64));
        }
    }

    #[test]
    fn only_the_first_problems_are_named() {
        let key: &[u8] = &[];
        let entries = [(Family::V4, key, "{}"); 2 * PROBLEMS_NAMED];
        let found = scanned(&entries);
        assert_eq!((found.problems, found.named.len()), (2 * PROBLEMS_NAMED as u64, PROBLEMS_NAMED));
    }

    #[test]
    fn counts_are_compared() {
        let mut scan = Scan::default();
        scan.begin(Family::V4);
        scan.check(Entry { key: &[1, 0, 0, 0], value: b"{\"end\":\"01000000\"}" });
        scan.compare("the receipt", &serde_json::json!({"stored": 1, "stored_v4": 1, "stored_v6": 0}));
        assert_eq!(scan.found.problems, 0);
        scan.compare("the receipt", &serde_json::json!({"stored": 2, "stored_v4": 1}));
        let expected = [
            "the receipt says that stored is 2, but the file has 1",
            "the receipt does not say how many ranges there are: stored_v6 is missing",
        ];
        assert_eq!(scan.found.named, expected);
    }
}
