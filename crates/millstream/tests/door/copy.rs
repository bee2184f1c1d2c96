//! Copies by the command: what it prints, asks and refuses, how it ends, and how a signal stops it. What a copy does is proved
//! in the tests of its crate.

use crate::process::{Run, assert_runs, command, run, send};
use millstream_testkit::{Server, Settings, default_build, until_blocking};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a source and a home of ours.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("from/file", b"text");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&[&["copy"], args, &["--progress", "none"]].concat());
        command.current_dir(self.path("")).env("MILLSTREAM_HOME", self.path("home"));
        command
    }

    fn copy(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }
}

pub fn shell(dir: &Path, script: &str) {
    let done = Command::new("bash").args(["-ec", script]).current_dir(dir).status().unwrap();
    assert!(done.success(), "{script}");
}

#[test]
fn a_copy_ends_with_what_became_of_it_and_prints_it() {
    let place = Place::new();
    let copied = place.copy(&["from/", "to", "--verify"]).ends(0).stdout;
    assert!(copied.contains("receipt of the copy to ") && copied.contains(": no problem"), "{copied}");
    let receipt = place.copy(&["from/", "to", "--output", "json"]).ends(0).json();
    assert_eq!((&receipt["seen"], &receipt["same"]), (&Value::from(2), &Value::from(2)), "{receipt}");
    let plan = place.copy(&["from", "to", "--dry-run"]).ends(0).stdout;
    assert!(plan.starts_with("from becomes to/from; to copy only what is in it, write from/\n"), "{plan}");
    assert!(plan.lines().all(|line| line.len() <= 80), "{plan}");
    assert_eq!(place.copy(&["verify", "to", "--output", "json"]).ends(0).json()[0]["hashed"], 1);
    place.write("to/file", b"other text");
    let found = place.copy(&["verify", "to"]).ends(1).stdout;
    assert!(found.contains("file: it has 10 bytes instead of 4") && found.contains(": 1 problem"), "{found}");
    symlink("nowhere", place.path("from/dead")).unwrap();
    let failed = place.copy(&["from/", "to", "--copy-links"]).ends(1).stdout;
    assert!(failed.starts_with("failed: dead: the link leads nowhere\nall failures: "), "{failed}");
}

#[test]
fn nothing_is_deleted_without_a_word_from_somebody() {
    let place = Place::new();
    place.write("to/old/file", b"");
    let dry = place.copy(&["from/", "to", "--delete", "--dry-run"]).ends(0).stdout;
    assert!(dry.contains("would delete 2 entries") && dry.contains("\n  old/file"), "{dry}");
    let alone = place.copy(&["from/", "to", "--delete"]).ends(1);
    assert!(alone.stderr.contains("add --yes") && alone.stdout.contains("nothing was deleted"), "{alone:?}");
    assert!(place.path("to/old").exists());
    let kept = place.copy(&["from/", "to", "--delete", "--yes", "--max-delete", "0"]).ends(1).stdout;
    assert!(kept.contains("it would be 2 entries, more than --max-delete 0"), "{kept}");
    fs::create_dir(place.path("trash")).unwrap();
    let words = ["from/", "to", "--delete", "--yes", "--trash", "trash", "--output", "json"];
    assert_eq!(place.copy(&words).ends(0).json()["deleted"], 2);
    fs::remove_file(place.path("from/file")).unwrap();
    let refused = place.copy(&["from/", "to", "--delete", "--yes"]).ends(2);
    assert!(refused.stderr.contains("add --yes-empty"), "{refused:?}");
    place.copy(&["from/", "to", "--delete", "--yes", "--yes-empty"]).ends(0);
}

#[test]
fn what_cannot_be_meant_is_refused_in_the_words_of_the_command() {
    let place = Place::new();
    let postgres = ["--postgres", "postgres://127.0.0.1:1/x"];
    let cases: &[(&[&str], &str, &str)] = &[
        (&["from"], "<DESTINATION>", ""),
        (&["none", "to"], "there is no none", ""),
        (&["from/", "to", "--workers", "0"], "expected auto, or a number", ""),
        (&["from", "to", "--compress"], "--compress is for copies to other machines", "HOST:PATH"),
        (&["from", "missing/er/to"], "there is no folder for missing/er/to", "mkdir -p "),
        (&["verify", "from"], "there is no manifest of a copy to", "only what millstream copy has copied"),
        (&["from", "to", postgres[0], postgres[1]], "there is one path", "copy --postgres URL DESTINATION"),
        (&["to", "--delete", postgres[0], postgres[1]], "cannot be used with", ""),
        (&["to", "--tablespace", "old", postgres[0], postgres[1]], "expected OLD=NEW", ""),
    ];
    for (args, says, hint) in cases {
        let refused = place.copy(args).ends(2);
        assert!(refused.stderr.contains(says) && refused.stderr.contains(hint), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn a_stopped_copy_prints_its_receipt_and_resumes() {
    let place = Place::new();
    (0..200).for_each(|n| drop(place.write(&format!("from/{n}"), b"text")));
    let held = place.path("held");
    let mut copying = place.command(&["from/", "to", "--output", "json"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("file-named=wait:{}@50", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_blocking("the copy is held", || {
        assert_runs(&mut child);
        held.exists()
    });
    send("INT", child.id());
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "stopping; a second signal stops at once\n");
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(receipt["stopped"] == true && receipt["copied"].as_u64() < Some(200), "{receipt}");
    assert_eq!(place.copy(&["from/", "to", "--output", "json"]).ends(0).json()["resumed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_copied_by_the_command() {
    let server = Server::start(default_build().await, Settings::default()).await;
    let place = Place::new();
    let url = server.socket_url("postgres");
    let args = ["--postgres", &url, "to"];
    let plan = place.copy(&[&args[..], &["--dry-run"]].concat()).ends(0).stdout;
    assert!(plan.starts_with("would copy ") && !place.path("to").exists(), "{plan}");
    let copied = place.copy(&[&args[..], &["--standby", "standby"]].concat()).ends(0).stdout;
    for says in ["receipt of the copy of ", "recovery begins at ", "the slot standby keeps WAL on the server"] {
        assert!(copied.contains(says), "{says}: {copied}");
    }
    place.copy(&["verify", "to"]).ends(0);
    let refused = place.copy(&[&args[..], &["--standby", "standby"]].concat()).ends(2);
    assert!(refused.stderr.contains("there is a slot standby already"), "{refused:?}");
}
