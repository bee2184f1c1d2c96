//! NDJSON: a line for each range, members as they are stored.

use super::{Export, ExportOptions, braced, failed, members, unfit};
use crate::error::Error;
use crate::store::Generation;
use crate::value;
use std::io::Write;

pub(super) const EXPORT: Export = Export {
    name: "ndjson",
    about: "a JSON object on each line: start, end, and the members as they are stored",
    needs: "",
    write,
};

fn write(generation: &Generation, out: &mut dyn Write, _: &ExportOptions) -> Result<u64, Error> {
    let mut ranges = 0;
    for found in generation.ranges()? {
        let found = found?;
        let members = members(&found)?;
        if has_start(&members) {
            let problem = "its member \"start\" has the name of a member of the export";
            return Err(unfit(found.range, problem, "export it as csv"));
        }
        let (first, last) = (found.range.first(), found.range.last());
        write!(out, "{{\"start\":\"{first}\",\"end\":\"{last}\"").map_err(failed)?;
        if !members.is_empty() {
            out.write_all(b",").map_err(failed)?;
        }
        // Only between tokens can a line end, and there it means what a space means.
        for part in members.split_inclusive(['\n', '\r']) {
            let line = part.trim_end_matches(['\n', '\r']);
            out.write_all(line.as_bytes()).map_err(failed)?;
            if line.len() < part.len() {
                out.write_all(b" ").map_err(failed)?;
            }
        }
        out.write_all(b"}\n").map_err(failed)?;
        ranges += 1;
    }
    Ok(ranges)
}

fn has_start(members: &str) -> bool {
    // Parsed only if it is likely.
    members.contains("\"start\"")
        && value::object(&braced(members)).is_ok_and(|members| members.iter().any(|(name, _)| name == "start"))
}

#[cfg(test)]
mod tests {
    use super::super::ExportOptions;
    use super::super::tests::{exported, text};

    #[test]
    fn members_are_written_as_they_are_stored() {
        let ranges = [
            ("1.0.0.0-1.0.129.0", "\"cc\": \"AU\",\"n\":1.50"),
            ("1.2.0.0", "\"a\":{\"start\":1},\n \"b\":\"\\n\""),
            ("::/0", ""),
        ];
        let expected = "{\"start\":\"1.0.0.0\",\"end\":\"1.0.129.0\",\"cc\": \"AU\",\"n\":1.50}\n\
            {\"start\":\"1.2.0.0\",\"end\":\"1.2.0.0\",\"a\":{\"start\":1},  \"b\":\"\\n\"}\n\
            {\"start\":\"::\",\"end\":\"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\"}\n";
        assert_eq!(text("ndjson", &ranges), expected);
    }

    #[test]
    fn a_member_that_would_appear_twice_is_refused() {
        let ranges = [("1.0.0.0", "\"start\":1")];
        let error = exported("ndjson", &ExportOptions::default(), &ranges).unwrap_err();
        assert!(error.to_string().starts_with("1.0.0.0-1.0.0.0: its member \"start\""), "{error}");
    }
}
