//! `ranges diff`: compares what addresses get from two stores.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::things;
use crate::screen::visible;
use crate::store_name::StoreName;
use millstream_ranges::limits::DIFFERENCES_NAMED;
use millstream_ranges::{Difference, Differences, braced, diff};
use serde::Serialize;
use serde_json::value::RawValue;
use std::net::IpAddr;

const EXAMPLES: &str = "\
Examples:
  millstream ranges diff cities@6 cities
  millstream ranges diff cities new-cities --limit 20 --output json

A line that begins with - is what addresses get from the first store, one that
begins with + what they get from the second.

Exit code 0 if all addresses get the same, 1 if not, also if the output is read
only in part (| head).";

/// Compare what addresses get from two stores, or from two generations of one
///
/// Only the answers count: a range that is cut in two with equal values is not a difference. Values are equal if they
/// have the same members, in any order.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The store before
    #[arg(value_name = "STORE[@N]")]
    before: StoreName,

    /// The store after
    #[arg(value_name = "STORE[@N]")]
    after: StoreName,

    /// List at most this many differences; all are counted
    #[arg(long, value_name = "N", default_value_t = DIFFERENCES_NAMED)]
    limit: usize,
}

#[derive(Debug, Serialize)]
struct Compared {
    counts: Differences,
    differences: Vec<Listed>,
}

#[derive(Debug, Serialize)]
struct Listed {
    first: IpAddr,
    last: IpAddr,
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
}

/// Runs the command.
pub fn run(args: &DiffArgs, output: Output) -> Result<Exit, Failure> {
    let (mut counts, mut listed) = (Differences::default(), Vec::new());
    let before = args.before.open()?;
    // A process can have a file open only once.
    if !before.is(&args.after.path, args.after.generation)? {
        let after = args.after.open()?;
        counts = diff(&before, &after, &mut |difference| {
            if listed.len() < args.limit {
                listed.push(difference);
            }
            Ok(())
        })?;
    }
    let exit = if counts.is_empty() { Exit::Done } else { Exit::Findings };
    print(counts, listed, output)?;
    Ok(exit)
}

fn print(counts: Differences, listed: Vec<Difference>, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        let differences = listed.into_iter().map(in_json).collect::<Result<_, _>>()?;
        return output.json(&Compared { counts, differences });
    }
    output.list().add(listed.iter().flat_map(lines))?;
    output.line(&summary(&counts, listed.len()))
}

fn in_json(difference: Difference) -> Result<Listed, Failure> {
    let Difference { range, before, after } = difference;
    let value = |members: Option<String>| members.map(|members| RawValue::from_string(braced(&members))).transpose();
    let damaged = |error: serde_json::Error| {
        Failure::user(format!("a value of {range} is not JSON")).because(&error).hint("millstream ranges verify STORE")
    };
    let (before, after) = (value(before).map_err(damaged)?, value(after).map_err(damaged)?);
    Ok(Listed { first: range.first(), last: range.last(), before, after })
}

fn lines(difference: &Difference) -> impl Iterator<Item = String> {
    let range = difference.range;
    let line = move |sign: char, members: &String| format!("{sign} {range}\t{}", visible(&braced(members)));
    let before = difference.before.as_ref().map(|members| line('-', members));
    let after = difference.after.as_ref().map(|members| line('+', members));
    before.into_iter().chain(after)
}

fn summary(counts: &Differences, listed: usize) -> String {
    let Differences { only_a, only_b, changed, .. } = counts;
    if counts.is_empty() {
        return "no difference".to_owned();
    }
    let unlisted = (only_a + only_b + changed).saturating_sub(listed as u64);
    let more = if unlisted > 0 { format!("; {} not listed", things(unlisted, "difference")) } else { String::new() };
    let parts = [
        (*only_a, counts.only_a_addresses, "only in the first"),
        (*only_b, counts.only_b_addresses, "only in the second"),
        (*changed, counts.changed_addresses, "with another value"),
    ];
    let shown = |(ranges, addresses, what): (u64, u128, &str)| {
        format!("{} ({addresses} addresses) {what}", things(ranges, "range"))
    };
    let parts: Vec<String> = parts.into_iter().filter(|(ranges, ..)| *ranges > 0).map(shown).collect();
    parts.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_ranges::{AddressReading, Range};

    #[test]
    fn a_changed_range_is_two_lines() {
        let range = Range::parse("10.0.0.0/30", AddressReading::default()).unwrap();
        let difference = |before: Option<&str>, after: Option<&str>| Difference {
            range,
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let shown = |before, after| lines(&difference(before, after)).collect::<Vec<_>>();
        let (minus, plus) = ("- 10.0.0.0-10.0.0.3\t{\"a\":1}", "+ 10.0.0.0-10.0.0.3\t{\"a\":\\n2}");
        assert_eq!(shown(Some("\"a\":1"), Some("\"a\":\n2")), [minus, plus]);
        assert_eq!(shown(None, Some("\"a\":\n2")), [plus]);
        assert_eq!(shown(Some("\"a\":1"), None), [minus]);
    }

    #[test]
    fn the_summary_counts_what_is_there() {
        let (only_b, changed) = (1, 2);
        let counts =
            Differences { only_b, only_b_addresses: 4, changed, changed_addresses: 9, ..Differences::default() };
        assert_eq!(
            summary(&counts, 2),
            "1 range (4 addresses) only in the second, 2 ranges (9 addresses) with another value; \
             1 difference not listed"
        );
        assert_eq!(summary(&Differences::default(), 0), "no difference");
    }
}
