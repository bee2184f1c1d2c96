//! Copies by somebody who is not root, of files of others and to folders of others.

use crate::place::Place;
use millstream_testkit::{Need, RsyncDaemon, machine_has, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user who is not root, and has no groups.
const NOBODY: u32 = 65_534;

/// A remote shell of that user.
const AS_NOBODY: &str = "exec setpriv --reuid 65534 --clear-groups sh -c \"$*\"";

/// A place whose folders belong to somebody who is not root. `None`, and a word about it, if the tests are not root's.
fn place_of_nobody() -> Option<Place> {
    let place = Place::new();
    let own = |name: &str| chown(place.path(name), Some(NOBODY), Some(NOBODY));
    let is_own = own("").and_then(|()| own("from")).is_ok();
    let reached = Command::new(std::env::current_exe().unwrap()).uid(NOBODY).gid(NOBODY).arg("--list").output();
    if !is_own || reached.is_err() {
        skip("only root can copy as another user, who must reach the tests");
        return None;
    }
    Some(place)
}

#[test]
fn rights_to_act_as_the_owner_are_not_given_with_another_owner() {
    let Some(place) = place_of_nobody() else { return };
    let program = place.write("from/program", b"text");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
    let own = place.write("from/own", b"text");
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o4755)).unwrap();
    let copying = |words: &[&str]| place.process("from/", "to", words).run_by(NOBODY).run().unwrap();
    assert_eq!(copying(&["verify"])["verified"]["problems"], 0);
    let stat = |name: &str| fs::metadata(place.path(name)).unwrap();
    assert_eq!((stat("to/program").mode() & 0o7777, stat("to/own").mode() & 0o7777), (0o755, 0o4755));
    let before = (stat("to/program").ctime(), stat("to/program").ctime_nsec());
    let second = copying(&["verify"]);
    assert!(second["same"] == 3 && second["verified"]["problems"] == 0, "{second}");
    assert_eq!((stat("to/program").ctime(), stat("to/program").ctime_nsec()), before, "nothing was to be made equal");
}

#[test]
fn rights_to_act_as_the_owner_do_not_cross_to_another_one() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let (as_nobody, as_root) = (place.remote_shell("nobody", AS_NOBODY), place.plain_shell());
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o7777;
    place.shell("touch from/tool; chmod 6755 from/tool; mkdir to whole own; chown 65534 to own");
    place.copy("from/", &place.far("to"), &["hash", &as_nobody]);
    assert_eq!(mode("to/tool"), 0o755);
    assert_eq!(place.copy("from/", &place.far("to"), &[&as_nobody]).same, 2);
    place.is_whole(&place.far("to"), &[&as_nobody]);
    if let Some(daemon) = RsyncDaemon::start_as(&place.path("own"), NOBODY) {
        place.copy("from/", &format!("{}/by-daemon", daemon.address()), &[]);
        assert_eq!(mode("own/by-daemon/tool"), 0o755);
        place.is_tidy("own");
    }
    // Root keeps owners, and what goes with them.
    place.copy("from/", &place.far("whole"), &[&as_root]);
    assert_eq!(mode("whole/tool"), 0o6755);
    let Some(other) = place_of_nobody() else { return };
    let shell = other.plain_shell();
    let from = format!("{}/", place.far("from"));
    let receipt = other.process(&from, "to", &[&shell]).run_by(NOBODY).run().unwrap();
    assert_eq!(receipt["failed"], 0, "{receipt}");
    assert_eq!(fs::metadata(other.path("to/tool")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_folder_of_somebody_else_hinders_neither_resuming_nor_the_end_of_a_copy() {
    let Some(place) = place_of_nobody() else { return };
    place.write("from/folder/file", b"text");
    fs::set_permissions(place.path("from/folder"), Permissions::from_mode(0o755)).unwrap();
    place.write("to/lost+found/file", b"");
    fs::set_permissions(place.path("to/lost+found"), Permissions::from_mode(0o700)).unwrap();
    place.write("to/old", b"");
    chown(place.path("to"), Some(NOBODY), Some(NOBODY)).unwrap();
    let copying = |words: &[&str]| place.process("from/", "to", words).run_by(NOBODY);
    copying(&[]).killed("file-named=kill");
    let kept = copying(&["delete", "verify"]).run().unwrap();
    let why = kept["kept_because"].as_str().unwrap();
    assert!(kept["resumed"] == true && why.contains("cannot be listed whole: lost+found: "), "{kept}");
    assert!(why.contains("let it be listed, or leave it out with "), "{kept}");
    assert_eq!(kept["verified"]["problems"], 0, "{kept}");
    assert_eq!(fs::metadata(place.path("to/folder")).unwrap().mode() & 0o777, 0o755, "it has its rights");
    let deleted = copying(&["delete", "exclude=/lost+found"]).run().unwrap();
    assert!(deleted["deleted"] == 1 && deleted["resumed"] == false, "{deleted}");
}

#[test]
fn a_read_only_folder_that_the_source_has_no_longer_is_deleted() {
    let Some(place) = place_of_nobody() else { return };
    place.shell(
        "cd from; mkdir -p kept gone/in held; touch file kept/file gone/in/file gone/file held/a.o held/b; \
         chmod 555 gone/in gone held; chown -R 65534 .",
    );
    let copying = |words: &[&str]| place.process("from/", "to", words).run_by(NOBODY).run().unwrap();
    assert_eq!(copying(&[])["failed"], 0);
    place.shell("cd from; rm -rf gone held; chmod 555 kept; rm kept/file");
    let deleted = copying(&["delete", "exclude=*.o"]);
    assert!(deleted["deleted"] == 6 && deleted["failures"] == serde_json::json!([]), "{deleted}");
    assert!(!place.path("to/gone").exists() && place.path("to/held/a.o").exists());
    for name in ["kept", "held"] {
        assert_eq!(fs::metadata(place.path("to").join(name)).unwrap().mode() & 0o777, 0o555, "{name}");
    }
}

#[test]
fn what_rsync_leaves_out_there_is_no_success() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let as_nobody = place.remote_shell("nobody", AS_NOBODY);
    // Paths of more than 4,096 bytes are too long for rsync.
    let long = "n=$(printf '%0200d' 1); for i in $(seq 25); do mkdir $n; cd $n; done; touch file";
    place.shell(&format!("mkdir to; chown 65534 to; cd from; mknod null c 1 3; mkfifo pipe; echo text > file; {long}"));
    for _ in 0..2 {
        let receipt = place.copy_in_part("from/", &place.far("to"), &[&as_nobody]);
        let reason = |path: &str| {
            let failure = receipt.failures.iter().find(|failure| failure.path == path);
            failure.map(|failure| failure.reason.as_str())
        };
        assert_eq!(reason("null"), Some("only root can make a device"), "{receipt:?}");
        assert_eq!((reason("pipe"), reason("file")), (None, None), "{receipt:?}");
        let here = Command::new("find").arg(place.path("to")).args(["-printf", "x"]).output().unwrap().stdout;
        assert_eq!(receipt.copied + receipt.same, here.len() as u64, "{receipt:?}");
    }
}

#[test]
fn nothing_is_sent_through_a_link_that_cannot_be_replaced() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let as_nobody = place.remote_shell("nobody", AS_NOBODY);
    for name in ["from/in/link/deep/file", "from/file", "from/kept"] {
        place.write(name, b"text");
    }
    place.shell(
        "mkdir -p to/in elsewhere/deep; ln -s ../../elsewhere to/in/link; cp -p from/kept to; \
         chmod 600 to/kept; chown 65534 to elsewhere elsewhere/deep",
    );
    let receipt = place.copy_in_part("from/", &place.far("to"), &[&as_nobody]);
    // The last one was there; its rights cannot be set by another user.
    for path in ["in/link", "in/link/deep", "in/link/deep/file", "kept"] {
        assert!(receipt.failures.iter().any(|failure| failure.path == path), "{path}: {receipt:?}");
    }
    let is_left_out = receipt.failures.iter().any(|failure| failure.reason.contains("its folder could not be made"));
    assert!(is_left_out, "rsync was not even asked: {receipt:?}");
    assert!(!place.path("elsewhere/deep/file").exists() && place.path("to/file").exists(), "{receipt:?}");
}
