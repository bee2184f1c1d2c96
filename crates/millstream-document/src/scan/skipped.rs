//! The elements of text that is passed over, not stored: strings piece by piece, numbers and literals.

use super::flaw::Flaw;
use super::scanner::Scanner;

/// What is wrong, and at which byte.
pub(crate) type Broken = (usize, String);

/// Checks the next piece of a string whose opening quote was passed. Returns how many bytes belong to it, and whether
/// the last of them closes it. What may be the beginning of an escape or of a character is left for the next piece.
///
/// # Errors
/// What is not JSON. It is the same for any pieces.
pub(crate) fn text(piece: &[u8]) -> Result<(usize, bool), Broken> {
    let mut scanner = Scanner::of_grammar(piece);
    let (len, closed, flaw) = match scanner.rest_of_string(0) {
        Ok(end) => (end, true, None),
        Err(_) => match scanner.flaw() {
            (Flaw::StringEnd, at) => (at, false, None),
            // The piece ends behind a backslash, or within the digits of a `\u`.
            (Flaw::Escape, at) if at == piece.len() => (at - 1, false, None),
            (Flaw::UnicodeEscape, at) if at + 4 > piece.len() => (at - 2, false, None),
            (flaw, at) => (at, false, Some(flaw)),
        },
    };
    match (std::str::from_utf8(&piece[..len]), flaw) {
        (Ok(_), None) => Ok((len, closed)),
        (Ok(_), Some(flaw)) => Err((len, flaw.sentence())),
        (Err(error), None) if error.error_len().is_none() => Ok((error.valid_up_to(), false)),
        (Err(error), _) => Err((error.valid_up_to(), "a string is not UTF-8".into())),
    }
}

/// Checks a whole number or literal.
///
/// # Errors
/// What is not JSON.
pub(crate) fn bare(token: &[u8]) -> Result<(), Broken> {
    let mut scanner = Scanner::of_grammar(token);
    let end = match token.first() {
        Some(b'-' | b'0'..=b'9') => scanner.number(0),
        Some(b't') => scanner.name(0, b"true"),
        Some(b'f') => scanner.name(0, b"false"),
        Some(b'n') => scanner.name(0, b"null"),
        _ => Err(scanner.stop(Flaw::Value, 0)),
    };
    match end {
        Ok(end) if end == token.len() => Ok(()),
        Ok(end) => Err((end, Flaw::Value.sentence())),
        Err(_) => {
            let (flaw, at) = scanner.flaw();
            Err((at, flaw.sentence()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::Cases;

    /// Feeds a string behind its opening quote in pieces. Returns its length, or what is wrong.
    fn in_pieces(string: &[u8], mut size: impl FnMut() -> usize) -> Result<Option<usize>, Broken> {
        let (mut at, mut end) = (0, 0);
        while end < string.len() {
            end = string.len().min(end + size());
            let (len, closed) = text(&string[at..end]).map_err(|(n, why)| (at + n, why))?;
            at += len;
            if closed {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    #[test]
    fn strings_are_judged_like_those_of_documents() {
        for (string, expected) in [
            (&b"a\\n\\u00e9\xc3\xa9\"x"[..], Ok(Some(12))),
            (b"\\u0000\\ud800\\udc00\\udfff\"", Ok(Some(25))),
            (b"\\q\"", Err(1)),
            (b"\\u00g0\"", Err(2)),
            (b"a\n\"", Err(1)),
            (b"\0\"", Err(0)),
            (b"a\xff\"", Err(1)),
            (b"a\xc3\"", Err(1)),
            (b"a\xc3\n", Err(1)),
            (b"\xed\xa0\x80\"", Err(0)),
            (b"\xff\n\"", Err(0)),
            (b"a\xc3", Ok(None)),
            (b"a\\u00", Ok(None)),
        ] {
            for size in 1..=string.len() {
                let got = in_pieces(string, || size).map_err(|(at, _)| at);
                assert_eq!(got, expected, "{} in pieces of {size}", string.escape_ascii());
            }
        }
    }

    #[test]
    fn strings_are_those_of_serde_for_any_pieces() {
        for mut rng in Cases::new(5000) {
            let parts = [
                &b"a"[..],
                b"\\",
                b"u",
                b"00e9",
                b"\xc3",
                b"\xa9",
                b"\"",
                b"\n",
                b"\\n",
                b"\xe2\x82\xac",
                b"longer text",
            ];
            let string: Vec<u8> = (0..rng.usize(0..12)).flat_map(|_| rng.choice(parts).unwrap().to_vec()).collect();
            let whole = in_pieces(&string, || string.len());
            assert_eq!(in_pieces(&string, || rng.usize(1..5)), whole, "{}", string.escape_ascii());
            let quoted = [b"\"", &string[..]].concat();
            let mut values = serde_json::Deserializer::from_slice(&quoted).into_iter::<serde::de::IgnoredAny>();
            let read = values.next().is_some_and(|value| value.is_ok());
            let text = std::str::from_utf8(&quoted[..values.byte_offset()]).is_ok();
            assert_eq!(matches!(whole, Ok(Some(_))), read && text, "{}", string.escape_ascii());
        }
    }

    #[test]
    fn numbers_and_literals_are_whole() {
        let digits = "7".repeat(200_000);
        for (token, expected) in [
            ("0", Ok(())),
            ("-1.50e+9", Ok(())),
            ("1e999999999", Ok(())),
            (&digits, Ok(())),
            ("true", Ok(())),
            ("null", Ok(())),
            ("01", Err(0)),
            ("1.", Err(2)),
            ("1e", Err(2)),
            ("-", Err(1)),
            ("1x", Err(1)),
            ("truex", Err(4)),
            ("nope", Err(0)),
            ("+1", Err(0)),
            ("NaN", Err(0)),
            ("\0", Err(0)),
        ] {
            assert_eq!(bare(token.as_bytes()).map_err(|(at, _)| at), expected, "{token}");
        }
    }
}
