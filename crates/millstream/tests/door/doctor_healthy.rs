//! Servers that work hard, and on which nothing is wrong: the doctor warns of nothing.

use crate::process::{command, run};
use millstream_testkit::{Feature, Server, Settings, build_with, default_build};
use serde_json::Value;
use std::fmt::Write;
use std::process::{Command, Stdio};

/// What these checks find depends on the machine of the tests, and on what other tests do to it.
const OF_MACHINE: &[&str] = &[
    "accept-queue-full",
    "clock-source",
    "conntrack-full",
    "cpu-governor",
    "cpu-taken",
    "device-saturated",
    "disk-full",
    "kernel-known-bad",
    "memory-overcommitted",
    "memory-pressure",
    "memory-promised",
    "minor-version-behind",
    "open-files-near-limit",
    "out-of-memory-kill",
    "zone-reclaim",
];

/// Documents of a load.
const DOCUMENTS: u32 = 5_000;

/// Looks at a server, and expects no warning about it.
fn is_calm(server: &Server) {
    let found = run(&mut command(&["doctor", "--output", "json", "--db", &server.url("postgres")]));
    assert!(found.code <= 1, "{found:?}");
    let report = found.json();
    let is_own = |one: &&Value| !OF_MACHINE.contains(&one["id"].as_str().unwrap());
    let above: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(is_own).filter(|one| one["level"] != "info").collect();
    assert_eq!(above, Vec::<&Value>::new(), "on {}", server.build().installation);
    assert!(report["passed"].as_array().unwrap().len() > 30, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_warns_of_nothing_while_documents_are_loaded_again_and_again() {
    let server = Server::start(default_build().await, Settings::default()).await;
    let (dir, url) = (tempfile::tempdir().unwrap(), server.url("postgres"));
    let load = |round: u32| {
        let file = dir.path().join(format!("{round}.ndjson"));
        let mut documents = String::new();
        for n in 0..DOCUMENTS {
            writeln!(documents, "{{\"id\": {n}, \"round\": {round}, \"name\": \"document {n}\"}}").unwrap();
        }
        std::fs::write(&file, documents).unwrap();
        run(&mut command(&[
            "load",
            file.to_str().unwrap(),
            "--into",
            "events",
            "--key",
            "id",
            "--lanes",
            "1",
            "--db",
            &url,
        ]))
        .ends(0);
    };
    for round in 0..3 {
        load(round);
    }
    std::thread::scope(|threads| {
        let loads = threads.spawn(|| (3..8).for_each(load));
        is_calm(&server);
        loads.join().unwrap();
    });
    is_calm(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_warns_of_nothing_beside_pgbench() {
    let Some(build) = build_with(&[Feature::Pgbench]).await else { return };
    let server = Server::start(build, Settings::default()).await;
    let url = server.url("postgres");
    let pgbench = |args: &[&str]| {
        let mut command = Command::new(build.installation.program("pgbench"));
        command.args(args).arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(pgbench(&["-i", "-q", "-s", "2"]).status().unwrap().success());
    let mut work = pgbench(&["-n", "-c", "4", "-T", "600"]).spawn().unwrap();
    is_calm(&server);
    let is_at_work = work.try_wait().unwrap().is_none();
    work.kill().unwrap();
    work.wait().unwrap();
    assert!(is_at_work, "pgbench ended too early");
    is_calm(&server);
}
