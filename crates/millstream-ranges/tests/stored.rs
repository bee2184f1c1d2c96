//! What the tests build stores from, and what stores then know.

use millstream_ranges::export::{ExportOptions, export};
use millstream_ranges::input::{Input, InputOptions, Listed, open};
use millstream_ranges::{
    BuildRequest, Error, Family, Generation, Observer, Progress, Range, Receipt, Reject, Silent, build, verify,
};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Ranges in memory, each with its members. `None` is a bad entry.
pub(crate) fn given(ranges: impl IntoIterator<Item = (Option<Range>, String)>) -> Box<Listed> {
    let bad = || "it is bad".to_owned();
    Box::new(Listed::new(
        "given",
        ranges.into_iter().map(|(range, members)| (range.ok_or_else(bad), members)).collect(),
    ))
}

/// A range of numbers.
pub(crate) fn range(family: Family, start: u128, end: u128) -> Range {
    Range { family, start, end }
}

/// Builds a store with the defaults.
pub(crate) fn built(
    store: &Path,
    ranges: impl IntoIterator<Item = (Range, String)>,
    change: impl FnOnce(&mut BuildRequest),
) -> Result<Receipt, Error> {
    let mut request = BuildRequest::new(store.to_owned());
    change(&mut request);
    let given = given(ranges.into_iter().map(|(range, members)| (Some(range), members)));
    build(&request, vec![given], &Silent)
}

/// Builds a store with one range of IPv4, whose members name the build.
pub(crate) fn one(store: &Path, name: u32) {
    built(store, [(range(Family::V4, 10, 20), format!("\"build\":{name}"))], |_| ()).unwrap();
}

/// Keeps what a build rejects.
#[derive(Default)]
struct Noted(Mutex<Vec<Reject>>);

impl Observer for Noted {
    fn rejected(&self, reject: &Reject) {
        self.0.lock().unwrap().push(reject.clone());
    }
    fn progress(&self, _: Progress) {}
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Builds a store. Returns what it rejected, too.
pub(crate) fn built_of(request: &BuildRequest, inputs: Vec<Box<dyn Input>>) -> Result<(Receipt, Vec<Reject>), Error> {
    let noted = Noted::default();
    let receipt = build(request, inputs, &noted)?;
    Ok((receipt, noted.0.into_inner().unwrap()))
}

/// The same from a file.
pub(crate) fn built_from(
    request: &BuildRequest,
    file: &Path,
    options: &InputOptions,
) -> Result<(Receipt, Vec<Reject>), Error> {
    built_of(request, vec![open(file, options)?])
}

/// The current generation of a store that is built from a file with the defaults.
pub(crate) fn stored(store: PathBuf, file: &Path) -> Generation {
    built_from(&BuildRequest::new(store.clone()), file, &InputOptions::default()).unwrap();
    Generation::open(&store, None).unwrap()
}

/// What a store knows about the addresses of a family.
pub(crate) fn found(store: &Generation, family: Family, number: u128) -> Option<String> {
    let found = store.get(family.address(number)).unwrap()?;
    Some(found.members().unwrap().into_owned())
}

/// What the current generation of a store knows about an address.
pub(crate) fn known(store: &Path, address: &str) -> Option<String> {
    let generation = Generation::open(store, None).unwrap();
    let found = generation.get(address.parse().unwrap()).unwrap()?;
    Some(found.members().unwrap().into_owned())
}

/// What an export writes, as bytes.
pub(crate) fn exported(generation: &Generation, format: &str, options: &ExportOptions) -> Vec<u8> {
    let mut out = Vec::new();
    export(generation, format, &mut out, options).unwrap();
    out
}

/// Whether the current generation of a store has no problem.
pub(crate) fn is_whole(store: &Path) -> bool {
    verify(&Generation::open(store, None).unwrap()).unwrap().problems == 0
}

/// Files of a store that belong to no generation.
pub(crate) fn leftovers(store: &Path) -> Vec<String> {
    let names = store.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_known = |name: &String| {
        ["current", "lock"].contains(&name.as_str()) || name.ends_with(".lmdb") || name.ends_with(".json")
    };
    names.filter(|name| !is_known(name)).collect()
}
