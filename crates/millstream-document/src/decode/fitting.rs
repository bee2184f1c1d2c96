//! Whether the values of a document surely fit the typed columns of its table, as far as that can be told without a
//! server.

use super::path::{Columns, PATHS_MAX};
use super::path_scan::{Found, PathScan};
use super::value;
use crate::limits::DOUBLE_DIGITS_MAX;
use millstream_model::{KeyType, put_literal};

/// How the text of a value becomes the value of a column. A column of text takes every value, and has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnCast {
    /// As the text of a key of this type.
    Literal(KeyType),
    /// To `double precision`.
    Double,
    /// To `jsonb`.
    Json,
}

/// Typed columns, for which documents are looked at.
#[derive(Debug, Clone)]
pub struct Fitting {
    /// As many columns as one scan finds.
    scans: Vec<(Columns, Vec<ColumnCast>)>,
}

impl Fitting {
    /// Columns by the paths of their values, none of them empty.
    pub fn new(columns: &[(Vec<String>, ColumnCast)]) -> Self {
        let scan = |columns: &[(Vec<String>, ColumnCast)]| {
            let paths = Columns::new(columns.iter().map(|(path, _)| path.as_slice()));
            (paths, columns.iter().map(|(_, cast)| *cast).collect())
        };
        Self { scans: columns.chunks(PATHS_MAX).map(scan).collect() }
    }

    /// Whether the server can cast each value of documents that a decoder has accepted. If not, it may still do so: it
    /// accepts more texts.
    pub fn fits<'d>(&self, documents: impl IntoIterator<Item = &'d [u8]>) -> bool {
        let mut scratch = Scratch::default();
        let fits = |document: &[u8]| {
            self.scans.iter().all(|(columns, casts)| {
                let mut scan = PathScan::new(document, columns);
                let is_object = matches!(scan.document(), Ok(true));
                is_object
                    && casts.iter().zip(&scan.found).all(|(cast, found)| cast.takes(document, found, &mut scratch))
            })
        };
        documents.into_iter().all(fits)
    }
}

/// Texts and bytes of values, which nobody reads again.
#[derive(Debug, Default)]
struct Scratch {
    text: Vec<u8>,
    bytes: Vec<u8>,
}

impl ColumnCast {
    fn takes(self, document: &[u8], found: &Found, scratch: &mut Scratch) -> bool {
        match (self, found) {
            (_, Found::Missing | Found::Null(_))
            | (Self::Json, Found::Boolean(..) | Found::Number(_) | Found::Container(_))
            | (Self::Literal(KeyType::Boolean), Found::Boolean(..))
            | (Self::Literal(KeyType::Numeric), Found::Number(_)) => true,
            (Self::Double, Found::Number(_)) => {
                value::spelled(document, found, &mut scratch.text).is_some_and(|text| text.len() <= DOUBLE_DIGITS_MAX)
            }
            (Self::Literal(key_type), Found::Number(_) | Found::String { .. }) => {
                let Scratch { text, bytes } = scratch;
                bytes.clear();
                value::spelled(document, found, text).is_some_and(|text| put_literal(key_type, text, bytes).is_ok())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(cast: ColumnCast, value: &str) -> bool {
        let (fitting, good) = (Fitting::new(&[(vec!["a".to_owned()], cast)]), b"{}".as_slice());
        let document = format!("{{\"b\":[1],\"a\":{value}}}");
        assert!(fitting.fits([good]));
        fitting.fits([good, document.as_bytes()])
    }

    #[test]
    fn what_surely_fits_does() {
        use ColumnCast::{Double, Json, Literal};
        use KeyType::{Bigint, Boolean, Date, Integer, Numeric, Timestamp, Timestamptz, Uuid};
        for (cast, value, expected) in [
            (Literal(Bigint), "null", true),
            (Literal(Bigint), "9223372036854775807", true),
            (Literal(Bigint), "1e3", true),
            (Literal(Bigint), "\"12\"", true),
            // The server refuses these.
            (Literal(Bigint), "1.0", false),
            (Literal(Bigint), "9223372036854775808", false),
            (Literal(Bigint), "\"\"", false),
            (Literal(Bigint), "true", false),
            (Literal(Bigint), "[1]", false),
            (Literal(Integer), "2147483648", false),
            (Literal(Numeric), "1e400", true),
            (Literal(Numeric), "\"1.50\"", true),
            (Literal(Numeric), "\"x\"", false),
            (Literal(Boolean), "true", true),
            (Literal(Boolean), "\"false\"", true),
            // The server takes it as false, and is asked.
            (Literal(Boolean), "0", false),
            (Literal(Uuid), "\"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11\"", true),
            (Literal(Uuid), "\"6f1c\"", false),
            (Literal(Timestamptz), "\"2024-02-29T12:00:00Z\"", true),
            (Literal(Timestamptz), "\"2024-02-29T12:00:00\"", false),
            (Literal(Timestamptz), "1709208000", false),
            (Literal(Timestamp), "\"2024-02-29T12:00:00.5\"", true),
            (Literal(Date), "\"2024-02-29\"", true),
            (Literal(Date), "\"2023-02-29\"", false),
            (Double, "1.5e300", false),
            (Double, "1.5e20", true),
            (Double, "\"NaN\"", false),
            (Json, "[1,{}]", true),
            (Json, "\"x\"", false),
        ] {
            assert_eq!(fits(cast, value), expected, "{cast:?} {value}");
        }
    }

    #[test]
    fn more_columns_than_one_scan_finds_are_all_looked_at() {
        let columns: Vec<_> =
            (0..3 * PATHS_MAX + 1).map(|n| (vec![format!("c{n}")], ColumnCast::Literal(KeyType::Bigint))).collect();
        let fitting = Fitting::new(&columns);
        let document = |last: &str| {
            let members: Vec<String> = (0..3 * PATHS_MAX).map(|n| format!("\"c{n}\":{n}")).collect();
            format!("{{{},\"c{}\":{last}}}", members.join(","), 3 * PATHS_MAX)
        };
        let (good, bad) = (document("7"), document("\"x\""));
        assert!(fitting.fits([good.as_bytes()]) && !fitting.fits([good.as_bytes(), bad.as_bytes()]));
        assert!(Fitting::new(&[]).fits([bad.as_bytes()]), "nothing is asked");
    }
}
