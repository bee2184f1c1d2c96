//! What the scanner can find wrong with a document, and the message for it.

use millstream_model::limits::{
    DOCUMENT_EXPANDED_DIGITS_MAX, NESTING_MAX, NUMBER_EXPANDED_DIGITS_MAX, NUMERIC_FRACTION_DIGITS_MAX,
    NUMERIC_INTEGER_DIGITS_MAX,
};
use millstream_model::{Fault, Reason};

/// What is wrong at a byte of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    Object,
    Value,
    MemberName,
    Colon,
    CommaOrBrace,
    CommaOrBracket,
    End,
    Digit,
    LeadingZero,
    StringEnd,
    ControlCharacter,
    Escape,
    UnicodeEscape,
    NulCharacter,
    LoneSurrogate,
    NumberTooLong,
    NumberExplodes,
    NumbersExplode,
    TooDeep,
}

impl Flaw {
    fn reason(self) -> Reason {
        match self {
            Self::NulCharacter => Reason::NulCharacter,
            Self::LoneSurrogate => Reason::LoneSurrogate,
            Self::NumberTooLong | Self::NumberExplodes | Self::NumbersExplode => Reason::NumberOutOfRange,
            Self::TooDeep => Reason::TooDeep,
            _ => Reason::NotJson,
        }
    }

    /// What was expected there, for flaws in the grammar.
    fn expected(self) -> Option<&'static str> {
        Some(match self {
            Self::Object => "an object",
            Self::Value => "a value",
            Self::MemberName => "a member name in double quotes",
            Self::Colon => "':'",
            Self::CommaOrBrace => "',' or '}'",
            Self::CommaOrBracket => "',' or ']'",
            Self::End => "nothing more",
            Self::Digit => "a digit",
            Self::StringEnd => "the rest of a string",
            Self::Escape => "one of \"\\/bfnrtu after a backslash",
            Self::UnicodeEscape => "four hexadecimal digits after \\u",
            _ => return None,
        })
    }

    /// What is wrong, as a sentence without a period.
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::LeadingZero => "a number begins with a needless 0".to_owned(),
            Self::ControlCharacter => "a control character in a string is not escaped".to_owned(),
            Self::NulCharacter => "a string holds \\u0000, which PostgreSQL cannot store".to_owned(),
            Self::LoneSurrogate => "a string holds half of a UTF-16 surrogate pair".to_owned(),
            Self::NumberTooLong => format!(
                "a number has more than {NUMERIC_INTEGER_DIGITS_MAX} digits before or \
                 {NUMERIC_FRACTION_DIGITS_MAX} after the decimal point"
            ),
            Self::NumberExplodes => format!(
                "a number with an exponent has more than {NUMBER_EXPANDED_DIGITS_MAX} digits when \
                 spelled out, as jsonb would store it; Millstream's limit keeps small documents small"
            ),
            Self::NumbersExplode => format!(
                "the document's numbers with exponents have more than \
                 {DOCUMENT_EXPANDED_DIGITS_MAX} digits when spelled out"
            ),
            Self::TooDeep => format!("arrays and objects are nested deeper than {NESTING_MAX}"),
            other => format!("expected {}", other.expected().unwrap_or("something else")),
        }
    }

    /// The fault with its message, which names the byte.
    #[cold]
    pub(crate) fn fault(self, document: &[u8], at: usize) -> Fault {
        let detail = match (self.expected(), document.get(at)) {
            (Some(_), Some(_)) if document[at..].starts_with("\u{feff}".as_bytes()) => {
                format!("a byte order mark at byte {at}, as where files were joined; remove it")
            }
            (Some(expected), None) => {
                let ends = format!("the document ends at byte {at} where {expected} was expected");
                // As the first lines of a document that is spread over several do.
                match document.trim_ascii_end().last() {
                    Some(b'{' | b'[' | b',') => format!("{ends}; if documents span lines, add --format json"),
                    _ => ends,
                }
            }
            (Some(_), Some(b'{')) if self == Self::End => {
                format!("{} at byte {at}; if a line holds several documents, add --format json", self.sentence())
            }
            _ => format!("{} at byte {at}", self.sentence()),
        };
        Fault::new(self.reason(), detail)
    }
}
