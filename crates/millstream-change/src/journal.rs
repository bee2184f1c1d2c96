//! The journal: a file for each change, written before anything is touched.

use crate::limits::{BESIDE_BYTES_MAX, CHANGE_BYTES_MAX, CHANGE_LOCK_LOOK, CHANGE_LOCK_WAIT_MAX, CHANGES_MAX};
use millstream_host::kernel::file;
use millstream_host::{FileLock, PRIVATE, check_ours, make_ours, read_plain, wait_until, write_private};
use millstream_model::Refusal;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Changes of this machine, one file each: a person can read them. An undo writes what they say, so the directory is refused if
/// somebody else than we and root may change it (see [`check_ours`]).
#[derive(Debug, Clone)]
pub struct Journal {
    dir: PathBuf,
    /// Where `/proc` is.
    root: PathBuf,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// The kind of change.
    pub kind: String,
    /// What it changes.
    pub target: String,
    /// The value before; `None` if the target had none of its own.
    pub before: Option<String>,
    /// The value that it gets.
    pub value: Option<String>,
    /// Whether these are digests, and the values stand beside the entry.
    #[serde(default)]
    pub is_large: bool,
    /// Why, for example the key of a finding.
    pub reason: String,
    /// How far it is.
    pub state: State,
    /// When it was planned, in seconds since 1970.
    pub planned: u64,
    /// How long after it was verified it is undone unless it is confirmed, in seconds.
    pub confirm_seconds: Option<u64>,
    /// When it is undone unless it is confirmed before, in seconds since 1970.
    pub deadline: Option<u64>,
    /// The machine's start in which it was made, if known: a kernel setting does not survive the next one.
    pub boot: String,
    /// What tells the thing from another that may get its name later, such as a disk's serial number.
    pub identity: Option<String>,
    /// The server that it changes, without a password. `None` for this machine, and for changes of older versions.
    #[serde(default)]
    pub server: Option<String>,
    /// The line that makes the value last, once it is about to be written.
    pub line: Option<LastingLine>,
    /// The files that make the value last, once they are about to be written.
    #[serde(default)]
    pub files: Vec<LastingFile>,
}

/// A file that makes a value last. Its text, and the one before, stand beside the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingFile {
    /// The file.
    pub file: PathBuf,
    /// Whether there was such a file before.
    pub had_before: bool,
}

/// A line that makes a value last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingLine {
    /// The file.
    pub file: PathBuf,
    /// How the line begins.
    pub beginning: String,
    /// The line.
    pub line: String,
    /// The line that was there before.
    pub before: Option<String>,
}

/// How far a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The old value is recorded. Whether the new one was written is not known.
    Planned,
    /// The new value was written and read again.
    Verified,
    /// It stays.
    Confirmed,
    /// The old value is back, or a restart of the machine has taken the new one away.
    Undone,
    /// The user has closed it, and kept the value that was there then.
    Closed,
}

impl Entry {
    /// Whether nobody has confirmed it in time.
    pub fn is_late(&self) -> bool {
        self.late_seconds().is_some()
    }

    /// Seconds since the end of the time in which it was to be confirmed. `None` if that has not come, or if nothing
    /// waits for it.
    pub fn late_seconds(&self) -> Option<u64> {
        let deadline = self.deadline.filter(|_| !self.state.is_over())?;
        now().checked_sub(deadline)
    }

    /// When it took effect, or was planned if that is not known, in seconds since 1970.
    pub fn since(&self) -> u64 {
        let verified = self.deadline.zip(self.confirm_seconds).filter(|_| self.state == State::Verified);
        verified.map_or(self.planned, |(deadline, seconds)| deadline.saturating_sub(seconds))
    }

    /// Whether something that makes the value last was written, or is about to be.
    pub fn lasts_by_file(&self) -> bool {
        self.line.is_some() || !self.files.is_empty()
    }

    /// Seconds since it was planned.
    pub fn age_seconds(&self) -> u64 {
        now().saturating_sub(self.planned)
    }
}

impl State {
    /// Whether it waits for nothing any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Confirmed | Self::Undone | Self::Closed)
    }
}

impl Journal {
    /// The journal in a directory, which is made when the first change is planned.
    pub fn new(dir: &Path) -> Self {
        Self::below(Path::new("/"), dir)
    }

    /// The same of a machine whose `/proc` is in the directory `root`: for tests.
    pub fn below(root: &Path, dir: &Path) -> Self {
        Self { dir: dir.to_owned(), root: root.to_owned() }
    }

    /// The identity of the machine's last start; empty if the kernel does not say.
    pub(super) fn boot(&self) -> String {
        file::word(self.root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default()
    }

    /// Whether the machine was started again since the change was made: kernel settings have lost their values then.
    pub fn is_of_earlier_boot(&self, entry: &Entry) -> bool {
        let boot = self.boot();
        !boot.is_empty() && !entry.boot.is_empty() && boot != entry.boot
    }

    /// Takes the right to add a change or to write a line that lasts (`None`), or to work on the change of a number,
    /// until what this returns is dropped. Waits a few seconds for it. If you need both, take the number first.
    ///
    /// # Errors
    /// Another process has it, or the lock cannot be made.
    pub async fn lock(&self, number: Option<u32>) -> Result<FileLock, Refusal> {
        let path = self.lock_path(number)?;
        let taken = wait_until(CHANGE_LOCK_WAIT_MAX, CHANGE_LOCK_LOOK, || FileLock::try_take(&path).transpose()).await;
        match taken {
            Some(lock) => lock.map_err(|error| Refusal::file("lock", &path, &error)),
            None => Err(Refusal::new("another process makes or undoes a change; try again")),
        }
    }

    /// Takes the right to work on the change of a number, without waiting for it. `None` if another process has it.
    ///
    /// # Errors
    /// The lock cannot be made.
    pub fn try_lock(&self, number: u32) -> Result<Option<FileLock>, Refusal> {
        let path = self.lock_path(Some(number))?;
        FileLock::try_take(&path).map_err(|error| Refusal::file("lock", &path, &error))
    }

    fn lock_path(&self, number: Option<u32>) -> Result<PathBuf, Refusal> {
        self.make_dir()?;
        let name = number.map_or_else(|| "lock".to_owned(), |number| format!("{number:06}.lock"));
        Ok(self.dir.join(name))
    }

    fn make_dir(&self) -> Result<(), Refusal> {
        Ok(make_ours(&self.dir, PRIVATE)?)
    }

    /// All changes, the oldest first. A file that cannot be read is an error: it may hold an old value.
    ///
    /// # Errors
    /// The directory or a file cannot be read, or somebody else may change it.
    pub fn entries(&self) -> Result<Vec<Entry>, Refusal> {
        check_ours(&self.dir)?;
        let mut entries = Vec::new();
        let files = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(entries),
            files => files.map_err(|error| Refusal::file("read", &self.dir, &error))?,
        };
        for file in files {
            let path = file.map_err(|error| Refusal::file("read", &self.dir, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                entries.extend(read(&path)?);
            }
        }
        entries.sort_by_key(|entry: &Entry| entry.number);
        Ok(entries)
    }

    /// Changes that are neither confirmed nor undone, the oldest first: also those of a process that was killed.
    ///
    /// # Errors
    /// As `entries`.
    pub fn open_entries(&self) -> Result<Vec<Entry>, Refusal> {
        Ok(self.entries()?.into_iter().filter(|entry| !entry.state.is_over()).collect())
    }

    /// The change of that number.
    ///
    /// # Errors
    /// There is none, or somebody else may change it.
    pub fn entry(&self, number: u32) -> Result<Entry, Refusal> {
        check_ours(&self.dir)?;
        read(&self.path(number))?.ok_or_else(|| Refusal::new(format!("there is no change {number}")))
    }

    /// Records a new change, with the next number, and the texts that stand beside it, each with its name.
    ///
    /// # Errors
    /// It cannot be written: then nothing may be touched.
    pub fn add(&self, mut entry: Entry, beside: &[(&str, &str)]) -> Result<Entry, Refusal> {
        let entries = self.entries()?;
        entry.number = entries.last().map_or(1, |last| last.number + 1);
        // A change that was not recorded may have left some.
        self.remove_beside(entry.number);
        for (name, text) in beside {
            self.write_beside(entry.number, name, text)?;
        }
        self.write(&entry)?;
        let over: Vec<&Entry> = entries.iter().filter(|entry| entry.state.is_over()).collect();
        for old in over.iter().take((entries.len() + 1).saturating_sub(CHANGES_MAX)) {
            let _ = fs::remove_file(self.path(old.number));
            let _ = fs::remove_file(self.path(old.number).with_extension("lock"));
            self.remove_beside(old.number);
        }
        Ok(entry)
    }

    /// Records how far a change is. It is on the disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, entry: &Entry) -> Result<(), Refusal> {
        let path = self.path(entry.number);
        let text = serde_json::to_string_pretty(entry).map_err(|error| Refusal::new(error.to_string()))? + "\n";
        write_private(&path, &text).map_err(|error| Refusal::file("write", &path, &error))
    }

    /// Writes a text beside an entry. It is on the disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_beside(&self, number: u32, name: &str, text: &str) -> Result<(), Refusal> {
        let path = self.beside(number, name);
        write_private(&path, text).map_err(|error| Refusal::file("write", &path, &error))
    }

    /// A text beside an entry.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_beside(&self, number: u32, name: &str) -> Result<String, Refusal> {
        let path = self.beside(number, name);
        let failed = |error: std::io::Error| Refusal::file("read", &path, &error);
        read_plain(&path, BESIDE_BYTES_MAX).map_err(failed)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))
    }

    fn remove_beside(&self, number: u32) {
        let prefix = format!("{number:06}.beside-");
        for file in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    fn beside(&self, number: u32, name: &str) -> PathBuf {
        self.dir.join(format!("{number:06}.beside-{name}"))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{number:06}.json"))
    }
}

/// The change in a file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<Entry>, Refusal> {
    let text = read_plain(path, CHANGE_BYTES_MAX).map_err(|error| Refusal::file("read", path, &error))?;
    let wrong = |error: serde_json::Error| Refusal::new(format!("{} is not a change: {error}", path.display()));
    text.map(|text| serde_json::from_str(&text).map_err(wrong)).transpose()
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(state: State) -> Entry {
        Entry {
            number: 0,
            kind: "test".to_owned(),
            target: "t".to_owned(),
            before: None,
            value: Some("1".to_owned()),
            is_large: false,
            reason: String::new(),
            state,
            planned: now(),
            confirm_seconds: None,
            deadline: None,
            boot: "first".to_owned(),
            identity: None,
            server: None,
            line: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn changes_are_numbered_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("home/changes"));
        assert!(journal.entries().unwrap().is_empty() && !dir.path().join("home").exists());
        journal.make_dir().unwrap();
        let first = journal.add(entry(State::Planned), &[]).unwrap();
        let second = journal.add(entry(State::Confirmed), &[]).unwrap();
        assert_eq!((first.number, second.number), (1, 2));
        journal.write(&Entry { state: State::Verified, ..first.clone() }).unwrap();
        assert_eq!(journal.entry(1).unwrap().state, State::Verified);
        assert_eq!(journal.entries().unwrap().len(), 2);
        assert_eq!(journal.entry(9).unwrap_err().to_string(), "there is no change 9");
        fs::write(journal.path(1), "{").unwrap();
        assert!(journal.entries().unwrap_err().to_string().contains("is not a change"));
    }

    #[test]
    fn a_journal_that_others_may_write_is_neither_read_nor_written() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("changes"));
        journal.make_dir().unwrap();
        let made = journal.add(entry(State::Planned), &[("value", "x")]).unwrap();
        for name in ["000001.json", "000001.beside-value"] {
            let mode = fs::metadata(journal.dir.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        fs::set_permissions(&journal.dir, fs::Permissions::from_mode(0o777)).unwrap();
        for refused in [journal.entries().unwrap_err(), journal.entry(1).unwrap_err(), journal.try_lock(1).unwrap_err()]
        {
            assert!(refused.to_string().starts_with("others than its owner may write to"), "{refused}");
            assert!(refused.hint.unwrap().contains("o-w "));
        }
        fs::set_permissions(&journal.dir, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(journal.entry(1).unwrap(), made);
        fs::rename(journal.path(1), dir.path().join("elsewhere")).unwrap();
        symlink(dir.path().join("elsewhere"), journal.path(1)).unwrap();
        assert!(journal.entry(1).unwrap_err().to_string().ends_with("it is a link"));
    }

    #[test]
    fn a_change_of_an_older_version_names_no_server() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("changes"));
        journal.make_dir().unwrap();
        let made = journal.add(Entry { server: Some("db1".to_owned()), ..entry(State::Planned) }, &[]).unwrap();
        assert_eq!(journal.entry(1).unwrap(), made);
        let text = fs::read_to_string(journal.path(1)).unwrap();
        let older: Vec<&str> = text.lines().filter(|line| !line.contains("\"server\"")).collect();
        assert_eq!(older.len() + 1, text.lines().count());
        fs::write(journal.path(1), older.join("\n")).unwrap();
        assert_eq!(journal.entry(1).unwrap(), Entry { server: None, ..made });
    }

    #[tokio::test]
    async fn one_process_at_a_time_works_on_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("changes"));
        let held = journal.lock(Some(1)).await.unwrap();
        journal.lock(Some(2)).await.unwrap();
        let second = tokio::time::timeout(std::time::Duration::from_millis(200), journal.lock(Some(1))).await;
        assert!(second.is_err(), "it waits");
        assert!(journal.try_lock(1).unwrap().is_none() && journal.try_lock(2).unwrap().is_some());
        drop(held);
        journal.lock(Some(1)).await.unwrap();
    }

    #[test]
    fn a_restart_of_the_machine_is_known_by_its_identity() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::below(root.path(), &root.path().join("changes"));
        let (random, made) = (root.path().join("proc/sys/kernel/random"), entry(State::Verified));
        assert!(!journal.is_of_earlier_boot(&made), "the kernel does not say");
        fs::create_dir_all(&random).unwrap();
        for (boot, is_earlier) in [("first\n", false), ("second\n", true)] {
            fs::write(random.join("boot_id"), boot).unwrap();
            assert_eq!(journal.is_of_earlier_boot(&made), is_earlier);
        }
        assert!(!journal.is_of_earlier_boot(&Entry { boot: String::new(), ..made }), "it did not say then");
    }

    #[test]
    fn only_an_open_change_with_a_deadline_is_late() {
        let late = Entry { deadline: Some(now() - 7), ..entry(State::Verified) };
        assert!(late.is_late() && late.late_seconds().is_some_and(|seconds| seconds >= 7));
        let in_time = Entry { deadline: Some(now() + 1_000), ..late.clone() };
        let without = Entry { deadline: None, ..late.clone() };
        for entry in [in_time, without] {
            assert_eq!((entry.is_late(), entry.late_seconds()), (false, None));
        }
        for state in [State::Confirmed, State::Undone, State::Closed] {
            assert_eq!(Entry { state, ..late.clone() }.late_seconds(), None);
        }
    }

    #[test]
    fn a_journal_keeps_what_is_not_over() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("changes"));
        journal.make_dir().unwrap();
        let open = journal.add(entry(State::Planned), &[]).unwrap();
        for _ in 0..CHANGES_MAX + 5 {
            journal.add(entry(State::Undone), &[("value", "x")]).unwrap();
        }
        let kept = journal.entries().unwrap();
        assert_eq!((kept.len(), &kept[0]), (CHANGES_MAX, &open));
        let files = fs::read_dir(dir.path().join("changes")).unwrap().count();
        assert_eq!(files, 2 * CHANGES_MAX - 1, "each but the first has a text beside it");
    }
}
