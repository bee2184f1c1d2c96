//! A file that is opened when its turn comes, so that many files take no more memory than one.

use super::{Input, InputOptions, Read, open};
use crate::column_type::ColumnTypes;
use crate::error::Error;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Opens a file to see whether it can be read, and opens it again for its first entry. What is not a regular file stays
/// open, because it can be read only once.
///
/// # Errors
/// As for [`open`].
pub fn open_later(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
    let input = open(path, options)?;
    if path == Path::new("-") || !path.is_file() {
        return Ok(input);
    }
    let (path, options) = (path.to_owned(), options.clone());
    let (name, total, types) = (input.name().to_owned(), input.progress().1, input.types());
    Ok(Box::new(Later { path, options, name, total, types, input: None }))
}

/// Refuses a stream that is named twice, also by another name: whoever reads it first leaves nothing for the other.
///
/// # Errors
/// [`Error::Refused`] names it.
pub fn refuse_repeated(paths: &[PathBuf]) -> Result<(), Error> {
    let mut streams = HashSet::new();
    for path in paths {
        // What cannot be opened is said when it is.
        if millstream_input::stream_identity(path).is_some_and(|stream| !streams.insert(stream)) {
            let problem = format!("{} is a stream that is named twice, and it can be read only once", path.display());
            return Err(Error::refused(problem, "name it once"));
        }
    }
    Ok(())
}

/// A file and what is known about it.
struct Later {
    path: PathBuf,
    options: InputOptions,
    name: String,
    total: Option<u64>,
    types: ColumnTypes,
    input: Option<Box<dyn Input>>,
}

impl Input for Later {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        match &mut self.input {
            Some(input) => input.next(members),
            None => self.input.insert(open(&self.path, &self.options)?).next(members),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.input.as_ref().map_or((0, self.total), |input| input.progress())
    }

    fn types(&self) -> ColumnTypes {
        self.types.clone()
    }

    fn unseen(&self) -> Vec<String> {
        self.input.as_ref().map(|input| input.unseen()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::transcribe;
    use super::*;
    use std::fs;

    #[test]
    fn only_files_may_be_named_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.csv"), folder.path().join("link"));
        fs::write(&file, "ip\n").unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        refuse_repeated(&[file.clone(), "-".into(), file.clone(), "none".into(), "none".into()]).unwrap();
        for twice in [["/dev/null".into(), link], ["-".into(), "-".into()]] {
            let error = refuse_repeated(&[file.clone(), twice[0].clone(), twice[1].clone()]).unwrap_err();
            assert!(error.to_string().contains("named twice"), "{error}");
        }
    }

    #[test]
    fn a_file_is_checked_at_once_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "name\n").unwrap();
        assert!(open_later(&path, &InputOptions::default()).is_err());
        fs::write(&path, "ip\n1.2.3.4\n").unwrap();
        let input = open_later(&path, &InputOptions::default()).unwrap();
        assert_eq!((input.name(), input.progress()), (path.to_str().unwrap(), (0, Some(11))));
        fs::write(&path, "ip\n1.2.3.5\n").unwrap();
        assert_eq!(transcribe(input).unwrap(), ["2 1.2.3.5-1.2.3.5 "]);
        let input = open_later(&path, &InputOptions::default()).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(transcribe(input).is_err());
    }
}
