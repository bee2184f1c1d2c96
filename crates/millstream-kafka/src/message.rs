//! A message as a document: its JSON, with the key and what else is asked for of the message as members.

use crate::client::Record;
use crate::error::Error;
use crate::frame::unframed;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use millstream_engine::Tombstone;
use millstream_model::limits::DOCUMENT_BYTES_MAX;
use millstream_model::{Fault, KeyRequest, Reason};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;

/// What deletes if the user has named nothing: documents that stand for empty messages have this member.
const EMPTY_MESSAGE: &str = "millstream_empty_message=true";

/// How the messages of a topic become documents.
#[derive(Debug, Clone)]
pub struct Messages {
    topic: String,
    /// Members that the message's key gives; none if the documents have their keys themselves.
    keys: Vec<String>,
    /// What a document has that deletes, as JSON members without braces.
    deleting: String,
    /// The member that gets what is known of the message besides.
    with: Option<String>,
}

impl Messages {
    /// Messages of a topic. `message_key` names columns of the collection's `key` that the message's key gives; `with` is
    /// a member that gets topic, partition, offset, time, key and headers. `delete_when` is what deletes, if the user has
    /// named something.
    ///
    /// # Errors
    /// A column is not one of the key, or its path is not that of a member of the document itself.
    pub fn new(
        topic: &str,
        key: &[KeyRequest],
        message_key: &[String],
        with: Option<&str>,
        delete_when: Option<&Tombstone>,
    ) -> Result<Self, Error> {
        let mut keys = Vec::new();
        for column in message_key {
            let known = key.iter().find(|known| known.column == *column).ok_or_else(|| {
                let columns: Vec<&str> = key.iter().map(|known| known.column.as_str()).collect();
                Error::refused(
                    format!("--message-key {column}: the key has no column of this name"),
                    format!("name one of {}", columns.join(", ")),
                )
            })?;
            let [member] = known.path.as_slice() else {
                let problem = format!("--message-key {column}: its path {} is not one member", known.path_text());
                return Err(Error::refused(problem, format!("take a member of the document: --key {column}")));
            };
            keys.push(member.clone());
        }
        if let Some(with) = with
            && key.iter().any(|column| column.path.first().is_some_and(|member| member == with))
        {
            let problem = format!("--with-message {with} would take the place of the key");
            return Err(Error::refused(problem, "name another member"));
        }
        let own = Self::deletes_by_itself();
        let deleting = delete_when.unwrap_or(&own);
        let deleting = deleting.path().iter().rev().fold(json!(deleting.value()), |inner, name| json!({ name: inner }));
        let deleting = deleting.to_string();
        let inner = deleting.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let deleting = inner.expect("a path has a segment").to_owned();
        Ok(Self { topic: topic.to_owned(), keys, deleting, with: with.map(str::to_owned) })
    }

    /// What deletes if the user has named nothing. The load's mode needs it if empty messages delete.
    pub fn deletes_by_itself() -> Tombstone {
        EMPTY_MESSAGE.parse().expect("a path and a value")
    }

    /// Whether empty messages delete.
    pub fn deletes(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The document of a message.
    ///
    /// # Errors
    /// Why it cannot be one. The message itself is then the reject.
    pub(crate) fn document<'r>(&self, partition: i32, record: &'r Record) -> Result<Cow<'r, [u8]>, Fault> {
        let value = record.value.as_deref().filter(|value| !value.is_empty());
        let mut members = Vec::new();
        for (member, json) in self.of_key(record.key.as_deref(), value.is_none())? {
            members.push(format!("{}:{json}", json!(member)));
        }
        if let Some(with) = &self.with {
            members.push(format!("{}:{}", json!(with), self.about(partition, record)));
        }
        let document = match value {
            Some(value) => with_members(unframed(value)?, &members),
            None => {
                members.push(self.deleting.clone());
                Cow::Owned(format!("{{{}}}", members.join(",")).into_bytes())
            }
        };
        if document.len() > DOCUMENT_BYTES_MAX {
            let detail = format!("{} bytes, more than the limit of {DOCUMENT_BYTES_MAX}", document.len());
            return Err(Fault::new(Reason::TooLarge, detail));
        }
        Ok(document)
    }

    /// The members that a message's key gives, as JSON.
    fn of_key(&self, key: Option<&[u8]>, is_empty: bool) -> Result<Vec<(&str, String)>, Fault> {
        if self.keys.is_empty() {
            return match is_empty {
                true => Err(Fault::new(Reason::NotJson, "the message is empty; with --message-key it would delete")),
                false => Ok(Vec::new()),
            };
        }
        let key = key.ok_or_else(|| Fault::new(Reason::KeyMissing, "the message has no key"))?;
        let binary = "the message's key is neither text nor JSON, but perhaps a binary number, or Avro or Protobuf in a \
                      schema registry's frame; write keys as text or JSON";
        let key = unframed(key).map_err(|_| Fault::new(Reason::KeyType, binary))?;
        let text = std::str::from_utf8(key)
            .map_err(|_| Fault::new(Reason::InvalidUtf8, "the message's key is neither text nor JSON"))?;
        if let Some(object) = object(text) {
            let mut members = Vec::new();
            for member in &self.keys {
                members.push((member.as_str(), of_object(&object, member)?));
            }
            return Ok(members);
        }
        let [member] = self.keys.as_slice() else {
            let detail = format!("the message's key is one text, and {} columns need it", self.keys.len());
            return Err(Fault::new(Reason::KeyType, detail));
        };
        let text: Cow<'_, str> = match text.starts_with('"') {
            true => serde_json::from_str::<String>(text).map_or(Cow::Borrowed(text), Cow::Owned),
            false => Cow::Borrowed(text),
        };
        let json = if is_whole_number(&text) { text.into_owned() } else { json!(text).to_string() };
        Ok(vec![(member.as_str(), json)])
    }

    /// What is known of a message besides its document.
    fn about(&self, partition: i32, record: &Record) -> Value {
        let headers: Vec<Value> = record.headers.iter().map(|(name, value)| json!([name, readable(value)])).collect();
        json!({
            "topic": self.topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": readable(&record.key),
            "headers": headers,
        })
    }
}

/// An object of JSON; `None` if the text is something else.
fn object(text: &str) -> Option<HashMap<String, &RawValue>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// A member of a message's key, as JSON. A converter that writes schemas, too, has it one level below.
fn of_object(object: &HashMap<String, &RawValue>, member: &str) -> Result<String, Fault> {
    let payload = object.get("payload").filter(|_| object.contains_key("schema"));
    let inner = payload.and_then(|payload| self::object(payload.get()));
    let found = match (payload, &inner) {
        (Some(payload), None) => Some(*payload),
        (_, inner) => inner.as_ref().unwrap_or(object).get(member).copied(),
    };
    let found = found.ok_or_else(|| {
        Fault::new(Reason::KeyMissing, format!("the message's key is an object without a member {member}"))
    })?;
    Ok(found.get().to_owned())
}

/// Whether a text is spelled as JSON spells a whole number, and few readers round it.
fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.len() <= 18 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && (text == "0" || !digits.starts_with('0'))
}

/// Bytes as text, or as base64 in an object if they are none. Nor is text with a NUL, which PostgreSQL cannot store: it is
/// most likely a binary number.
fn readable(bytes: &Option<Bytes>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => json!(text),
            _ => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
        },
    }
}

/// A document with more members. They come last, because of two members of one name the last one counts. What is no
/// object stays as it is, and becomes a reject later.
fn with_members<'d>(document: &'d [u8], members: &[String]) -> Cow<'d, [u8]> {
    let inner = document.trim_ascii();
    if members.is_empty() || inner.len() < 2 || inner[0] != b'{' || inner[inner.len() - 1] != b'}' {
        return Cow::Borrowed(document);
    }
    let body = inner[..inner.len() - 1].trim_ascii_end();
    let comma = if body.len() == 1 { "" } else { "," };
    let added = members.join(",");
    Cow::Owned([body, comma.as_bytes(), added.as_bytes(), b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(key: &str, message_key: &[&str], with: Option<&str>, delete_when: Option<&str>) -> Messages {
        let key = KeyRequest::parse_list(key).unwrap();
        let columns: Vec<String> = message_key.iter().map(|column| (*column).to_owned()).collect();
        let delete_when: Option<Tombstone> = delete_when.map(|text| text.parse().unwrap());
        Messages::new("orders", &key, &columns, with, delete_when.as_ref()).unwrap()
    }

    fn record(key: Option<&'static [u8]>, value: Option<&'static [u8]>) -> Record {
        Record {
            offset: 3,
            key: key.map(Bytes::from_static),
            value: value.map(Bytes::from_static),
            ..Record::default()
        }
    }

    fn document(messages: &Messages, record: &Record) -> Result<String, (Reason, String)> {
        let document = messages.document(2, record).map_err(|fault| (fault.reason, fault.detail.into_owned()))?;
        Ok(String::from_utf8(document.into_owned()).unwrap())
    }

    #[test]
    fn a_message_is_its_document_if_nothing_is_asked_for() {
        let plain = messages("id", &[], None, None);
        assert!(!plain.deletes());
        for value in [&b"{\"id\":1}"[..], b" {\"id\": 1 }\n", b"no json", b"[1]"] {
            assert_eq!(document(&plain, &record(Some(b"k"), Some(value))).unwrap().as_bytes(), value);
        }
        for value in [None, Some(&b""[..])] {
            let (reason, detail) = document(&plain, &record(Some(b"k"), value)).unwrap_err();
            assert!(reason == Reason::NotJson && detail.contains("--message-key"), "{detail}");
        }
    }

    #[test]
    fn the_key_of_a_message_becomes_a_member() {
        let keyed = messages("id", &["id"], None, None);
        assert!(keyed.deletes());
        for (key, value, expected) in [
            (&b"k1"[..], &b"{\"a\":1}"[..], r#"{"a":1,"id":"k1"}"#),
            (b"k1", b" { } ", r#"{"id":"k1"}"#),
            (b"k1", b"{\"a\":1 \n}\n", r#"{"a":1,"id":"k1"}"#),
            // The last of two members counts.
            (b"k1", b"{\"id\":\"x\"}", r#"{"id":"x","id":"k1"}"#),
            (b"7", b"{\"a\":1}", r#"{"a":1,"id":7}"#),
            (b"-7", b"{\"a\":1}", r#"{"a":1,"id":-7}"#),
            (b"007", b"{\"a\":1}", r#"{"a":1,"id":"007"}"#),
            (b"-0", b"{\"a\":1}", r#"{"a":1,"id":"-0"}"#),
            (b"1e5", b"{\"a\":1}", r#"{"a":1,"id":"1e5"}"#),
            (b"1234567890123456789", b"{\"a\":1}", r#"{"a":1,"id":"1234567890123456789"}"#),
            (b"", b"{\"a\":1}", r#"{"a":1,"id":""}"#),
            // As a converter to JSON writes a string, an object, and both with their schema.
            (b"\"k 1\"", b"{\"a\":1}", r#"{"a":1,"id":"k 1"}"#),
            (b"{\"id\":12345678901234567890}", b"{\"a\":1}", r#"{"a":1,"id":12345678901234567890}"#),
            (b"{\"schema\":{},\"payload\":{\"id\":\"k\"}}", b"{\"a\":1}", r#"{"a":1,"id":"k"}"#),
            (b"{\"schema\":{},\"payload\":\"k\"}", b"{\"a\":1}", r#"{"a":1,"id":"k"}"#),
            (b"\x00\x00\x00\x00\x01\"k\"", b"\x00\x00\x00\x00\x02{\"a\":1}", r#"{"a":1,"id":"k"}"#),
            (b"a\"b\\\n", b"{}", r#"{"id":"a\"b\\\n"}"#),
        ] {
            assert_eq!(document(&keyed, &record(Some(key), Some(value))).as_deref(), Ok(expected));
        }
        assert_eq!(document(&keyed, &record(Some(b"k"), Some(b"[1]"))).as_deref(), Ok("[1]"), "a reject later");
        for (key, reason) in [
            (None, Reason::KeyMissing),
            (Some(&b"\xff"[..]), Reason::InvalidUtf8),
            (Some(&b"{\"other\":1}"[..]), Reason::KeyMissing),
            (Some(&b"\x00\x00\x00\x00\x01\x02\x06abc"[..]), Reason::KeyType),
            (Some(&b"\x00\x00\x00\x00\x00\x00\x00\x07"[..]), Reason::KeyType),
        ] {
            assert_eq!(document(&keyed, &record(key, Some(b"{}"))).unwrap_err().0, reason, "{key:?}");
        }
    }

    #[test]
    fn an_empty_message_becomes_a_document_that_deletes() {
        let keyed = messages("id", &["id"], None, None);
        for value in [None, Some(&b""[..])] {
            let deletes = r#"{"id":"k","millstream_empty_message":"true"}"#;
            assert_eq!(document(&keyed, &record(Some(b"k"), value)).as_deref(), Ok(deletes));
        }
        assert_eq!(document(&keyed, &record(None, None)).unwrap_err().0, Reason::KeyMissing);
        for (named, members) in [("op=d", r#""op":"d""#), ("meta.gone=\"1}\"", r#""meta":{"gone":"\"1}\""}"#)] {
            let keyed = messages("id", &["id"], None, Some(named));
            let expected = format!("{{\"id\":\"k\",{members}}}");
            assert_eq!(document(&keyed, &record(Some(b"k"), None)), Ok(expected));
        }
    }

    #[test]
    fn several_columns_come_from_a_key_that_is_an_object() {
        let keyed = messages("country,id=name", &["country", "id"], None, None);
        let key = br#"{"name":"x","country":"de"}"#;
        let expected = r#"{"a":1,"country":"de","name":"x"}"#;
        assert_eq!(document(&keyed, &record(Some(key), Some(b"{\"a\":1}"))).as_deref(), Ok(expected));
        assert_eq!(document(&keyed, &record(Some(b"de"), Some(b"{}"))).unwrap_err().0, Reason::KeyType);
    }

    #[test]
    fn what_is_known_of_a_message_becomes_a_member_if_asked_for() {
        let with = messages("id", &[], Some("kafka"), None);
        let text = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let mut one = record(Some(b"k"), Some(b"{\"id\":1}"));
        one.timestamp_ms = 5;
        one.headers = vec![
            ("a".into(), text("1")),
            ("a".into(), text("2")),
            ("b".into(), None),
            ("c".into(), Some(Bytes::from_static(b"\xff"))),
            // The number 5, as serializers write it. It is text, which PostgreSQL does not store.
            ("d".into(), Some(Bytes::from_static(b"\0\0\0\x05"))),
        ];
        let document: Value = serde_json::from_str(&document(&with, &one).unwrap()).unwrap();
        let headers =
            json!([["a", "1"], ["a", "2"], ["b", null], ["c", { "base64": "/w==" }], ["d", { "base64": "AAAABQ==" }]]);
        let about = json!({
            "topic": "orders", "partition": 2, "offset": 3, "timestamp": 5, "key": "k", "headers": headers,
        });
        assert_eq!(document, json!({ "id": 1, "kafka": about }));
    }

    #[test]
    fn a_message_that_is_too_long_is_no_document() {
        let long = [b"{\"a\":\"".as_slice(), &vec![b'x'; DOCUMENT_BYTES_MAX], b"\"}"].concat();
        let one = Record { value: Some(long.into()), ..Record::default() };
        assert_eq!(document(&messages("id", &[], None, None), &one).unwrap_err().0, Reason::TooLarge);
    }

    #[test]
    fn columns_that_a_message_cannot_give_are_refused() {
        let key = KeyRequest::parse_list("id,place.country").unwrap();
        let of = |columns: &[&str], with| {
            let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
            Messages::new("t", &key, &columns, with, None).map(drop).map_err(|error| error.to_string())
        };
        assert!(of(&["id"], Some("kafka")).is_ok());
        assert!(of(&["nothing"], None).unwrap_err().contains("no column of this name"));
        assert!(of(&["country"], None).unwrap_err().contains("is not one member"));
        assert!(of(&[], Some("place")).unwrap_err().contains("the place of the key"));
    }
}
