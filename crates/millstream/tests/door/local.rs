//! The local server, started and stopped by the binary.

use crate::process::{Run, assert_runs, command, run, send, until_held};
use millstream_testkit::{LocalHome, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A home of its own for a local server, which is stopped at the end.
struct Home {
    path: PathBuf,
    _local: LocalHome,
}

impl Home {
    fn new() -> Self {
        let local = LocalHome::new();
        Self { path: local.dir.clone(), _local: local }
    }

    /// A home whose server runs.
    async fn started() -> Self {
        let home = Self::new();
        let bin = millstream_testkit::default_build().await.installation.bin.to_str().unwrap();
        home.run(&["db", "start", "--postgres-bin", bin]).ends(0);
        home
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn run(&self, args: &[&str]) -> Run {
        run(command(args).env("MILLSTREAM_HOME", self.path()))
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        self.run(&[args, &["--output", "json"]].concat()).ends(code).json()
    }
}

#[test]
fn commands_report_a_missing_local_server_and_do_not_create_it() {
    let mut home = Home::new();
    home.path.push("missing");
    let run = home.run(&["db", "status"]).ends(1);
    assert!(run.stdout.starts_with("not created yet\n"), "{run:?}");
    assert_eq!(home.json(&["db", "stop"], 0), json!({"stopped": false}));
    for args in [&["db", "url"][..], &["db", "psql"]] {
        let run = home.run(args).ends(2);
        assert!(run.stderr.contains("hint: start it with: millstream db start"), "{run:?}");
    }
    let mut other = command(&["db", "psql"]);
    other.env("MILLSTREAM_HOME", home.path()).env("MILLSTREAM_DB", "postgres://me@db.example/shop");
    let named = crate::process::run(&mut other).ends(2);
    assert!(named.stderr.contains("this opens: psql \"$MILLSTREAM_DB\""), "{named:?}");
    for args in [&["collections"][..], &["loads"]] {
        let run = home.run(args).ends(0);
        assert!(run.stderr.starts_with("target: the local server, which does not exist yet\n"), "{run:?}");
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
    assert!(again.stderr.contains("the server already runs, from "), "{again:?}");
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
async fn db_psql_connects_to_the_local_server() {
    let features = [millstream_testkit::Feature::Psql];
    let Some(build) = millstream_testkit::build_with(&features).await else { return };
    let home = Home::new();
    home.run(&["db", "start", "--postgres-bin", build.installation.bin.to_str().unwrap()]).ends(0);
    let run = home.run(&["db", "psql", "-X", "-A", "-t", "-c", "select 6 * 7"]).ends(0);
    assert_eq!(run.stdout, "42\n");
    assert_eq!(home.run(&["db", "psql", "-X", "-c", "select nonsense"]).code, 1, "psql's own exit code");
}

/// Kills the server's first process, as the kernel does when memory is short.
fn kill_server(home: &Home) {
    send("KILL", &home.json(&["db", "status"], 0)["server"]["pid"]);
}

/// The first line of a command's stderr with this beginning. Panics if there is none.
fn wait_for(stderr: &mut impl BufRead, beginning: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "no line {beginning} in {all}");
        if line.starts_with(beginning) {
            return line;
        }
        all.push_str(&line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_restarts_a_dead_local_server_but_not_a_stopped_one() {
    let home = Home::started().await;
    let mut loading =
        command(&["load", "-", "--into", "kept", "--key", "id:bigint", "--format", "ndjson", "--output", "json"]);
    let loading = loading.env("MILLSTREAM_HOME", home.path());
    let mut loading = loading.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut documents = loading.stdin.take().unwrap();
    let mut stderr = BufReader::new(loading.stderr.take().unwrap());
    documents.write_all(b"{\"id\":1}\n").unwrap();
    wait_for(&mut stderr, "load ");
    let client = millstream_testkit::connect(home.run(&["db", "url"]).ends(0).stdout.trim()).await;
    until("the first document is committed", async || {
        assert_runs(&mut loading);
        client.query_one("select count(*) from public.kept", &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    kill_server(&home);
    wait_for(&mut stderr, "warning: the local server had died and was started again (1 of 3)");
    documents.write_all(b"{\"id\":2}\n").unwrap();
    drop(documents);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = loading.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{rest}");
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&receipt["read"], &receipt["finished"]), (&json!(2), &json!(true)), "{receipt}");

    let mut loading = command(&["load", "-", "--into", "kept", "--key", "id:bigint", "--format", "ndjson"]);
    let loading = loading.env("MILLSTREAM_HOME", home.path());
    let mut loading = loading.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(loading.stderr.take().unwrap());
    loading.stdin.as_mut().unwrap().write_all(b"{\"id\":3}\n").unwrap();
    wait_for(&mut stderr, "load ");
    home.run(&["db", "stop"]).ends(0);
    wait_for(&mut stderr, "the local server was stopped; start it with: millstream db start");
    assert_eq!(home.json(&["db", "status"], 1)["state"], "stopped");
    loading.kill().unwrap();
    loading.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_and_refresh_restart_when_the_local_server_dies() {
    let home = Home::started().await;
    let file = home.path().join("a.ndjson");
    std::fs::write(&file, "{\"id\":1}\n{\"id\":2}\n").unwrap();
    let file = file.to_str().unwrap();
    home.run(&["load", file, "--into", "kept", "--key", "id:bigint"]).ends(0);
    home.run(&["publish", "kept", "--as", "kept_read"]).ends(0);
    let held = home.path().join("held");
    for (args, point, printed) in [
        (&["verify", file, "--into", "kept", "--key", "id"][..], "chunk-read", "2 equal"),
        (&["refresh", "kept_read", "--way", "swap"], "refresh-locked", "kept_read: 2 rows by swap"),
    ] {
        let mut running = command(args);
        let running = running.env("MILLSTREAM_HOME", home.path());
        let running = running.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}", held.display()));
        let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_held(&mut running, &held).await;
        kill_server(&home);
        until("the local server runs again", async || {
            assert_runs(&mut running);
            home.run(&["db", "status", "--output", "json"]).json()["state"] == "running"
        })
        .await;
        std::fs::remove_file(&held).unwrap();
        let output = running.wait_with_output().unwrap();
        let (shown, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        // The command may end before the new server has answered the keeper.
        assert!(shown.contains(printed) && stderr.contains("starting PostgreSQL"), "{shown}{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_file_of_the_local_server_is_private() {
    let home = Home::new();
    let bin = millstream_testkit::default_build().await.installation.bin.to_str().unwrap();
    // As an earlier version made it.
    std::fs::write(home.path().join("lock"), "").unwrap();
    std::fs::set_permissions(home.path().join("lock"), PermissionsExt::from_mode(0o644)).unwrap();
    home.run(&["db", "start", "--postgres-bin", bin]).ends(0);
    let mode = std::fs::metadata(home.path().join("lock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
