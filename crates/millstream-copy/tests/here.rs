//! Copies on one machine: what they keep, follow, refuse and never touch.

use crate::place::Place;
use millstream_testkit::{LoopDisk, Need, SmallDisk, machine_has, skip};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

#[test]
fn a_path_that_is_longer_than_the_system_takes_at_once_is_copied() {
    let place = Place::new();
    place.shell(
        "cd from; for _ in {1..110}; do d=$(printf 'd%.0s' {1..50}); mkdir $d; cd $d; done; echo deep > file; ln -s a b",
    );
    assert_eq!(place.copy("from/", "to", &[]).copied, 113);
    place.shell("cd to; for _ in {1..110}; do cd -P $(printf 'd%.0s' {1..50}); done; grep -q deep file; [ -L b ]");
    place.copy("from/", "to", &[]);
    place.is_whole("to", &[]);
    fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(place.copy("empty/", "to", &["delete", "even-all"]).deleted, 112);
}

#[test]
fn attributes_and_acls_are_copied_where_they_are_asked_for() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    place.write("from/file", b"text");
    place.write("from/folder/inner", b"");
    symlink("file", place.path("from/link")).unwrap();
    let set = |name: &str, attribute: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(place.path(name), attribute, value, flags).is_ok()
    };
    if !set("from/file", "user.note", b"\x00\xff") {
        return skip("the file system keeps no attributes");
    }
    // An ACL as Linux stores it: rw- for the owner, r-- for user 65534, the group and the mask, --- for others.
    let entries: [(u16, u16, u32); 5] = [(1, 6, !0), (2, 4, 65_534), (4, 4, !0), (16, 4, !0), (32, 0, !0)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    assert!(set("from/file", "system.posix_acl_access", &acl) && set("from/folder", "system.posix_acl_default", &acl));
    place.copy("from/", "plain", &[]);
    let mut none = [0; 8];
    assert!(rustix::fs::getxattr(place.path("plain/file"), "user.note", &mut none[..]).is_err());
    place.copy("from/", "to", &["attributes"]);
    place.is_equal("from", "to");
    // What the source has no longer goes from the copy, too.
    rustix::fs::removexattr(place.path("from/file"), "user.note").unwrap();
    assert_eq!(place.copy("from/", "to", &["attributes"]).same, 5);
    place.is_equal("from", "to");
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_way_out() {
    let place = Place::new();
    place.write("from/file", b"text");
    fs::create_dir(place.path("empty")).unwrap();
    place.write("to/old", b"");
    let trash = format!("trash={}", place.text("to"));
    let cases: &[(&str, &str, &[&str], &str, &str)] = &[
        ("none", "to", &[], "there is no ", ""),
        ("from/", "from/in", &[], "lies in", "choose a destination outside of the source"),
        ("from", "missing/er/to", &[], "there is no folder for ", "mkdir -p "),
        ("from", "x;touch pwned/er/to", &[], "x;touch pwned/er/to", "mkdir -p '/"),
        ("from/file/", "to", &[], "from/file/", ""),
        ("from/file", "to", &["delete"], "nothing to delete", ""),
        ("from", "to", &["exclude=from"], "the rules exclude ", "end it with a slash"),
        ("empty/", "to", &["delete"], "is empty", "yes-empty"),
        ("to/", "", &["delete"], "lies in the destination", "beside the source"),
        ("from/", "to", &["delete", &trash], "lies in the destination", "beside the destination"),
        ("from/", "to", &["compress"], "both ends are on this one", "HOST:PATH"),
        ("from/", "to", &["piece-bytes=300000"], "has no hash of its own", "a power of two"),
    ];
    for (from, to, words, says, hint) in cases {
        let refused = place.refused(from, to, words);
        assert!(refused.contains(says) && refused.contains(hint), "{from} {to} {words:?}: {refused}");
    }
    assert!(place.path("to/old").exists() && !place.path("from/in").exists());
    let refused = place.verify("from", &[]).unwrap_err();
    assert!(refused.contains("there is no manifest of a copy to ") && refused.contains(" has copied"), "{refused}");
}

#[test]
fn a_link_at_the_destination_is_never_followed_out() {
    let place = Place::new();
    for name in ["folder/file", "file", "link-to-file"] {
        place.write(format!("from/{name}"), b"new");
    }
    let secret = place.write("outside/file", b"old");
    fs::create_dir(place.path("to")).unwrap();
    symlink("../outside", place.path("to/folder")).unwrap();
    symlink("../outside/file", place.path("to/link-to-file")).unwrap();
    place.copy("from/", "to", &[]);
    assert_eq!(fs::read(&secret).unwrap(), b"old");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 1);
    assert_eq!(fs::read(place.path("to/folder/file")).unwrap(), b"new");
    assert!(fs::symlink_metadata(place.path("to/link-to-file")).unwrap().is_file());
    // A link that appears while the copy runs.
    for n in 0..3 {
        place.write(format!("from/folder/more-{n}"), b"new");
    }
    let receipt = place.process("from/", "to", &[]).held("folders-made", || {
        fs::rename(place.path("to/folder"), place.path("to/moved")).unwrap();
        symlink("../outside", place.path("to/folder")).unwrap();
    });
    let failures = receipt.unwrap()["failures"].to_string();
    assert!(failures.contains("folder/more-0") && failures.contains("is reached by a link"), "{failures}");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 1);
}

#[test]
fn two_copies_to_one_destination_do_not_run_at_once() {
    let place = Place::new();
    place.write("from/file", b"text");
    let copied = place.process("from/", "to", &[]).held("copy-listed", || {
        let refused = place.refused("from/", "to", &[]);
        assert!(refused.contains("another copy writes to "), "{refused}");
    });
    assert_eq!(copied.unwrap()["copied"], 2);
}

#[test]
fn two_homes_may_copy_to_one_destination_at_once() {
    let place = Place::new();
    for n in 0..60 {
        place.write(format!("from/a{n}"), &vec![b'a'; 50_000]);
        place.write(format!("other/b{n}"), &vec![b'b'; 50_000]);
    }
    fs::create_dir(place.path("to")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| place.copy("from/", "to", &["workers=2", "home=one"]));
        scope.spawn(|| place.copy("other/", "to", &["workers=2", "home=two"]));
    });
    for n in 0..60 {
        for letter in ['a', 'b'] {
            let found = fs::read(place.path(&format!("to/{letter}{n}"))).unwrap();
            assert_eq!(found, vec![letter as u8; 50_000], "{letter}{n}");
        }
    }
    place.is_tidy("to");
}

#[test]
fn files_that_change_or_become_something_else_are_accounted_for() {
    let place = Place::new();
    for name in ["grows", "becomes-a-pipe", "stays"] {
        place.write(format!("from/{name}"), b"text");
    }
    let receipt = place.process("from/", "to", &[]).held("folders-made", || {
        let mut grows = OpenOptions::new().append(true).open(place.path("from/grows")).unwrap();
        grows.write_all(b" and more").unwrap();
        place.shell("cd from; rm becomes-a-pipe; mkfifo becomes-a-pipe");
    });
    let receipt = receipt.unwrap();
    assert!(receipt["failed"] == 1 && receipt["failures"][0]["path"] == "becomes-a-pipe", "{receipt}");
    // As it is now, not as it was when it was listed.
    assert_eq!(fs::read(place.path("to/grows")).unwrap(), b"text and more");
    place.is_whole("to", &[]);
    place.copy("from/", "to", &[]);
}

#[test]
fn links_are_followed_where_that_is_asked_for_and_nothing_is_deleted_if_one_leads_nowhere() {
    let place = Place::new();
    place.write("outside/inner/file", b"text");
    place.write("from/folder/plain", b"plain");
    let odd = OsStr::from_bytes(b"from/new\nline\xff");
    for (target, name) in [("../../outside", "from/folder/out"), ("..", "from/folder/up"), ("self", "from/self")] {
        symlink(target, place.path(name)).unwrap();
    }
    symlink("nowhere", place.path("").join(odd)).unwrap();
    let old = place.write("to/old", b"");
    // Root reads every folder; a link that cannot be followed hides what is behind it, too.
    let receipt = place.copy_in_part("from/", "to", &["copy-links", "delete"]);
    assert_eq!(receipt.kept_because.as_deref(), Some("the source could not be listed whole"));
    assert!(old.exists());
    let failed: Vec<_> = receipt.failures.iter().map(|failure| failure.path.as_str()).collect();
    assert_eq!(failed, ["folder/up", "new\\nline\\xff", "self"], "{receipt:?}");
    assert_eq!(fs::read(place.path("to/folder/out/inner/file")).unwrap(), b"text");
    let all = fs::read_to_string(receipt.failures_file.unwrap()).unwrap();
    assert_eq!(all.lines().count(), 3, "{all}");
}

#[test]
fn other_file_systems_are_left_out_where_that_is_asked_for() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let place = Place::new();
    place.write("from/file", b"text");
    fs::create_dir(place.path("from/point")).unwrap();
    place.shell(&format!("mount --bind {} from/point; echo > from/point/inner", disk.dir.display()));
    let copied = place.copy("from/", "to", &["one-file-system"]);
    let whole = place.copy("from/", "whole", &[]);
    assert!(place.path("to/point").is_dir() && !place.path("to/point/inner").exists());
    // What an earlier copy has there stays.
    place.write("to/point/kept", b"kept");
    let deleted = place.copy("from/", "to", &["delete", "one-file-system"]);
    place.shell("umount from/point");
    assert_eq!((copied.seen, whole.seen, deleted.deleted), (3, 4, 0));
    assert!(place.path("to/point/kept").exists());
}

#[test]
fn several_sources_of_one_destination_are_all_compared() {
    let place = Place::new();
    place.write("from/a", b"text");
    place.write("other/b", b"text");
    place.copy("from/", "to", &[]);
    place.copy("other/", "to", &[]);
    // A deletion that does not happen forgets nothing.
    place.copy_in_part("other/", "to", &["delete", "most=0"]);
    let trash = format!("trash={}", place.write("trash", b"").display());
    let kept = place.copy_in_part("other/", "to", &["delete", &trash]).kept_because.unwrap();
    assert!(kept.contains("no folder can be made in the trash"), "{kept}");
    assert_eq!(place.is_whole("to", &[]).hashed, 2);
    // What is deleted is forgotten.
    place.copy("other/", "to", &["delete"]);
    assert_eq!(place.is_whole("to", &[]).hashed, 1);
    // A damaged manifest is named by the comparison, and no hindrance for the copy.
    let manifest = place.notes()[0].join("manifest");
    let damage = |at: usize| {
        let mut bytes = fs::read(&manifest).unwrap();
        // Hashes may have any byte there.
        bytes[at] = !bytes[at];
        fs::write(&manifest, bytes).unwrap();
    };
    damage(fs::read(&manifest).unwrap().len() - 30);
    let damaged = place.verify("to", &[]).unwrap_err();
    assert!(damaged.contains("is damaged") && damaged.contains("copy again"), "{damaged}");
    place.copy("other/", "to", &["hash"]);
    place.is_whole("to", &[]);
    // It is named beside whole ones, too.
    place.copy("from", "to", &[]);
    damage(30);
    let found = place.verify("to", &[]).unwrap();
    assert_eq!(found.iter().map(|found| found.problems).sum::<u64>(), 1, "{found:?}");
    let problems = place.problems("to", &[]);
    assert!(
        problems.contains("manifest is damaged") && problems.contains("Perhaps it is that of a copy"),
        "{problems}"
    );
}

#[test]
fn a_file_system_that_can_clones_files_which_then_have_no_hash() {
    let Some(disk) = LoopDisk::mount_sharing(320 << 20) else { return };
    let place = Place::on(&disk.mount);
    place.write("from/file", &vec![7; 100_000]);
    place.write("from/large", &vec![8; 600_000]);
    assert_eq!(place.copy("from/", "to", &[]).unhashed, 2);
    let found = place.is_whole("to", &[]);
    assert_eq!((found.hashed, found.unhashed), (0, 2), "{found:?}");
    assert_eq!(place.copy("from/", "to", &["hash"]).hashed, 2);
    assert_eq!(place.is_whole("to", &[]).hashed, 2);
}

#[test]
fn notes_that_have_no_room_say_what_to_do() {
    let Some(disk) = SmallDisk::mount(100 << 10) else { return };
    let place = Place::new();
    for n in 0..2_000 {
        symlink("nowhere", place.path(&format!("from/{n}"))).unwrap();
    }
    let full = place.refused("from/", "to", &[&format!("home={}", disk.mount.join("home").display())]);
    assert!(full.contains("make room there and run the same command again"), "{full}");
}

#[test]
fn a_folder_that_is_made_without_a_model_can_be_entered_by_others() {
    let place = Place::new();
    let file = place.write("from/file", b"text");
    fs::set_permissions(place.path("from"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    for [from, to] in [["from", "new"], ["from/file", "other/"]] {
        place.process(from, to, &[]).by(&["sh", "-c", "umask 000; exec \"$@\"", "sh"]).run().unwrap();
    }
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("new"), mode("new/from"), mode("other"), mode("other/file")), (0o755, 0o700, 0o755, 0o640));
}

#[test]
fn a_destination_that_folds_case_loses_nothing_by_it() {
    let Some(disk) = LoopDisk::mount_folding(16 << 20) else { return };
    let place = Place::new();
    place.write("from/Dir/file", b"text");
    let to = disk.dir.join("to");
    let target = to.display().to_string();
    place.copy("from/", &target, &[]);
    fs::rename(place.path("from/Dir"), place.path("from/dir")).unwrap();
    fs::write(to.join("old"), "old").unwrap();
    assert_eq!(place.copy("from/", &target, &["delete"]).deleted, 1);
    assert_eq!(fs::read(to.join("dir/file")).unwrap(), b"text");
    // To the letters beyond ASCII belong some that exFAT tells apart.
    let names = ["kiz", "k\u{131}z", "s", "\u{17f}"];
    names.iter().for_each(|name| drop(place.write(format!("from/{name}"), name.as_bytes())));
    place.copy("from/", &target, &[]);
    names.iter().for_each(|name| assert_eq!(fs::read(to.join(name)).unwrap(), name.as_bytes()));
    // What is excluded is there by another name.
    place.write("from/Keep.O", b"kept");
    fs::write(to.join("keep.o"), "kept").unwrap();
    assert_eq!(place.copy("from/", &target, &["exclude=*.O", "delete"]).deleted, 0);
    assert!(to.join("keep.o").exists());
    place.write("from/x", b"small");
    place.write("from/X", b"capital");
    let receipt = place.copy_in_part("from/", &target, &[]);
    assert_eq!(receipt.failures[0].path, "x", "{receipt:?}");
    assert_eq!(receipt.failures[0].reason, "the destination takes the names X and x for the same");
    assert_eq!(fs::read(to.join("x")).unwrap(), b"capital");
}
