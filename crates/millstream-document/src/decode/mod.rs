//! Turns the bytes of a document into the canonical bytes of its key, or the reason why it cannot be stored.
//!
//! jsonb accepts every document that passes here. A document that fails is refused by jsonb too, is not an object,
//! exceeds a named limit (nesting, expanded numbers, size, index entry), or lacks what the load needs, such as a key
//! that is a strict literal of its type.

mod column_inference;
mod extra;
mod fitting;
mod inference;
mod jsonb_text;
mod left_out;
mod near;
mod path;
mod path_scan;
mod places;
mod sum;
mod tally;
mod text;
mod value;
mod wanted;

pub use column_inference::{InferredColumn, infer_columns};
pub use fitting::{ColumnCast, Fitting};
pub use inference::{Inference, InferenceError, Sampled, infer, infer_version};
pub use jsonb_text::JsonbText;
pub use left_out::LeftOut;
pub(crate) use path::Columns;
pub(crate) use places::Placed;
pub use wanted::Wanted;

use extra::Extra;
use millstream_model::key_bytes::index_tuple_bytes;
use millstream_model::limits::{DOCUMENT_BYTES_MAX, INDEX_TUPLE_BYTES_MAX, KEY_COLUMNS_MAX};
use millstream_model::{Fault, KeyColumn, KeySpec, KeyType, Reason};
use path_scan::PathScan;

/// Limits of a decoder that are not those of jsonb.
#[derive(Debug, Clone, Copy)]
pub struct DecodeLimits {
    /// Longest document, in bytes of JSON text.
    pub document_bytes_max: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { document_bytes_max: DOCUMENT_BYTES_MAX }
    }
}

// jsonb holds at most 2^28 - 1 bytes of elements in a container. No text becomes more than six times as long: `0,`
// takes 4 bytes of entry and 8 of numeric. So up to the default limit, no document reaches jsonb's own limits on bytes,
// pairs, elements and names. Above it, the server checks them.
const _: () = assert!(DOCUMENT_BYTES_MAX * 6 < 1 << 28);

/// Shorter keys fit an index entry whatever their types.
const KEY_BYTES_SURE: usize = INDEX_TUPLE_BYTES_MAX / 2;

// A column adds at most 7 bytes of alignment and 4 of header, the tuple 8 of header, 7 of alignment.
const _: () = assert!(KEY_BYTES_SURE + 11 * KEY_COLUMNS_MAX + 15 <= INDEX_TUPLE_BYTES_MAX);

/// Validates documents and finds their keys. Use one per thread. It allocates nothing for a good document, unless a
/// member name in an object on the path of the key has escapes.
#[derive(Debug, Clone)]
pub struct Decoder {
    key: Vec<KeyColumn>,
    types: Vec<KeyType>,
    columns: Columns,
    extra: Extra,
    limits: DecodeLimits,
    /// Text of a value that is written differently in the document.
    scratch: Vec<u8>,
}

impl Decoder {
    /// A decoder for the documents of one collection.
    pub fn new(key: &KeySpec, limits: DecodeLimits) -> Self {
        Self::wanting(key, Wanted::default(), limits)
    }

    /// A decoder that also finds and checks what else the caller wants.
    pub fn wanting(key: &KeySpec, wanted: Wanted, limits: DecodeLimits) -> Self {
        let extra = Extra::new(wanted);
        Self {
            key: key.columns.clone(),
            types: key.types(),
            columns: Columns::new(key.columns.iter().map(|c| c.path.as_slice()).chain(extra.paths())),
            extra,
            limits,
            scratch: Vec::new(),
        }
    }

    /// Appends the document's canonical key (see [`millstream_model::key_bytes`]) to `key`.
    ///
    /// # Errors
    /// Why the document cannot be stored; `key` is then unchanged.
    pub fn decode(&mut self, document: &[u8], key: &mut Vec<u8>) -> Result<(), Fault> {
        self.decode_versioned(document, key, &mut Vec::new()).map(drop)
    }

    /// As `decode`, and appends the canonical bytes of the document's version to `version`, if one is wanted. Returns
    /// whether the document deletes.
    ///
    /// # Errors
    /// Why the document cannot be stored; `key` and `version` are then unchanged.
    pub fn decode_versioned(
        &mut self,
        document: &[u8],
        key: &mut Vec<u8>,
        version: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let mut scan = PathScan::new(document, &self.columns);
        check(document, self.limits, &mut scan)?;
        let start = key.len();
        for (column, found) in self.key.iter().zip(&scan.found) {
            if let Err(fault) = value::put(column, document, found, &mut self.scratch, key) {
                key.truncate(start);
                return Err(fault);
            }
        }
        if key.len() - start > KEY_BYTES_SURE {
            let bytes = index_tuple_bytes(&self.types, &key[start..]);
            if bytes > INDEX_TUPLE_BYTES_MAX {
                key.truncate(start);
                return Err(too_long(bytes));
            }
        }
        let found = &scan.found[self.key.len()..];
        self.extra.read(document, found, &mut self.scratch, version).inspect_err(|_| key.truncate(start))
    }
}

/// Checks everything that does not depend on the types of the key.
#[inline]
fn check(document: &[u8], limits: DecodeLimits, scan: &mut PathScan<'_, '_>) -> Result<(), Fault> {
    if document.len() > limits.document_bytes_max {
        return Err(too_large(document.len(), limits.document_bytes_max));
    }
    if !document.is_ascii()
        && let Err(error) = std::str::from_utf8(document)
    {
        let at = error.valid_up_to();
        return Err(Fault::new(Reason::InvalidUtf8, format!("not UTF-8 at byte {at}")));
    }
    match scan.document() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Fault::new(Reason::NotObject, "expected an object, found another value")),
        Err(_) => Err(scan.scanner.fault()),
    }
}

#[cold]
fn too_large(bytes: usize, most: usize) -> Fault {
    let detail = format!("{bytes} bytes, more than the limit of {most}");
    Fault::new(Reason::TooLarge, detail)
}

#[cold]
fn too_long(bytes: usize) -> Fault {
    let detail = format!(
        "the key takes {bytes} bytes in an index, more than {INDEX_TUPLE_BYTES_MAX}, up to which PostgreSQL takes any; \
         Millstream refuses longer ones even if PostgreSQL could compress them"
    );
    Fault::new(Reason::KeyTooLong, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyRequest;
    use millstream_model::key_bytes::key_texts;
    use millstream_model::limits::NESTING_MAX;

    fn decoded(key: &str, document: &[u8]) -> Result<Vec<String>, Fault> {
        let spec = KeySpec::from_requests(&KeyRequest::parse_list(key).unwrap()).unwrap();
        let mut bytes = b"before".to_vec();
        let result = Decoder::new(&spec, DecodeLimits::default()).decode(document, &mut bytes);
        if result.is_err() {
            assert_eq!(bytes, b"before");
        }
        result.map(|()| key_texts(&spec.types(), &bytes[6..]))
    }

    fn reject(key: &str, document: impl AsRef<[u8]>) -> (Reason, String) {
        let document = document.as_ref();
        match decoded(key, document) {
            Ok(_) => panic!("taken: {}", String::from_utf8_lossy(document)),
            Err(fault) => (fault.reason, fault.detail.into_owned()),
        }
    }

    #[test]
    fn keys_are_found() {
        for (key, document, values) in [
            ("a:text", r#"{"a":"x"}"#, &["x"][..]),
            ("a:text", " \t\r\n{ \"a\" : \"x\" } \n", &["x"]),
            ("a:text", r#"{"b":{"a":"no"},"c":["a"],"a":""}"#, &[""]),
            ("a:text", r#"{"a":"first","a":"last"}"#, &["last"]),
            ("a.b:text", r#"{"a":{"b":"1"},"a":{"b":"2","b":"3"}}"#, &["3"]),
            ("a:text", r#"{"\u0061":"\u00e9\n"}"#, &["é\n"]),
            ("a:text", r#"{"a":1.50}"#, &["1.50"]),
            ("a:text", r#"{"a":-0}"#, &["0"]),
            ("a:text", r#"{"a":true}"#, &["true"]),
            ("a:bigint", r#"{"a":"0012"}"#, &["12"]),
            ("a:bigint", r#"{"a":1e2}"#, &["100"]),
            ("a:bigint", r#"{"a":-0}"#, &["0"]),
            ("a:bigint", r#"{"a":-1.00}"#, &["-1"]),
            ("a:smallint", r#"{"a":1e0}"#, &["1"]),
            ("a:integer", r#"{"a":12.50e1}"#, &["125"]),
            ("a:numeric", r#"{"a":1.50e1}"#, &["15"]),
            ("a:numeric", r#"{"a":"0.10"}"#, &["0.1"]),
            ("a:numeric", r#"{"a":"1e1"}"#, &["10"]),
            ("a:numeric", r#"{"a":"-05.0E-1"}"#, &["-0.5"]),
            ("a:numeric", r#"{"a":"0e+7"}"#, &["0"]),
            ("a:timestamptz:epoch", r#"{"a":1.7092080005e9}"#, &["2024-02-29T12:00:00.5Z"]),
            ("a:varchar(2)", r#"{"a":"\u00e9x"}"#, &["éx"]),
            ("a:boolean,b:boolean", r#"{"a":"true","b":false}"#, &["true", "false"]),
            ("b:integer,a:text", r#"{"a":"x","b":7}"#, &["7", "x"]),
            ("x=a.0:text,y=a.-1:text", r#"{"a":["f",[],"l"]}"#, &["f", "l"]),
            ("x=a.-1.-2.b:text", r#"{"a":[0,[{"b":1},{"b":2},3]]}"#, &["2"]),
            ("x=a.0:text", r#"{"a":{"0":"member"}}"#, &["member"]),
            ("p=a:text,q=a:text,r=a.b:text", r#"{"a":1,"a":"z","\u0061":{"b":2},"a":{"b":3},"a":4,"a":{"b":5}}"#, &[]),
        ] {
            let found = decoded(key, document.as_bytes());
            if values.is_empty() {
                assert_eq!(found.unwrap_err().reason, Reason::KeyType, "{document}");
            } else {
                assert_eq!(found.unwrap(), values, "{document}");
            }
        }
    }

    #[test]
    fn json_errors_say_where_and_what_was_expected() {
        for (document, detail) in [
            (&b""[..], "the document ends at byte 0 where an object was expected"),
            (b"  ", "the document ends at byte 2 where an object was expected"),
            (b"hello", "expected a value at byte 0"),
            (
                b"{",
                "the document ends at byte 1 where a member name in double quotes was expected; if documents span lines, \
                 add --format json",
            ),
            (
                b"{\"a\":1}{\"a\":2}",
                "expected nothing more at byte 7; if a line holds several documents, add --format json",
            ),
            (b"{a:1}", "expected a member name in double quotes at byte 1"),
            (b"{\"a\" 1}", "expected ':' at byte 5"),
            (b"{\"a\":}", "expected a value at byte 5"),
            (b"{\"a\":1 \"b\":2}", "expected ',' or '}' at byte 7"),
            (b"{\"a\":1,}", "expected a member name in double quotes at byte 7"),
            (b"{\"a\":[1 2]}", "expected ',' or ']' at byte 8"),
            (b"{\"a\":[1,]}", "expected a value at byte 8"),
            (b"{\"a\":1}}", "expected nothing more at byte 7"),
            (b"{\"a\":1} x", "expected nothing more at byte 8"),
            (b"{\"a\":01}", "a number begins with a needless 0 at byte 5"),
            (b"{\"a\":-}", "expected a digit at byte 6"),
            (b"{\"a\":1.}", "expected a digit at byte 7"),
            (b"{\"a\":1e+}", "expected a digit at byte 8"),
            (b"{\"a\":.5}", "expected a value at byte 5"),
            (b"{\"a\":+5}", "expected a value at byte 5"),
            (b"{\"a\":truE}", "expected a value at byte 5"),
            (b"{\"a\":truex}", "expected ',' or '}' at byte 9"),
            (b"{\"a\":NaN}", "expected a value at byte 5"),
            (b"{\"a\":\"x", "the document ends at byte 7 where the rest of a string was expected"),
            (b"{\"a\":\"\n\"}", "a control character in a string is not escaped at byte 6"),
            (b"{\"a\":\"\0\"}", "a control character in a string is not escaped at byte 6"),
            (b"{\"a\":\"\\x\"}", "expected one of \"\\/bfnrtu after a backslash at byte 7"),
            (b"{\"a\":\"\\u12g4\"}", "expected four hexadecimal digits after \\u at byte 8"),
            (b"{\"a\":\x0b1}", "expected a value at byte 5"),
            (b"{\"a\":\xc2\xa01}", "expected a value at byte 5"),
            (b"\xef\xbb\xbf{\"a\":1}", "a byte order mark at byte 0, as where files were joined; remove it"),
            (b"{\"a\":'x'}", "expected a value at byte 5"),
            (b"{\"a\":1}/**/", "expected nothing more at byte 7"),
        ] {
            let expected = (Reason::NotJson, detail.to_owned());
            assert_eq!(reject("a:text", document), expected, "{}", document.escape_ascii());
        }
    }

    #[test]
    fn documents_that_jsonb_refuses_get_a_reason() {
        use Reason::{InvalidUtf8, LoneSurrogate, NotObject, NulCharacter, NumberOutOfRange};
        for (document, reason) in [
            (&b"[{\"a\":1}]"[..], NotObject),
            (b"12", NotObject),
            (b"\"x\"", NotObject),
            (b" null ", NotObject),
            (b"{\"a\":\"\xff\"}", InvalidUtf8),
            (b"{\"a\":\"\xed\xa0\x80\"}", InvalidUtf8),
            (b"{\"a\":\"\xc0\x80\"}", InvalidUtf8),
            (b"{\"a\":\"\xf4\x90\x80\x80\"}", InvalidUtf8),
            (b"\xff{", InvalidUtf8),
            (br#"{"a":"x","b":"\u0000"}"#, NulCharacter),
            (br#"{"a":"x","\u0000":1}"#, NulCharacter),
            (br#"{"a":"x","b":["\ud800"]}"#, LoneSurrogate),
            (br#"{"a":"x","b":"\ud800\ud800"}"#, LoneSurrogate),
            (br#"{"a":"x","b":"\ud800\u0041"}"#, LoneSurrogate),
            (br#"{"a":"x","b":"\ud800x"}"#, LoneSurrogate),
            (br#"{"a":"x","b":"\ud800\n"}"#, LoneSurrogate),
            (br#"{"a":"x","b":"\udc00\ud800"}"#, LoneSurrogate),
            (br#"{"a":"x","\udc00":1}"#, LoneSurrogate),
            (br#"{"a":"x","b":1e131071}"#, NumberOutOfRange),
            (br#"{"a":"x","b":[-1E-99999]}"#, NumberOutOfRange),
        ] {
            assert_eq!(reject("a:text", document).0, reason, "{}", document.escape_ascii());
        }
        let digits = |digits| format!("{{\"a\":\"x\",\"n\":{}}}", "7".repeat(digits));
        assert!(decoded("a:text", digits(131_072).as_bytes()).is_ok());
        assert_eq!(reject("a:text", digits(131_073)).0, NumberOutOfRange);
        let many = format!("{{\"a\":\"x\",\"n\":[{}0]}}", "1e1023,".repeat(16 << 10));
        assert!(decoded("a:text", many.as_bytes()).is_ok());
        let more = many.replace("[1e", "[1e1023,1e");
        assert_eq!(reject("a:text", more).0, NumberOutOfRange);
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            format!("{{\"a\":\"x\",\"n\":{open}{close}}}")
        };
        assert!(decoded("a:text", nested(NESTING_MAX).as_bytes()).is_ok());
        let (reason, detail) = reject("a:text", nested(NESTING_MAX + 1));
        assert_eq!(reason, Reason::TooDeep);
        assert!(detail.contains("deeper than 512 at byte"), "{detail}");
        assert_eq!(reject("a:text", "[".repeat(1 << 20)).0, Reason::TooDeep);
        assert_eq!(reject("a:text", "{\"a\":".repeat(1 << 20)).0, Reason::TooDeep);
    }

    #[test]
    fn keys_that_cannot_be_used_say_why() {
        use Reason::{KeyMissing, KeyNull, KeyType};
        for (key, document, reason, detail) in [
            ("a:text", "{}", KeyMissing, "key column \"a\": nothing at a"),
            ("c=a.b:text", r#"{"a":{}}"#, KeyMissing, "key column \"c\": nothing at a.b"),
            ("a.b:text", r#"{"a":{"b":1},"a":null}"#, KeyMissing, "key column \"b\": nothing at a.b"),
            ("a.b:text", r#"{"a":"b"}"#, KeyMissing, "key column \"b\": nothing at a.b"),
            ("x=a.1:text", r#"{"a":[0]}"#, KeyMissing, "key column \"x\": nothing at a.1"),
            ("x=a.-2:text", r#"{"a":[0]}"#, KeyMissing, "key column \"x\": nothing at a.-2"),
            ("x=a.b:text", r#"{"a":[{"b":0}]}"#, KeyMissing, "key column \"x\": nothing at a.b"),
            ("a:text", r#"{"a":1,"a":null}"#, KeyNull, "key column \"a\": null at a"),
            (
                "a:text",
                r#"{"a":{}}"#,
                KeyType,
                "key column \"a\": expected a string, a number or a boolean, found an array or object at a",
            ),
            (
                "a:date",
                r#"{"a":20240101}"#,
                KeyType,
                "key column \"a\": expected a date such as 2024-02-29, found a number at a",
            ),
            (
                "a:date",
                r#"{"a":"2024-1-1"}"#,
                KeyType,
                "key column \"a\": expected a date such as 2024-02-29, but the string at a is not one",
            ),
            (
                "a:integer",
                r#"{"a":1.5}"#,
                KeyType,
                "key column \"a\": expected a whole number from -2147483648 to 2147483647 (integer), but the number at a is not one",
            ),
            (
                "a:bigint",
                r#"{"a":"1.0"}"#,
                KeyType,
                "key column \"a\": expected a whole number from -9223372036854775808 to 9223372036854775807 (bigint), but the string at a is not one",
            ),
            (
                "a:varchar(2)",
                r#"{"a":"abc"}"#,
                Reason::KeyTooLong,
                "key column \"a\": expected at most 2 characters (varchar(2)), found more at a",
            ),
            (
                "a:numeric",
                r#"{"a":"1e"}"#,
                KeyType,
                "key column \"a\": expected a number such as 10.5 (numeric), but the string at a is not one",
            ),
            (
                "a:numeric",
                r#"{"a":"1e2000"}"#,
                KeyType,
                "key column \"a\": expected a number such as 10.5 (numeric), but the string at a is not one",
            ),
            ("a:boolean", r#"{"a":1}"#, KeyType, "key column \"a\": expected true or false, found a number at a"),
            (
                "a:bigint",
                r#"{"a":true}"#,
                KeyType,
                "key column \"a\": expected a whole number from -9223372036854775808 to 9223372036854775807 (bigint), found a boolean at a",
            ),
        ] {
            assert_eq!(reject(key, document), (reason, detail.to_owned()), "{document}");
        }
    }

    #[test]
    fn key_and_document_sizes_are_limited() {
        let keyed = |bytes: usize| format!("{{\"a\":\"{}\"}}", "k".repeat(bytes));
        assert!(decoded("a:text", keyed(2692).as_bytes()).is_ok());
        assert_eq!(reject("a:text", keyed(2693)).0, Reason::KeyTooLong);
        let spec = KeySpec::from_requests(&KeyRequest::parse_list("a:text").unwrap()).unwrap();
        let limits = DecodeLimits { document_bytes_max: 9 };
        let mut decoder = Decoder::new(&spec, limits);
        let mut key = Vec::new();
        assert!(decoder.decode(br#"{"a":"x"}"#, &mut key).is_ok());
        let fault = decoder.decode(br#"{"a":"xy"}"#, &mut key).unwrap_err();
        assert_eq!(fault.reason, Reason::TooLarge);
        assert_eq!(fault.detail, "10 bytes, more than the limit of 9");
    }
}
