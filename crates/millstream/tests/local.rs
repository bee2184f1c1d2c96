//! The local server by way of the binary.

use crate::process::{Run, command, run};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A home of its own for a local server, which is stopped at the end.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // As root the server runs under another account, which must be able to enter.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn run(&self, args: &[&str]) -> Run {
        run(command(args).env("MILLSTREAM_HOME", self.path()))
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        self.run(&[args, &["--output", "json"]].concat()).ends(code).json()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Nothing runs where the test has stopped it already.
        let _ = command(&["db", "stop"]).env("MILLSTREAM_HOME", self.path()).output();
    }
}

#[test]
fn a_server_that_was_never_made_is_told_and_not_made() {
    let home = Home::new();
    let run = home.run(&["db", "status"]).ends(1);
    assert!(run.stdout.starts_with("not made yet\n"), "{run:?}");
    assert_eq!(home.json(&["db", "stop"], 0), json!({"stopped": false}));
    for args in [&["db", "url"][..], &["db", "psql"]] {
        let run = home.run(args).ends(2);
        assert!(run.stderr.contains("hint: start it with: millstream db start"), "{run:?}");
    }
    for args in [&["collections"][..], &["loads"]] {
        let run = home.run(args).ends(0);
        assert!(run.stderr.starts_with("target: the local server, which has not been made yet\n"), "{run:?}");
        assert!(run.stderr.contains("yet\n"), "{run:?}");
    }
    let run = home.run(&["load", "nowhere.ndjson", "--into", "events", "--key", "id"]).ends(2);
    assert!(run.stderr.starts_with("error: cannot open nowhere.ndjson\n"), "{run:?}");
    assert!(home.run(&["get", "events", "1"]).ends(2).stderr.contains("no collection events"));
    assert!(!home.path().exists(), "looking makes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_starts_serves_and_stops() {
    let home = Home::new();
    let bin = millstream_testkit::default_build().await.installation.bin.to_str().unwrap();
    let started = home.json(&["db", "start", "--postgres-bin", bin], 0);
    assert_eq!(home.json(&["db", "status"], 0)["server"], started);
    assert_eq!(home.json(&["db", "status"], 0)["state"], "running");
    let again = home.run(&["db", "start", "--postgres-bin", "download"]).ends(0);
    assert!(again.stderr.contains("it was running before, from "), "{again:?}");
    assert_eq!(home.run(&["db", "start"]).ends(0).stderr, "");
    let url = home.run(&["db", "url"]).ends(0).stdout;
    assert!(url.starts_with("postgres://"), "{url}");
    let password = url.split(['@', ':']).nth(2).unwrap();
    let client = millstream_testkit::connect(url.trim()).await;
    client.batch_execute("create table t (a int)").await.unwrap();
    let listed = home.run(&["collections"]).ends(0);
    assert!(listed.stderr.contains("no collections yet"), "{listed:?}");
    assert!(!format!("{listed:?}").contains(password), "the password is shown by db url only");
    home.run(&["db", "stop"]).ends(0);
    assert_eq!(home.json(&["db", "status"], 1)["state"], "stopped");
    let listed = home.run(&["collections"]).ends(0);
    assert!(listed.stderr.contains("starting"), "started on demand: {listed:?}");
    assert_eq!(home.json(&["db", "status"], 0)["state"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_is_told_how_to_connect() {
    let features = [millstream_testkit::Feature::Psql];
    let Some(build) = millstream_testkit::build_with(&features).await else { return };
    let home = Home::new();
    home.run(&["db", "start", "--postgres-bin", build.installation.bin.to_str().unwrap()]).ends(0);
    let run = home.run(&["db", "psql", "-X", "-A", "-t", "-c", "select 6 * 7"]).ends(0);
    assert_eq!(run.stdout, "42\n");
    assert_eq!(home.run(&["db", "psql", "-X", "-c", "select nonsense"]).code, 1, "psql's own exit code");
}
