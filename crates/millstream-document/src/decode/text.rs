//! Replaces the escapes of a JSON string by the characters that they stand for.

use crate::scan::code_unit;

/// Appends the text that a scanned string, without its quotes, stands for.
pub(super) fn put_unescaped(string: &[u8], out: &mut Vec<u8>) {
    let mut rest = string;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (character, used) = unescape(&rest[at..]);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
}

/// The character of the escape at the front, and the length of the escape in bytes.
fn unescape(escape: &[u8]) -> (char, usize) {
    let character = match escape[1] {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unescape_unicode(escape),
        byte => char::from(byte),
    };
    (character, 2)
}

fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let units = [2, 8].map(|at| code_unit(escape, at).unwrap_or(0));
    let character = char::decode_utf16(units).next().and_then(Result::ok);
    let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
    (character, character.len_utf16() * 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        for (string, text) in [
            ("", ""),
            ("plain é", "plain é"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"a\u00e9b", "aéb"),
            (r"\uD83D\uDE00!", "😀!"),
            (r"\u20AC\u20ac", "€€"),
            (r"\\u0041", "\\u0041"),
            (r"x\u0041", "xA"),
            (r"\u0041123456", "A123456"),
        ] {
            let mut out = Vec::new();
            put_unescaped(string.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text, "{string}");
        }
    }
}
