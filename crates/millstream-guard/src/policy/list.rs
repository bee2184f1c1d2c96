//! Lists of addresses: from the policy itself, from a file, or from a store of IP ranges.

use crate::limits::{LIST_BYTES_MAX, RANGES_MAX};
use millstream_host::read_at_most;
use millstream_model::Refusal;
use millstream_model::range::{AddressReading, Range};
use std::path::Path;

/// How addresses are written: `::ffff:1.2.3.4` means `1.2.3.4`, because the kernel sees such packets as IPv4.
const READING: AddressReading = AddressReading { unmap: true, numbers: None };

/// A range as people write it: an address, a prefix, or `FIRST-LAST`.
pub(crate) fn range(text: &str) -> Result<Range, Refusal> {
    Range::parse(text, READING).map_err(Refusal::new)
}

/// The ranges of a text file: one on each line, and what follows a `#` or a `;` is a comment.
pub(super) fn of_file(file: &Path) -> Result<Vec<Range>, Refusal> {
    let text = read_at_most(file, LIST_BYTES_MAX, Some("make several lists of it"))?;
    let mut ranges = Vec::new();
    // Some programs begin a text with a mark of its encoding.
    for (n, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if !line.is_empty() {
            ranges.push(range(line).map_err(Refusal::at(format_args!("{}:{}", file.display(), n + 1)))?);
        }
    }
    Ok(ranges)
}

/// The same addresses as ranges that neither overlap nor touch, in order.
pub(super) fn merged(mut ranges: Vec<Range>) -> Result<Vec<Range>, Refusal> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.family == range.family && range.start <= last.end.saturating_add(1) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    if merged.len() > RANGES_MAX {
        return Err(Refusal::new(format!("{} ranges are more than {RANGES_MAX}", merged.len())));
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn overlapping_and_touching_ranges_become_one() {
        let texts = ["10.0.0.128-10.0.1.5", "10.0.0.0/25", "255.255.255.255", "::/0", "fe80::1", "10.0.1.7"];
        let ranges = texts.map(|text| range(text).unwrap()).to_vec();
        let merged: Vec<String> = merged(ranges).unwrap().iter().map(ToString::to_string).collect();
        let all = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(merged, ["10.0.0.0-10.0.1.5", "10.0.1.7-10.0.1.7", "255.255.255.255-255.255.255.255", all]);
    }

    #[test]
    fn a_file_has_a_range_on_each_line_and_a_bad_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        fs::write(&file, "\u{feff}# ours\n10.0.0.0/8   # all\n\n2001:db8::1 ; one\n").unwrap();
        assert_eq!(of_file(&file).unwrap().len(), 2);
        fs::write(&file, "10.0.0.0/8\n10.0.0.1/8\n").unwrap();
        let problem = of_file(&file).unwrap_err().problem;
        assert!(problem.contains("list:2: 10.0.0.1 has bits beyond /8"), "{problem}");
    }
}
