//! The last address in a stored value, read strictly.

use crate::value;
use millstream_model::range::Family;
use serde::Deserialize;
use std::net::IpAddr;

/// The last address of a value that is a JSON object with exactly one member `end`, in hex.
///
/// # Errors
/// What is wrong with it.
pub(super) fn strict(family: Family, value: &[u8]) -> Result<u128, String> {
    let Ok(text) = std::str::from_utf8(value) else {
        return Err("the value is not UTF-8, so it is not JSON; an end that is kept as raw bytes does that".into());
    };
    let members = value::object(text)?;
    let ends: Vec<_> = members.iter().filter(|(name, _)| name == "end").collect();
    if ends.len() > 1 {
        return Err(format!("the value has {} members \"end\"; readers choose one as they like", ends.len()));
    }
    if let Some((_, end)) = ends.first()
        && let Ok(end) = String::deserialize(*end)
        && let Some(bytes) = raw(family, &end)
    {
        return Err(raw_bytes(family, bytes));
    }
    value::end(family, value)
}

/// The address whose bytes are the characters of the text; `None` if it is hex, or something else.
fn raw(family: Family, end: &str) -> Option<u128> {
    if end.chars().count() != family.bytes() || end.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    end.chars().try_fold(0, |number: u128, c| Some(number << 8 | u128::from(u8::try_from(c).ok()?)))
}

fn raw_bytes(family: Family, end: u128) -> String {
    let address = family.address(end);
    let high = match address {
        IpAddr::V4(address) => !address.octets().is_ascii(),
        IpAddr::V6(address) => !address.octets().is_ascii(),
    };
    let breaks = if high {
        "it has an octet above 127, which JSON decoders turn into two bytes of UTF-8: readers get a wrong end"
    } else {
        "readers get a wrong end wherever an octet is above 127, because JSON decoders turn it into two bytes of UTF-8"
    };
    format!("the member \"end\" holds {address} as raw bytes and not as hex; {breaks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_end_in_hex_is_read() {
        for value in
            ["{\"end\":\"0100810f\"}", "{\"a\":{\"end\":1},\"end\":\"0100810F\"}", " {\"end\" : \"0100810f\"} "]
        {
            assert_eq!(strict(Family::V4, value.as_bytes()), Ok(0x0100_810f), "{value}");
        }
        let v6 = b"{\"end\":\"20010db8ffffffffffffffffffffffff\",\"a\":[1,null]}";
        assert_eq!(strict(Family::V6, v6), Ok(0x2001_0db8_ffff_ffff_ffff_ffff_ffff_ffff));
    }

    #[test]
    fn raw_bytes_are_named_with_what_they_break() {
        let problem = strict(Family::V4, b"{\"end\":\"\\u0001\\u0000\\u0081\\u0000\"}").unwrap_err();
        let says = "the member \"end\" holds 1.0.129.0 as raw bytes and not as hex; it has an octet above 127, which \
                    JSON decoders turn into two bytes of UTF-8: readers get a wrong end";
        assert_eq!(problem, says);
        // The same character without an escape.
        let literal = strict(Family::V4, "{\"end\":\"\\u0001\\u0000\u{81}\\u0000\"}".as_bytes());
        assert_eq!(literal.unwrap_err(), says);
        let low = strict(Family::V4, b"{\"end\":\"\\u007f\\u0001\\u0002\\u0003\"}").unwrap_err();
        let says = "the member \"end\" holds 127.1.2.3 as raw bytes and not as hex; readers get a wrong end wherever";
        assert!(low.starts_with(says), "{low}");
        let v6 = format!("{{\"end\":\"{}\"}}", "\\u00ff".repeat(16));
        let v6 = strict(Family::V6, v6.as_bytes()).unwrap_err();
        assert!(v6.contains("holds ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff as raw bytes"), "{v6}");
    }

    #[test]
    fn everything_else_is_a_problem() {
        for (value, problem) in [
            (
                &b"{\"end\":\"\x01\x00\x81\x00\"}"[..],
                "the value is not UTF-8, so it is not JSON; an end that is kept as raw bytes does that",
            ),
            (
                b"{\"end\":\"01000000\",\"end\":\"01000000\"}",
                "the value has 2 members \"end\"; readers choose one as they like",
            ),
            (b"{\"a\":1}", "the value has no member \"end\""),
            (b"{\"end\":1}", "the member \"end\" is not a string"),
            (b"{\"end\":\"0100000g\"}", "the member \"end\" is not hexadecimal"),
        ] {
            assert_eq!(strict(Family::V4, value), Err(problem.into()));
        }
        // What our own quick look at the beginning of a value does not see.
        for rest in [",\"a\":}", ",}", "}}", "", "}x"] {
            let value = format!("{{\"end\":\"01000000\"{rest}");
            let found = strict(Family::V4, value.as_bytes()).unwrap_err();
            assert!(found.starts_with("the value is not a JSON object"), "{found}");
        }
    }
}
