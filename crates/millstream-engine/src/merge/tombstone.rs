//! Which documents delete: those that hold a value at a path.

use super::ModeError;
use millstream_model::KeyRequest;

/// `PATH=VALUE`: a document deletes when the text at the path, as `#>>` gives it, is the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// Path from the document's root.
    pub(crate) path: KeyRequest,
    /// The value that deletes.
    pub(crate) value: String,
}

impl Tombstone {
    /// Path from the document's root.
    pub fn path(&self) -> &[String] {
        &self.path.path
    }

    /// The value that deletes.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl std::str::FromStr for Tombstone {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let wrong = |problem: String| ModeError::Tombstone(text.to_owned(), problem);
        let mut quoted = false;
        let sign = text.bytes().position(|byte| {
            quoted ^= byte == b'"';
            byte == b'=' && !quoted
        });
        let (path, value) = sign.map(|at| (&text[..at], &text[at + 1..])).ok_or_else(|| wrong("it has no =".into()))?;
        let mut paths = KeyRequest::parse_paths(path).map_err(|error| wrong(error.to_string()))?;
        match (paths.pop(), paths.is_empty()) {
            (Some(path), true) if path.key_type.is_none() => Ok(Self { path, value: value.to_owned() }),
            _ => Err(wrong("a value is compared as text at one path".into())),
        }
    }
}

impl std::fmt::Display for Tombstone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.path.path_text(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_value_are_read() {
        for (text, path, value) in [
            ("op=d", &["op"][..], "d"),
            ("meta.deleted=true", &["meta", "deleted"], "true"),
            ("op=", &["op"], ""),
            ("op=a=b", &["op"], "a=b"),
            ("/\"a=b\"/c=1", &["a=b", "c"], "1"),
        ] {
            let tombstone: Tombstone = text.parse().unwrap();
            assert_eq!(tombstone.path.path, path);
            assert_eq!(tombstone.value, value);
            assert_eq!(tombstone.to_string().parse::<Tombstone>(), Ok(tombstone));
        }
        for text in ["op", "=d", "a,b=1", "op:text=d", "\"op=d", ""] {
            assert!(text.parse::<Tombstone>().is_err(), "{text}");
        }
    }
}
