//! Types of columns: what the text of a CSV field stands for in JSON and in SQL.

use millstream_model::nearest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A type of a column. The names are those of MaxMind's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// A number of IEEE 754 with 64 bits, and not an infinite one.
    Double,
    /// A whole number from -2^31 to 2^31 - 1.
    Int32,
    /// A text.
    String,
    /// A whole number below 2^16.
    Uint16,
    /// A whole number below 2^32.
    Uint32,
    /// A whole number below 2^64.
    Uint64,
}

/// The types of columns, by the name of the member that each one becomes.
pub type ColumnTypes = BTreeMap<String, ColumnType>;

/// Every type with its name, and the type of PostgreSQL that holds all of its values.
pub(crate) const TYPES: [(ColumnType, &str, &str); 7] = [
    (ColumnType::Boolean, "boolean", "boolean"),
    (ColumnType::Double, "double", "double precision"),
    (ColumnType::Int32, "int32", "integer"),
    (ColumnType::String, "string", "text"),
    (ColumnType::Uint16, "uint16", "integer"),
    (ColumnType::Uint32, "uint32", "bigint"),
    (ColumnType::Uint64, "uint64", "numeric"),
];

impl ColumnType {
    /// Reads `COLUMN=TYPE`.
    ///
    /// # Errors
    /// What is wrong with it, with the nearest name of a type.
    pub fn parse_named(text: &str) -> Result<(String, Self), String> {
        let known = TYPES.map(|(_, name, _)| name);
        let Some((column, typed)) = text.rsplit_once('=').filter(|(column, _)| !column.is_empty()) else {
            return Err(format!("it is not COLUMN=TYPE; the types are {}", known.join(", ")));
        };
        match TYPES.iter().find(|(_, name, _)| *name == typed) {
            Some((found, ..)) => Ok((column.to_owned(), *found)),
            None => Err(match nearest(typed, known) {
                Some(nearest) => format!("there is no type {typed:?}; did you mean {nearest:?}?"),
                None => format!("there is no type {typed:?}; the types are {}", known.join(", ")),
            }),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.described().1
    }

    /// The type of PostgreSQL that holds all of its values.
    pub(crate) fn sql(self) -> &'static str {
        self.described().2
    }

    fn described(self) -> (Self, &'static str, &'static str) {
        *TYPES.iter().find(|(one, ..)| *one == self).expect("every type is described")
    }

    /// The JSON of a field. Spaces around all but a text do not count. Equal values have the same JSON.
    ///
    /// # Errors
    /// What a field of this type holds.
    pub(crate) fn json(self, text: &str) -> Result<String, &'static str> {
        let word = text.trim();
        let whole = |least: i128, most: u64| {
            let number = word.parse::<i128>().ok();
            number.filter(|number| (least..=i128::from(most)).contains(number)).map(|number| number.to_string())
        };
        let (json, holds) = match self {
            Self::Boolean => (boolean(word).map(|is| is.to_string()), "true, t, 1, false, f or 0"),
            // A number that is too large for a double would be infinite, which JSON cannot hold.
            Self::Double => {
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                (number.map(|number| Value::from(number).to_string()), "a number that fits in 64 bits")
            }
            Self::Int32 => (whole(i32::MIN.into(), 0x7fff_ffff), "a whole number from -2147483648 to 2147483647"),
            Self::String => (Some(Value::from(text).to_string()), "a text"),
            Self::Uint16 => (whole(0, u16::MAX.into()), "a whole number from 0 to 65535"),
            Self::Uint32 => (whole(0, u32::MAX.into()), "a whole number from 0 to 4294967295"),
            Self::Uint64 => (whole(0, u64::MAX), "a whole number from 0 to 18446744073709551615"),
        };
        json.ok_or(holds)
    }
}

fn boolean(word: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|one| one.eq_ignore_ascii_case(word));
    if is(["true", "t", "1"]) {
        return Some(true);
    }
    is(["false", "f", "0"]).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_becomes_json_or_is_refused() {
        use ColumnType::{Boolean, Double, Int32, String, Uint16, Uint32, Uint64};
        for (kind, text, json) in [
            (Boolean, " TRUE", Some("true")),
            (Boolean, "t", Some("true")),
            (Boolean, "0", Some("false")),
            (Boolean, "yes", None),
            (Double, "1.50", Some("1.5")),
            (Double, "-0.1e3", Some("-100.0")),
            (Double, ".5", Some("0.5")),
            (Double, "7", Some("7.0")),
            (Double, "1e400", None),
            (Double, "nan", None),
            (Double, "inf", None),
            (Double, "1,5", None),
            (Int32, "-2147483648", Some("-2147483648")),
            (Int32, "2147483647", Some("2147483647")),
            (Int32, "2147483648", None),
            (String, "007", Some("\"007\"")),
            (Uint16, "65535", Some("65535")),
            (Uint16, "65536", None),
            (Uint32, "007", Some("7")),
            (Uint32, "4294967295", Some("4294967295")),
            (Uint32, "4294967296", None),
            (Uint32, "-1", None),
            (Uint32, "1.0", None),
            (Uint32, "AS13335", None),
            (Uint64, "18446744073709551615", Some("18446744073709551615")),
            (Uint64, "18446744073709551616", None),
            (Uint64, &"9".repeat(100), None),
        ] {
            assert_eq!(kind.json(text).ok().as_deref(), json, "{} {text}", kind.name());
        }
    }

    #[test]
    fn a_type_is_read_and_a_wrong_one_gets_the_nearest_name() {
        for (kind, name, _) in TYPES {
            assert_eq!(ColumnType::parse_named(&format!("a=b={name}")), Ok(("a=b".into(), kind)));
            let recorded = serde_json::to_string(&kind).unwrap();
            assert_eq!(recorded, format!("{name:?}"));
            assert_eq!(serde_json::from_str::<ColumnType>(&recorded).unwrap(), kind);
        }
        let all = "the types are boolean, double, int32, string, uint16, uint32, uint64";
        for (text, problem) in [
            ("asn=unit32", "there is no type \"unit32\"; did you mean \"uint32\"?".to_owned()),
            ("asn=money", format!("there is no type \"money\"; {all}")),
            ("asn", format!("it is not COLUMN=TYPE; {all}")),
            ("=uint32", format!("it is not COLUMN=TYPE; {all}")),
        ] {
            assert_eq!(ColumnType::parse_named(text), Err(problem), "{text}");
        }
    }
}
