//! Files that are no text, and what is asserted of the lines that they become.

use millstream_input::{End, Input, MALFORMED, Window, is_guarded};
use serde::de::IgnoredAny;
use std::io::Write;
use std::sync::Once;

/// Bytes that are read at once, which must give the same text.
const READ_BYTES: [usize; 2] = [7, 64 << 10];

/// Most text that is looked at: a few bytes can stand for any number of nulls.
const TEXT_BYTES: usize = 1 << 20;

/// Reads a file with such bytes in two ways. In a build without its converter, nothing is read.
pub(crate) fn check(input: &[u8]) {
    spare_guarded();
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(input).expect("room for it");
    let [one, other] = READ_BYTES.map(|read_bytes| text(file.path(), read_bytes));
    assert_eq!(one, other, "the sizes of reads change the text");
    let Some((text, is_cut)) = one else { return };
    assert!(text.is_empty() || is_cut || text.ends_with(b"\n"), "half a line");
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        // What is not UTF-8 stays so within strings.
        let text = String::from_utf8_lossy(line);
        let is_object = text.starts_with('{') && serde_json::from_str::<IgnoredAny>(&text).is_ok();
        // JSON of others may nest deeper than this reader goes.
        let is_known = is_object || line.starts_with(&[MALFORMED]) || line.len() > 128;
        assert!(is_known, "no object: {}", line.escape_ascii());
    }
}

/// The text of a file that is no text, and whether there is more of it. `None`: it is refused, or is text.
fn text(path: &std::path::Path, read_bytes: usize) -> Option<(Vec<u8>, bool)> {
    let mut window = Window::new(Input::open(path).ok()?, read_bytes);
    window.made()?;
    window.begin_text(None).ok()?;
    while window.bytes().len() < TEXT_BYTES {
        match window.fill() {
            Ok(true) => {}
            Ok(false) => {
                assert!(window.end().is_some_and(|end| matches!(end, End::Clean | End::Damaged(_))));
                return Some((window.bytes().to_vec(), false));
            }
            Err(_) => return None,
        }
    }
    Some((window.bytes()[..TEXT_BYTES].to_vec(), true))
}

/// libFuzzer ends at every panic. Those of a decoder are caught by its converter, as in the program.
fn spare_guarded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_guarded() {
                hook(info);
            }
        }));
    });
}
