//! The grammar of JSON, as somebody else reads it.

use serde_json::value::RawValue;

/// Whether serde_json takes the document for JSON.
pub(crate) fn is_grammatical(document: &[u8]) -> bool {
    // Numbers out of range and lone surrogates are no matter of the grammar: they are skipped, not read.
    std::str::from_utf8(document).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// Whether serde_json takes the text for JSON objects one after the other.
pub(crate) fn is_sequence(text: &[u8]) -> bool {
    let objects = |text| serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>();
    let is_object = |value: serde_json::Result<Box<RawValue>>| value.is_ok_and(|value| value.get().starts_with('{'));
    std::str::from_utf8(text).is_ok_and(|text| objects(text).all(is_object))
}
