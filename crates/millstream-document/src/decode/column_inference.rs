//! Chooses typed columns from the members of the first documents.

use super::inference::{Look, Sampled};
use super::path::PATHS_MAX;
use super::tally::ValueKind;
use crate::limits::{COLUMNS_INFERRED_MAX, INFERENCE_DOCUMENTS};
use crate::members::{names, text};
use millstream_model::KeyRequest;
use std::collections::BTreeSet;

/// A member of the first documents, and the type of a column for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredColumn {
    /// The member's name.
    pub name: String,
    /// The type; `None` if there are only nulls.
    pub type_name: Option<&'static str>,
    /// What was seen, such as `998 strings, 2 documents without it`.
    pub reason: String,
}

/// Chooses a type for every member of the first [`INFERENCE_DOCUMENTS`] documents, in the order in which they come. A
/// column is `bigint` if all its values are whole numbers in the range of bigint, `numeric` if they are numbers,
/// `timestamptz` if they are RFC 3339 times, `uuid` if they are UUIDs, `boolean` if they are booleans, and `jsonb` if
/// they are arrays and objects. Anything else, also a mixture, is `text`. A number in a string is a string: it may be a
/// code with zeros in front. Documents that cannot be stored do not count, and members beyond
/// [`COLUMNS_INFERRED_MAX`] are not looked at, except for the first of them.
pub fn infer_columns<'d>(documents: impl Iterator<Item = Sampled<'d>>) -> Vec<InferredColumn> {
    let usable = Look::at(documents, &[], ValueKind::of_column).usable;
    let (mut known, mut requests) = (BTreeSet::new(), Vec::new());
    for name in usable.iter().flat_map(|document| names(text(document))) {
        if requests.len() <= COLUMNS_INFERRED_MAX && known.insert(name.clone()) {
            requests.push(KeyRequest { column: name.clone(), path: vec![name], key_type: None });
        }
    }
    let mut columns = Vec::with_capacity(requests.len());
    for requests in requests.chunks(PATHS_MAX) {
        let look = Look::at(usable.iter().map(|document| Ok(*document)), requests, ValueKind::of_column);
        columns.extend(requests.iter().zip(&look.tallies).map(|(request, tally)| InferredColumn {
            name: request.column.clone(),
            type_name: tally.column_type(),
            reason: tally.to_string(),
        }));
    }
    columns
}

const _: () = assert!(COLUMNS_INFERRED_MAX < INFERENCE_DOCUMENTS, "few scans of the first documents");

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(documents: &[&str]) -> Vec<(String, Option<&'static str>)> {
        let columns = infer_columns(documents.iter().map(|document| Ok(document.as_bytes())));
        columns.into_iter().map(|column| (column.name, column.type_name)).collect()
    }

    /// The kinds of values that loaders got wrong in public reports, each made small.
    #[test]
    fn types_follow_the_values() {
        for (values, expected) in [
            (&["1", "-9223372036854775808", "1e3"][..], Some("bigint")),
            // Past the range of bigint, digits would be lost in a double.
            (&["1", "9223372036854775808"], Some("numeric")),
            (&["1", "1.5"], Some("numeric")),
            // As a text it has a point, which the cast to bigint refuses.
            (&["1", "1.0"], Some("numeric")),
            // A code with zeros in front is no number, nor is a number in a string.
            (&["\"02134\"", "\"00501\""], Some("text")),
            (&["1", "\"007\""], Some("text")),
            (&["1", "\"\""], Some("text")),
            (&["1", "true"], Some("text")),
            (&["1.5", "true"], Some("text")),
            (&["true", "false", "null"], Some("boolean")),
            (&["\"true\""], Some("text")),
            (&["\"2024-01-01T00:00:00Z\"", "\"2024-01-01 00:00:00.123456789+01:00\""], Some("timestamptz")),
            // Without an offset, the session's time zone would decide.
            (&["\"2024-01-01T00:00:00\""], Some("text")),
            (&["\"2024-01-01\""], Some("text")),
            (&["\"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11\""], Some("uuid")),
            (&["{\"i\":4}", "[]"], Some("jsonb")),
            (&["{\"i\":4}", "\"4px\""], Some("text")),
            (&["null", "null"], None),
        ] {
            let documents: Vec<String> = values.iter().map(|value| format!("{{\"a\":{value}}}")).collect();
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            assert_eq!(inferred(&documents), [("a".to_owned(), expected)], "{values:?}");
        }
    }

    #[test]
    fn members_keep_their_order_and_their_letters() {
        let found = inferred(&[r#"{"id":1,"UserUPN":"a"}"#, "broken", r#"{"UserUpn":"b","id":2,"id":3,"":true}"#]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "UserUPN", "UserUpn", ""]);
        assert!(inferred(&[]).is_empty() && inferred(&["{}", "[1]"]).is_empty());
    }

    #[test]
    fn a_column_says_what_was_seen() {
        let documents = [r#"{"a":1}"#, r#"{"a":2.5}"#, "{}"];
        let columns = infer_columns(documents.iter().map(|document| Ok(document.as_bytes())));
        assert_eq!(columns[0].reason, "1 whole number, 1 other number, 1 document without it");
    }

    #[test]
    fn ids_as_member_names_end_the_look() {
        let documents: Vec<String> = (0..2 * COLUMNS_INFERRED_MAX).map(|n| format!("{{\"id{n}\":1}}")).collect();
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        assert_eq!(inferred(&documents).len(), COLUMNS_INFERRED_MAX + 1);
    }
}
