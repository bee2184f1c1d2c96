//! Copies of trees by the real binary, compared with what rsync sees, and interrupted in every way.

use crate::process::{Run, assert_runs, command, killed, run, send};
use millstream_failpoint::COPY;
use millstream_testkit::{LoopDisk, Need, SmallDisk, machine_has, skip, until_blocking};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Bytes of a piece of a large file in these copies. A file with twice as many is large.
pub const PIECE_BYTES: u64 = 256 << 10;

/// A folder with a source, a destination and a home of ours.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn on(disk: &Path) -> Self {
        Self::at(tempfile::tempdir_in(disk).unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
        fs::create_dir(dir.path().join("from")).unwrap();
        Self(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(Path::new(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&[&["copy"], args].concat());
        command.current_dir(self.0.path()).env("MILLSTREAM_HOME", self.path("home"));
        command.env("MILLSTREAM_LIMITS", format!("piece-bytes={PIECE_BYTES}"));
        command
    }

    pub fn copy(&self, args: &[&str]) -> Run {
        run(&mut self.command(&[args, &["--progress", "none"]].concat()))
    }

    /// Copies and returns the receipt, whose counts must add up.
    #[track_caller]
    pub fn receipt(&self, args: &[&str], code: i32) -> Value {
        receipt(self.command(args), code)
    }

    /// Asserts that rsync would change nothing.
    #[track_caller]
    pub fn is_equal(&self, from: &str, to: &str) {
        let mut rsync = Command::new("rsync");
        // Times are compared to the nanosecond.
        rsync
            .args(["-aHAXn", "--delete", "-c", "-i", "--modify-window=-1"])
            .arg(self.path(from).join(""))
            .arg(self.path(to).join(""));
        let output = rsync.output().expect("rsync is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Asserts that no unfinished file is left below a folder.
    #[track_caller]
    pub fn is_tidy(&self, name: &str) {
        let found = Command::new("find").arg(self.path(name)).args(["-name", ".millstream-copy*"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

/// Copies with this command and returns the receipt, whose counts must add up.
#[track_caller]
pub fn receipt(mut copying: Command, code: i32) -> Value {
    let receipt = run(copying.args(["--output", "json", "--progress", "none"])).ends(code).json();
    let of = |name: &str| receipt[name].as_u64().unwrap();
    let sum: u64 = ["copied", "same", "linked", "skipped", "failed"].iter().map(|name| of(name)).sum();
    assert_eq!(of("seen"), sum, "{receipt}");
    receipt
}

/// Whether the test can run: rsync is what the copies are compared with.
fn has_rsync() -> bool {
    machine_has(&[Need::RSYNC])
}

pub fn shell(dir: &Path, script: &str) {
    let done = Command::new("bash").args(["-ec", script]).current_dir(dir).status().unwrap();
    assert!(done.success(), "{script}");
}

/// A tree with everything that a tree may have. As root also a device and files of others. The bytes of the large file
/// lie in two pieces of it. The sparse file is not large.
pub const TOUR: &str = r#"
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
    if !has_rsync() {
        return;
    }
    let place = Place::new();
    shell(&place.path("from"), TOUR);
    let first = place.receipt(&["from/", "to", "--xattrs", "--verify"], 0);
    place.is_equal("from", "to");
    assert_eq!((first["linked"].as_u64(), first["unhashed"].as_u64()), (Some(3), Some(0)), "{first}");
    assert_eq!(first["verified"]["problems"], 0);
    let blocks = |name: &str| fs::metadata(place.path(name)).unwrap().blocks();
    assert!(blocks("to/sparse") <= blocks("from/sparse") && blocks("to/large") <= blocks("from/large"));
    let second = place.receipt(&["from/", "to", "--xattrs"], 0);
    assert_eq!((&second["same"], &second["copied_bytes"]), (&second["seen"], &Value::from(0)), "{second}");
    assert_eq!(second["hashed"], first["hashed"], "the hashes are known from the first copy");
    let found = place.copy(&["verify", "to", "--output", "json"]).ends(0).json();
    assert_eq!(found[0]["hashed"], first["hashed"]);
}

#[test]
fn a_path_that_is_longer_than_the_system_takes_at_once_is_copied() {
    let place = Place::new();
    let script =
        "for _ in {1..110}; do d=$(printf 'd%.0s' {1..50}); mkdir $d; cd $d; done; echo deep > file; ln -s a b";
    shell(&place.path("from"), script);
    let receipt = place.receipt(&["from/", "to"], 0);
    assert_eq!(receipt["copied"], 113);
    let depth = "for _ in {1..110}; do cd -P $(printf 'd%.0s' {1..50}); done; grep -q deep file; [ -L b ]";
    shell(&place.path("to"), depth);
    place.receipt(&["from/", "to"], 0);
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
    fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(place.receipt(&["empty/", "to", "--delete", "--yes", "--yes-empty"], 0)["deleted"], 112);
}

#[test]
fn attributes_and_acls_are_copied_where_they_are_asked_for() {
    if !has_rsync() {
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
    place.receipt(&["from/", "plain"], 0);
    let mut none = [0; 8];
    assert!(rustix::fs::getxattr(place.path("plain/file"), "user.note", &mut none[..]).is_err());
    place.receipt(&["from/", "to", "--xattrs"], 0);
    place.is_equal("from", "to");
    // What the source has no longer goes from the copy, too.
    rustix::fs::removexattr(place.path("from/file"), "user.note").unwrap();
    assert_eq!(place.receipt(&["from/", "to", "--xattrs"], 0)["same"], 5);
    place.is_equal("from", "to");
}

#[test]
fn a_slash_means_what_is_in_the_folder_and_a_file_may_get_another_name() {
    let place = Place::new();
    place.write("from/file", b"text");
    fs::create_dir(place.path("to")).unwrap();
    place.receipt(&["from", "to"], 0);
    place.receipt(&["from/", "to"], 0);
    place.receipt(&["from/file", "to"], 0);
    place.receipt(&["from/file", "other"], 0);
    for name in ["to/from/file", "to/file", "other"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"text", "{name}");
    }
    let plan = place.copy(&["from", "to", "--dry-run"]).ends(0).stdout;
    assert!(plan.starts_with("from becomes to/from; to copy only what is in it, write from/\n"), "{plan}");
    assert!(plan.lines().all(|line| line.len() <= 80), "{plan}");
    // Each copy has a manifest of its own.
    let found = place.copy(&["verify", "to", "--output", "json"]).ends(0).json();
    assert_eq!(found.as_array().unwrap().len(), 3, "{found}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_the_way_out() {
    let place = Place::new();
    place.write("from/file", b"text");
    place.write("empty/keep/file", b"");
    fs::remove_dir_all(place.path("empty/keep")).unwrap();
    place.write("to/old", b"");
    let cases: &[(&[&str], &str, &str)] = &[
        (&["none", "to"], "there is no none", ""),
        (&["from/", "from/in"], "lies in", "choose a destination outside of the source"),
        (&["from", "missing/er/to"], "there is no folder for missing/er/to", "mkdir -p "),
        (&["from", "x;touch pwned/er/to"], "there is no folder for x;touch pwned/er/to", "mkdir -p '/"),
        (&["from/file/", "to"], "from/file/", ""),
        (&["from/", "to", "--exclude", "*", "--jobs", "0"], "expected auto, or a number", ""),
        (&["from", "to", "--exclude", "from"], "the rules exclude from itself", "end it with a slash"),
        (&["empty/", "to", "--delete", "--yes"], "is empty", "--yes-empty"),
        (&["to/", ".", "--delete"], "lies in the destination", "beside the source"),
        (&["from/", "to", "--delete", "--trash", "to"], "lies in the destination", "beside the destination"),
        (&["verify", "from"], "there is no manifest of a copy to", "only what millstream copy has copied"),
        (&["from"], "<DESTINATION>", ""),
    ];
    for (args, says, hint) in cases {
        let refused = place.copy(args).ends(2);
        assert!(refused.stderr.contains(says) && refused.stderr.contains(hint), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty());
    }
    assert!(place.path("to/old").exists() && !place.path("from/in").exists());
}

#[test]
fn a_flipped_bit_and_every_other_change_is_named() {
    let place = Place::new();
    for name in ["flipped", "longer", "touched", "gone", "rights", "whole"] {
        place.write(format!("from/in/{name}"), b"some text");
    }
    symlink("whole", place.path("from/in/link")).unwrap();
    place.receipt(&["from", "to/"], 0);
    let path = |name: &str| place.path("to/from/in").join(name);
    let before = fs::metadata(path("flipped")).unwrap().modified().unwrap();
    let file = OpenOptions::new().write(true).open(path("flipped")).unwrap();
    file.write_all_at(b"S", 0).unwrap();
    file.set_modified(before).unwrap();
    fs::write(path("longer"), b"some longer text").unwrap();
    File::open(path("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::remove_file(path("gone")).unwrap();
    fs::set_permissions(path("rights"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(path("link")).unwrap();
    symlink("elsewhere", path("link")).unwrap();
    // The source is not needed.
    fs::remove_dir_all(place.path("from")).unwrap();
    let found = place.copy(&["verify", "to"]).ends(1).stdout;
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
    assert!(found.contains("6 problems") && !found.contains("whole"), "{found}");
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
    place.receipt(&["from/", "to"], 0);
    assert_eq!(fs::read(&secret).unwrap(), b"old");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 1);
    assert_eq!(fs::read(place.path("to/folder/file")).unwrap(), b"new");
    assert!(fs::symlink_metadata(place.path("to/link-to-file")).unwrap().is_file());
    // A link that appears while the copy runs.
    for n in 0..3 {
        place.write(format!("from/folder/more-{n}"), b"new");
    }
    let held = place.path("held");
    let mut copying = place.command(&["from/", "to", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("folders-made=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    fs::rename(place.path("to/folder"), place.path("to/moved")).unwrap();
    symlink("../outside", place.path("to/folder")).unwrap();
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("folder/more-0: its folder at the destination is reached by a link"), "{text}");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 1);
}

/// Waits until a copy is held at a failpoint, which makes this file.
#[track_caller]
pub fn appears(file: &Path, child: &mut Child) {
    until_blocking(&format!("the copy makes {}", file.display()), || {
        assert_runs(child);
        file.exists()
    });
}

#[test]
fn a_copy_that_is_killed_at_any_point_resumes_and_copies_nothing_twice() {
    if !has_rsync() {
        return;
    }
    for point in COPY {
        let place = Place::new();
        for n in 0..40 {
            place.write(format!("from/{}/{n}", n % 7), format!("text {n}").as_bytes());
        }
        // In three pieces.
        let large = File::create(place.path("from/large")).unwrap();
        large.set_len(2 * PIECE_BYTES + 8_000).unwrap();
        large.write_all_at(b"some bytes", PIECE_BYTES + 100_000).unwrap();
        place.write("to/extra", b"");
        let args = ["from/", "to", "--delete", "--yes", "--hash", "--output", "json", "--progress", "none"];
        let nth = if *point == "piece-copied" { 2 } else { 1 };
        killed(&mut place.command(&args), &format!("{point}=kill@{nth}"));
        let whole: Vec<_> = (0..40).filter(|n| place.path(&format!("to/{}/{n}", n % 7)).exists()).collect();
        for n in &whole {
            assert_eq!(fs::read(place.path(&format!("to/{}/{n}", n % 7))).unwrap(), format!("text {n}").as_bytes());
        }
        let receipt = place.receipt(&args[..5], 0);
        place.is_equal("from", "to");
        place.is_tidy("to");
        assert_eq!(receipt["unhashed"], 0, "{point}: {receipt}");
        let same = receipt["same"].as_u64().unwrap();
        assert!(same >= whole.len() as u64, "{point}: {whole:?} {receipt}");
        assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
    }
}

#[test]
fn a_large_file_that_is_killed_between_pieces_keeps_those_that_are_copied() {
    let place = Place::new();
    let large = File::create(place.path("from/large")).unwrap();
    large.set_len(3 * PIECE_BYTES + 30_000).unwrap();
    large.write_all_at(b"some bytes", PIECE_BYTES + 20_000).unwrap();
    killed(&mut place.command(&["from/", "to", "--jobs", "1", "--progress", "none"]), "piece-copied=kill@3");
    let unfinished = fs::read_dir(place.path("to")).unwrap().map(|entry| entry.unwrap().path());
    let unfinished: Vec<_> = unfinished.collect();
    assert_eq!(unfinished.len(), 1, "{unfinished:?}");
    // The third piece is copied again, if at all: these bytes of the first one are not.
    OpenOptions::new().write(true).open(&unfinished[0]).unwrap().write_all_at(b"!", 5).unwrap();
    let receipt = place.receipt(&["from/", "to"], 0);
    assert_eq!(receipt["resumed"], true);
    let found = place.copy(&["verify", "to"]).ends(1).stdout;
    assert!(found.contains("large: its bytes differ"), "{found}");
}

#[test]
fn pieces_of_several_reads_arrive_as_they_are() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = (0..5_300_000).map(|_| random.u8(..)).collect();
    place.write("from/large", &bytes);
    // With pieces of two buffers; and as one file.
    for (to, piece_bytes) in [("pieces", 2 << 20), ("whole", 64 << 20)] {
        let mut copying = place.command(&["from/", to, "--verify", "--hash"]);
        copying.env("MILLSTREAM_LIMITS", format!("piece-bytes={piece_bytes}"));
        let receipt = receipt(copying, 0);
        assert_eq!(receipt["verified"]["problems"], 0, "{receipt}");
        assert!(fs::read(place.path(&format!("{to}/large"))).unwrap() == bytes, "{to}");
    }
}

#[test]
fn a_stopped_copy_prints_its_receipt_and_resumes() {
    let place = Place::new();
    for n in 0..2_000 {
        place.write(format!("from/{n}"), b"text");
    }
    let held = place.path("held");
    let mut copying = place.command(&["from/", "to", "--output", "json", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("file-named=wait:{}@50", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    send("INT", child.id());
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "stopping; a second signal stops at once\n");
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    let copied = receipt["copied"].as_u64().unwrap();
    assert!(receipt["stopped"] == true && (49..2_000).contains(&copied), "{receipt}");
    let receipt = place.receipt(&["from/", "to"], 0);
    assert!(receipt["same"].as_u64().unwrap() >= copied - 1 && receipt["unhashed"] == 0, "{receipt}");
    place.is_tidy("to");
}

#[test]
fn two_copies_to_one_destination_do_not_run_at_once() {
    let place = Place::new();
    place.write("from/file", b"text");
    let held = place.path("held");
    let mut copying = place.command(&["from/", "to", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("copy-listed=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::null()).spawn().unwrap();
    appears(&held, &mut child);
    let refused = place.copy(&["from/", "to"]).ends(2);
    assert!(refused.stderr.contains("another copy writes to "), "{refused:?}");
    fs::remove_file(&held).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn files_that_vanish_change_or_become_something_else_are_accounted_for() {
    let place = Place::new();
    for name in ["vanishes", "grows", "becomes-a-pipe", "stays"] {
        place.write(format!("from/{name}"), b"text");
    }
    let held = place.path("held");
    let mut copying = place.command(&["from/", "to", "--output", "json", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("folders-made=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    fs::remove_file(place.path("from/vanishes")).unwrap();
    OpenOptions::new().append(true).open(place.path("from/grows")).unwrap().write_all(b" and more").unwrap();
    fs::remove_file(place.path("from/becomes-a-pipe")).unwrap();
    shell(&place.path("from"), "mkfifo becomes-a-pipe");
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((&receipt["skipped"], &receipt["failed"]), (&Value::from(1), &Value::from(1)), "{receipt}");
    assert_eq!(receipt["failures"][0]["path"], "becomes-a-pipe");
    // As it is now, not as it was when it was listed.
    assert_eq!(fs::read(place.path("to/grows")).unwrap(), b"text and more");
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
    place.receipt(&["from/", "to"], 0);
}

#[test]
fn a_full_destination_ends_the_copy_and_more_room_resumes_it() {
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    let place = Place::new();
    for n in 0..100 {
        place.write(format!("from/{n}"), &vec![b'x'; 100_000]);
    }
    let to = disk.dir.join("to");
    let full = place.copy(&["from/", to.to_str().unwrap()]).ends(2);
    assert!(full.stderr.contains("cannot write below ") && full.stderr.contains("it resumes"), "{full:?}");
    disk.grow(64 << 20);
    let receipt = place.receipt(&["from/", to.to_str().unwrap()], 0);
    assert!(receipt["same"].as_u64().unwrap() > 10 && receipt["resumed"] == true, "{receipt}");
    let left = fs::read_dir(&to).unwrap().count();
    assert_eq!(left, 100);
}

#[test]
fn links_are_followed_where_that_is_asked_for_and_loops_are_found() {
    let place = Place::new();
    place.write("outside/inner/file", b"text");
    place.write("from/folder/plain", b"plain");
    symlink("../../outside", place.path("from/folder/out")).unwrap();
    symlink("..", place.path("from/folder/up")).unwrap();
    symlink("nowhere", place.path("from/dangling")).unwrap();
    symlink("self", place.path("from/self")).unwrap();
    let receipt = place.receipt(&["from/", "to", "--copy-links"], 1);
    let failures = receipt["failures"].as_array().unwrap();
    let failed: Vec<_> = failures.iter().map(|failure| failure["path"].as_str().unwrap()).collect();
    assert_eq!(failed, ["dangling", "folder/up", "self"], "{receipt}");
    assert_eq!(fs::read(place.path("to/folder/out/inner/file")).unwrap(), b"text");
    let all = fs::read_to_string(receipt["failures_file"].as_str().unwrap()).unwrap();
    assert_eq!(all.lines().count(), 3, "{all}");
}

#[test]
fn other_file_systems_are_left_out_where_that_is_asked_for() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    let place = Place::new();
    place.write("from/file", b"text");
    let point = place.path("from/point");
    fs::create_dir(&point).unwrap();
    shell(&place.path("from"), &format!("mount --bind {} point; echo > point/inner", disk.dir.display()));
    let copied = place.receipt(&["from/", "to", "--one-file-system"], 0);
    let whole = place.receipt(&["from/", "whole"], 0);
    shell(&place.path("from"), "umount point");
    assert_eq!((&copied["seen"], &whole["seen"]), (&Value::from(3), &Value::from(4)));
    assert!(place.path("to/point").is_dir() && !place.path("to/point/inner").exists());
}

#[test]
fn what_the_source_has_not_is_deleted_with_care() {
    if !has_rsync() {
        return;
    }
    let place = Place::new();
    place.write("from/kept", b"");
    for name in ["kept", "old/inner/file", "old/cache.o", "gone", "cache.o"] {
        place.write(format!("to/{name}"), b"");
    }
    symlink("/etc", place.path("to/link")).unwrap();
    let dry = place.copy(&["from/", "to", "--delete", "--dry-run", "--exclude", "*.o"]).ends(0).stdout;
    assert!(dry.contains("would delete 5 entries") && dry.contains("\n  old/inner/file"), "{dry}");
    let alone = place.copy(&["from/", "to", "--delete", "--exclude", "*.o"]).ends(1);
    assert!(alone.stderr.contains("add --yes") && alone.stdout.contains("nothing was deleted"), "{alone:?}");
    assert!(place.path("to/gone").exists());
    fs::create_dir(place.path("trash")).unwrap();
    let args = ["from/", "to", "--delete", "--yes", "--exclude", "*.o", "--trash", "trash"];
    assert_eq!(place.receipt(&args, 0)["deleted"], 4, "a folder with something protected stays");
    assert!(place.path("to/old/cache.o").exists() && place.path("to/cache.o").exists());
    let trash = fs::read_dir(place.path("trash")).unwrap().next().unwrap().unwrap().path();
    assert!(trash.join("old/inner/file").exists() && Path::new("/etc").exists());
    assert_eq!(place.receipt(&["from/", "to", "--delete", "--yes"], 0)["deleted"], 3);
    place.is_equal("from", "to");
    fs::remove_file(place.path("from/kept")).unwrap();
    assert_eq!(place.receipt(&["from/", "to", "--delete", "--yes", "--yes-empty"], 0)["deleted"], 1);
    place.is_equal("from", "to");
}

#[test]
fn a_folder_in_the_place_of_a_file_a_mount_and_our_own_notes_are_not_deleted() {
    let place = Place::new();
    place.write("from/file", b"new");
    place.write("to/file/inner/old", b"old");
    let receipt = place.receipt(&["from/", "to", "--delete", "--yes"], 1);
    assert_eq!((&receipt["failed"], &receipt["deleted"]), (&Value::from(1), &Value::from(0)), "{receipt}");
    assert!(place.path("to/file/inner/old").exists());
    fs::remove_dir_all(place.path("to/file")).unwrap();
    place.write("to/old", b"old");
    let kept = place.receipt(&["from/", "to", "--delete", "--yes", "--max-delete", "0"], 1);
    assert_eq!(kept["kept_because"], "it would be 1 entries, more than --max-delete 0");
    // The notes of copies lie in the destination.
    let mut copying = place.command(&["from/", "to", "--delete", "--yes", "--progress", "none"]);
    run(copying.env("MILLSTREAM_HOME", place.path("to/home"))).ends(0);
    assert!(!place.path("to/old").exists());
    let mut verifying = place.command(&["verify", "to", "--progress", "none"]);
    run(verifying.env("MILLSTREAM_HOME", place.path("to/home"))).ends(0);
    fs::remove_dir_all(place.path("to/home")).unwrap();
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    place.write("to/point/kept", b"kept");
    fs::create_dir(place.path("from/point")).unwrap();
    shell(&place.path("from"), &format!("mount --bind {} point", disk.dir.display()));
    let deleted = place.receipt(&["from/", "to", "--delete", "--yes", "--one-file-system"], 0);
    shell(&place.path("from"), "umount point");
    assert_eq!(deleted["deleted"], 0, "{deleted}");
    assert!(place.path("to/point/kept").exists());
}

#[test]
fn nothing_in_the_trash_is_overwritten_and_no_link_in_it_is_followed() {
    let place = Place::new();
    place.write("from/file", b"text");
    let precious = place.write("outside/old", b"precious");
    fs::create_dir(place.path("trash")).unwrap();
    fs::create_dir(place.path("to")).unwrap();
    symlink("../outside", place.path("to/sub")).unwrap();
    let args = ["from/", "to", "--delete", "--yes", "--trash", "trash"];
    assert_eq!(place.receipt(&args, 0)["deleted"], 1);
    for text in ["first", "second"] {
        place.write("to/sub/old", text.as_bytes());
        assert_eq!(place.receipt(&args, 0)["deleted"], 2);
    }
    assert_eq!(fs::read(precious).unwrap(), b"precious");
    let kept = Command::new("find").arg(place.path("trash")).args(["-name", "old"]).output().unwrap();
    assert_eq!(String::from_utf8(kept.stdout).unwrap().lines().count(), 2);
}

#[test]
fn two_homes_may_copy_to_one_destination_at_once() {
    let place = Place::new();
    for n in 0..60 {
        place.write(format!("from/a{n}"), &vec![b'a'; 50_000]);
        place.write(format!("other/b{n}"), &vec![b'b'; 50_000]);
    }
    let copying = |source: &str, home: &str| {
        let mut copying = place.command(&[source, "to", "--jobs", "2", "--progress", "none"]);
        copying.env("MILLSTREAM_HOME", place.path(home)).stdout(Stdio::null()).spawn().unwrap()
    };
    fs::create_dir(place.path("to")).unwrap();
    let both = [copying("from/", "one"), copying("other/", "two")];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    for n in 0..60 {
        for letter in ['a', 'b'] {
            let found = fs::read(place.path(&format!("to/{letter}{n}"))).unwrap();
            assert_eq!(found, vec![letter as u8; 50_000], "{letter}{n}");
        }
    }
    place.is_tidy("to");
}

#[test]
fn several_sources_of_one_destination_are_all_compared() {
    let place = Place::new();
    place.write("from/a", b"text");
    place.write("other/b", b"text");
    place.receipt(&["from/", "to"], 0);
    place.receipt(&["other/", "to"], 0);
    assert_eq!(place.copy(&["verify", "to", "--output", "json"]).ends(0).json()[0]["hashed"], 2);
    // What is deleted is forgotten.
    place.receipt(&["other/", "to", "--delete", "--yes"], 0);
    assert_eq!(place.copy(&["verify", "to", "--output", "json"]).ends(0).json()[0]["hashed"], 1);
    // A damaged manifest is named by the comparison, and no hindrance for the copy.
    let manifests = Command::new("find").arg(place.path("home/copies")).args(["-name", "manifest"]).output().unwrap();
    let manifest = PathBuf::from(String::from_utf8(manifests.stdout).unwrap().trim());
    let len = fs::metadata(&manifest).unwrap().len();
    OpenOptions::new().write(true).open(&manifest).unwrap().write_all_at(b"\xff", len - 30).unwrap();
    let damaged = place.copy(&["verify", "to"]).ends(2);
    assert!(damaged.stderr.contains("is damaged") && damaged.stderr.contains("copy again"), "{damaged:?}");
    place.receipt(&["other/", "to", "--hash"], 0);
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
}

#[test]
fn pieces_of_another_file_are_not_taken_for_those_of_this_one() {
    let place = Place::new();
    for (name, byte) in [("from/large", b'a'), ("other/large", b'b')] {
        let path = place.write(name, b"");
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(2 * PIECE_BYTES + 8_000).unwrap();
        file.write_all_at(&[byte], 5).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    killed(&mut place.command(&["from/", "to", "--jobs", "1", "--progress", "none"]), "piece-copied=kill@2");
    place.receipt(&["other/", "to", "--verify"], 0);
    let mut byte = [0];
    File::open(place.path("to/large")).unwrap().read_exact_at(&mut byte, 5).unwrap();
    assert_eq!(byte, *b"b");
}

#[test]
fn files_that_perhaps_never_reached_the_disk_are_read_again_after_a_restart() {
    let place = Place::new();
    for n in 0..20 {
        place.write(format!("from/{n}"), b"text");
    }
    killed(&mut place.command(&["from/", "to", "--progress", "none"]), "folders-dressed=kill");
    // A look at the plan gathers the journals; then the machine starts again, and a file has lost its bytes.
    place.copy(&["from/", "to", "--dry-run"]).ends(0);
    let lost = OpenOptions::new().write(true).open(place.path("to/7")).unwrap();
    let before = lost.metadata().unwrap().modified().unwrap();
    lost.write_all_at(&[0; 4], 0).unwrap();
    lost.set_modified(before).unwrap();
    for home in fs::read_dir(place.path("home/copies")).unwrap() {
        fs::write(home.unwrap().path().join("boot"), "another").unwrap();
    }
    let receipt = place.receipt(&["from/", "to"], 0);
    assert_eq!((&receipt["copied"], &receipt["same"]), (&Value::from(1), &Value::from(20)), "{receipt}");
    assert_eq!(fs::read(place.path("to/7")).unwrap(), b"text");
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
}

#[test]
fn a_file_system_with_coarse_times_has_the_same_files() {
    let Some(disk) = LoopDisk::mount_coarse(16 << 20) else { return };
    let place = Place::new();
    place.write("from/file", b"text");
    let to = disk.dir.join("to");
    let to = to.to_str().unwrap();
    place.receipt(&["from/", to, "--verify"], 0);
    assert_eq!(place.receipt(&["from/", to], 0)["same"], 2);
}

#[test]
fn a_source_that_cannot_be_listed_whole_deletes_nothing() {
    let place = Place::new();
    place.write("from/file", b"text");
    symlink("self", place.path("from/self")).unwrap();
    place.write("to/old", b"");
    // A link that cannot be followed stands for a folder that cannot be read: root reads every folder.
    let receipt = place.receipt(&["from/", "to", "--copy-links", "--delete", "--yes"], 1);
    assert_eq!(receipt["kept_because"], "the source could not be listed whole", "{receipt}");
    assert!(place.path("to/old").exists());
}

#[test]
fn a_file_system_that_can_clones_files_which_then_have_no_hash() {
    let Some(disk) = LoopDisk::mount_sharing(320 << 20) else { return };
    let place = Place::on(&disk.mount);
    place.write("from/file", &vec![7; 100_000]);
    File::create(place.path("from/large")).unwrap().write_all(&vec![8; 130 << 20]).unwrap();
    // There is no room for a second copy of the bytes.
    let receipt = place.receipt(&["from/", "to"], 0);
    assert_eq!(receipt["unhashed"], 2, "{receipt}");
    let text = place.copy(&["verify", "to"]).ends(0).stdout;
    assert!(text.contains("of 2 files no hash is known"), "{text}");
    assert_eq!(place.receipt(&["from/", "to", "--hash"], 0)["hashed"], 2);
    assert_eq!(place.copy(&["verify", "to", "--output", "json"]).ends(0).json()[0]["hashed"], 2);
}

#[test]
fn names_are_shown_on_one_line() {
    let place = Place::new();
    let odd = place.path("from").join(OsStr::from_bytes(b"new\nline\xff"));
    symlink("nowhere", odd).unwrap();
    let text = place.copy(&["from/", "to", "--copy-links"]).ends(1).stdout;
    assert!(text.starts_with("failed: new\\nline\\xff: the link leads nowhere\n"), "{text}");
}
