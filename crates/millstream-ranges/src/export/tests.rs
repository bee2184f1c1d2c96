//! Tests over the list of exports, and what the tests of each share.

mod first_addresses;

use super::*;
use crate::builder::{BuildRequest, Silent, build};
use crate::input::Listed;
use millstream_model::range::AddressReading;
use millstream_pg::Explained as _;
use std::collections::BTreeSet;

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
pub(super) fn exported(name: &str, options: &ExportOptions, ranges: &[(&str, &str)]) -> Result<(Vec<u8>, u64), Error> {
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

/// What holds for every export of a list.
fn check(exports: &[&Export]) {
    let names: BTreeSet<_> = exports.iter().map(|export| export.name).collect();
    assert_eq!(names.len(), exports.len(), "names are unique");
    let (_folder, generation) = store(&[("1.0.0.0", "\"a\":1")]);
    for export in exports {
        assert!(!export.about.is_empty(), "{}", export.name);
        assert!(!export.about.ends_with('.') && !export.needs.ends_with('.'), "{}", export.name);
        let error = export.run(&generation, &mut Full, &ExportOptions::default()).unwrap_err();
        let broken = matches!(&error, Error::File { source, .. } if source.kind() == io::ErrorKind::BrokenPipe);
        assert!(broken, "{}: {error:?}", export.name);
    }
}

/// A file that takes nothing.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_export_of_the_list_is_whole() {
    check(EXPORTS);
}

#[test]
fn an_export_is_one_file_and_two_lines() {
    let all: Vec<&Export> = EXPORTS.iter().copied().chain([&first_addresses::EXPORT]).collect();
    check(&all);
    let (_folder, generation) = store(&[("1.0.0.0-1.0.0.9", ""), ("2001:db8::/32", "\"a\":1")]);
    let mut out = Vec::new();
    assert_eq!(first_addresses::EXPORT.run(&generation, &mut out, &ExportOptions::default()).unwrap(), 2);
    assert_eq!(String::from_utf8(out).unwrap(), "1.0.0.0\n2001:db8::\n");
}

#[test]
fn an_unknown_name_is_refused_with_those_that_exist() {
    let error = exported("xml", &ExportOptions::default(), &[("1.0.0.0", "")]).unwrap_err();
    assert_eq!(error.to_string(), "there is no export \"xml\"");
    assert_eq!(error.hint().as_deref(), Some("choose one of csv, mmdb, ndjson, nftables, sql"));
}
