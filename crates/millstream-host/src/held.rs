//! Changes of the kernel's settings, which are given back whatever happens.

use crate::error::Error;
use crate::own_file::own_file;
use crate::setting::{origin, pair_of, write};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Settings of the kernel that were changed: files below `/proc/sys` and `/sys`.
///
/// Before a setting is changed for the first time, its value is written to a journal. What was changed is given back by
/// [`HostChanges::restore`], when this is dropped, and after a kill when the next one is opened. One process at a time
/// can change settings.
#[derive(Debug)]
pub struct HostChanges {
    journal: File,
    path: PathBuf,
    /// Values before the first change.
    before: BTreeMap<PathBuf, String>,
}

impl HostChanges {
    /// Where changes are noted. The directory is emptied by a restart of the machine, which also undoes the changes.
    pub const JOURNAL: &str = "/run/millstream-host-changes";

    /// Opens the journal of this machine. Gives back settings that a killed process had changed, and returns their names.
    /// One whose file is gone, with its device or module, has nothing to give back: see [`HostChanges::is_gone`].
    ///
    /// # Errors
    /// [`Error::Setting`] without the right to write the journal or a setting; [`Error::Busy`] if another process
    /// changes settings.
    pub fn open() -> Result<(Self, Vec<PathBuf>), Error> {
        Self::at(Path::new(Self::JOURNAL))
    }

    /// Whether a process has changed settings of this machine and not given them back.
    pub fn is_pending() -> bool {
        Self::is_pending_at(Path::new(Self::JOURNAL))
    }

    /// Whether the file of a setting is gone.
    pub fn is_gone(setting: &Path) -> bool {
        fs::metadata(setting).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// The same by a journal at another place: for tests.
    pub fn is_pending_at(journal: &Path) -> bool {
        fs::metadata(journal).is_ok_and(|journal| journal.len() > 0)
    }

    /// Whether such a journal names this setting, or the other one of its pair. One that cannot be read may do so.
    pub fn is_held(journal: &Path, setting: &Path) -> bool {
        let name = setting.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let other = pair_of(name).map(|other| setting.with_file_name(other));
        let is_it = |held: &Path| held == setting || other.as_deref() == Some(held);
        match fs::read_to_string(journal) {
            Ok(text) => text.lines().filter_map(|line| line.split_once('\t')).any(|(held, _)| is_it(Path::new(held))),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    fn at(path: &Path) -> Result<(Self, Vec<PathBuf>), Error> {
        let failed = Error::setting("open", path);
        // Whoever could write there could have us write any file. Others read it.
        let opened = own_file(0o644).read(true).write(true).create(true).truncate(false).open(path);
        let mut journal = opened.map_err(&failed)?;
        match journal.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { journal: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = String::new();
        journal.read_to_string(&mut text).map_err(&failed)?;
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let before: BTreeMap<_, _> = lines.map(|(setting, value)| (PathBuf::from(setting), value.to_owned())).collect();
        let left = before.keys().cloned().collect();
        let mut changes = Self { journal, path: path.to_owned(), before };
        changes.restore()?;
        Ok((changes, left))
    }

    /// Gives these settings these values, and every other setting that was changed its own.
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting does not exist, cannot be changed, or does not take the value.
    pub fn apply(&mut self, wanted: &BTreeMap<PathBuf, String>) -> Result<(), Error> {
        for (setting, value) in &self.before {
            if !wanted.contains_key(setting) {
                write(setting, value)?;
            }
        }
        for (setting, value) in wanted {
            let (origin, now) = origin(setting)?;
            let known = self.before.contains_key(&origin) || self.before.contains_key(setting);
            if !known {
                let line = format!("{}\t{now}\n", origin.display());
                let noted = self.journal.write_all(line.as_bytes()).and_then(|()| self.journal.sync_data());
                noted.map_err(Error::setting("write", &self.path))?;
                self.before.insert(origin, now);
            }
            write(setting, value)?;
        }
        Ok(())
    }

    /// Gives every setting its own value again.
    ///
    /// # Errors
    /// [`Error::Setting`] if one cannot be written. The others are given back all the same.
    pub fn restore(&mut self) -> Result<(), Error> {
        let there = self.before.iter().filter(|(setting, _)| !Self::is_gone(setting));
        let written: Vec<_> = there.map(|(setting, value)| write(setting, value)).collect();
        written.into_iter().collect::<Result<(), Error>>()?;
        let emptied = self.journal.set_len(0).and_then(|()| self.journal.rewind());
        emptied.map_err(Error::setting("empty", &self.path))?;
        self.before.clear();
        Ok(())
    }
}

impl Drop for HostChanges {
    fn drop(&mut self) {
        // What cannot be written now stays in the journal.
        let _ = self.restore();
        // Closing is not enough: a child that was just forked has the file, too, until it becomes another program.
        let _ = self.journal.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::read;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { dir: tempfile::tempdir().unwrap() };
            fs::write(place.path("a"), "1\n").unwrap();
            fs::write(place.path("b"), "2\t3\n").unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn open(&self) -> Result<(HostChanges, Vec<PathBuf>), Error> {
            HostChanges::at(&self.path("journal"))
        }

        fn values(&self) -> [String; 2] {
            ["a", "b"].map(|name| read(&self.path(name)).unwrap())
        }

        fn wanted(&self, list: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
            list.iter().map(|(name, value)| (self.path(name), (*value).to_owned())).collect()
        }
    }

    #[test]
    fn settings_are_given_back_when_they_are_no_longer_wanted_and_at_the_end() {
        let place = Place::new();
        let (mut changes, left) = place.open().unwrap();
        assert!(left.is_empty());
        changes.apply(&place.wanted(&[("a", "7"), ("b", "8 9")])).unwrap();
        assert_eq!(place.values(), ["7", "8 9"]);
        changes.apply(&place.wanted(&[("b", "4")])).unwrap();
        assert_eq!(place.values(), ["1", "4"]);
        drop(changes);
        assert_eq!(place.values(), ["1", "2\t3"]);
        assert_eq!(fs::read_to_string(place.path("journal")).unwrap(), "");
    }

    #[test]
    fn what_a_killed_process_has_changed_is_given_back_by_the_next() {
        let place = Place::new();
        let (mut changes, _) = place.open().unwrap();
        changes.apply(&place.wanted(&[("a", "7"), ("b", "8")])).unwrap();
        assert!(matches!(place.open(), Err(Error::Busy { .. })), "the first one is at work");
        let journal = fs::read_to_string(place.path("journal")).unwrap();
        drop(changes);
        // As if it had been killed.
        fs::write(place.path("journal"), journal).unwrap();
        fs::write(place.path("a"), "7").unwrap();
        fs::write(place.path("b"), "8").unwrap();
        let (_changes, left) = place.open().unwrap();
        assert_eq!(left, [place.path("a"), place.path("b")]);
        assert_eq!(place.values(), ["1", "2\t3"]);
    }

    #[test]
    fn a_setting_whose_file_is_gone_does_not_keep_the_others() {
        let place = Place::new();
        let line = |name: &str, value: &str| format!("{}\t{value}\n", place.path(name).display());
        fs::write(place.path("journal"), line("b", "5") + &line("gone", "1")).unwrap();
        let (changes, left) = place.open().unwrap();
        assert_eq!(left, [place.path("b"), place.path("gone")]);
        assert!(HostChanges::is_gone(&left[1]) && !HostChanges::is_gone(&left[0]));
        assert_eq!(place.values()[1], "5");
        drop(changes);
        assert_eq!(fs::read_to_string(place.path("journal")).unwrap(), "");
        assert!(!place.path("gone").exists());
    }

    #[test]
    fn of_a_pair_the_one_that_counts_is_given_back() {
        let place = Place::new();
        fs::write(place.path("dirty_bytes"), "0\n").unwrap();
        fs::write(place.path("dirty_ratio"), "20\n").unwrap();
        let (mut changes, _) = place.open().unwrap();
        changes.apply(&place.wanted(&[("dirty_bytes", "1000000")])).unwrap();
        assert_eq!(
            fs::read_to_string(place.path("journal")).unwrap(),
            format!("{}\t20\n", place.path("dirty_ratio").display())
        );
        fs::write(place.path("dirty_ratio"), "0\n").unwrap();
        drop(changes);
        assert_eq!(fs::read_to_string(place.path("dirty_ratio")).unwrap(), "20");
    }

    #[test]
    fn a_journal_holds_the_settings_that_it_names_and_the_others_of_their_pairs() {
        let place = Place::new();
        let journal = place.path("journal");
        let is_held = |name: &str| HostChanges::is_held(&journal, &place.path(name));
        assert!(!is_held("a"), "there is no journal");
        let line = |name: &str| format!("{}\t1\n", place.path(name).display());
        fs::write(&journal, line("a") + &line("dirty_ratio")).unwrap();
        assert!(is_held("a") && is_held("dirty_ratio") && is_held("dirty_bytes"));
        assert!(!is_held("aa") && !is_held("b") && !is_held("dirty_background_bytes"));
        fs::write(&journal, [0xff_u8]).unwrap();
        assert!(is_held("b"), "what cannot be read may hold it");
    }

    #[test]
    fn a_setting_that_does_not_exist_changes_nothing() {
        let place = Place::new();
        let (mut changes, _) = place.open().unwrap();
        let error = changes.apply(&place.wanted(&[("none", "1")])).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the setting") && error.contains("none"), "{error}");
        drop(changes);
        assert!(!place.path("none").exists());
    }
}
