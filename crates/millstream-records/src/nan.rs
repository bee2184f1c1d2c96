//! What becomes of a number that JSON does not have.

/// What a number that is not finite becomes: `NaN`, `Infinity` and `-Infinity` are no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nan {
    /// Null. Such values are counted.
    #[default]
    Null,
    /// The bare word, so that the document is no JSON and becomes a reject.
    Reject,
    /// The word as a string, which PostgreSQL casts to a number.
    Text,
}

/// The choices: their names, the default first, and what they do.
pub const NANS: &[(Nan, &str, &str)] = &[
    (Nan::Null, "null", "null, and the number of such values is printed"),
    (Nan::Reject, "reject", "the document becomes a reject"),
    (Nan::Text, "string", "the string \"NaN\", \"Infinity\" or \"-Infinity\""),
];

/// The words of numbers that are not finite.
pub(crate) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The word of a number that is not finite.
pub(crate) fn word_of(value: f64) -> &'static str {
    let [nan, above, below] = NOT_FINITE;
    match value {
        _ if value.is_nan() => nan,
        _ if value > 0.0 => above,
        _ => below,
    }
}

impl Nan {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        NANS.iter().find(|(nan, ..)| *nan == self).map_or("", |(_, name, _)| *name)
    }

    /// Writes what a number that is not finite becomes. `word` is how it is spelled. True if it became null.
    pub fn write(self, word: &str, text: &mut Vec<u8>) -> bool {
        match self {
            Self::Null => text.extend_from_slice(b"null"),
            Self::Reject => text.extend_from_slice(word.as_bytes()),
            Self::Text => {
                text.push(b'"');
                text.extend_from_slice(word.as_bytes());
                text.push(b'"');
            }
        }
        self == Self::Null
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_name_and_the_default_is_the_first() {
        assert_eq!(NANS[0].0, Nan::default());
        for (nan, name, _) in NANS {
            assert_eq!(nan.name(), *name);
            assert!(!name.is_empty());
        }
    }
}
