//! JSON that PostgreSQL's type jsonb cannot hold.

use memchr::memchr;

/// Why jsonb refuses a JSON text that is otherwise correct; `None` if its strings are fine. Numbers beyond the range of
/// `numeric` are left to the server.
///
/// Source: PostgreSQL manual, "JSON Types": `\u0000` is rejected, and so are surrogates that are not a pair.
pub(crate) fn problem(json: &str) -> Option<&'static str> {
    let mut rest = json.as_bytes();
    // A backslash stands only in strings.
    while let Some(at) = memchr(b'\\', rest) {
        rest = &rest[at + 1..];
        let Some(unit) = unit(rest) else {
            rest = rest.get(1..)?;
            continue;
        };
        rest = &rest[5..];
        match unit {
            0 => return Some("a string holds \\u0000, which jsonb cannot hold"),
            0xd800..=0xdbff => {
                let low = rest.strip_prefix(b"\\").and_then(self::unit);
                if !low.is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) {
                    return Some("a string holds half a surrogate pair, which jsonb cannot hold");
                }
                rest = &rest[6..];
            }
            0xdc00..=0xdfff => return Some("a string holds half a surrogate pair, which jsonb cannot hold"),
            _ => {}
        }
    }
    None
}

/// The number of an escape such as `u00e4`, given without its backslash.
fn unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"u")?.get(..4)?;
    digits.iter().try_fold(0, |number: u32, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_jsonb_refuses_are_found() {
        for (json, refused) in [
            ("{\"a\":1}", false),
            ("{\"a\":\"\\u0000\"}", true),
            ("{\"a\":\"\\\\u0000\"}", false),
            ("{\"a\":\"\\\\\\u0000\"}", true),
            ("{\"\\u0000\":1}", true),
            ("{\"a\":\"\\u00e9\\n\\\"\"}", false),
            ("{\"a\":\"\\ud83d\\ude00\"}", false),
            ("{\"a\":\"\\uD83D\\uDE00\\ud83d\"}", true),
            ("{\"a\":\"\\ud83d\\u0041\"}", true),
            ("{\"a\":\"\\ud83dA\"}", true),
            ("{\"a\":\"\\ude00\"}", true),
            ("{\"a\":\"\\ud83d\\ude00\\u0000\"}", true),
            ("{\"a\":\"\\", false),
            ("{\"a\":\"\\u00", false),
        ] {
            assert_eq!(problem(json).is_some(), refused, "{json}");
        }
    }
}
