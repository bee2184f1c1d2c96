//! An export as CONTRIBUTING.md says to write one: the first address of each range, a line each.

use crate::error::Error;
use crate::export::{Export, ExportOptions, failed};
use crate::store::Generation;
use std::io::Write;

pub(super) const EXPORT: Export = Export { name: "first-addresses", about: "the first addresses", needs: "", write };

fn write(generation: &Generation, out: &mut dyn Write, _: &ExportOptions) -> Result<u64, Error> {
    let mut ranges = 0;
    for found in generation.ranges()? {
        writeln!(out, "{}", found?.range.first()).map_err(failed)?;
        ranges += 1;
    }
    Ok(ranges)
}
