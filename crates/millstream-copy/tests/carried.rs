//! What holds on every way from one end to the other.

use crate::place::PIECE_BYTES;
use crate::road::{COMPARED, Road, WAYS, Way, each_road};
use millstream_failpoint::{COPY, COPY_THERE};
use millstream_testkit::{LoopDisk, Need, SmallDisk, machine_has};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// A tree with everything that a tree may have. As root also a device and files of others. The bytes of the large file
/// lie in two pieces of it. The sparse file is not large.
const TOUR: &str = r#"
cd from
mkdir -p a/b/c d odd deep
echo hello > a/one; : > a/empty; ln a/one d/two; ln a/one a/b/three
truncate -s 400K sparse; printf x | dd of=sparse bs=1 seek=200000 conv=notrunc status=none
truncate -s 560K large; head -c 100000 /dev/urandom | dd of=large bs=4k seek=50 conv=notrunc status=none
for name in '#hash' ';semi' '-dash' $'new\nline' $'\xff\xfe' ' lead' 'back\slash' '*star' '\#012' "$(printf 'n%.0s' {1..255})"; do
    printf %s "$name" > "odd/$name"
done
(cd deep; for _ in {1..35}; do d=$(printf 'd%.0s' {1..50}); mkdir "$d"; cd "$d"; done; echo deep > file)
ln -s one a/link; ln -s /etc/passwd a/abs; ln -s nowhere dangling; ln -s . loop; ln -s ../.. a/up
mkfifo fifo; ln fifo a/fifo
touch -d '1999-01-02 03:04:05.123456789' a/one a/b odd; touch -h -d 2001-01-01 a/link
chmod 750 d; chmod 400 a/empty
if [ "$(id -u)" = 0 ]; then mknod dev c 1 3; chown 65534:1 odd/'#hash'; chmod 4755 a/one; chmod 2750 d; fi
"#;

#[test]
fn a_tour_through_everything_is_equal_and_the_second_copy_has_nothing_to_do() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    each_road(&WAYS, |road| {
        let place = &road.place;
        place.shell(TOUR);
        if matches!(road.way, Way::ToDaemon | Way::FromDaemon) {
            // It does not take names of more than a thousand bytes.
            fs::remove_dir_all(place.path("from/deep")).unwrap();
            place.write("from/odd/with\ttab/a\tb", b"tab");
        }
        let (words, again): (&[&str], &[&str]) = match road.way {
            Way::Here => (&["attributes", "verify"], &["attributes"]),
            Way::ToShell => (&["attributes", "hash", "verify"], &["compress"]),
            Way::FromShell => (&["bandwidth=1073741824"], &[]),
            Way::ToDaemon => (&["verify"], &[]),
            Way::FromDaemon => (&[], &[]),
        };
        let first = road.copy("from/", "to", words);
        place.is_equal("from", "to");
        place.is_tidy("to");
        assert_eq!(first.verified.is_some(), words.contains(&"verify"), "{first:?}");
        let second = road.copy("from/", "to", again);
        assert_eq!((second.copied, second.copied_bytes, second.hashed), (0, 0, first.hashed), "{second:?}");
        match road.way {
            Way::Here => {
                assert_eq!((first.linked, first.unhashed, second.same), (3, 0, second.seen), "{first:?}");
                let blocks = |name: &str| fs::metadata(place.path(name)).unwrap().blocks();
                assert!(blocks("to/sparse") <= blocks("from/sparse") && blocks("to/large") <= blocks("from/large"));
            }
            Way::ToShell => assert_eq!((first.unhashed, second.same), (0, second.seen), "{first:?}"),
            // What arrives on this machine is hashed anyway.
            Way::FromShell | Way::FromDaemon => assert!(first.hashed > 10, "{first:?}"),
            Way::ToDaemon => return,
        }
        assert_eq!(road.is_whole("to").hashed, first.hashed);
    });
}

#[test]
fn a_slash_means_what_is_in_the_folder_and_a_file_may_get_another_name() {
    each_road(&[Way::Here, Way::ToShell, Way::FromShell], |road| {
        let place = &road.place;
        place.write("from/file", b"text");
        place.write("from/in/file", b"text");
        fs::create_dir(place.path("to")).unwrap();
        for (from, to) in [("from", "to"), ("from/", "to"), ("from/file", "to"), ("from/file", "to/other")] {
            road.copy(from, to, &[]);
        }
        for name in ["to/from/in/file", "to/in/file", "to/file", "to/other"] {
            assert_eq!(fs::read(place.path(name)).unwrap(), b"text", "{name}");
        }
        // Each copy has a manifest of its own.
        assert_eq!(road.found("to").len(), 4);
        let rule = road.plan("from", "to", &[]).rule;
        let begins = format!("{} becomes ", road.shown("from"));
        assert!(rule.starts_with(&begins) && rule.contains("/to/from; to copy only what is in it, write "), "{rule}");
        let rules = ["exclude=in/*", "include=*"];
        assert_eq!(road.copy("from/", "rest", &rules).seen, 3);
    });
}

#[test]
fn a_flipped_bit_and_every_other_change_is_named() {
    each_road(&COMPARED, |road| {
        let place = &road.place;
        for name in ["flipped", "longer", "touched", "gone", "rights", "whole"] {
            place.write(format!("from/in/{name}"), b"some text");
        }
        symlink("whole", place.path("from/in/link")).unwrap();
        fs::create_dir(place.path("to")).unwrap();
        road.copy("from", "to/", &["hash"]);
        place.damage("to/from/in/flipped");
        let path = |name: &str| place.path("to/from/in").join(name);
        fs::write(path("longer"), b"some longer text").unwrap();
        File::open(path("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::remove_file(path("gone")).unwrap();
        fs::set_permissions(path("rights"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(path("link")).unwrap();
        symlink("elsewhere", path("link")).unwrap();
        // The source is not needed.
        fs::remove_dir_all(place.path("from")).unwrap();
        let found = road.problems("to");
        for (name, problem) in [
            ("flipped", "its bytes differ, although its size and time do not"),
            ("gone", "it is missing"),
            ("link", "the link leads elsewhere"),
            ("longer", "it has 16 bytes instead of 9"),
            ("rights", "its rights are 600 instead of"),
            ("touched", "it was changed later"),
        ] {
            assert!(found.contains(&format!("in/{name}: {problem}")), "{name}: {found}");
        }
        assert_eq!(found.lines().count(), 6, "{found}");
    });
}

/// Kills a copy at a point, and asserts that the next one completes it.
fn is_resumed(road: &Road, point: &str) {
    let place = &road.place;
    for n in 0..40 {
        place.write(format!("from/{}/{n}", n % 7), format!("text {n}").as_bytes());
    }
    // In three pieces.
    place.write_sparse("from/large", 2 * PIECE_BYTES + 8_000, PIECE_BYTES + 100_000);
    place.write("to/extra", b"");
    let nth = if point == "piece-copied" { 2 } else { 1 };
    road.process("from/", "to", &["delete", "hash"]).killed(&format!("{point}=kill@{nth}"));
    let copied: Vec<_> = (0..40).filter(|n| place.path(&format!("to/{}/{n}", n % 7)).exists()).collect();
    for n in &copied {
        let path = place.path(&format!("to/{}/{n}", n % 7));
        assert_eq!(fs::read_to_string(path).unwrap(), format!("text {n}"), "{point}");
    }
    let receipt = road.copy("from/", "to", &["delete", "hash"]);
    place.is_equal("from", "to");
    place.is_tidy("to");
    assert_eq!(receipt.unhashed, 0, "{point}: {receipt:?}");
    assert!(receipt.same >= copied.len() as u64, "{point}: {copied:?} {receipt:?}");
    road.is_whole("to");
}

#[test]
fn a_copy_that_is_killed_at_any_point_resumes_and_copies_nothing_twice() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    COPY.iter().for_each(|point| each_road(&[Way::Here], |road| is_resumed(road, point)));
}

#[test]
fn a_copy_between_machines_that_is_killed_at_any_point_resumes() {
    let of_every_copy = ["copy-listed", "folders-made", "deletion-found", "manifest-written"];
    for point in of_every_copy.iter().chain(COPY_THERE) {
        each_road(&[Way::ToShell, Way::FromShell], |road| is_resumed(road, point));
    }
}

#[test]
fn files_that_vanish_or_cannot_be_written_are_accounted_for() {
    each_road(&[Way::Here, Way::ToShell, Way::FromShell], |road| {
        let place = &road.place;
        for name in ["vanishes", "stays", "blocked"] {
            place.write(format!("from/{name}"), b"text");
        }
        // A folder is in the way.
        place.write("to/blocked/file", b"old");
        let vanish = || fs::remove_file(place.path("from/vanishes")).unwrap();
        let receipt = road.process("from/", "to", &[]).held("folders-made", vanish).unwrap();
        assert_eq!((receipt["skipped"].as_u64(), receipt["failed"].as_u64()), (Some(1), Some(1)), "{receipt}");
        assert_eq!(receipt["failures"][0]["path"], "blocked", "{receipt}");
        let reason = receipt["failures"][0]["reason"].as_str().unwrap();
        let says = if road.way == Way::Here { "a folder is in its place" } else { "rsync" };
        assert!(reason.starts_with(says), "{receipt}");
        assert!(place.path("to/stays").exists() && place.path("to/blocked/file").exists());
    });
}

#[test]
fn a_copy_that_is_stopped_counts_no_false_failures_and_resumes() {
    for (way, point) in [(Way::Here, "file-named@50"), (Way::ToShell, "bucket-copied")] {
        each_road(&[way], |road| {
            let place = &road.place;
            (0..200).for_each(|n| drop(place.write(format!("from/{n:03}"), b"text")));
            place.write("from/blocked", b"text");
            place.write("to/blocked/file", b"old");
            let stopped = road.process("from/", "to", &["workers=1"]).stopped(point).unwrap();
            assert!(stopped["stopped"] == true && stopped["failed"] == 0, "{stopped}");
            let copied = stopped["copied"].as_u64().unwrap();
            assert!(copied < 200, "{stopped}");
            let receipt = road.copy_in_part("from/", "to", &[]);
            assert!(receipt.resumed && receipt.failed == 1, "{receipt:?}");
            assert!(way != Way::Here || copied >= 49 && receipt.same >= copied - 1, "{stopped} {receipt:?}");
            place.is_tidy("to");
        });
    }
}

#[test]
fn a_full_destination_ends_the_copy_and_more_room_resumes_it() {
    each_road(&[Way::Here, Way::ToShell], |road| {
        let Some(disk) = SmallDisk::mount(4 << 20) else { return };
        for n in 0..100 {
            road.place.write(format!("from/{n}"), &vec![b'x'; 100_000]);
        }
        let to = disk.dir.join("to").display().to_string();
        let full = road.refused("from/", &to, &[]);
        let says = ["cannot write below ", "No space left on device", "the disk is full"];
        assert!(says.iter().any(|text| full.contains(text)) && full.contains("it resumes"), "{full}");
        disk.grow(64 << 20);
        let receipt = road.copy("from/", &to, &[]);
        assert!(receipt.resumed && (road.sends() || receipt.same > 10), "{receipt:?}");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 100);
    });
}

#[test]
fn what_the_source_has_not_is_deleted_with_care() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    each_road(&WAYS, |road| {
        let place = &road.place;
        place.write("from/kept", b"new");
        for name in ["kept", "old/inner/file", "old/cache.o", "gone", "cache.o"] {
            place.write(format!("to/{name}"), b"");
        }
        if !road.sends() {
            symlink("/etc", place.path("to/link")).unwrap();
        }
        let planned = road.plan("from/", "to", &["delete", "exclude=*.o"]).deletion.unwrap().first;
        for name in ["gone", "old/inner", "old/inner/file"] {
            assert!(planned.iter().any(|path| path == name), "{planned:?}");
        }
        assert!(planned.iter().all(|path| !path.ends_with(".o")), "{planned:?}");
        let kept = road.copy_in_part("from/", "to", &["delete", "most=2"]);
        assert!(kept.kept_because.unwrap().ends_with("--max-delete 2"));
        assert!(place.path("to/gone").exists());
        fs::create_dir(place.path("trash")).unwrap();
        let trash = format!("trash={}", place.text("trash"));
        // A daemon would count its path from the module.
        let words = ["delete", "exclude=*.o", &trash];
        let has_trash = road.way != Way::ToDaemon;
        let receipt = road.copy("from/", "to", &words[..if has_trash { 3 } else { 2 }]);
        assert_eq!(receipt.deleted, if road.sends() { 3 } else { 4 }, "a folder with something protected stays");
        assert!(place.path("to/old/cache.o").exists() && place.path("to/cache.o").exists());
        if has_trash {
            let trash = fs::read_dir(place.path("trash")).unwrap().next().unwrap().unwrap().path();
            assert!(trash.join("old/inner/file").exists() && Path::new("/etc").exists());
        }
        assert_eq!(road.copy("from/", "to", &["delete"]).deleted, 3);
        place.is_equal("from", "to");
        fs::remove_file(place.path("from/kept")).unwrap();
        let refused = road.refused("from/", "to", &["delete"]);
        assert!(refused.contains("is empty") && refused.contains("yes-empty"), "{refused}");
        assert!(place.path("to/kept").exists());
        if !road.sends() {
            assert_eq!(road.copy("from/", "to", &["delete", "even-all"]).deleted, 1);
        }
    });
}

#[test]
fn with_hash_the_bytes_of_both_ends_are_compared_whatever_is_noted() {
    each_road(&WAYS, |road| {
        let place = &road.place;
        for name in ["here", "there", "same"] {
            place.write(format!("from/{name}"), b"text");
        }
        road.copy("from/", "to", &["hash"]);
        place.damage("to/there");
        place.damage("from/here");
        assert_eq!(road.copy("from/", "to", &[]).same, 4, "without it, sizes and times decide");
        let receipt = road.copy("from/", "to", &["hash", "verify"]);
        assert_eq!((receipt.copied, receipt.same), (2, 2), "{receipt:?}");
        for name in ["here", "there"] {
            let bytes = |end: &str| fs::read(place.path(end).join(name)).unwrap();
            assert_eq!(bytes("from"), bytes("to"), "{name}");
        }
        if COMPARED.contains(&road.way) {
            road.is_whole("to");
        }
    });
}

#[test]
fn files_that_perhaps_never_reached_the_disk_are_read_again_after_a_restart() {
    for (way, point) in [(Way::Here, "folders-dressed"), (Way::FromShell, "buckets-copied")] {
        each_road(&[way], |road| {
            let place = &road.place;
            (0..20).for_each(|n| drop(place.write(format!("from/{n}"), b"text")));
            road.process("from/", "to", &[]).killed(&format!("{point}=kill"));
            // A look at the plan gathers the journals; then the machine starts again, and a file has lost its bytes.
            road.plan("from/", "to", &[]);
            place.damage("to/7");
            place.restart();
            let receipt = road.copy("from/", "to", &[]);
            assert!(way != Way::Here || (receipt.copied, receipt.same) == (1, 20), "{receipt:?}");
            assert_eq!(fs::read(place.path("to/7")).unwrap(), b"text");
            road.is_whole("to");
        });
    }
}

#[test]
fn where_times_are_coarse_files_are_the_same_and_one_failure_does_not_condemn_others() {
    each_road(&[Way::Here, Way::ToShell], |road| {
        let Some(disk) = LoopDisk::mount_coarse(16 << 20) else { return };
        let script = "cd from; mkdir in; echo text | tee file in/file > blocked; ln file name; ln -s file link";
        road.place.shell(script);
        let to = disk.dir.join("to");
        fs::create_dir_all(to.join("blocked/full")).unwrap();
        let to = to.display().to_string();
        for again in [false, true] {
            let receipt = road.copy_in_part("from/", &to, &[]);
            assert_eq!((receipt.failed, &*receipt.failures[0].path), (1, "blocked"), "{receipt:?}");
            // rsync compares times to the nanosecond, and copies them again.
            assert!(road.sends() || !again || receipt.copied == 0, "{receipt:?}");
        }
        road.is_whole(&to);
    });
}

#[test]
fn what_was_removed_with_the_whole_destination_is_not_missing_in_the_next_copy() {
    for (way, stays) in [(Way::Here, false), (Way::Here, true), (Way::ToShell, false)] {
        each_road(&[way], |road| {
            let place = &road.place;
            place.write("from/file", b"text");
            place.write("from/old", b"text");
            road.copy("from/", "to", &["hash"]);
            fs::remove_file(place.path("from/old")).unwrap();
            fs::remove_dir_all(place.path("to")).unwrap();
            if stays {
                fs::create_dir(place.path("to")).unwrap();
            }
            road.copy("from/", "to", &["hash"]);
            assert_eq!(road.is_whole("to").entries, 2);
        });
    }
}
