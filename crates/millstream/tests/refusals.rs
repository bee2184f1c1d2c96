//! Wrong command lines, servers that are not there, readers that leave.

use crate::process::{command, millstream, run};
use std::process::Stdio;

/// Nobody listens on port 1 of the loopback address.
const NOBODY: &str = "postgres://me:hunter2@127.0.0.1:1/shop?connect_timeout=5";

#[test]
fn a_wrong_command_line_is_exit_2_with_the_way_to_help() {
    for args in [
        &["colections"][..],
        &["collections", "--colour"],
        &["collections", "--output", "yaml"],
        &["get", "events"],
        &["verify", "a.ndjson", "--into", "events"],
        &["get", "a.b.c", "1"],
        &["loads", "forget", "seven"],
        &["loads", "prune", "--older-than", "soon"],
        &["rejects", "events", "--reason", "bad_mood"],
        &["rejects", "events", "--limit", "1", "--clear"],
        &["db"],
    ] {
        let run = millstream(args).ends(2);
        assert_eq!(run.stdout, "", "{args:?}");
        assert!(run.stderr.contains("--help") || run.stderr.contains("Usage:"), "{run:?}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let version = millstream(&["--version"]).ends(0);
    assert_eq!(version.stdout, concat!("millstream ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(millstream(&["-h"]).ends(0).stdout.contains("Usage: millstream"));
    assert!(millstream(&[]).ends(2).stderr.contains("Usage: millstream"));
}

#[test]
fn a_server_that_does_not_answer_is_exit_2_and_says_where() {
    for args in [
        &["collections", "--db", NOBODY][..],
        &["loads", "--db", NOBODY],
        &["loads", "forget", "1", "--db", NOBODY],
        &["loads", "prune", "--older-than", "1d", "--db", NOBODY],
        &["drop", "events", "--yes", "--db", NOBODY],
        &["get", "events", "1", "--db", NOBODY],
        &["rejects", "events", "--db", NOBODY],
    ] {
        let run = millstream(args).ends(2);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.starts_with("target: postgres://me@127.0.0.1:1/shop"), "{run:?}");
        assert!(run.stderr.contains("\nerror: "), "{run:?}");
        assert!(!run.stderr.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn the_database_may_come_from_variables_and_the_flag_wins() {
    let here = |name: &str, value: &str, args: &[&str]| run(command(args).env(name, value)).ends(2);
    for name in ["MILLSTREAM_DB", "DATABASE_URL"] {
        let run = here(name, NOBODY, &["collections"]);
        assert!(run.stderr.starts_with("target: postgres://me@127.0.0.1:1/shop"), "{run:?}");
    }
    let other = "postgres://you@127.0.0.1:1/other?connect_timeout=5";
    let run = here("MILLSTREAM_DB", NOBODY, &["collections", "--db", other]);
    assert!(run.stderr.starts_with("target: postgres://you@127.0.0.1:1/other"), "{run:?}");
}

#[test]
fn a_bad_connection_string_is_exit_2_without_its_password() {
    for url in [
        "postgres://me:hunter2@127.0.0.1:port/shop",
        "postgres://me:hunter2@127.0.0.1/shop?sslmode=perhaps",
        "host=127.0.0.1 password=hunter2 colour=red",
        "mysql://me:hunter2@127.0.0.1/shop",
        "postgres://me:hunter2@[::1/shop",
        "host=127.0.0.1 password='hunter2",
    ] {
        let typed = millstream(&["collections", "--db", url]).ends(2);
        assert!(typed.stderr.starts_with("error: "), "{url}: {typed:?}");
        assert!(typed.stderr.contains("where: --db"), "{url}: {typed:?}");
        let set = run(command(&["collections"]).env("DATABASE_URL", url)).ends(2);
        assert!(set.stderr.contains("where: DATABASE_URL"), "{url}: {set:?}");
        for run in [typed, set] {
            assert!(!format!("{run:?}").contains("hunter2"), "{url}: {run:?}");
        }
    }
}

#[test]
fn a_password_in_the_wrong_place_is_not_repeated() {
    let run = millstream(&["collections", NOBODY]).ends(2);
    assert!(run.stderr.contains("unexpected argument"), "{run:?}");
    assert!(!run.stderr.contains("hunter2"), "{run:?}");
}

#[test]
fn a_reader_that_has_gone_ends_the_command_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut help = command(&["--help"]);
    let run = run(help.stdout(writer).stderr(Stdio::piped()));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}
