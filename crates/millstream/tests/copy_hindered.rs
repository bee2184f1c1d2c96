//! Copies in which something is in the way: rights, mounts, disks and earlier runs.

use crate::copy::{PIECE_BYTES, Place, appears, shell};
use crate::process::{killed, run, started_by, with_open_umask};
use millstream_testkit::{LoopDisk, Need, SmallDisk, machine_has, skip};
use serde_json::Value;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A user who is not root, and has no groups.
const NOBODY: u32 = 65_534;

/// A place whose folders belong to somebody who is not root. `None`, and a word about it, if the tests are not root's.
fn place_of_nobody() -> Option<Place> {
    let place = Place::new();
    let own = |name: &str| chown(place.path(name), Some(NOBODY), Some(NOBODY));
    let is_own = own("").and_then(|()| own("from")).is_ok();
    let help = Command::new(place.command(&[]).get_program()).uid(NOBODY).gid(NOBODY).arg("--version").output();
    if !is_own || help.is_err() {
        skip("only root can copy as another user, who must reach the binary");
        return None;
    }
    Some(place)
}

fn as_nobody(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(&[args, &["--progress", "none", "--output", "json"]].concat());
    command.uid(NOBODY).gid(NOBODY);
    command
}

#[test]
fn rights_to_act_as_the_owner_are_not_given_with_another_owner() {
    let Some(place) = place_of_nobody() else { return };
    let program = place.write("from/program", b"text");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
    let own = place.write("from/own", b"text");
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o4755)).unwrap();
    run(&mut as_nobody(&place, &["from/", "to", "--verify"])).ends(0);
    let stat = |name: &str| fs::metadata(place.path(name)).unwrap();
    assert_eq!((stat("to/program").mode() & 0o7777, stat("to/own").mode() & 0o7777), (0o755, 0o4755));
    let before = (stat("to/program").ctime(), stat("to/program").ctime_nsec());
    let second = run(&mut as_nobody(&place, &["from/", "to"])).ends(0).json();
    assert_eq!(second["same"], 3, "{second}");
    assert_eq!((stat("to/program").ctime(), stat("to/program").ctime_nsec()), before, "nothing was to be made equal");
    run(&mut as_nobody(&place, &["verify", "to"])).ends(0);
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
    killed(&mut as_nobody(&place, &["from/", "to"]), "file-named=kill");
    let args = ["from/", "to", "--delete", "--yes"];
    let kept = run(&mut as_nobody(&place, &args)).ends(1).json();
    let why = kept["kept_because"].as_str().unwrap();
    assert!(kept["resumed"] == true && why.contains("cannot be listed whole: lost+found: "), "{kept}");
    assert!(why.ends_with("let it be listed, or leave it out with --exclude"), "{kept}");
    assert_eq!(fs::metadata(place.path("to/folder")).unwrap().mode() & 0o777, 0o755, "it has its rights");
    run(&mut as_nobody(&place, &["verify", "to"])).ends(0);
    let deleted = run(&mut as_nobody(&place, &[&args[..], &["--exclude", "/lost+found"]].concat())).ends(0).json();
    assert_eq!((&deleted["deleted"], &deleted["resumed"]), (&Value::from(1), &Value::from(false)), "{deleted}");
}

#[test]
fn a_deletion_that_does_not_happen_leaves_the_copy_whole_and_forgets_nothing() {
    let place = Place::new();
    place.write("from/a", b"text");
    place.write("other/b", b"text");
    place.receipt(&["from/", "to"], 0);
    place.receipt(&["other/", "to", "--delete", "--yes", "--max-delete", "0"], 1);
    place.write("trash", b"");
    let kept = place.receipt(&["other/", "to", "--delete", "--yes", "--trash", "trash"], 1);
    assert!(kept["kept_because"].as_str().unwrap().contains("no folder can be made in the trash"), "{kept}");
    assert_eq!(place.copy(&["verify", "to", "--output", "json"]).ends(0).json()[0]["hashed"], 2);
}

#[test]
fn a_large_file_that_shrinks_before_its_turn_is_copied_as_it_is() {
    for len in [0, 40_000, PIECE_BYTES + 100_000] {
        let place = Place::new();
        File::create(place.path("from/large")).unwrap().set_len(3 * PIECE_BYTES + 30_000).unwrap();
        let held = place.path("held");
        let mut copying = place.command(&["from/", "to", "--progress", "none"]);
        copying.env("MILLSTREAM_FAILPOINTS", format!("folders-made=wait:{}", held.display()));
        let mut child = copying.stdout(Stdio::null()).spawn().unwrap();
        appears(&held, &mut child);
        let large = OpenOptions::new().write(true).open(place.path("from/large")).unwrap();
        large.set_len(len).unwrap();
        fs::remove_file(&held).unwrap();
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0), "{len}");
        assert_eq!(fs::metadata(place.path("to/large")).unwrap().len(), len);
        place.copy(&["verify", "to"]).ends(0);
        place.is_tidy("to");
    }
}

#[test]
fn pieces_in_a_file_that_is_gone_are_not_taken_for_those_of_the_next_one() {
    let place = Place::new();
    let large = File::create(place.path("from/large")).unwrap();
    large.set_len(3 * PIECE_BYTES + 30_000).unwrap();
    for piece in 0..4 {
        large.write_all_at(b"some bytes", piece * PIECE_BYTES).unwrap();
    }
    let copying = || place.command(&["from/", "to", "--jobs", "1", "--progress", "none"]);
    killed(&mut copying(), "piece-copied=kill@3");
    // Another disk is mounted there.
    fs::remove_dir_all(place.path("to")).unwrap();
    killed(&mut copying(), "piece-copied=kill@1");
    place.receipt(&["from/", "to", "--verify"], 0);
    let same = Command::new("cmp").arg(place.path("from/large")).arg(place.path("to/large")).status().unwrap();
    assert!(same.success());
    place.is_tidy("to");
}

#[test]
fn a_file_that_cannot_be_written_leaves_no_unfinished_one() {
    let place = Place::new();
    File::create(place.path("from/large")).unwrap().set_len(2 * PIECE_BYTES).unwrap();
    File::create(place.path("from/small")).unwrap().set_len(2 * PIECE_BYTES - 1).unwrap();
    let copying = place.command(&["from/", "to", "--progress", "none", "--output", "json"]);
    // Blocks of 1 KiB.
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$@\"", "bash"]).arg(copying.get_program());
    limited.args(copying.get_args()).current_dir(place.path(""));
    limited.envs(copying.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let receipt = run(&mut limited).ends(1).json();
    assert_eq!(receipt["failed"], 2, "{receipt}");
    place.is_tidy("to");
    assert_eq!(place.receipt(&["from/", "to"], 0)["resumed"], false);
}

#[test]
fn files_whose_notes_were_lost_with_the_power_are_copied_again() {
    let place = Place::new();
    for n in 0..20 {
        place.write(format!("from/{n}"), b"text");
    }
    killed(&mut place.command(&["from/", "to", "--jobs", "1", "--progress", "none"]), "folders-dressed=kill");
    let folder = fs::read_dir(place.path("home/copies")).unwrap().next().unwrap().unwrap().path();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("journal-") {
            fs::remove_file(path).unwrap();
        }
    }
    for n in [7, 8] {
        let lost = OpenOptions::new().write(true).open(place.path(&format!("to/{n}"))).unwrap();
        let before = lost.metadata().unwrap().modified().unwrap();
        lost.write_all_at(&[0; 4], 0).unwrap();
        lost.set_modified(before).unwrap();
    }
    fs::write(folder.join("boot"), "another\n").unwrap();
    // The run that finds it is killed before it has seen everything.
    killed(&mut place.command(&["from/", "to", "--jobs", "1", "--progress", "none"]), "file-named=kill@3");
    let receipt = place.receipt(&["from/", "to"], 0);
    assert_eq!((&receipt["copied"], &receipt["same"]), (&Value::from(17), &Value::from(4)), "{receipt}");
    for n in [7, 8] {
        assert_eq!(fs::read(place.path(&format!("to/{n}"))).unwrap(), b"text");
    }
    // A finished copy doubts nothing.
    assert_eq!(place.receipt(&["from/", "to"], 0)["same"], 21);
}

#[test]
fn a_damaged_manifest_is_named_beside_whole_ones() {
    let place = Place::new();
    place.write("from/file", b"text");
    place.receipt(&["from/", "to"], 0);
    place.receipt(&["from", "to"], 0);
    let home = fs::read_dir(place.path("home/copies")).unwrap().next().unwrap().unwrap().path();
    OpenOptions::new().write(true).open(home.join("manifest")).unwrap().write_all_at(b"?", 30).unwrap();
    let found = place.copy(&["verify", "to"]).ends(1).stdout;
    assert!(found.contains(": no problem\n") && found.contains("manifest is damaged"), "{found}");
    assert!(found.contains("and copy again. Perhaps it is that of a copy to here\n"), "{found}");
}

#[test]
fn notes_that_have_no_room_say_what_to_do() {
    let Some(disk) = SmallDisk::mount(100 << 10) else { return };
    let place = Place::new();
    for n in 0..2_000 {
        symlink("nowhere", place.path(&format!("from/{n}"))).unwrap();
    }
    let mut copying = place.command(&["from/", "to", "--progress", "none"]);
    let full = run(copying.env("MILLSTREAM_HOME", disk.mount.join("home"))).ends(2);
    assert!(full.stderr.contains("make room there and run the same command again"), "{full:?}");
}

/// Changes bytes of a file, but neither its size nor its time.
fn damage(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"!", 1).unwrap();
    file.set_modified(before).unwrap();
}

#[test]
fn with_hash_the_bytes_of_both_ends_are_compared_whatever_is_noted() {
    let place = Place::new();
    for name in ["here", "there", "same"] {
        place.write(format!("from/{name}"), b"text");
    }
    place.receipt(&["from/", "to", "--hash"], 0);
    damage(&place.path("to/there"));
    damage(&place.path("from/here"));
    assert_eq!(place.receipt(&["from/", "to"], 0)["same"], 4, "without it, sizes and times decide");
    let receipt = place.receipt(&["from/", "to", "--hash", "--verify"], 0);
    assert_eq!((&receipt["copied"], &receipt["same"]), (&Value::from(2), &Value::from(2)), "{receipt}");
    assert_eq!(receipt["verified"]["problems"], 0, "{receipt}");
    for name in ["here", "there"] {
        let bytes = |end: &str| fs::read(place.path(end).join(name)).unwrap();
        assert_eq!(bytes("from"), bytes("to"), "{name}");
    }
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
}

#[test]
fn what_was_removed_with_the_whole_destination_is_not_missing_in_the_next_copy() {
    let place = Place::new();
    place.write("from/file", b"text");
    for stays in [false, true] {
        place.write("from/old", b"text");
        place.receipt(&["from/", "to"], 0);
        fs::remove_file(place.path("from/old")).unwrap();
        fs::remove_dir_all(place.path("to")).unwrap();
        if stays {
            fs::create_dir(place.path("to")).unwrap();
        }
        place.receipt(&["from/", "to"], 0);
        let found = place.copy(&["verify", "to", "--output", "json"]).ends(0).json();
        assert_eq!(found[0]["entries"], 2, "{found}");
    }
}

#[test]
fn a_folder_that_is_made_without_a_model_can_be_entered_by_others() {
    let place = Place::new();
    let file = place.write("from/file", b"text");
    fs::set_permissions(place.path("from"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    for args in [["from", "new"], ["from/file", "other/"]] {
        run(&mut with_open_umask(&place.command(&[&args[..], &["--progress", "none"]].concat()))).ends(0);
    }
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("new"), mode("new/from"), mode("other"), mode("other/file")), (0o755, 0o700, 0o755, 0o640));
}

#[test]
fn a_read_only_folder_that_the_source_has_no_longer_is_deleted() {
    let Some(place) = place_of_nobody() else { return };
    shell(
        &place.path("from"),
        "mkdir -p kept gone/in held; touch file kept/file gone/in/file gone/file held/a.o held/b; \
         chmod 555 gone/in gone held",
    );
    shell(&place.path("from"), &format!("chown -R {NOBODY} ."));
    run(&mut as_nobody(&place, &["from/", "to"])).ends(0);
    shell(&place.path("from"), "rm -rf gone held; chmod 555 kept; rm kept/file");
    let args = ["from/", "to", "--delete", "--yes", "--exclude", "*.o"];
    let deleted = run(&mut as_nobody(&place, &args)).ends(0).json();
    assert_eq!(deleted["deleted"], 6, "{deleted}");
    assert!(!place.path("to/gone").exists() && place.path("to/held/a.o").exists());
    for name in ["kept", "held"] {
        assert_eq!(fs::metadata(place.path("to").join(name)).unwrap().mode() & 0o777, 0o555, "{name}");
    }
}

#[test]
fn a_mount_in_the_destination_stays_with_one_file_system() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let place = Place::new();
    place.write("from/file", b"text");
    place.write("to/old/file", b"old");
    fs::create_dir_all(place.path("to/old/point")).unwrap();
    shell(&place.path("to"), &format!("mount --bind {} old/point; echo > old/point/kept", disk.dir.display()));
    let args = ["from/", "to", "--delete", "--yes", "--one-file-system"];
    let runs = [0, 1].map(|_| place.copy(&[&args[..], &["--output", "json"]].concat()));
    let is_kept = place.path("to/old/point/kept").exists();
    shell(&place.path("to"), "umount old/point");
    for ended in runs {
        assert_eq!(ended.ends(0).json()["failed"], 0);
    }
    assert!(is_kept && !place.path("to/old/file").exists());
}

#[test]
fn a_folder_where_something_is_mounted_stays_and_is_no_failure() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let place = Place::new();
    place.write("from/file", b"text");
    fs::create_dir_all(place.path("to/old/point")).unwrap();
    shell(&place.path("to"), &format!("mount --bind {} old/point; echo > old/point/extra", disk.dir.display()));
    let args = ["from/", "to", "--delete", "--yes", "--output", "json"];
    let runs = [0, 1].map(|_| place.copy(&args));
    let is_emptied = !place.path("to/old/point/extra").exists();
    shell(&place.path("to"), "umount old/point");
    for ended in runs {
        assert_eq!(ended.ends(0).json()["kept_because"], Value::Null);
    }
    assert!(is_emptied && place.path("to/old/point").exists());
}

#[test]
fn a_folder_that_a_bind_mount_shows_in_both_ends_is_not_deleted() {
    if !machine_has(&[Need::Root]) {
        return;
    }
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        return skip("a mount of a command alone needs unshare -m");
    }
    let place = Place::new();
    let lost = [place.write("a/b/file", b"text"), place.write("other/x/file", b"text")];
    place.write("a/extra", b"text");
    shell(&place.path(""), "mkdir -p am other to/old");
    for (mounts, args, code) in [
        ("mount --bind a am", ["am/b/", "a"], 1),
        ("mount --bind a/b am", ["am/", "a"], 1),
        ("mount --bind other/x to/old", ["other/", "to"], 2),
        ("mount --bind a am", ["a/", "am/b"], 2),
    ] {
        let copying = place.command(&[&args[..], &["--delete", "--yes", "--progress", "none"]].concat());
        let script = format!("{mounts} && exec \"$@\"");
        // The mounts end with the command.
        let ended = run(&mut started_by("unshare", &["-m", "sh", "-c", &script, "sh"], &copying)).ends(code);
        let said = [&*ended.stdout, &*ended.stderr].concat();
        assert!(said.contains("both hold the folder"), "{mounts}: {ended:?}");
        assert!(lost.iter().all(|file| file.exists()) && place.path("a/extra").exists(), "{mounts}");
    }
}

#[test]
fn a_destination_that_folds_case_loses_nothing_by_it() {
    let Some(disk) = LoopDisk::mount_folding(16 << 20) else { return };
    let place = Place::new();
    place.write("from/Dir/file", b"text");
    let to = disk.dir.join("to");
    let target = to.to_str().unwrap();
    place.receipt(&["from/", target], 0);
    fs::rename(place.path("from/Dir"), place.path("from/dir")).unwrap();
    fs::write(to.join("old"), "old").unwrap();
    assert_eq!(place.receipt(&["from/", target, "--delete", "--yes"], 0)["deleted"], 1);
    assert_eq!(fs::read(to.join("dir/file")).unwrap(), b"text");
    // To the letters beyond ASCII belong some that exFAT tells apart.
    for name in ["kiz", "k\u{131}z", "s", "\u{17f}"] {
        place.write(format!("from/{name}"), name.as_bytes());
    }
    place.receipt(&["from/", target], 0);
    for name in ["kiz", "k\u{131}z", "s", "\u{17f}"] {
        assert_eq!(fs::read(to.join(name)).unwrap(), name.as_bytes());
    }
    // What is excluded is there by another name.
    place.write("from/Keep.O", b"kept");
    fs::write(to.join("keep.o"), "kept").unwrap();
    let deletes = ["from/", target, "--exclude", "*.O", "--delete", "--yes"];
    assert_eq!(place.receipt(&deletes, 0)["deleted"], 0);
    assert!(to.join("keep.o").exists());
    place.write("from/x", b"small");
    place.write("from/X", b"capital");
    let receipt = place.receipt(&["from/", target], 1);
    assert_eq!(receipt["failures"][0]["path"], "x", "{receipt}");
    assert_eq!(receipt["failures"][0]["reason"], "the destination takes the names X and x for the same");
    assert_eq!(fs::read(to.join("x")).unwrap(), b"capital");
}
