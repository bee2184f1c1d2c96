//! `self`: what the program says of itself and of the machine, and what it makes for shells and for packages.

use crate::process::{command, millstream, run};
use millstream_testkit::{LocalHome, database, default_build, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const SHELLS: &[&str] = &["bash", "elvish", "fish", "powershell", "zsh"];

/// `self check` with these arguments, in a home of its own.
fn check(home: &Path, args: &[&str]) -> Command {
    let mut command = command(&["self", "check"]);
    command.args(args).env("MILLSTREAM_HOME", home);
    command
}

fn json(command: &mut Command, code: i32) -> Value {
    run(command.args(["--output", "json"])).ends(code).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_that_commands_would_use_is_tried_and_named() {
    let home = LocalHome::new();
    let database = database().await;
    let version = format!("{}.", default_build().await.installation.major);
    let known = json(check(&home.dir, &[]).env("MILLSTREAM_DB", database.url()), 0);
    assert_eq!(known["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(known["database"]["named_by"], "MILLSTREAM_DB");
    assert!(known["database"]["postgres"]["version"].as_str().unwrap().starts_with(&version), "{known}");
    assert_eq!((&known["usable"], &known["database"]["problem"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(known["local_server"]["state"], "not created yet");

    let typed = json(check(&home.dir, &["--db", &database.url()]).env("MILLSTREAM_DB", "postgres://nowhere"), 0);
    assert_eq!(typed["database"]["named_by"], "--db");
    let read = run(check(&home.dir, &[]).env("MILLSTREAM_DB", database.url())).ends(0);
    assert!(read.stdout.starts_with(concat!("millstream ", env!("CARGO_PKG_VERSION"))), "{read:?}");
    assert!(read.stdout.contains("database (MILLSTREAM_DB): PostgreSQL "), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_is_a_finding_with_a_reason() {
    let home = LocalHome::new();
    // Nobody listens on port 1.
    let dead = "postgres://u:s3cret@127.0.0.1:1/d";
    let known = json(&mut check(&home.dir, &["--db", dead]), 1);
    assert_eq!(known["usable"], false);
    assert!(known["database"]["problem"]["error"].as_str().unwrap().contains("127.0.0.1:1"), "{known}");
    for (name, text) in [("DATABASE_URL", dead), ("MILLSTREAM_DB", "mysql://u:s3cret@h/d")] {
        let read = run(check(&home.dir, &[]).env(name, text)).ends(1);
        assert!(read.stdout.contains(&format!("database ({name}): cannot be used\n  error: ")), "{read:?}");
        assert!(!format!("{read:?}").contains("s3cret"), "no password is printed");
    }

    let database = database().await;
    let set = format!("alter database {} set default_transaction_read_only = on", database.name);
    millstream_testkit::connect(&database.url()).await.batch_execute(&set).await.unwrap();
    let known = json(&mut check(&home.dir, &["--db", &database.url()]), 1);
    assert!(known["database"]["problem"]["error"].as_str().unwrap().contains("read-only"), "{known}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_server_is_looked_at_and_never_made() {
    let above = LocalHome::new();
    let build = default_build().await;
    let home = above.dir.join("new");
    // Without an installed PostgreSQL, the answer depends on whether a download could be had.
    let looked = run(check(&home, &["--output", "json"]).env("PATH", path_with(&build.installation.bin)));
    let known = looked.json();
    assert_eq!(looked.code == 0, known["usable"] == true, "{looked:?}");
    assert_eq!(known["database"]["named_by"], "the local server");
    assert_eq!(known["database"]["postgres"], known["local_server"]["postgres"]);
    assert_eq!(known["local_server"]["state"], "not created yet");
    assert!(!home.exists(), "looking makes nothing");

    fs::create_dir_all(home.join("data")).unwrap();
    fs::write(home.join("data/mine"), "").unwrap();
    let read = run(&mut check(&home, &[])).ends(1);
    assert!(read.stdout.contains("local server (unclear): cannot be used\n  error: "), "{read:?}");
    assert!(read.stdout.contains("\n  hint: "), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_server_that_runs_is_asked() {
    let home = LocalHome::new();
    let bin = default_build().await.installation.bin.to_str().unwrap();
    run(command(&["db", "start", "--postgres-bin", bin]).env("MILLSTREAM_HOME", &home.dir)).ends(0);
    let known = json(&mut check(&home.dir, &[]), 0);
    assert_eq!(known["local_server"]["state"], "running");
    assert!(known["database"]["postgres"]["place"].as_str().unwrap().starts_with("postgres://"), "{known}");
}

fn path_with(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn completions_of_every_shell_name_commands_and_options() {
    for shell in SHELLS {
        let script = millstream(&["self", "completions", shell]).ends(0).stdout;
        for word in ["explain-index", "skip-unchanged"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let known = millstream(&["self", "completions", shell, "--output", "json"]).ends(0).json();
        assert_eq!((&known["shell"], &known["script"]), (&Value::from(*shell), &Value::from(script)));
    }
    let wrong = millstream(&["self", "completions", "tcsh"]).ends(2);
    assert!(wrong.stderr.contains("bash"), "it names those that there are: {wrong:?}");
}

#[test]
fn bash_completes_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("millstream");
    fs::write(&file, millstream(&["self", "completions", "bash"]).ends(0).stdout).unwrap();
    let typed = "source \"$1\"; COMP_WORDS=(millstream lo) COMP_CWORD=1; _millstream millstream lo millstream
                 printf '%s\\n' \"${COMPREPLY[@]}\"";
    let Ok(bash) = Command::new("bash").args(["-c", typed, "bash"]).arg(&file).output() else {
        return skip("bash is not installed");
    };
    assert_eq!(String::from_utf8(bash.stdout).unwrap(), "load\nloads\n", "{:?}", String::from_utf8(bash.stderr));
}

#[test]
fn manual_pages_are_the_same_each_time_and_man_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let folders = [dir.path().join("one"), dir.path().join("other")];
    let pages = folders.each_ref().map(|folder| {
        let known = millstream(&["self", "man", folder.to_str().unwrap(), "--output", "json"]).ends(0).json();
        let names: Vec<String> = serde_json::from_value(known["pages"].clone()).unwrap();
        names.into_iter().map(|name| (fs::read_to_string(folder.join(&name)).unwrap(), name)).collect::<Vec<_>>()
    });
    assert_eq!(pages[0], pages[1]);
    assert!(
        pages[0].len() > 40 && pages[0].iter().any(|(_, name)| name == "millstream-load.1"),
        "{:?}",
        pages[0].len()
    );
    let page = folders[0].join("millstream-load.1");
    let mut man = Command::new("man");
    man.args(["--warnings", "-l"]).arg(&page).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
    let Ok(shown) = man.output() else { return skip("man is not installed") };
    let (text, warnings) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(text.contains("--skip-unchanged") && text.contains("\nEXAMPLES\n"), "{text}");
    assert_eq!(warnings, "", "groff has no complaints");
}
