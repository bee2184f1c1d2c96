//! The readers of JSON: lines, arrays and sequences of values, by name or as they are recognised.

use crate::frame::{assert_kept, framed, framed_as};
use crate::grammar::{is_grammatical, is_sequence};
use millstream_document::source::{Dialect, SourceOptions};

/// The first byte of the input says how long a document may be.
const LONGEST: [usize; 2] = [20, 16 << 20];

pub(crate) fn check(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let document_bytes_max = LONGEST[usize::from(choice & 1)];
    framed("auto", input, document_bytes_max);
    beside_the_documents(input);
    for (format, between) in [("ndjson", &b" \t\r\n"[..]), ("json", b" \t\r\n[],")] {
        let Some(frames) = framed(format, input, document_bytes_max) else { continue };
        let mut at = if input.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut whole = true;
        for frame in &frames {
            assert_kept(input, frame);
            let start = usize::try_from(frame.offset).expect("in memory");
            let passed = &input[at..start];
            assert!(passed.iter().all(|byte| between.contains(byte)), "{format} passes over {}", passed.escape_ascii());
            let unreadable = frame.unreadable.as_ref();
            assert!(unreadable.is_some() || input[start..].starts_with(&frame.bytes), "{format}: other bytes");
            assert!(unreadable.is_some() || frame.bytes.len() <= document_bytes_max, "{format}: above the limit");
            let cut = unreadable.and_then(|unreadable| unreadable.truncated_from);
            at = start + cut.map_or(frame.bytes.len(), |bytes| usize::try_from(bytes).expect("in memory"));
            if unreadable.is_some_and(|unreadable| unreadable.ends_source) {
                at = input.len();
                whole = false;
            }
        }
        assert!(
            input[at..].iter().all(|byte| between.contains(byte)),
            "{format} leaves {}",
            input[at..].escape_ascii()
        );
        if format == "json" && is_grammatical(input) {
            assert!(whole, "JSON is called damaged");
            if document_bytes_max > input.len() {
                assert!(frames.iter().all(|frame| is_grammatical(&frame.bytes)), "a frame of JSON is none");
            }
        }
    }
}

/// What stands beside the path of the documents is as good as a document, or the source is damaged.
fn beside_the_documents(value: &[u8]) {
    let text = [b"{\"m\":", value, b",\"a\":[{}]}"].concat();
    let dialect = Dialect { root: vec!["a".into()], ..Dialect::default() };
    let Some(frames) = framed_as("json", &text, &SourceOptions { dialect, ..SourceOptions::default() }) else { return };
    let damage = frames.last().and_then(|frame| frame.unreadable.as_ref()).filter(|unreadable| unreadable.ends_source);
    match damage {
        // Deeper values are JSON, but no document is as deep.
        Some(damage) => assert!(damage.detail.contains("nested deeper") || !is_sequence(&text), "{damage:?}"),
        // The elements of its arrays are judged later.
        None if frames.iter().all(|frame| frame.bytes == b"{}") => assert!(is_sequence(&text), "taken"),
        None => {}
    }
}
