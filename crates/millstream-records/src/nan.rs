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

impl Nan {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        NANS.iter().find(|(nan, ..)| *nan == self).map_or("", |(_, name, _)| *name)
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
