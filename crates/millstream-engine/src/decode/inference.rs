//! The types of key columns, chosen by looking at the first documents.

use super::path::Columns;
use super::walk::{Found, Walk};
use super::{DecodeLimits, check, near, text};
use crate::limits::INFERENCE_DOCUMENTS;
use millstream_model::{Fault, KeyRequest, KeySpec, KeyType, put_literal};

/// A key whose types are all known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inference {
    /// The key.
    pub spec: KeySpec,
    /// Per column, why it has its type, such as `998 strings, missing in 2 of 1000 documents`.
    pub reasons: Vec<String>,
}

/// Why a type could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// There is nothing to look at.
    #[error("there is no document to infer the type of key column \"{0}\" from: write {1}:TYPE")]
    NoDocuments(String, String),
    /// Nothing looked at is a document.
    #[error(
        "none of the first {documents} document(s) can be stored, so the type of key column \
         \"{column}\" is not known; the first is refused because of {fault}"
    )]
    NoneUsable {
        /// The column.
        column: String,
        /// Documents looked at.
        documents: usize,
        /// What is wrong with the first one.
        fault: Fault,
    },
    /// No document has a value there.
    #[error(
        "nothing at {path} in the first {documents} document(s){nearest}: write the path of a member \
             that documents have, or {path}:TYPE if later ones have it"
    )]
    Missing {
        /// The path as typed.
        path: String,
        /// Documents looked at.
        documents: usize,
        /// A clause that names members seen there, or empty.
        nearest: String,
    },
    /// Values there are null, arrays or objects.
    #[error(
        "only {found} at {path} in the first {documents} document(s): a key is a string, a number or a \
             boolean; write the path of one, or {path}:TYPE if later documents have it"
    )]
    Unusable {
        /// The path as typed.
        path: String,
        /// Documents looked at.
        documents: usize,
        /// What was found.
        found: &'static str,
    },
    /// The columns do not make a key.
    #[error(transparent)]
    Key(#[from] millstream_model::KeyError),
}

/// Chooses the type of every column that has none: all whole numbers within bigint make it bigint,
/// all RFC 3339 times timestamptz, all UUIDs uuid, all booleans boolean; anything else, also a
/// mixture, is text. Looks at the first [`INFERENCE_DOCUMENTS`] documents; those that cannot be
/// stored have no say.
///
/// # Errors
/// A path that leads nowhere, with the nearest member names seen, or that never leads to a value.
pub fn infer<'d>(
    documents: impl Iterator<Item = &'d [u8]>,
    requests: &[KeyRequest],
) -> Result<Inference, InferenceError> {
    let columns = Columns::new(requests.iter().map(|request| request.path.as_slice()));
    let mut tallies = vec![Tally::default(); requests.len()];
    let mut usable = Vec::new();
    let mut first_fault = None;
    let mut seen = 0;
    for document in documents.take(INFERENCE_DOCUMENTS) {
        seen += 1;
        let mut walk = Walk::new(document, &columns);
        match check(document, DecodeLimits::default(), &mut walk) {
            Ok(()) => usable.push(document),
            Err(fault) => {
                first_fault.get_or_insert(fault);
                continue;
            }
        }
        for (tally, found) in tallies.iter_mut().zip(&walk.found) {
            tally.count(Kind::of(document, found));
        }
    }
    let mut typed = requests.to_vec();
    let mut reasons = Vec::with_capacity(requests.len());
    for (request, tally) in typed.iter_mut().zip(&tallies) {
        if request.key_type.is_some() {
            reasons.push("as given".to_owned());
            continue;
        }
        match (usable.is_empty(), &first_fault) {
            (true, None) => {
                let path = request.path_text();
                return Err(InferenceError::NoDocuments(request.column.clone(), path));
            }
            (true, Some(fault)) => {
                return Err(InferenceError::NoneUsable {
                    column: request.column.clone(),
                    documents: seen,
                    fault: fault.clone(),
                });
            }
            (false, _) => {}
        }
        request.key_type = Some(tally.key_type().ok_or_else(|| nothing(request, tally, &usable))?);
        reasons.push(tally.to_string());
    }
    let spec = KeySpec::from_requests(&typed)?;
    Ok(Inference { spec, reasons })
}

/// Chooses the type of a version as [`infer`] does that of a key, and tells why. Without documents,
/// where nothing is compared, it is text.
///
/// # Errors
/// As [`infer`].
pub fn infer_version<'d>(
    documents: impl Iterator<Item = &'d [u8]>,
    wanted: &KeyRequest,
) -> Result<(KeyType, String), InferenceError> {
    let column = KeyRequest { column: "version".into(), ..wanted.clone() };
    match infer(documents, &[column]) {
        Ok(mut told) => Ok((told.spec.columns.remove(0).key_type, told.reasons.remove(0))),
        Err(InferenceError::NoDocuments(..)) => Ok((KeyType::Text, "there is no document".to_owned())),
        Err(error) => Err(error),
    }
}

/// What a value could be as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Number,
    Time,
    Uuid,
    String,
    Boolean,
    Null,
    Container,
    Missing,
}

/// Every kind with its name for one and for many, in the order of the enum.
const KINDS: &[(Kind, &str, &str)] = &[
    (Kind::Whole, "whole number", "whole numbers"),
    (Kind::Number, "other number", "other numbers"),
    (Kind::Time, "RFC 3339 time", "RFC 3339 times"),
    (Kind::Uuid, "UUID", "UUIDs"),
    (Kind::String, "string", "strings"),
    (Kind::Boolean, "boolean", "booleans"),
    (Kind::Null, "null", "nulls"),
    (Kind::Container, "array or object", "arrays or objects"),
    (Kind::Missing, "document without it", "documents without it"),
];

impl Kind {
    fn of(document: &[u8], found: &Found) -> Self {
        let mut key = Vec::new();
        let mut is = |key_type, text: &[u8]| put_literal(key_type, text, &mut key).is_ok();
        match found {
            Found::Missing => Self::Missing,
            Found::Null => Self::Null,
            Found::Boolean(_) => Self::Boolean,
            Found::Container => Self::Container,
            Found::Number(range) => {
                let mut spelling = Vec::new();
                super::number::put_spelling(&document[range.clone()], &mut spelling);
                match is(KeyType::Bigint, &spelling) {
                    true => Self::Whole,
                    false => Self::Number,
                }
            }
            Found::String { range, .. } => {
                let mut plain = Vec::new();
                text::put_unescaped(&document[range.clone()], &mut plain);
                if is(KeyType::Timestamptz, &plain) {
                    Self::Time
                } else if is(KeyType::Uuid, &plain) {
                    Self::Uuid
                } else {
                    Self::String
                }
            }
        }
    }

    /// The type when every value is of this kind.
    fn key_type(self) -> Option<KeyType> {
        match self {
            Self::Whole => Some(KeyType::Bigint),
            Self::Time => Some(KeyType::Timestamptz),
            Self::Uuid => Some(KeyType::Uuid),
            Self::Boolean => Some(KeyType::Boolean),
            Self::Number | Self::String => Some(KeyType::Text),
            Self::Null | Self::Container | Self::Missing => None,
        }
    }
}

/// How often each kind was seen at a path.
#[derive(Debug, Clone, Default)]
struct Tally([usize; KINDS.len()]);

impl Tally {
    fn count(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    fn seen(&self) -> impl Iterator<Item = (&(Kind, &'static str, &'static str), usize)> {
        KINDS.iter().zip(self.0).filter(|&(_, count)| count > 0)
    }

    fn key_type(&self) -> Option<KeyType> {
        let mut types = self.seen().filter_map(|((kind, ..), _)| kind.key_type());
        let first = types.next()?;
        Some(match types.all(|other| other == first) {
            true => first,
            false => KeyType::Text,
        })
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, ((_, one, many), count)) in self.seen().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let name = if count == 1 { one } else { many };
            write!(f, "{comma}{count} {name}")?;
        }
        Ok(())
    }
}

fn nothing(request: &KeyRequest, tally: &Tally, usable: &[&[u8]]) -> InferenceError {
    let (path, documents) = (request.path_text(), usable.len());
    let seen = |kind: Kind| tally.0[kind as usize] > 0;
    let found = match (seen(Kind::Null), seen(Kind::Container)) {
        (false, false) => {
            return InferenceError::Missing { path, documents, nearest: near::clause(&request.path, usable) };
        }
        (true, false) => "null",
        (false, true) => "arrays or objects",
        (true, true) => "nulls, arrays or objects",
    };
    InferenceError::Unusable { path, documents, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(key: &str, documents: &[&str]) -> Result<(Vec<KeyType>, Vec<String>), String> {
        let requests = KeyRequest::parse_list(key).unwrap();
        infer(documents.iter().map(|d| d.as_bytes()), &requests)
            .map(|inference| (inference.spec.types(), inference.reasons))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn kinds_are_listed_in_order() {
        for (n, (kind, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, n);
        }
    }

    #[test]
    fn types_follow_the_values() {
        use KeyType::{Bigint, Boolean, Text, Timestamptz, Uuid};
        for (documents, key_type, reason) in [
            (&[r#"{"a":1}"#, r#"{"a":-9223372036854775808}"#, r#"{"a":1e3}"#][..], Bigint, "3 whole numbers"),
            (&[r#"{"a":1}"#, r#"{"a":9223372036854775808}"#], Text, "1 whole number, 1 other number"),
            (&[r#"{"a":1}"#, r#"{"a":1.0}"#], Text, "1 whole number, 1 other number"),
            (&[r#"{"a":1}"#, r#"{"a":"1"}"#], Text, "1 whole number, 1 string"),
            (
                &[r#"{"a":1}"#, "{}", "{}", r#"{"a":null}"#, r#"{"a":[]}"#],
                Bigint,
                "1 whole number, 1 null, 1 array or object, 2 documents without it",
            ),
            (
                &[r#"{"a":"2024-01-01T00:00:00Z"}"#, r#"{"a":"2024-01-01 00:00:00.5+01:00"}"#],
                Timestamptz,
                "2 RFC 3339 times",
            ),
            (&[r#"{"a":"2024-01-01"}"#], Text, "1 string"),
            (
                &[r#"{"a":"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11"}"#, r#"{"a":"6F1C0E0A-7D3B-4A52-9F0E-3C1F5F0B9A11"}"#],
                Uuid,
                "2 UUIDs",
            ),
            (&[r#"{"a":true}"#, "broken", r#"{"a":false}"#], Boolean, "2 booleans"),
            (&[r#"{"a":true}"#, r#"{"a":"true"}"#], Text, "1 string, 1 boolean"),
        ] {
            let expected = Ok((vec![key_type], vec![reason.to_owned()]));
            assert_eq!(inferred("a", documents), expected, "{documents:?}");
        }
        let given = inferred("a:text,b", &[r#"{"a":1,"b":2}"#]).unwrap();
        assert_eq!(given.0, [Text, Bigint]);
        assert_eq!(given.1, ["as given", "1 whole number"]);
        let never_looked_at = inferred("a:text", &[]).unwrap();
        assert_eq!(never_looked_at.0, [Text]);
    }

    #[test]
    fn only_the_first_documents_count() {
        let mut documents = vec![r#"{"a":1}"#; INFERENCE_DOCUMENTS];
        documents.push(r#"{"a":"x"}"#);
        assert_eq!(inferred("a", &documents).unwrap().0, [KeyType::Bigint]);
        documents.rotate_right(1);
        assert_eq!(inferred("a", &documents).unwrap().0, [KeyType::Text]);
    }

    #[test]
    fn a_path_that_leads_nowhere_names_its_neighbours() {
        for (key, documents, error) in [
            ("a", &[][..], "there is no document to infer the type of key column \"a\" from: write a:TYPE"),
            (
                "a",
                &["[]", "x"],
                "none of the first 2 document(s) can be stored, so the type of key column \"a\" is not known; the first is refused because of not_object: expected an object, found another value",
            ),
            (
                "devce",
                &[r#"{"Device":1,"temperature":2,"d":1}"#, r#"{"x":1}"#],
                "nothing at devce in the first 2 document(s); the nearest members there are \"Device\", \"d\", \"x\", \"temperature\": write the path of a member that documents have, or devce:TYPE if later ones have it",
            ),
            (
                "meta.idd",
                &[r#"{"meta":{"id":{}}}"#, r#"{"meta":1}"#],
                "nothing at meta.idd in the first 2 document(s); the nearest members there are \"id\": write the path of a member that documents have, or meta.idd:TYPE if later ones have it",
            ),
            (
                "a",
                &["{}"],
                "nothing at a in the first 1 document(s): write the path of a member that documents have, or a:TYPE if later ones have it",
            ),
            (
                "a",
                &[r#"{"a":null}"#],
                "only null at a in the first 1 document(s): a key is a string, a number or a boolean; write the path of one, or a:TYPE if later documents have it",
            ),
            (
                "a",
                &[r#"{"a":[]}"#, r#"{"a":null}"#],
                "only nulls, arrays or objects at a in the first 2 document(s): a key is a string, a number or a boolean; write the path of one, or a:TYPE if later documents have it",
            ),
        ] {
            assert_eq!(inferred(key, documents), Err(error.to_owned()));
        }
    }
}
