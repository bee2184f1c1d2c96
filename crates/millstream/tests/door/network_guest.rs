//! `network apply` in a guest, where a real NetworkManager makes a bond, a VLAN and a bridge, and wrong plans are taken back.

use crate::process::{command, run};
use millstream_lab::experiments::Record;
use millstream_testkit::{kernel_package, networkmanager};
use std::fs;

#[test]
fn a_host_keeps_its_network_when_a_card_fails_and_gets_it_back_after_wrong_plans() {
    let Some(package) = kernel_package() else { return };
    let Some(unpacked) = networkmanager() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut drill = command(&["lab", "run", "network"]);
    drill.arg("--guest").arg(package).arg("--guest-root").arg(unpacked).arg("--out").arg(&out);
    let drill = run(&mut drill);
    let made = fs::read_dir(&out).into_iter().flatten().map(|entry| entry.unwrap().path()).next().unwrap_or_default();
    let console = fs::read_to_string(made.join("console")).unwrap_or_default();
    assert_eq!(drill.code, 0, "{drill:?}\n{console}");
    assert!(drill.stdout.contains("5 of 5"), "{drill:?}\n{console}");
    let record = Record::read(&made).unwrap();
    for arm in ["leg", "again", "wrong", "killed", "unwatched"] {
        let run = record.runs.iter().find(|run| run.arm == arm).unwrap();
        assert!(run.value("silent_seconds").is_some(), "{run:?}\n{console}");
    }
    let leg = record.runs.iter().find(|run| run.arm == "leg").unwrap();
    // Of 30, and the emulated machine may stand still for a moment.
    assert!(leg.value("lost_pings").unwrap() <= 10.0, "{leg:?}\n{console}");
}

#[test]
fn what_would_change_this_machine_for_good_runs_in_guests_alone() {
    let refused = run(&mut command(&["lab", "run", "network"])).ends(2);
    assert!(refused.stderr.contains("network would change this machine for good"), "{refused:?}");
    assert!(refused.stderr.contains("--guest"), "{refused:?}");
}
