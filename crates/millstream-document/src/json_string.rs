//! Text as a JSON string.

/// Appends the text in quotes, with the escapes that `escape_json` (json.c) writes: serde_json writes the same ones.
pub(crate) fn put_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string can be written into memory");
}
