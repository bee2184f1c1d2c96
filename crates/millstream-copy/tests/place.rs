//! A folder with a source, a destination and a home of ours, and copies in it: in this process, or in one that is held or
//! killed.

use crate::cluster;
use millstream_copy::{
    Delete, Error, Pattern, Plan, Receipt, Request, Rule, Tally, Verification, Workers, copy, plan, verify,
};
use millstream_pg::Explained;
use millstream_testkit::until_blocking;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Bytes of a piece of a large file in these copies. A file with twice as many is large.
pub const PIECE_BYTES: u64 = 256 << 10;

/// Tells a process of these tests what to copy.
const VARIABLE: &str = "MILLSTREAM_TEST_COPY";

/// What it has copied, or why it has not.
const OUTCOME: &str = "outcome";

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    pub fn on(disk: &Path) -> Self {
        Self::at(tempfile::tempdir_in(disk).unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
        fs::create_dir(dir.path().join("from")).unwrap();
        Self(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A path as a word.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(Path::new(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Makes a file of zeros, but for some bytes at one place.
    pub fn write_sparse(&self, name: &str, len: u64, at: u64) {
        let file = OpenOptions::new().write(true).open(self.write(name, b"")).unwrap();
        file.set_len(len).unwrap();
        file.write_all_at(b"some bytes", at).unwrap();
    }

    pub fn shell(&self, script: &str) {
        let done = Command::new("bash").args(["-ec", script]).current_dir(self.0.path()).status().unwrap();
        assert!(done.success(), "{script}");
    }

    /// A remote shell that needs no other machine: a script that gets the command as `$*`. Returns it as a word.
    pub fn remote_shell(&self, name: &str, script: &str) -> String {
        let path = self.write(name, format!("#!/bin/sh\nshift\n{script}\n").as_bytes());
        self.shell(&format!("chmod 755 . {name}"));
        format!("shell={}", path.display())
    }

    /// A remote shell that runs every command as it is.
    pub fn plain_shell(&self) -> String {
        self.remote_shell("plain", "exec sh -c \"$*\"")
    }

    /// A path as that of another machine.
    pub fn far(&self, name: &str) -> String {
        format!("host:{}", self.text(name))
    }

    pub fn request(&self, from: &str, to: &str, words: &[&str]) -> Request {
        request(self.0.path(), from, to, words)
    }

    /// Copies. The counts must add up, and there must be nothing else to say.
    #[track_caller]
    pub fn copy(&self, from: &str, to: &str, words: &[&str]) -> Receipt {
        let receipt = self.copied(from, to, words);
        assert!(is_clean(&receipt), "{receipt:?}");
        receipt
    }

    /// Copies with something to say: the command would end with 1.
    #[track_caller]
    pub fn copy_in_part(&self, from: &str, to: &str, words: &[&str]) -> Receipt {
        let receipt = self.copied(from, to, words);
        assert!(!is_clean(&receipt), "{receipt:?}");
        receipt
    }

    #[track_caller]
    fn copied(&self, from: &str, to: &str, words: &[&str]) -> Receipt {
        let copied = copy(&self.request(from, to, words), &Tally::default(), &|_| true);
        let receipt = copied.unwrap_or_else(|error| panic!("{from} {to} {words:?}: {}", said(&error)));
        let Receipt { copied, same, linked, skipped, failed, .. } = receipt;
        assert_eq!(receipt.seen, copied + same + linked + skipped + failed, "{receipt:?}");
        receipt
    }

    /// What a copy is refused for, with the way out.
    #[track_caller]
    pub fn refused(&self, from: &str, to: &str, words: &[&str]) -> String {
        match copy(&self.request(from, to, words), &Tally::default(), &|_| true) {
            Err(error) => said(&error),
            Ok(receipt) => panic!("{from} {to} {words:?} is not refused: {receipt:?}"),
        }
    }

    #[track_caller]
    pub fn plan(&self, from: &str, to: &str, words: &[&str]) -> Plan {
        let planned = plan(&self.request(from, to, words), &Tally::default());
        planned.unwrap_or_else(|error| panic!("{from} {to} {words:?}: {}", said(&error)))
    }

    /// Compares copies with what was noted of them.
    pub fn verify(&self, what: &str, words: &[&str]) -> Result<Vec<Verification>, String> {
        let Request { source, shell, home, .. } = self.request(what, "", words);
        verify(&source, shell, &home, 2, &Tally::default()).map_err(|error| said(&error))
    }

    /// Compares copies of which nothing may have changed. Returns the first.
    #[track_caller]
    pub fn is_whole(&self, what: &str, words: &[&str]) -> Verification {
        let found = self.verify(what, words).unwrap();
        assert!(found.iter().all(|found| found.problems == 0), "{found:?}");
        found[0].clone()
    }

    /// All problems of a comparison, one a line.
    #[track_caller]
    pub fn problems(&self, what: &str, words: &[&str]) -> String {
        let found = self.verify(what, words).unwrap();
        let all = found.iter().flat_map(|found| &found.named);
        all.map(|problem| format!("{}: {}\n", problem.path, problem.reason)).collect()
    }

    /// Asserts that rsync would change nothing.
    #[track_caller]
    pub fn is_equal(&self, from: &str, to: &str) {
        let mut rsync = Command::new("rsync");
        // Times are compared to the nanosecond.
        rsync.args(["-aHAXn", "--delete", "-c", "-i", "--modify-window=-1"]);
        let output = rsync.arg(self.path(from).join("")).arg(self.path(to).join("")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Asserts that no unfinished file is left below a folder.
    #[track_caller]
    pub fn is_tidy(&self, name: &str) {
        let found = Command::new("find").arg(self.path(name)).args(["-name", ".millstream-copy*"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }

    /// The folders in which copies to each destination keep their notes.
    pub fn notes(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("home")).unwrap().map(|folder| folder.unwrap().path()).collect()
    }

    /// Makes the notes look as if the machine had been started again.
    pub fn restart(&self) {
        self.notes().iter().for_each(|folder| fs::write(folder.join("boot"), "another\n").unwrap());
    }

    /// Changes bytes of a file, but neither its size nor its time.
    pub fn damage(&self, name: &str) {
        let file = OpenOptions::new().write(true).open(self.path(name)).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"!", 1).unwrap();
        file.set_modified(before).unwrap();
    }

    /// A copy by a process of its own. A source that is a URL is a cluster.
    pub fn process(&self, from: &str, to: &str, words: &[&str]) -> Process {
        let words: Vec<String> = [from, to].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let text = json!({ "place": self.0.path(), "words": words }).to_string();
        Process { place: self.path(""), text, before: Vec::new(), user: None }
    }
}

/// A copy by a process of its own, which is not yet started.
pub struct Process {
    place: PathBuf,
    text: String,
    /// A program that starts it.
    before: Vec<String>,
    user: Option<u32>,
}

/// The receipt of a copy by another process, or why there is none.
pub type Outcome = Result<Value, String>;

impl Process {
    /// Lets another program start it, which gets it as its last words.
    pub fn by(mut self, program: &[&str]) -> Self {
        self.before = program.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Lets a shell start it behind these commands. What they mount, only it sees.
    pub fn behind(self, commands: &str) -> Self {
        self.by(&["unshare", "-m", "bash", "-c", &format!("{commands} && exec \"$@\""), "bash"])
    }

    pub fn run_by(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    fn command(&self, failpoints: &str) -> Command {
        let own = std::env::current_exe().unwrap().display().to_string();
        let all: Vec<&String> = self.before.iter().chain([&own]).collect();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).args(["--exact", "place::copies_if_the_variable_is_set", "--nocapture"]);
        command.env(VARIABLE, &self.text).env("MILLSTREAM_FAILPOINTS", failpoints).current_dir(&self.place);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn outcome(&self) -> Option<Outcome> {
        let path = self.place.join(OUTCOME);
        let found: Value = serde_json::from_str(&fs::read_to_string(&path).ok()?).unwrap();
        fs::remove_file(path).unwrap();
        Some(match found["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(found),
        })
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        let output = self.command("").output().unwrap();
        self.outcome().unwrap_or_else(|| panic!("{output:?}"))
    }

    /// Runs it until it kills itself at a failpoint.
    #[track_caller]
    pub fn killed(&self, failpoint: &str) {
        let output = self.command(failpoint).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{failpoint}: {output:?}");
    }

    /// Runs it to its end. At a failpoint, it is held until something has happened.
    #[track_caller]
    pub fn held(&self, point: &str, happens: impl FnOnce()) -> Outcome {
        let child = self.hold(point);
        happens();
        self.release(child)
    }

    /// The same for what is awaited.
    pub async fn held_while(&self, point: &str, happens: impl Future<Output = ()>) -> Outcome {
        let child = self.hold(point);
        happens.await;
        self.release(child)
    }

    #[track_caller]
    fn hold(&self, point: &str) -> Child {
        let held = self.place.join("held");
        // The N-th time, as in `file-named@3`.
        let (point, nth) = point.split_once('@').unwrap_or((point, "1"));
        let mut child = self.command(&format!("{point}=wait:{}@{nth}", held.display())).spawn().unwrap();
        until_blocking(&format!("the copy is held at {point}"), || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it has ended before: {ended:?}, {:?}", self.outcome());
            held.exists()
        });
        child
    }

    #[track_caller]
    fn release(&self, child: Child) -> Outcome {
        fs::remove_file(self.place.join("held")).unwrap();
        let output = child.wait_with_output().unwrap();
        self.outcome().unwrap_or_else(|| panic!("{output:?}"))
    }

    /// Stops it at a failpoint, as a signal does.
    #[track_caller]
    pub fn stopped(&self, point: &str) -> Outcome {
        let stop = self.place.join("stop");
        self.held(point, || {
            fs::write(&stop, "").unwrap();
            until_blocking("the copy has seen that it is stopped", || !stop.exists());
        })
    }
}

/// Run by the other tests in a process of its own.
#[test]
fn copies_if_the_variable_is_set() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let order: Value = serde_json::from_str(&text).unwrap();
    let place = PathBuf::from(order["place"].as_str().unwrap());
    let words: Vec<&str> = order["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let tally = Arc::new(Tally::default());
    let (stopped, stop) = (Arc::clone(&tally), place.join("stop"));
    // It ends with the process.
    std::thread::spawn(move || {
        until_blocking("somebody stops the copy", || stop.exists());
        stopped.stop();
        fs::remove_file(&stop).unwrap();
    });
    let copied = match words[0].starts_with("postgres:") {
        true => cluster::copied(&place, words[0], words[1], &words[2..], &tally),
        false => {
            let request = request(&place, words[0], words[1], &words[2..]);
            copy(&request, &tally, &|_| true).map(|receipt| serde_json::to_value(receipt).unwrap())
        }
    };
    let outcome = copied.unwrap_or_else(|error| json!({ "error": said(&error) }));
    fs::write(place.join(OUTCOME), outcome.to_string()).unwrap();
}

/// A request by the words of these tests. Paths without a host lie in the place.
fn request(place: &Path, from: &str, to: &str, words: &[&str]) -> Request {
    let at = |path: &str| if path.contains(':') { PathBuf::from(path) } else { place.join(path) };
    let mut request = Request::new(at(from), at(to), place.join("home"));
    request.piece_bytes = Some(PIECE_BYTES);
    let mut delete = Delete::default();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((*word, ""));
        match name {
            "attributes" => request.attributes = true,
            "bandwidth" => request.bytes_per_second = Some(value.parse().unwrap()),
            "compress" => request.compress = true,
            "copy-links" => request.copy_links = true,
            "delete" => {}
            "even-all" => delete.even_all = true,
            "exclude" | "include" => {
                request.rules.push(Rule { pattern: Pattern::parse(value.as_bytes()), includes: name == "include" });
            }
            "fsync" => request.fsync = true,
            "hash" => request.hash = true,
            "home" => request.home = at(value),
            "workers" => request.workers = Workers::Fixed(value.parse().unwrap()),
            "most" => delete.most = Some(value.parse().unwrap()),
            "one-file-system" => request.one_file_system = true,
            "piece-bytes" => request.piece_bytes = Some(value.parse().unwrap()),
            "shell" => request.shell = Some(value.into()),
            "trash" => delete.trash = Some(value.into()),
            "verify" => request.verify = true,
            _ => panic!("there is no word {word}"),
        }
    }
    request.delete = words.contains(&"delete").then_some(delete);
    request
}

/// Whether there is nothing to say but that everything was copied.
fn is_clean(receipt: &Receipt) -> bool {
    let is_same = receipt.verified.as_ref().is_none_or(|verified| verified.problems == 0);
    let is_kept = receipt.kept_because.is_none() && receipt.failures.is_empty();
    receipt.failed == 0 && receipt.changed == 0 && is_kept && is_same
}

/// An error as a person reads it, with the way out.
pub fn said(error: &Error) -> String {
    format!("{error}; {}", error.hint().unwrap_or_default())
}
