//! The name of a store of ranges as typed: `STORE`, or `STORE@N` for one of its generations.

use crate::failure::Failure;
use millstream_ranges::Generation;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A store, or one of its generations, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreName {
    /// The directory or file, without the generation.
    pub path: PathBuf,
    /// `None`: the current one.
    pub generation: Option<u64>,
}

impl StoreName {
    /// Opens it.
    pub fn open(&self) -> Result<Generation, Failure> {
        Ok(Generation::open(&self.path, self.generation)?)
    }
}

impl From<OsString> for StoreName {
    fn from(typed: OsString) -> Self {
        let path = PathBuf::from(typed);
        if path.symlink_metadata().is_err()
            && let Some((store, generation)) = path.to_str().and_then(|text| text.rsplit_once('@'))
            && let Ok(number) = generation.parse()
            && generation.bytes().all(|b| b.is_ascii_digit())
        {
            return Self { path: store.into(), generation: Some(number) };
        }
        Self { path, generation: None }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.generation.map_or(Ok(()), |generation| write!(f, "@{generation}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_an_at_sign_is_a_generation_unless_a_file_has_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| {
            let StoreName { path, generation } = StoreName::from(dir.path().join(name).into_os_string());
            (path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned(), generation)
        };
        std::fs::create_dir(dir.path().join("b@7")).unwrap();
        for (typed, path, generation) in [
            ("a", "a", None),
            ("a@7", "a", Some(7)),
            ("a@x@07", "a@x", Some(7)),
            ("a@x", "a@x", None),
            ("a@+7", "a@+7", None),
            ("a@", "a@", None),
            ("b@7", "b@7", None),
            ("b@7@8", "b@7", Some(8)),
        ] {
            assert_eq!(name(typed), (path.to_owned(), generation), "{typed}");
        }
        let shown = |typed: &str| StoreName::from(OsString::from(typed)).to_string();
        assert_eq!((shown("x/y"), shown("x/y@3")), ("x/y".into(), "x/y@3".into()));
    }
}
