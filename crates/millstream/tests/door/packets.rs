//! `lab packets`: every row does to packets what it declares, and leaves nothing behind.

use crate::process::{command, millstream};
use millstream_guard::packets::{Backend, Generator, Row, rows};
use millstream_testkit::{Need, machine_has, todays, until};
use serde_json::Value;
use std::fs;

/// Rows whose sets are so large that one family is enough.
const LARGE: &str = "265537";

/// What the rows need.
const NEEDS: &[Need] = &[Need::Networks, Need::NFT, Need::IPTABLES, Need::IPSET];

#[test]
fn every_row_is_proved_and_measured_or_skipped_with_a_reason() {
    every_row(Generator::Send, |row, family| family == "4" || !row.name.contains(LARGE));
}

#[test]
fn every_row_is_proved_with_live_frames_or_skipped_with_a_reason() {
    every_row(Generator::Live, |row, _| !row.name.contains(LARGE));
}

fn every_row(generator: Generator, is_wanted: impl Fn(&Row, &str) -> bool) {
    if !machine_has(NEEDS) {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    for row in todays(rows().unwrap()) {
        for (backend, family) in Backend::ALL.into_iter().flat_map(|backend| [(backend, "4"), (backend, "6")]) {
            if !is_wanted(&row, family) {
                continue;
            }
            let [by, from] = [backend.name(), generator.name()];
            let args = ["lab", "packets", &row.name, "--backend", by, "--generator", from, "--family", family];
            let run = millstream(&[&args[..], &["--seconds", "0.01"]].concat()).ends(0);
            let printed: Value = serde_json::from_str(&run.stdout).unwrap();
            let needs_root = backend == Backend::Xdp || generator == Generator::Live;
            match row.lacks(backend).or(row.lacks_packets(generator)) {
                Some(why) => assert_eq!(printed["skipped"], why, "{args:?}"),
                None if needs_root && !is_root => {
                    assert!(printed["skipped"].as_str().unwrap().starts_with("XDP needs root"), "{args:?}: {run:?}");
                }
                None => assert!(printed["ns_per_packet"].as_f64() > Some(10.0), "{args:?}: {run:?}"),
            }
        }
    }
}

#[test]
fn rows_are_listed_with_the_figures_of_the_article() {
    let run = millstream(&["lab", "packets"]).ends(0);
    assert!(run.stdout.lines().any(|line| line.starts_with("drop-raw ") && line.contains("3571")), "{run:?}");
}

#[test]
fn a_row_that_is_not_there_is_refused_with_the_names_of_the_others() {
    let run = millstream(&["lab", "packets", "drop-nothing"]).ends(2);
    assert!(run.stderr.contains("there is no row drop-nothing") && run.stderr.contains("drop-raw"), "{run:?}");
    let run = millstream(&["lab", "packets", "accept", "--seconds", "0"]).ends(2);
    assert!(run.stderr.contains("--seconds"), "{run:?}");
}

/// A kill leaves neither the network nor what sends in it.
#[tokio::test]
async fn a_kill_leaves_nothing_running() {
    if !machine_has(NEEDS) {
        return;
    }
    let mut run = command(&["lab", "packets", "accept", "--seconds", "3000"]).spawn().unwrap();
    let below = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
    };
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut children = Vec::new();
    until("one child holds the network and the other one sends for an hour", async || {
        children = below(run.id());
        children.len() == 2 && children.iter().any(|pid| name(pid).contains("3000.0"))
    })
    .await;
    run.kill().unwrap();
    run.wait().unwrap();
    // Nobody may fetch the exit code of an orphan.
    let is_running = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    until("both have ended", async || !children.iter().any(is_running)).await;
}
