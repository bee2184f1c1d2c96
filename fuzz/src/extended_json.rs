//! Extended JSON: a document stays JSON, and what is none does not become a document.

use millstream_document::source::Nan;
use millstream_document::transform::{Applied, ExtendedJson, Transform};
use serde::de::IgnoredAny;

pub(crate) fn check(input: &[u8]) {
    let (mut changed, mut applied) = (b"before".to_vec(), Vec::new());
    ExtendedJson::new(Nan::Null).apply(0, &[input, input], &mut changed, &mut applied);
    assert_eq!(applied.len(), 2, "one for each");
    let Applied::Changed(outcome, place) = &applied[0] else {
        assert_eq!(applied[0], applied[1], "the same document, the same end");
        assert_eq!(changed, b"before", "what was begun was left");
        return;
    };
    let text = &changed[place.clone()];
    assert!(changed.starts_with(b"before") && changed.ends_with(text), "the other's place");
    // Old versions write words that JSON does not have.
    let has_word = [&b"NaN"[..], b"Infinity"].iter().any(|word| input.windows(word.len()).any(|some| some == *word));
    if !has_word {
        assert_eq!(is_json(text), is_json(input), "outcome {outcome}: {}", text.escape_ascii());
        assert!(!text.is_empty() && text[0] == input.trim_ascii_start()[0], "another value");
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok() && std::str::from_utf8(text).is_ok()
}
