//! Wrong command lines, missing servers, readers that close their end.

use crate::process::{command, millstream, run};
use std::process::{Command, Stdio};

/// Nobody listens on port 1 of the loopback address.
const NOBODY: &str = "postgres://me:hunter2@127.0.0.1:1/shop?connect_timeout=5";

#[test]
fn a_wrong_command_line_exits_2_and_points_to_help() {
    for args in [
        &["colections"][..],
        &["collections", "--colour"],
        &["collections", "--output", "yaml"],
        &["get", "events"],
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
fn help_works_as_a_command() {
    for command in [&["load"][..], &["db", "start"], &[]] {
        let asked = millstream(&[&["help"], command].concat()).ends(0);
        assert_eq!(asked.stdout, millstream(&[command, &["--help"]].concat()).ends(0).stdout);
    }
    assert!(millstream(&["help", "laod"]).ends(2).stderr.contains("laod"));
}

#[test]
fn options_of_files_do_not_go_with_a_topic_nor_those_of_topics_with_files() {
    let load = |source: &str, option: &[&str]| {
        millstream(&[&["load", source, "--into", "t", "--key", "id"], option].concat()).ends(2).stderr
    };
    for option in [
        &["--strict"][..],
        &["--dry-run"],
        &["--lanes", "2"],
        &["--rejects", "rejects.ndjson"],
        &["--publish", "model"],
        &["--skip-loaded"],
        &["--delete-missing"],
        &["--enrich", "ip from store as place"],
        &["--with-source", "file"],
        &["--with-partitions"],
        &["--extended-json"],
        &["--format", "csv"],
        &["--skip-lines", "1"],
        &["--nan", "string"],
    ] {
        let said = load("kafka://127.0.0.1:1/t", option);
        assert!(said.contains(&format!("{} does not go with a topic", option[0])), "{said}");
    }
    for option in [
        &["--from", "end"][..],
        &["--until", "end"],
        &["--partitions", "0-3"],
        &["--group", "loaders"],
        &["--drain", "2s"],
        &["--group-instance", "a"],
        &["--allow-gap"],
        &["--message-key", "id"],
        &["--with-message", "kafka"],
        &["--properties", "client.properties"],
    ] {
        let said = load("a.ndjson", option);
        assert!(said.contains(&format!("{} goes with a topic of Kafka", option[0])), "{said}");
    }
    let said = load("kafka://127.0.0.1:1/t", &["a.ndjson"]);
    assert!(said.contains("a topic is loaded alone"), "{said}");
    for command in [&["cat"][..], &["verify", "--into", "t", "--key", "id"]] {
        let said = millstream(&[command, &["kafka://127.0.0.1:1/t"]].concat()).ends(2).stderr;
        assert!(said.contains("a topic of Kafka is read by `millstream load`"), "{said}");
    }
    for option in [&["--drain", "2s"][..], &["--group-instance", "a"]] {
        let said = load("kafka://127.0.0.1:1/t", option);
        assert!(said.contains(&format!("{} goes with --group", option[0])), "{said}");
    }
    let said = millstream(&["loads", "--group", "loaders"]).ends(2).stderr;
    assert!(said.contains("--topic"), "{said}");
}

/// The last line of stderr as JSON.
fn json_error(run: &crate::process::Run) -> serde_json::Value {
    assert_eq!(run.stdout, "");
    let last = run.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn errors_are_json_objects_with_output_json() {
    for args in [
        &["colections", "--output", "json"][..],
        &["--output=json", "get", "events"],
        &["load", "a.ndjson", "--colour", "--output", "json"],
        &["help", "laod", "--output", "json"],
    ] {
        let run = millstream(args).ends(2);
        let error = json_error(&run);
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        assert_eq!((&error["code"], &error["load_id"]), (&2.into(), &serde_json::Value::Null));
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty() && !text.contains('\n')), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--help")), "{error}");
    }
    let error = json_error(&millstream(&["collections", "--db", NOBODY, "--output", "json"]).ends(2));
    assert!(error["error"].as_str().is_some_and(|text| text.starts_with("cannot connect to 127.0.0.1:1")), "{error}");
    assert!(error["causes"].is_array() && error["hint"].is_string(), "{error}");
    let error =
        json_error(&millstream(&["load", "nowhere.ndjson", "--into", "a", "--key", "id", "--output", "json"]).ends(2));
    assert_eq!(error["error"], "cannot open nowhere.ndjson");
    assert_eq!(error["causes"][0], "No such file or directory (os error 2)");
}

#[test]
fn a_schema_that_postgresql_reserves_is_refused() {
    for (args, variable) in
        [(&["--schema", "pg_x"][..], ""), (&[], "pg_catalog"), (&["--schema", "information_schema"], "")]
    {
        let mut asked = command(&[&["collections", "--db", NOBODY], args].concat());
        let run = run(asked.env("MILLSTREAM_SCHEMA", variable)).ends(2);
        assert!(run.stderr.starts_with("error: schema ") && run.stderr.contains("reserves"), "{run:?}");
    }
}

#[test]
fn a_schema_whose_name_is_too_long_is_refused() {
    let (longest, longer) = ("ä".repeat(31) + "s", "ä".repeat(32));
    let ask = |name: &str| millstream(&["collections", "--db", NOBODY, "--schema", name]).ends(2).stderr;
    assert!(ask(&longer).contains("\" is longer than 63 bytes, the longest name PostgreSQL keeps"));
    assert!(!ask(&longest).contains("longer than"));
}

#[test]
fn help_and_version_go_to_stdout() {
    let version = millstream(&["--version"]).ends(0);
    assert_eq!(version.stdout, concat!("millstream ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(millstream(&["-h"]).ends(0).stdout.contains("Usage: millstream"));
    assert!(millstream(&[]).ends(2).stderr.contains("Usage: millstream"));
}

#[test]
fn an_unreachable_server_exits_2_and_names_its_address() {
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
fn the_database_comes_from_variables_unless_the_flag_names_it() {
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
        "me:hunter2@127.0.0.1/shop",
        "me:hunter2@127.0.0.1/shop?sslmode=disable",
        "postgres://me:pass@hunter2@127.0.0.1/shop",
        "postgres://me:pass/hunter2@127.0.0.1/shop",
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
fn no_command_waits_for_a_named_pipe_in_the_place_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    // An experiment is read of a file with this ending.
    let pipe = dir.path().join("pipe.toml").to_str().unwrap().to_owned();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for args in [
        &["doctor", "--config"][..],
        &["doctor", "--since"],
        &["guard", "show"],
        &["network", "plan"],
        &["lab", "drive"],
        &["lab", "report"],
        &["lab", "run"],
    ] {
        let run = millstream(&[args, &[pipe.as_str()]].concat()).ends(2);
        assert!(run.stderr.contains("it is a named pipe, and must be a file"), "{args:?}: {run:?}");
    }
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut help = command(&["--help"]);
    let run = run(help.stdout(writer).stderr(Stdio::piped()));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}
