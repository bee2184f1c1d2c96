//! The experiments that are built in, and those that a user names by path.

use super::experiment::Experiment;
use crate::core::word::unknown;
use crate::error::Error;
use crate::limits::EXPERIMENT_BYTES_MAX;
use include_dir::{Dir, include_dir};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// `lab/experiments` of the repository.
static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../lab/experiments");

/// An experiment with the files beside it that it uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The experiment.
    pub experiment: Experiment,
    /// Scripts and SQL files, by name.
    pub files: BTreeMap<String, String>,
}

impl Source {
    /// Every experiment that is built in, by name.
    ///
    /// # Errors
    /// [`Error::Experiment`] for a file that is wrong, which a test rules out.
    pub fn built_in() -> Result<Vec<Self>, Error> {
        let mut all = Vec::new();
        for file in BUILT_IN.files() {
            let Some(name) = file.path().to_str().and_then(|name| name.strip_suffix(".toml")) else { continue };
            let text = file.contents_utf8().unwrap_or_default();
            let beside = |name: &str| BUILT_IN.get_file(name).and_then(|file| file.contents_utf8()).map(str::to_owned);
            all.push(Self::read(name, text, &|name| Ok(beside(name)))?);
        }
        all.sort_by(|a, b| a.experiment.name.cmp(&b.experiment.name));
        Ok(all)
    }

    /// The experiment of that name, or in the file of that path. A path ends in `.toml`.
    ///
    /// # Errors
    /// [`Error::Asked`] for an unknown name; [`Error::Experiment`] for a file that is wrong; errors of the disk.
    pub fn named(name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            let dir = path.parent().unwrap_or(Path::new(""));
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let beside = |name: &str| {
                let path = dir.join(name);
                if path.exists() { text(&path).map(Some) } else { Ok(None) }
            };
            return Self::read(&stem, &text(path)?, &beside);
        }
        let all = Self::built_in()?;
        let names: Vec<String> = all.iter().map(|one| one.experiment.name.clone()).collect();
        all.into_iter().find(|one| one.experiment.name == name).ok_or_else(|| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Error::Asked(unknown("experiment", name, &names))
        })
    }

    /// Two command lines, to be compared by the time they take.
    ///
    /// # Errors
    /// As for [`Experiment::of_commands`].
    pub fn of_commands(a: &str, b: &str) -> Result<Self, Error> {
        Ok(Self { experiment: Experiment::of_commands(a, b)?, files: BTreeMap::new() })
    }

    fn read(name: &str, text: &str, beside: &dyn Fn(&str) -> Result<Option<String>, Error>) -> Result<Self, Error> {
        let experiment = Experiment::parse(name, text)?;
        let mut files = BTreeMap::new();
        let wanted = experiment.script_files().into_iter().chain(experiment.data.files.iter().cloned());
        for wanted in wanted {
            let plain = Path::new(&wanted).file_name().is_some_and(|name| name == wanted.as_str());
            match beside(&wanted)?.filter(|_| plain) {
                Some(text) => files.insert(wanted, text),
                None => {
                    let why = format!("there is no file {wanted} beside it");
                    return Err(Error::Experiment { name: name.to_owned(), why });
                }
            };
        }
        Ok(Self { experiment, files })
    }
}

fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let file = File::open(path).map_err(Error::io("read", path))?;
    file.take(EXPERIMENT_BYTES_MAX).read_to_string(&mut text).map_err(Error::io("read", path))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_experiment_is_complete() {
        let all = Source::built_in().unwrap();
        assert!(all.iter().any(|one| one.experiment.name == "ladder"), "{}", all.len());
        for one in &all {
            let Experiment { name, question, expected, read, .. } = &one.experiment;
            assert!(question.ends_with('?') && expected.len() > 20 && read.len() > 20, "{name}");
        }
        let error = Source::named("lader").unwrap_err().to_string();
        assert_eq!(error, "unknown experiment \"lader\": did you mean \"ladder\"?");
    }

    #[test]
    fn an_experiment_of_a_user_is_read_with_the_files_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        let text = "question = 'q?'\nexpected = ''\nread = ''\nseconds = 1\nrun = { scripts = ['a.sql'] }\n\
            [[arm]]\nname = 'a'\nabout = ''\n";
        std::fs::write(&path, text).unwrap();
        let error = Source::named(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("there is no file a.sql beside it"), "{error}");
        std::fs::write(dir.path().join("a.sql"), "select 1;\n").unwrap();
        let source = Source::named(path.to_str().unwrap()).unwrap();
        assert_eq!((source.experiment.name.as_str(), source.files["a.sql"].as_str()), ("own", "select 1;\n"));
        std::fs::write(&path, text.replace("a.sql", "../a.sql")).unwrap();
        assert!(Source::named(path.to_str().unwrap()).is_err(), "only files beside it");
    }
}
