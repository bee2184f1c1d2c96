//! `lab packets`: what it prints, and that it leaves nothing behind.

use crate::process::{command, millstream};
use millstream_testkit::{Need, machine_has, until};
use std::fs;

/// What a row needs.
const NEEDS: &[Need] = &[Need::Networks, Need::NFT];

#[test]
fn a_row_that_is_measured_and_one_that_is_skipped_are_printed_as_json() {
    if !machine_has(NEEDS) {
        return;
    }
    let printed = |row: &str| millstream(&["lab", "packets", row, "--seconds", "0.01"]).ends(0).json();
    let measured = printed("accept");
    for metric in ["packets_per_second", "ns_per_packet", "cpu_ns_per_packet"] {
        assert!(measured[metric].as_f64() > Some(0.0), "{metric}: {measured}");
    }
    // nft has no such rule.
    assert!(printed("drop-xdp")["skipped"].is_string());
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
