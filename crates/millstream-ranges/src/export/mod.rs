//! Exports write the ranges of a generation in formats that other programs read. One file per format; a new format is
//! one file and two lines here. A table of PostgreSQL needs a connection and stands apart.

mod csv;
mod mmdb;
mod ndjson;
mod nftables;
mod sql;
mod table;

pub use table::{TableOptions, lateral, to_table};

use crate::error::Error;
use crate::store::{Found, Generation};
use crate::value::braced;
use millstream_model::range::Range;
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A format.
#[derive(Debug)]
pub struct Export {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it writes, in a few words.
    pub about: &'static str,
    /// What it needs beside the store; empty if nothing.
    pub needs: &'static str,
    write: fn(&Generation, &mut dyn Write, &ExportOptions) -> Result<u64, Error>,
}

/// Every format.
pub const EXPORTS: &[&Export] = &[&csv::EXPORT, &mmdb::EXPORT, &ndjson::EXPORT, &nftables::EXPORT, &sql::EXPORT];

/// What some formats are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// `sql`: the table, as `NAME` or `SCHEMA.NAME`. `nftables`: the table. `mmdb`: the type of the database.
    pub name: String,
    /// `mmdb`: leave out IPv6 addresses in `::/96`, which is where such a file keeps IPv4. Without it, a range there is
    /// an error.
    pub without_ipv4_space: bool,
    /// `csv`: write networks, such as `10.0.0.0/8`, in one column, and not the first and the last address in two. A range
    /// that is not a network gets a line for each of the networks that make it up.
    pub cidr: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { name: "ip_ranges".into(), without_ipv4_space: false, cidr: false }
    }
}

/// Writes all ranges in the format of a name. Returns how many ranges were written.
///
/// # Errors
/// There is no such format, or it cannot hold a range; the store cannot be read; `out` fails, and what it has is then
/// no whole file.
pub fn export(generation: &Generation, name: &str, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
    let Some(export) = EXPORTS.iter().find(|export| export.name == name) else {
        let names: Vec<&str> = EXPORTS.iter().map(|export| export.name).collect();
        let problem = format!("there is no export {name:?}");
        return Err(Error::refused(problem, format!("choose one of {}", names.join(", "))));
    };
    export.run(generation, out, options)
}

impl Export {
    fn run(&self, generation: &Generation, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
        let mut out = BufWriter::new(out);
        let ranges = (self.write)(generation, &mut out, options)?;
        out.flush().map_err(failed)?;
        Ok(ranges)
    }
}

fn failed(error: io::Error) -> Error {
    Error::file("write", Path::new("the export"))(error)
}

/// A range that the format cannot hold. The value itself is not shown.
fn unfit(range: Range, problem: &str, hint: &str) -> Error {
    Error::refused(format!("{range}: {problem}"), hint)
}

/// The members of a range, as JSON without the braces.
fn members<'a>(found: &Found<'a>) -> Result<Cow<'a, str>, Error> {
    found.members().map_err(|problem| damaged(found.range, &problem))
}

/// A range whose value is not what a store holds.
fn damaged(range: Range, problem: &str) -> Error {
    unfit(range, problem, "see what else is wrong: millstream ranges verify STORE")
}

#[cfg(test)]
mod tests;
