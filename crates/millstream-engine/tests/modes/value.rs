//! JSON values of the oracle, whose numbers are exact thousandths.

use std::collections::BTreeMap;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    /// Thousandths.
    Number(i64),
    Text(&'static str),
    List(Vec<Json>),
    Object(Object),
}

pub(crate) type Object = BTreeMap<&'static str, Json>;

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Number(milli) if milli % 1000 == 0 => write!(f, "{}", milli / 1000),
            // Several spellings of numbers, so that none is taken for granted.
            Self::Number(milli) if milli % 2 == 0 => write!(f, "{milli}e-3"),
            Self::Number(milli) => {
                let (sign, milli) = (if *milli < 0 { "-" } else { "" }, milli.abs());
                write!(f, "{sign}{}.{:03}", milli / 1000, milli % 1000)
            }
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", values.join(","))
            }
            Self::Object(members) => {
                let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
                write!(f, "{{{}}}", members.join(", "))
            }
        }
    }
}
