//! The experiments that are built in, and those that a user names by path.

use super::cluster::Trouble;
use super::commands::Commands;
use super::experiment::Experiment;
use super::values::Selection;
use crate::core::word::unknown;
use crate::error::Error;
use crate::limits::EXPERIMENT_BYTES_MAX;
use include_dir::{Dir, include_dir};
use millstream_host::{open_named, write_whole};
use std::collections::BTreeMap;
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
        let selection = Selection::default();
        for file in BUILT_IN.files() {
            let Some(name) = stem(file.path()) else { continue };
            let text = file.contents_utf8().unwrap_or_default();
            all.push(Self::read(name, text, &selection, &|name| Ok(beside(name)))?);
        }
        all.sort_by(|a, b| a.experiment.name.cmp(&b.experiment.name));
        Ok(all)
    }

    /// The experiment of that name, or in the file of that path. A path ends in `.toml`.
    ///
    /// # Errors
    /// [`Error::Asked`] for an unknown name; [`Error::Experiment`] for a file that is wrong; errors of the disk.
    pub fn named(name: &str, selection: &Selection) -> Result<Self, Error> {
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            let dir = path.parent().unwrap_or(Path::new(""));
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let beside = |name: &str| {
                let path = dir.join(name);
                if path.exists() { text(&path).map(Some) } else { Ok(None) }
            };
            return Self::read(&stem, &text(path)?, selection, &beside);
        }
        match BUILT_IN.get_file(format!("{name}.toml")).and_then(|file| file.contents_utf8()) {
            Some(text) => Self::read(name, text, selection, &|name| Ok(beside(name))),
            None => {
                let names: Vec<&str> = BUILT_IN.files().filter_map(|file| stem(file.path())).collect();
                Err(Error::Asked(unknown("experiment", name, &names)))
            }
        }
    }

    /// Two command lines that are compared.
    ///
    /// # Errors
    /// As for [`Commands::experiment`].
    pub fn of_commands(commands: &Commands) -> Result<Self, Error> {
        Ok(Self { experiment: commands.experiment()?, files: BTreeMap::new() })
    }

    /// An error of the setup: it ends the experiment, because no arm can be run.
    pub(crate) fn failed_setup(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Error(error) => {
                Error::Asked(format!("experiment {}: its setup failed: {}", self.experiment.name, error.chain())).into()
            }
            Trouble::Unfit(why) => Trouble::Unfit(why),
        }
    }

    /// Writes the files that commands need into a directory.
    pub(crate) fn put_files(&self, dir: &Path) -> Result<(), Error> {
        for name in &self.experiment.files {
            let path = dir.join(name);
            let text = self.files.get(name).map_or("", String::as_str);
            write_whole(&path, text).map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    fn read(
        name: &str,
        text: &str,
        selection: &Selection,
        beside: &dyn Fn(&str) -> Result<Option<String>, Error>,
    ) -> Result<Self, Error> {
        let experiment = Experiment::parse(name, text, selection)?;
        let mut files = BTreeMap::new();
        let named = experiment.data.files.iter().chain(&experiment.files).cloned();
        let wanted = experiment.script_files().into_iter().chain(named);
        let mut missing = Vec::new();
        for wanted in wanted {
            let plain = Path::new(&wanted).file_name().is_some_and(|name| name == wanted.as_str());
            match beside(&wanted)?.filter(|_| plain) {
                Some(text) => _ = files.insert(wanted, text),
                None => missing.push(wanted),
            }
        }
        if !missing.is_empty() {
            let why = format!("there is no file {} beside it", missing.join(", and no "));
            return Err(Error::Experiment { name: name.to_owned(), why });
        }
        Ok(Self { experiment, files })
    }
}

/// The name of an experiment, of the path of its file.
fn stem(path: &Path) -> Option<&str> {
    path.to_str()?.strip_suffix(".toml")
}

/// A file beside the built-in experiments.
fn beside(name: &str) -> Option<String> {
    BUILT_IN.get_file(name)?.contents_utf8().map(str::to_owned)
}

fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let file = open_named(path).map_err(Error::io("read", path))?;
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
        let error = Source::named("lader", &Selection::default()).unwrap_err().to_string();
        assert_eq!(error, "unknown experiment \"lader\": did you mean \"ladder\"?");
    }

    #[test]
    fn every_value_of_a_built_in_experiment_says_what_it_changes_and_changes_it() {
        let mut dials = 0;
        for one in Source::built_in().unwrap() {
            let Experiment { name, values, .. } = &one.experiment;
            for (dial, usual) in values {
                assert!(!usual.changes.is_empty(), "{name}: {dial}");
                let other = match usual.value.parse::<u64>() {
                    _ if dial == "protocol" => "extended".to_owned(),
                    _ if dial == "disk" => "flush_ms=3".to_owned(),
                    _ if usual.takes.program => "sh".to_owned(),
                    _ if !usual.takes.one_of.is_empty() => {
                        usual.takes.one_of.iter().find(|word| **word != usual.value).unwrap().clone()
                    }
                    _ if !usual.arms.is_empty() => {
                        usual.arms.keys().find(|value| **value != usual.value).unwrap().clone()
                    }
                    Ok(number) => (number + 1).to_string(),
                    Err(_) => "3".to_owned(),
                };
                let mut chosen = BTreeMap::from([(dial.clone(), other)]);
                if dial == "threads" {
                    chosen.insert("clients".to_owned(), "65".to_owned());
                }
                let selection = Selection { values: chosen, ..Selection::default() };
                Source::named(name, &selection).unwrap_or_else(|error| panic!("{name}: {dial}: {error}"));
                dials += 1;
            }
        }
        assert!(dials > 100, "{dials}");
        // What the articles vary.
        for (name, wanted) in [
            ("ladder", &["clients", "threads", "scale", "seconds", "disk"][..]),
            ("clients", &["clients", "threads", "scale", "seconds"]),
            ("rate-limit", &["rate", "limit", "clients", "threads", "scale", "seconds", "protocol", "disk"]),
            ("checkpoint", &["versions", "clients", "threads", "scale", "seconds", "protocol", "disk"]),
            ("settings", &["clients", "threads", "scale", "seconds", "protocol", "disk"]),
            ("disk", &["clients", "threads", "scale", "seconds", "protocol", "memory", "disk"]),
            ("versions", &["versions", "clients", "threads", "scale", "seconds", "protocol"]),
            ("kernel", &["clients", "threads", "scale", "seconds", "protocol", "memory"]),
            ("upsert", &["batch", "keys", "clients", "seconds", "protocol"]),
        ] {
            let values = Source::named(name, &Selection::default()).unwrap().experiment.values;
            assert!(wanted.iter().all(|one| values.contains_key(*one)), "{name}: {values:?}");
        }
    }

    #[test]
    fn the_steps_of_the_upsert_article_are_arms_also_all_at_once_and_by_millstream() {
        let experiment = Source::named("upsert", &Selection::default()).unwrap().experiment;
        for name in ["recipe-unlogged", "recipe-logged", "millstream-unlogged", "millstream-published"] {
            assert!(experiment.arm(name).is_some(), "{name}");
        }
        let settings = experiment.setup(experiment.arm("recipe-logged").unwrap()).settings;
        for name in ["shared_buffers", "effective_io_concurrency", "commit_delay", "max_wal_size"] {
            assert!(settings.contains_key(name), "{name}");
        }
        let refresh = experiment.setup(experiment.arm("refresh").unwrap());
        assert_eq!(refresh.rows(), None, "it is shown in seconds");
        assert!(experiment.show.iter().any(|one| one.as_str() == "wall_seconds"));
    }

    #[test]
    fn an_experiment_of_a_user_is_read_with_the_files_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        let text = "question = 'q?'\nseconds = 1\nrun = { scripts = ['a.sql'] }\n[[arm]]\nname = 'a'\n";
        std::fs::write(&path, text).unwrap();
        let error = Source::named(path.to_str().unwrap(), &Selection::default()).unwrap_err().to_string();
        assert!(error.ends_with("there is no file a.sql beside it"), "{error}");
        std::fs::write(dir.path().join("a.sql"), "select 1;\n").unwrap();
        let source = Source::named(path.to_str().unwrap(), &Selection::default()).unwrap();
        assert_eq!((source.experiment.name.as_str(), source.files["a.sql"].as_str()), ("own", "select 1;\n"));
        std::fs::write(&path, text.replace("a.sql", "../a.sql")).unwrap();
        assert!(Source::named(path.to_str().unwrap(), &Selection::default()).is_err(), "only files beside it");
    }
}
