//! What a copy deletes on this machine, and what it must leave.

use crate::place::Place;
use millstream_testkit::{Need, SmallDisk, machine_has, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn a_folder_in_the_place_of_a_file_and_our_own_notes_are_not_deleted() {
    let place = Place::new();
    place.write("from/file", b"new");
    place.write("to/file/inner/old", b"old");
    let receipt = place.copy_in_part("from/", "to", &["delete"]);
    assert_eq!((receipt.failed, receipt.deleted), (1, 0), "{receipt:?}");
    assert!(place.path("to/file/inner/old").exists());
    fs::remove_dir_all(place.path("to/file")).unwrap();
    place.write("to/old", b"old");
    let kept = place.copy_in_part("from/", "to", &["delete", "most=0"]).kept_because.unwrap();
    assert!(kept.starts_with("it would be 1 entries, more than ") && kept.ends_with("--max-delete 0"), "{kept}");
    // The notes of copies lie in the destination.
    place.copy("from/", "to", &["delete", "home=to/home"]);
    assert!(!place.path("to/old").exists());
    place.is_whole("to", &["home=to/home"]);
}

#[test]
fn nothing_in_the_trash_is_overwritten_and_no_link_in_it_is_followed() {
    let place = Place::new();
    place.write("from/file", b"text");
    let precious = place.write("outside/old", b"precious");
    fs::create_dir(place.path("trash")).unwrap();
    fs::create_dir(place.path("to")).unwrap();
    symlink("../outside", place.path("to/sub")).unwrap();
    let trash = format!("trash={}", place.text("trash"));
    let words = ["delete", &*trash];
    assert_eq!(place.copy("from/", "to", &words).deleted, 1);
    for text in ["first", "second"] {
        place.write("to/sub/old", text.as_bytes());
        assert_eq!(place.copy("from/", "to", &words).deleted, 2);
    }
    assert_eq!(fs::read(precious).unwrap(), b"precious");
    let kept = Command::new("find").arg(place.path("trash")).args(["-name", "old"]).output().unwrap();
    assert_eq!(String::from_utf8(kept.stdout).unwrap().lines().count(), 2);
}

/// Whether a test can mount something for one command alone. Else it is skipped.
fn has_own_mounts() -> bool {
    let has_them = || Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let is_root = machine_has(&[Need::Root]);
    if is_root && !has_them() {
        skip("a mount of a command alone needs unshare -m");
        return false;
    }
    is_root
}

#[test]
fn a_folder_where_something_is_mounted_stays_and_is_no_failure() {
    if !has_own_mounts() {
        return;
    }
    for words in [&["delete"][..], &["delete", "one-file-system"]] {
        let place = Place::new();
        let Some(disk) = SmallDisk::mount(1 << 20) else { return };
        place.write("from/file", b"text");
        place.write("to/old/file", b"old");
        fs::create_dir_all(place.path("to/old/point")).unwrap();
        let inner = disk.dir.join("inner");
        fs::write(&inner, "").unwrap();
        for _ in 0..2 {
            let mounts = format!("mount --bind {} to/old/point", disk.dir.display());
            let receipt = place.process("from/", "to", words).behind(&mounts).run().unwrap();
            assert!(receipt["failed"] == 0 && receipt["kept_because"].is_null(), "{receipt}");
        }
        assert_eq!(inner.exists(), words.len() == 2);
        assert!(!place.path("to/old/file").exists() && place.path("to/old/point").exists());
    }
}

#[test]
fn a_folder_that_a_bind_mount_shows_in_both_ends_is_not_deleted() {
    if !has_own_mounts() {
        return;
    }
    let place = Place::new();
    let plain = place.plain_shell();
    let lost = ["a/b/file", "other/x/file", "a/extra", "out/sub/file", "in/in/file"];
    let lost = lost.map(|file| place.write(file, b"text"));
    place.shell("mkdir -p am other to/old 'in/a mount' out/m");
    let [to_there, from_there] = [place.far("in"), place.far("out/")];
    let mut cases = vec![
        ("mount --bind a am", "am/b/", "a", false),
        ("mount --bind a/b am", "am/", "a", false),
        ("mount --bind other/x to/old", "other/", "to", true),
        ("mount --bind a am", "a/", "am/b", true),
    ];
    // A remote shell may reach this machine.
    if machine_has(&[Need::RSYNC]) {
        cases.extend([
            ("mount --bind out 'in/a mount'", "out/", &*to_there, true),
            ("mount --bind out/sub 'in/a mount'", "out/", &*to_there, true),
            ("mount --bind . 'in/a mount'", "out/", &*to_there, true),
            ("mount --bind in/in out/m", "out/", &*to_there, true),
            ("mount --bind out 'in/a mount'", &*from_there, "in", true),
            ("mount --bind in/in out/m", &*from_there, "in", false),
        ]);
    }
    for (mounts, from, to, is_refused) in cases {
        let words: &[&str] = if from.contains(':') || to.contains(':') { &["delete", &plain] } else { &["delete"] };
        let ended = place.process(from, to, words).behind(mounts).run();
        let says = match &ended {
            Ok(receipt) => receipt["kept_because"].to_string(),
            Err(refused) => refused.clone(),
        };
        assert!(ended.is_err() == is_refused && says.contains("both hold the folder"), "{mounts}, {from}: {ended:?}");
        assert!(lost.iter().all(|file| file.exists()), "{mounts}, {from}");
    }
}
