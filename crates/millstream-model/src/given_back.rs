//! JSON values that a key's column gives back as they were.

use crate::KeyType;

/// Where a UUID has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_BYTES: usize = 36;
const DATE_BYTES: usize = 10;

impl KeyType {
    /// Whether a column of this type gives back some values exactly, when PostgreSQL makes JSON of it. A numeric may have
    /// another spelling (1 and 1.00 are one key), and a time depends on the session.
    pub fn can_give_back(self) -> bool {
        match self {
            Self::Text | Self::Varchar(_) | Self::Bigint | Self::Integer | Self::Smallint => true,
            Self::Uuid | Self::Date | Self::Boolean => true,
            Self::Numeric | Self::Timestamp => false,
            Self::Timestamptz | Self::TimestamptzEpoch | Self::TimestamptzEpochMs | Self::TimestamptzLenient => false,
        }
    }

    /// Whether a column that a document with this JSON value fills gives back the same value. The value has no space
    /// around it, and is one that the type takes.
    pub fn gives_back(self, json: &[u8]) -> bool {
        let quoted = || json.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or_default();
        match self {
            Self::Text | Self::Varchar(_) => json.first() == Some(&b'"'),
            Self::Bigint | Self::Integer | Self::Smallint => is_plain_whole(json),
            Self::Uuid => is_plain_uuid(quoted()),
            // A date has one form, but a string may spell it with escapes.
            Self::Date => quoted().len() == DATE_BYTES,
            Self::Boolean => matches!(json, b"true" | b"false"),
            _ => false,
        }
    }

    /// Whether a column of this type still gives back the same values when it has got another type.
    pub fn gives_back_as(self, other: Self) -> bool {
        let is_whole = |one| matches!(one, Self::Bigint | Self::Integer | Self::Smallint);
        self == other || is_whole(self) && is_whole(other) || self.is_text() && other.is_text()
    }
}

/// Whether a number has only digits, as PostgreSQL prints it. JSON has no zeros in front.
fn is_plain_whole(json: &[u8]) -> bool {
    let digits = json.strip_prefix(b"-").unwrap_or(json);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && json != b"-0"
}

/// Whether a UUID is spelled as PostgreSQL prints it.
fn is_plain_uuid(text: &[u8]) -> bool {
    let is_plain = |(place, byte): (usize, &u8)| match HYPHENS.contains(&place) {
        true => *byte == b'-',
        false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == UUID_BYTES && text.iter().enumerate().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KEY_TYPES;

    #[test]
    fn a_column_with_another_type_gives_back_other_values() {
        for (was, now, stays) in [
            (KeyType::Bigint, KeyType::Bigint, true),
            (KeyType::Smallint, KeyType::Bigint, true),
            (KeyType::Varchar(Some(9)), KeyType::Text, true),
            (KeyType::Bigint, KeyType::Numeric, false),
            (KeyType::Bigint, KeyType::Text, false),
            (KeyType::Text, KeyType::Uuid, false),
            (KeyType::Date, KeyType::Text, false),
        ] {
            assert_eq!((was.gives_back_as(now), now.gives_back_as(was)), (stays, stays), "{was} {now}");
        }
    }

    #[test]
    fn a_value_that_postgresql_would_spell_otherwise_is_not_given_back() {
        const UUID: &str = "\"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11\"";
        for (key_type, json, gives_back) in [
            (KeyType::Text, r#""""#, true),
            (KeyType::Text, r#""a\u00e9\n""#, true),
            (KeyType::Text, "7", false),
            (KeyType::Text, "true", false),
            (KeyType::Varchar(Some(3)), r#""abc""#, true),
            (KeyType::Bigint, "7", true),
            (KeyType::Bigint, "-7", true),
            (KeyType::Bigint, "0", true),
            (KeyType::Bigint, "-0", false),
            (KeyType::Bigint, "7.0", false),
            (KeyType::Integer, "1e2", false),
            (KeyType::Smallint, r#""7""#, false),
            (KeyType::Uuid, UUID, true),
            (KeyType::Uuid, r#""6F1C0E0A-7D3B-4A52-9F0E-3C1F5F0B9A11""#, false),
            (KeyType::Uuid, r#""6f1c0e0a7d3b4a529f0e3c1f5f0b9a11""#, false),
            (KeyType::Uuid, r#""6f1c-0e0a-7d3b-4a52-9f0e3c1f5f0b9a11""#, false),
            (KeyType::Date, r#""2024-02-29""#, true),
            (KeyType::Date, r#""2024-02-2\u0039""#, false),
            (KeyType::Boolean, "true", true),
            (KeyType::Boolean, r#""true""#, false),
            (KeyType::Numeric, "7", false),
            (KeyType::Timestamptz, r#""2024-02-29T12:00:00Z""#, false),
        ] {
            assert_eq!(key_type.gives_back(json.as_bytes()), gives_back, "{key_type} {json}");
            assert!(key_type.can_give_back() || !gives_back);
        }
        let never: Vec<String> = KEY_TYPES.iter().filter(|one| !one.can_give_back()).map(ToString::to_string).collect();
        let times = ["timestamptz", "timestamptz:epoch", "timestamptz:epoch_ms", "timestamptz:lenient", "timestamp"];
        assert_eq!(never, [&["numeric"][..], &times].concat());
    }
}
