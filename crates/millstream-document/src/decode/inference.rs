//! Chooses the types of key columns, and of a version, from the first documents.

use super::path::Columns;
use super::path_scan::{Found, PathScan};
use super::tally::{Tally, ValueKind};
use super::{DecodeLimits, check, near};
use crate::limits::INFERENCE_DOCUMENTS;
use millstream_model::{Fault, KeyRequest, KeySpec, VersionType};

/// A key whose types are all known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inference {
    /// The key.
    pub spec: KeySpec,
    /// Per column, why it has its type, such as `998 strings, 2 documents without it`.
    pub reasons: Vec<String>,
    /// What deserves a warning.
    pub warnings: Vec<String>,
}

/// Why a type could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// There are no documents.
    #[error("there is no document to infer the type of key column \"{0}\" from")]
    NoDocuments(String, String),
    /// None of the first documents can be stored.
    #[error(
        "none of {} can be stored, so the type of key column \"{column}\" is not known; the first is refused because of \
         {fault}", first(*documents)
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
    #[error("nothing at {path} in {}{nearest}", first(*documents))]
    Missing {
        /// The path as typed.
        path: String,
        /// Documents looked at.
        documents: usize,
        /// A clause that names members seen there, or empty.
        nearest: String,
    },
    /// Values there are null, arrays or objects.
    #[error("only {found} at {path} in {}, and a key is a string, a number or a boolean", first(*documents))]
    Unusable {
        /// The path as typed.
        path: String,
        /// Documents looked at.
        documents: usize,
        /// What was found.
        found: &'static str,
    },
    /// Versions of several kinds, so that their order is not clear.
    #[error("{found} at {path} in {}, of which it is not clear which are newer", first(*documents))]
    Mixture {
        /// The path as typed.
        path: String,
        /// Documents looked at.
        documents: usize,
        /// What was found.
        found: String,
    },
    /// The columns do not make a key.
    #[error(transparent)]
    Key(#[from] millstream_model::KeyError),
}

impl InferenceError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoDocuments(_, path) => Some(format!("write its type, too, as in {path}:text")),
            Self::NoneUsable { .. } => Some("is it the right file, and the right --format?".into()),
            Self::Missing { path, .. } => Some(format!(
                "write the path of a member that documents have, or {path}:TYPE, such as {path}:text, if later ones have it"
            )),
            Self::Unusable { path, .. } => Some(format!(
                "write the path of one, or {path}:TYPE, such as {path}:text, if later documents have one there"
            )),
            Self::Mixture { path, .. } => Some(format!("write {path}:TYPE, one of {}", VersionType::names())),
            Self::Key(_) => None,
        }
    }
}

/// So many of the first documents, in words.
fn first(documents: usize) -> String {
    if documents == 1 { "the first document".to_owned() } else { format!("the first {documents} documents") }
}

/// A document of the first ones, or why its source could not make one.
pub type Sampled<'d> = Result<&'d [u8], &'d Fault>;

/// Chooses the type of every column that has none. A column is bigint if all its values are whole numbers in the range
/// of bigint, timestamptz if all are RFC 3339 times in whole microseconds, uuid if all are UUIDs, and boolean if all
/// are booleans. Anything else, also a mixture, is text. Nulls, arrays and objects do not count. Looks at the first
/// [`INFERENCE_DOCUMENTS`] documents and ignores those that cannot be stored.
///
/// # Errors
/// When no document can be used, when a path leads to nothing (the error names the nearest members) or only to nulls,
/// arrays and objects, or when the columns make no key.
pub fn infer<'d>(
    documents: impl Iterator<Item = Sampled<'d>>,
    requests: &[KeyRequest],
) -> Result<Inference, InferenceError> {
    let look = Look::at(documents, requests, ValueKind::of);
    let mut typed = requests.to_vec();
    let mut reasons = Vec::with_capacity(requests.len());
    let mut warnings = Vec::new();
    for (request, tally) in typed.iter_mut().zip(&look.tallies) {
        if request.key_type.is_some() {
            reasons.push("as given".to_owned());
            continue;
        }
        look.require_documents(request)?;
        request.key_type = Some(tally.key_type().ok_or_else(|| nothing(request, tally, &look.usable))?);
        reasons.push(tally.to_string());
        if tally.has_times_beyond_timestamptz() {
            warnings.push(finer_times(request));
        }
    }
    let spec = KeySpec::from_requests(&typed)?;
    Ok(Inference { spec, reasons, warnings })
}

/// Chooses the type of a version as [`infer`] does for a key, and returns the reason too. But a number in a string
/// counts as a number, fractions are `numeric`, finer times are still times, and a mixture is refused: as texts, 9
/// comes after 10.
///
/// # Errors
/// As [`infer`], and [`InferenceError::Mixture`].
pub fn infer_version<'d>(
    documents: impl Iterator<Item = Sampled<'d>>,
    wanted: &KeyRequest,
) -> Result<(VersionType, String), InferenceError> {
    let wanted = KeyRequest { column: "version".into(), ..wanted.clone() };
    let look = Look::at(documents, std::slice::from_ref(&wanted), ValueKind::of_version);
    look.require_documents(&wanted)?;
    let tally = &look.tallies[0];
    let mut types = tally.version_types();
    let Some(first) = types.next() else { return Err(nothing(&wanted, tally, &look.usable)) };
    let version_type = types.try_fold(first, VersionType::common).ok_or_else(|| InferenceError::Mixture {
        path: wanted.path_text(),
        documents: look.usable.len(),
        found: tally.to_string(),
    })?;
    Ok((version_type, tally.to_string()))
}

/// What the first documents hold at some paths.
pub(super) struct Look<'d> {
    pub(super) tallies: Vec<Tally>,
    /// Documents that can be stored.
    pub(super) usable: Vec<&'d [u8]>,
    documents: usize,
    first_fault: Option<Fault>,
}

impl<'d> Look<'d> {
    pub(super) fn at(
        documents: impl Iterator<Item = Sampled<'d>>,
        requests: &[KeyRequest],
        kind_of: fn(&[u8], &Found) -> ValueKind,
    ) -> Self {
        let columns = Columns::new(requests.iter().map(|request| request.path.as_slice()));
        let tallies = vec![Tally::default(); requests.len()];
        let mut look = Self { tallies, usable: Vec::new(), documents: 0, first_fault: None };
        for document in documents.take(INFERENCE_DOCUMENTS) {
            look.documents += 1;
            let document = match document {
                Ok(document) => document,
                Err(fault) => {
                    look.first_fault.get_or_insert_with(|| fault.clone());
                    continue;
                }
            };
            let mut scan = PathScan::new(document, &columns);
            if let Err(fault) = check(document, DecodeLimits::default(), &mut scan) {
                look.first_fault.get_or_insert(fault);
                continue;
            }
            look.usable.push(document);
            for (tally, found) in look.tallies.iter_mut().zip(&scan.found) {
                tally.count(kind_of(document, found));
            }
        }
        look
    }

    /// Fails if no document can be used to infer the type of a column.
    fn require_documents(&self, request: &KeyRequest) -> Result<(), InferenceError> {
        let column = request.column.clone();
        match (self.usable.is_empty(), &self.first_fault) {
            (false, _) => Ok(()),
            (true, None) => Err(InferenceError::NoDocuments(column, request.path_text())),
            (true, Some(fault)) => {
                Err(InferenceError::NoneUsable { column, documents: self.documents, fault: fault.clone() })
            }
        }
    }
}

fn finer_times(request: &KeyRequest) -> String {
    format!(
        "key column {} is text: some of its times are finer than a microsecond or leap seconds, which PostgreSQL would \
         store as other times; as text, two spellings of one moment are two keys",
        request.column
    )
}

fn nothing(request: &KeyRequest, tally: &Tally, usable: &[&[u8]]) -> InferenceError {
    let (path, documents) = (request.path_text(), usable.len());
    let seen = |kind: ValueKind| tally.count_of(kind) > 0;
    let found = match (seen(ValueKind::Null), seen(ValueKind::Container)) {
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
    use millstream_model::KeyType;

    fn inferred(key: &str, documents: &[&str]) -> Result<(Vec<KeyType>, Vec<String>), String> {
        let requests = KeyRequest::parse_list(key).unwrap();
        infer(documents.iter().map(|d| Ok(d.as_bytes())), &requests)
            .map(|inference| (inference.spec.types(), inference.reasons))
            .map_err(whole)
    }

    /// An error with its hint.
    fn whole(error: InferenceError) -> String {
        error.hint().map_or(error.to_string(), |hint| format!("{error}; hint: {hint}"))
    }

    #[test]
    fn types_follow_the_values() {
        use KeyType::{Bigint, Boolean, Text, Timestamptz, Uuid};
        for (documents, key_type, reason) in [
            (&[r#"{"a":1}"#, r#"{"a":-9223372036854775808}"#, r#"{"a":1e3}"#][..], Bigint, "3 whole numbers"),
            (&[r#"{"a":1}"#, r#"{"a":9223372036854775808}"#], Text, "1 whole number, 1 other number"),
            (&[r#"{"a":1}"#, r#"{"a":1.0}"#], Bigint, "2 whole numbers"),
            (&[r#"{"a":1}"#, r#"{"a":1.5}"#], Text, "1 whole number, 1 other number"),
            (
                &[r#"{"a":"2024-01-01T00:00:00Z"}"#, r#"{"a":"2024-01-01T00:00:00.0000001Z"}"#],
                Text,
                "1 RFC 3339 time, 1 time finer than microseconds",
            ),
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
            (
                &[r#"{"a":"6f1c0e0a7d3b4a529f0e3c1f5f0b9a11"}"#, r#"{"a":"{6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11}"}"#],
                Text,
                "2 strings",
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
    fn version_types_are_inferred_and_mixtures_are_refused() {
        let version = |documents: &[&str]| {
            let wanted = &KeyRequest::parse_paths("v").unwrap()[0];
            infer_version(documents.iter().map(|d| Ok(d.as_bytes())), wanted).map_err(whole)
        };
        use KeyType::{Bigint, Text, Timestamptz};
        let key = VersionType;
        for (documents, expected, reason) in [
            (&[r#"{"v":9}"#, r#"{"v":"10"}"#, "{}"][..], key(Bigint), "2 whole numbers, 1 document without it"),
            (&[r#"{"v":9.5}"#, r#"{"v":1e1}"#], VersionType(KeyType::Numeric), "1 whole number, 1 other number"),
            (&[r#"{"v":"9.50"}"#], VersionType(KeyType::Numeric), "1 other number"),
            (&[r#"{"v":9}"#, r#"{"v":1.0}"#], VersionType(KeyType::Numeric), "1 whole number, 1 other number"),
            (
                &[r#"{"v":"2024-01-01T00:00:00.000Z"}"#, r#"{"v":"2024-01-01T02:00:00.0000001+02:00"}"#],
                key(Timestamptz),
                "1 RFC 3339 time, 1 time finer than microseconds",
            ),
            (&[r#"{"v":9223372036854775808}"#], VersionType(KeyType::Numeric), "1 other number"),
            (&[r#"{"v":"2024-01-01T00:00:00Z"}"#], key(Timestamptz), "1 RFC 3339 time"),
            (&[r#"{"v":"2024-01-01"}"#], key(Text), "1 string"),
        ] {
            assert_eq!(version(documents), Ok((expected, reason.to_owned())), "{documents:?}");
        }
        assert!(version(&[]).unwrap_err().ends_with("hint: write its type, too, as in v:text"));
        for documents in [[r#"{"v":1}"#, r#"{"v":"1a"}"#], [r#"{"v":1.5}"#, r#"{"v":true}"#]] {
            let error = version(&documents).unwrap_err();
            assert!(error.contains("in the first 2 documents, of which it is not clear"), "{error}");
            assert!(error.contains("write v:TYPE, one of text, ") && error.contains(", numeric"), "{error}");
        }
        assert!(version(&["{}"]).unwrap_err().contains("nothing at v in the first document; hint: "));
    }

    #[test]
    fn what_no_document_could_be_made_of_is_the_reason() {
        let requests = KeyRequest::parse_list("a").unwrap();
        let fault = Fault::new(millstream_model::Reason::CsvFields, "the record has 3 fields, the header 2");
        let error = infer([Err(&fault), Err(&fault)].into_iter(), &requests).unwrap_err().to_string();
        assert!(error.starts_with("none of the first 2 documents can be stored"), "{error}");
        assert!(error.ends_with("because of csv_fields: the record has 3 fields, the header 2"), "{error}");
        let some = [Err(&fault), Ok(&br#"{"a":1}"#[..])];
        assert_eq!(infer(some.into_iter(), &requests).unwrap().spec.types(), [KeyType::Bigint]);
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
    fn a_missing_path_suggests_the_nearest_members() {
        for (key, documents, error) in [
            (
                "a",
                &[][..],
                "there is no document to infer the type of key column \"a\" from; hint: write its type, too, as in a:text",
            ),
            (
                "a",
                &["[]", "x"],
                "none of the first 2 documents can be stored, so the type of key column \"a\" is not known; the first is refused because of not_object: expected an object, found another value; hint: is it the right file, and the right --format?",
            ),
            (
                "devce",
                &[r#"{"Device":1,"temperature":2,"d":1}"#, r#"{"x":1}"#],
                "nothing at devce in the first 2 documents; the nearest members there are \"Device\", \"d\", \"x\", \"temperature\"; hint: write the path of a member that documents have, or devce:TYPE, such as devce:text, if later ones have it",
            ),
            (
                "meta.idd",
                &[r#"{"meta":{"id":{}}}"#, r#"{"meta":1}"#],
                "nothing at meta.idd in the first 2 documents; the nearest members there are \"id\"; hint: write the path of a member that documents have, or meta.idd:TYPE, such as meta.idd:text, if later ones have it",
            ),
            (
                "a",
                &["{}"],
                "nothing at a in the first document; hint: write the path of a member that documents have, or a:TYPE, such as a:text, if later ones have it",
            ),
            (
                "a",
                &[r#"{"a":null}"#],
                "only null at a in the first document, and a key is a string, a number or a boolean; hint: write the path of one, or a:TYPE, such as a:text, if later documents have one there",
            ),
            (
                "a",
                &[r#"{"a":[]}"#, r#"{"a":null}"#],
                "only nulls, arrays or objects at a in the first 2 documents, and a key is a string, a number or a boolean; hint: write the path of one, or a:TYPE, such as a:text, if later documents have one there",
            ),
        ] {
            assert_eq!(inferred(key, documents), Err(error.to_owned()));
        }
    }
}
