//! Inputs written down line by line, for the tests of this folder.

use super::{Input, InputOptions, Read, open};
use crate::error::Error;
use crate::limits::READ_BYTES;
use millstream_input::Window;
use millstream_testkit::{Pieces, gzip, zstd};
use std::fs;

/// Reads content of a format. An entry becomes `LINE RANGE MEMBERS`, a reject `LINE ! REASON | TEXT`.
pub(super) fn read(format: &str, content: &[u8], options: &InputOptions) -> Result<Vec<String>, Error> {
    read_named("input", content, &InputOptions { format: format.into(), ..options.clone() })
}

/// Reads the content of a file with a name.
pub(super) fn read_named(name: &str, content: &[u8], options: &InputOptions) -> Result<Vec<String>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    transcribe(open(&path, options)?)
}

/// Reads all of an input.
pub(super) fn transcribe(mut input: Box<dyn Input>) -> Result<Vec<String>, Error> {
    let mut members = "left over".to_owned();
    let mut lines = Vec::new();
    while let Some(Read { line, range }) = input.next(&mut members)? {
        lines.push(match range {
            Ok(range) => format!("{line} {range} {members}"),
            Err(rejected) => {
                assert_eq!(members, "", "a reject has no members");
                format!("{line} ! {} | {}", rejected.reason, rejected.text)
            }
        });
    }
    Ok(lines)
}

type Compress = fn(&[u8]) -> Vec<u8>;

/// The compressions that are opened, with their names.
pub(super) const COMPRESS: [(&str, Compress); 2] = [("gzip", gzip), ("zstd", zstd)];

/// A window over content that comes in reads of so many bytes at most.
pub(super) fn window(content: &[u8], largest: usize) -> Window {
    let pieces = Pieces::new(content, largest, &mut fastrand::Rng::new());
    Window::new(millstream_input::Input::from_reader(Box::new(pieces), "here", None).unwrap(), READ_BYTES)
}
