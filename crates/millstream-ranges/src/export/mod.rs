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
    let mut out = BufWriter::new(out);
    let ranges = (export.write)(generation, &mut out, options)?;
    out.flush().map_err(failed)?;
    Ok(ranges)
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
mod tests {
    use super::*;
    use crate::builder::{BuildRequest, Silent, build};
    use crate::input::Listed;
    use millstream_model::range::AddressReading;
    use millstream_pg::Explained as _;

    /// A store of these ranges and members. It is removed with the folder.
    pub(super) fn store(ranges: &[(&str, &str)]) -> (tempfile::TempDir, Generation) {
        let folder = tempfile::tempdir().unwrap();
        let parsed =
            |(range, members): &(&str, &str)| (Range::parse(range, AddressReading::default()), (*members).to_owned());
        let listed = Listed::new("listed", ranges.iter().map(parsed).collect());
        let path = folder.path().join("store");
        build(&BuildRequest::new(path.clone()), vec![Box::new(listed)], &Silent).unwrap();
        let generation = Generation::open(&path, None).unwrap();
        (folder, generation)
    }

    /// What an export of these ranges writes, and how many it counts.
    pub(super) fn exported(
        name: &str,
        options: &ExportOptions,
        ranges: &[(&str, &str)],
    ) -> Result<(Vec<u8>, u64), Error> {
        let (_folder, generation) = store(ranges);
        let mut out = Vec::new();
        let written = export(&generation, name, &mut out, options)?;
        Ok((out, written))
    }

    /// The same as text, with default options.
    pub(super) fn text(name: &str, ranges: &[(&str, &str)]) -> String {
        let (out, written) = exported(name, &ExportOptions::default(), ranges).unwrap();
        assert_eq!(written, ranges.len() as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn exports_have_names_of_their_own_and_say_what_they_are() {
        for (n, export) in EXPORTS.iter().enumerate() {
            assert!(EXPORTS[..n].iter().all(|other| other.name != export.name), "{}", export.name);
            assert!(!export.about.is_empty(), "{}", export.name);
            assert!(!export.about.ends_with('.') && !export.needs.ends_with('.'), "{}", export.name);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_exist() {
        let error = exported("xml", &ExportOptions::default(), &[("1.0.0.0", "")]).unwrap_err();
        assert_eq!(error.to_string(), "there is no export \"xml\"");
        assert_eq!(error.hint().as_deref(), Some("choose one of csv, mmdb, ndjson, nftables, sql"));
    }

    #[test]
    fn a_failed_write_is_an_error_of_the_file() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (_folder, generation) = store(&[("1.0.0.0", "\"a\":1")]);
        for format in EXPORTS {
            let error = export(&generation, format.name, &mut Full, &ExportOptions::default()).unwrap_err();
            let broken = matches!(&error, Error::File { source, .. } if source.kind() == io::ErrorKind::BrokenPipe);
            assert!(broken, "{}: {error:?}", format.name);
        }
    }
}
