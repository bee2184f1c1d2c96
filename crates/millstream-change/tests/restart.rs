//! Changes that a restart of the machine takes away, and those that come back.

use crate::machine::{BEFORE, DEFAULT, Machine, NEW, SETTINGS, Setting};
use millstream_change::{Number, Undone, WayOut};
use std::fs;

/// The attribute of a disk.
static OF_DISK: &Setting = &SETTINGS[1];

#[tokio::test]
async fn a_change_that_nobody_confirmed_before_a_restart_is_shown_and_closed() {
    for setting in &SETTINGS {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::new(dir.path(), setting);
        machine.run("fix").await.unwrap();
        let journal = machine.journal();
        assert!(!journal.is_of_earlier_boot(&journal.entry(1).unwrap()));
        machine.restart();
        let open = journal.open_entries().unwrap();
        assert!(open.len() == 1 && journal.is_of_earlier_boot(&open[0]), "{open:?}");
        assert_eq!(machine.run("fix").await.unwrap_err().hint, Some(WayOut::End(Number("doctor", 1)).to_string()));
        let late = machine.run("confirm").await.unwrap_err();
        assert_eq!(late.to_string(), "a restart of the machine has undone change 1");
        assert_eq!(late.hint, Some(WayOut::Undo(Number("doctor", 1)).to_string()));
        assert_eq!(machine.run("undo").await, Ok(Some(Undone::ByRestart)));
        assert_eq!((machine.value().as_str(), machine.lasts()), (DEFAULT, false));
        assert!(journal.open_entries().unwrap().is_empty());
        machine.run("fix").await.unwrap();
        assert_eq!(machine.value(), NEW);
    }
}

#[tokio::test]
async fn a_value_that_came_back_is_undone_even_if_its_line_was_removed_by_hand() {
    for setting in &SETTINGS {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::confirmed(dir.path(), setting).await;
        machine.restart();
        assert_eq!((machine.value().as_str(), machine.lasts()), (NEW, true));
        machine.remove_line();
        assert_eq!(machine.run("undo").await, Ok(Some(Undone::Now)));
        assert_eq!(machine.value(), BEFORE);
    }
}

#[tokio::test]
async fn another_disk_that_has_the_name_after_a_restart_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine::new(dir.path(), OF_DISK);
    machine.run("fix").await.unwrap();
    machine.put("sys/block/sda/device/serial", "S2\n");
    let other = machine.run("undo").await.unwrap_err().to_string();
    assert!(other.contains("not on the device or server that was changed; nothing was touched"), "{other}");
    machine.restart();
    assert_eq!(machine.run("undo").await, Ok(Some(Undone::ByRestart)));
    assert_eq!(machine.value(), DEFAULT);
}

#[tokio::test]
async fn the_change_of_a_disk_that_is_gone_is_closed_once_its_line_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine::confirmed(dir.path(), OF_DISK).await;
    machine.restart();
    fs::remove_dir_all(machine.root.join("sys/block/sda")).unwrap();
    let gone = machine.run("undo").await.unwrap_err().to_string();
    assert!(gone.contains("not on the device or server that was changed; nothing was touched"), "{gone}");
    machine.remove_line();
    assert_eq!(machine.run("undo").await, Ok(Some(Undone::ByRestart)));
}

#[tokio::test]
async fn the_change_of_a_disk_that_is_gone_is_closed_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine::confirmed(dir.path(), OF_DISK).await;
    machine.restart();
    fs::remove_dir_all(machine.root.join("sys/block/sda")).unwrap();
    assert_eq!(machine.run("undo").await.unwrap_err().hint, Some(WayOut::KeepIfGone(Number("doctor", 1)).to_string()));
    assert!(machine.lasts());
    assert_eq!(machine.run("keep").await, Ok(Some(Undone::Kept { is_back: true })));
    assert!(!machine.lasts());
    for again in ["keep", "undo"] {
        assert_eq!(machine.run(again).await, Ok(Some(Undone::Before)));
    }
}
