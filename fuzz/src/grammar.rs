//! The grammar of JSON, as somebody else reads it.

/// Whether serde_json takes the document for JSON.
pub(crate) fn is_grammatical(document: &[u8]) -> bool {
    // Numbers out of range and lone surrogates are no matter of the grammar: they are skipped, not read.
    std::str::from_utf8(document).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// Whether serde_json takes the text for JSON values one after the other.
pub(crate) fn is_sequence(text: &[u8]) -> bool {
    let values = |text| serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    std::str::from_utf8(text).is_ok_and(|text| values(text).all(|value| value.is_ok()))
}
