//! Copies to and from another machine: this one, reached by ssh and by a daemon of rsync.

use crate::copy::{Place, TOUR, appears, receipt, shell};
use crate::process::{Run, killed, run, send, started_by};
use millstream_failpoint::COPY_THERE;
use millstream_testkit::{LoopDisk, Need, Proxy, RsyncDaemon, SmallDisk, SshServer, machine_has, skip};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A place whose copies go through ssh.
struct There {
    place: Place,
    ssh: SshServer,
}

impl There {
    fn new() -> Option<Self> {
        let ssh = SshServer::start()?;
        Some(Self { place: Place::new(), ssh })
    }

    /// A path of the place as one of another machine.
    fn address(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.place.path(name).display())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("RSYNC_RSH", self.ssh.shell(self.ssh.port()));
        command
    }

    fn copy(&self, args: &[&str]) -> Run {
        run(&mut self.command(&[args, &["--progress", "none"]].concat()))
    }

    /// Copies and returns the receipt, whose counts must add up.
    #[track_caller]
    fn receipt(&self, args: &[&str], code: i32) -> Value {
        receipt(self.command(args), code)
    }
}

#[test]
fn a_tour_to_another_machine_and_back_is_equal() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    shell(&place.path("from"), TOUR);
    let to = there.address("to");
    let first = there.receipt(&["from/", &to, "--verify", "--hash", "--xattrs"], 0);
    place.is_equal("from", "to");
    place.is_tidy("to");
    assert_eq!((&first["verified"]["problems"], &first["unhashed"]), (&Value::from(0), &Value::from(0)), "{first}");
    let second = there.receipt(&["from/", &to, "--compress"], 0);
    assert_eq!((&second["same"], &second["copied_bytes"]), (&second["seen"], &Value::from(0)), "{second}");
    assert_eq!(second["hashed"], first["hashed"], "the hashes are known from the first copy");
    // What arrives on this machine is hashed anyway.
    let back = there.receipt(&[&there.address("to/"), "back", "--bandwidth", "1 GiB"], 0);
    place.is_equal("from", "back");
    place.is_tidy("back");
    assert!(back["hashed"].as_u64() > Some(10), "{back}");
    assert_eq!(there.copy(&["verify", "back"]).ends(0).code, 0);
    // A flipped bit is named by the other machine's hashes.
    fs::remove_dir_all(place.path("from")).unwrap();
    shell(
        &place.path("to/a"),
        "t=$(mktemp); touch -r one $t; printf H | dd of=one conv=notrunc status=none; touch -r $t one",
    );
    fs::remove_file(place.path("to/odd/;semi")).unwrap();
    let found = there.copy(&["verify", &to]).ends(1).stdout;
    assert!(found.contains("a/one: its bytes differ") && found.contains("odd/;semi: it is missing"), "{found}");
    assert!(found.contains("d/two: its bytes differ") && found.contains(": 4 problems"), "{found}");
}

#[test]
fn a_slash_and_a_single_file_mean_the_same_on_another_machine() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/in/file", b"text");
    fs::create_dir(place.path("to")).unwrap();
    let to = there.address("to");
    there.receipt(&["from", &to], 0);
    there.receipt(&["from/in/file", &to], 0);
    there.receipt(&["from/in/file", &there.address("to/other")], 0);
    there.receipt(&[&there.address("from"), "back/"], 0);
    there.receipt(&[&there.address("from/in/file"), "back"], 0);
    there.receipt(&[&there.address("from/in/file"), "back/other"], 0);
    for name in ["to/from/in/file", "to/file", "to/other", "back/from/in/file", "back/file", "back/other"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"text", "{name}");
    }
    assert_eq!(there.copy(&["verify", &to, "--output", "json"]).ends(0).json().as_array().unwrap().len(), 3);
    let plan = there.copy(&["from", &to, "--dry-run"]).ends(0).stdout;
    assert!(plan.starts_with(&format!("from becomes {to}/from; to copy only")), "{plan}");
    let rules = ["--exclude", "in/*", "--include", "*"];
    let left = there.receipt(&[&[&*there.address("from/"), "rest"], &rules[..]].concat(), 0);
    assert_eq!(left["seen"], 2, "{left}");
}

#[test]
fn what_another_machine_cannot_do_is_refused_with_the_way_out() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/file", b"text");
    let (to, missing, from) = (there.address("to"), there.address("none"), there.address("from"));
    let cases: &[(&[&str], &str, &str)] = &[
        (&["host:from", "host:to"], "both ends lie on other machines", "run the copy on one of them"),
        (&["from", "to", "--compress"], "both ends are on this one", "HOST:PATH"),
        (&[&missing, "to"], "there is no 127.0.0.1:", ""),
        (&[&from, "to", "--exclude", "from"], "the rules exclude 127.0.0.1:", "end it with a slash"),
        (
            &["rsync://127.0.0.1/a/", "to", "--one-file-system", "--delete"],
            "a daemon does not tell what --one-file-system leaves out",
            "copy over ssh",
        ),
        (
            &["from/", &there.address("far/er/to")],
            "there is no folder for the destination",
            "make the folder there first",
        ),
        (&["from/", &to, "--delete", "--trash", "trash"], "no absolute path", "begin it with a slash"),
        (&["from/file", &to, "--delete"], "nothing to delete", ""),
        (&["from/", &to, "--ssh", "ssh -o BatchMode=yes -p 1"], "Connection refused", ""),
        (&["from/", &to, "--ssh", "/no/shell"], "/no/shell", ""),
        (&["from/", "rsync://127.0.0.1/"], "names no module of the daemon", "HOST::MODULE"),
        (&["from/", &to, "--ssh", "'"], "an open quote", ""),
        (&["verify", &to], "there is no manifest", ""),
        (&["verify", "rsync://127.0.0.1/a"], "tells no hashes", "--verify"),
    ];
    for (args, says, hint) in cases {
        let refused = there.copy(args).ends(2);
        assert!(refused.stderr.contains(says) && refused.stderr.contains(hint), "{args:?}: {refused:?}");
    }
    let key = there.ssh.shell(there.ssh.port()).replace("-i ", "-i /none/");
    let refused = there.copy(&["from/", &to, "--ssh", &key]).ends(2);
    assert!(
        refused.stderr.contains("Permission denied") && refused.stderr.contains("docs/guides/copy.md"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_every_second_connection_gets_everything() {
    let Some(there) = There::new() else { return };
    for n in 0..300 {
        there.place.write(format!("from/{n}"), &vec![7; 200_000]);
    }
    let proxy = Proxy::start(format!("127.0.0.1:{}", there.ssh.port())).await;
    proxy.set(|traffic| traffic.every_second_closed = true);
    let shell = there.ssh.shell(proxy.address.port());
    let copied = there.receipt(&["from/", &there.address("to"), "--jobs", "4", "--ssh", &shell], 0);
    assert_eq!(copied["copied"], 301, "{copied}");
    there.place.is_equal("from", "to");
}

#[test]
fn a_copy_between_machines_that_is_killed_at_any_point_resumes() {
    let Some(there) = There::new() else { return };
    let of_every_copy = ["copy-listed", "folders-made", "deletion-found", "manifest-written"];
    for point in of_every_copy.iter().chain(COPY_THERE) {
        let place = Place::new();
        for n in 0..20 {
            place.write(format!("from/{}/{n}", n % 7), format!("text {n}").as_bytes());
        }
        place.write("to/extra", b"");
        let to = format!("127.0.0.1:{}", place.path("to").display());
        let args = ["from/", &to, "--delete", "--yes", "--hash", "--output", "json", "--progress", "none"];
        let shell = there.ssh.shell(there.ssh.port());
        killed(place.command(&args).env("RSYNC_RSH", &shell), &format!("{point}=kill"));
        let receipt = run(place.command(&args).env("RSYNC_RSH", &shell)).ends(0).json();
        place.is_equal("from", "to");
        place.is_tidy("to");
        assert_eq!(receipt["unhashed"], 0, "{point}: {receipt}");
    }
}

#[test]
fn files_that_vanish_or_cannot_be_read_are_accounted_for_between_machines() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    for name in ["vanishes", "stays"] {
        place.write(format!("from/{name}"), b"text");
        place.write(format!("back/{name}"), b"text");
    }
    // A folder is in the way.
    place.write("from/blocked", b"text");
    place.write("to/blocked/file", b"old");
    for (source, to) in [("from/", &*there.address("to")), (&*there.address("back/"), "here")] {
        let held = place.path("held");
        let mut copying = there.command(&[source, to, "--output", "json", "--progress", "none"]);
        copying.env("MILLSTREAM_FAILPOINTS", format!("folders-made=wait:{}", held.display()));
        let mut child = copying.stdout(Stdio::piped()).spawn().unwrap();
        appears(&held, &mut child);
        let is_push = source == "from/";
        fs::remove_file(place.path(if is_push { "from/vanishes" } else { "back/vanishes" })).unwrap();
        fs::remove_file(&held).unwrap();
        let output = child.wait_with_output().unwrap();
        let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(is_push)), "{receipt}");
        assert_eq!((&receipt["skipped"], &receipt["failed"]), (&Value::from(1), &Value::from(u8::from(is_push))));
        if is_push {
            assert_eq!(receipt["failures"][0]["path"], "blocked", "{receipt}");
            assert!(receipt["failures"][0]["reason"].as_str().unwrap().starts_with("rsync"), "{receipt}");
        }
    }
    assert!(place.path("to/stays").exists() && place.path("here/stays").exists());
}

#[test]
fn a_destination_that_is_full_there_ends_the_copy_and_it_resumes() {
    let Some(there) = There::new() else { return };
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    for n in 0..20 {
        there.place.write(format!("from/{n}"), &vec![7; 300_000]);
    }
    let to = format!("127.0.0.1:{}", disk.dir.join("to").display());
    let full = there.copy(&["from/", &to]).ends(2);
    let says = ["No space left on device", "the disk is full"];
    let is_said = says.iter().any(|text| full.stderr.contains(text));
    assert!(is_said && full.stderr.contains("it resumes"), "{full:?}");
    for n in 10..20 {
        fs::remove_file(there.place.path(&format!("from/{n}"))).unwrap();
        let _ = fs::remove_file(disk.dir.join(format!("to/{n}")));
    }
    let receipt = there.receipt(&["from/", &to], 0);
    assert_eq!(receipt["resumed"], true, "{receipt}");
    assert_eq!(fs::read_dir(disk.dir.join("to")).unwrap().count(), 10);
}

#[test]
fn what_the_source_has_not_is_deleted_with_care_on_another_machine() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/kept", b"new");
    for name in ["kept", "old/inner/file", "old/cache.o", "gone", "cache.o"] {
        place.write(format!("to/{name}"), b"");
        place.write(format!("here/{name}"), b"");
    }
    let (to, trash) = (there.address("to"), place.path("trash"));
    let rules = ["--exclude", "*.o"];
    let dry = there.copy(&[&["from/", &to, "--delete", "--dry-run"], &rules[..]].concat()).ends(0).stdout;
    assert!(dry.contains("would delete 3 entries") && dry.contains("\n  old/inner/file"), "{dry}");
    let kept = there.receipt(&["from/", &to, "--delete", "--yes", "--max-delete", "2"], 1);
    assert!(kept["kept_because"].as_str().unwrap().ends_with("more than --max-delete 2"), "{kept}");
    let trash = trash.to_str().unwrap();
    let inside = format!("{}/to", place.path("").display());
    let dots = format!("{trash}/../to");
    for (trash, says) in [(trash, "no folder"), (&*inside, "lies in the destination"), (&*dots, "without ..")] {
        let refused = there.copy(&["from/", &to, "--delete", "--yes", "--trash", trash]).ends(2);
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
    fs::create_dir(trash).unwrap();
    let args = [&["from/", &to, "--delete", "--yes", "--trash", trash], &rules[..]].concat();
    assert_eq!(there.receipt(&args, 0)["deleted"], 3);
    assert!(place.path("to/old/cache.o").exists() && place.path("to/cache.o").exists());
    let kept = fs::read_dir(trash).unwrap().next().unwrap().unwrap().path();
    assert!(kept.join("old/inner/file").exists());
    assert_eq!(there.receipt(&["from/", &to, "--delete", "--yes"], 0)["deleted"], 3);
    place.is_equal("from", "to");
    // To this machine, what goes is found here.
    let from = there.address("from/");
    assert_eq!(there.receipt(&[&from, "here", "--delete", "--yes", "--exclude", "*.o"], 0)["deleted"], 3);
    assert_eq!(there.receipt(&[&from, "here", "--delete", "--yes"], 0)["deleted"], 3);
    place.is_equal("from", "here");
    fs::remove_file(place.path("from/kept")).unwrap();
    let refused = there.copy(&["from/", &to, "--delete", "--yes"]).ends(2);
    assert!(refused.stderr.contains("is empty") && place.path("to/kept").exists(), "{refused:?}");
}

#[test]
fn what_was_not_shown_is_not_deleted_on_another_machine() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/kept", b"text");
    let shown = place.write("to/shown", b"");
    let held = place.path("held");
    let mut copying = there.command(&["from/", &there.address("to"), "--delete", "--yes", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("deletion-found=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    fs::rename(&shown, place.path("to/other")).unwrap();
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("not what it was when it was shown"), "{said}");
    assert!(place.path("to/other").exists());
}

#[test]
fn a_folder_that_becomes_a_link_during_the_copy_is_no_success() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/in/file", b"text");
    let to = there.address("to");
    for (source, to, replaced) in [("from/", &*to, "from/in"), (&*there.address("from/"), "back", "back/in")] {
        let held = place.path("held");
        let mut copying = there.command(&[source, to, "--hash", "--output", "json", "--progress", "none"]);
        copying.env("MILLSTREAM_FAILPOINTS", format!("bucket-copied=wait:{}", held.display()));
        let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        appears(&held, &mut child);
        fs::rename(place.path(replaced), place.path("aside")).unwrap();
        std::os::unix::fs::symlink(place.path("aside"), place.path(replaced)).unwrap();
        fs::remove_file(&held).unwrap();
        let output = child.wait_with_output().unwrap();
        if source == "from/" {
            let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
            let of_file = receipt["failures"].as_array().unwrap().iter().find(|failure| failure["path"] == "in/file");
            assert!(of_file.unwrap()["reason"].as_str().unwrap().contains("cannot be read here"), "{receipt}");
            fs::remove_file(place.path(replaced)).unwrap();
            fs::rename(place.path("aside"), place.path(replaced)).unwrap();
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && said.contains("the folder in at the destination"), "{said}");
        }
    }
}

#[test]
fn a_root_that_rsync_would_take_for_a_pattern_is_refused() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    place.write("from/a[1]", b"text");
    fs::create_dir(place.path("f?")).unwrap();
    let precious = place.write("to/x/precious", b"precious");
    let to = |root: &str| there.address(&format!("to/{root}"));
    let (back, star, folder) = (to("[x]/"), to("*"), to("x"));
    for args in [["from/", &star], [&back, "back"], ["f?", &folder], ["from/a[1]", &folder], ["from/", &to("n\nl")]] {
        let refused = there.copy(&[&args[..], &["--delete", "--yes"]].concat()).ends(2);
        let is_single = args[0].ends_with("a[1]");
        assert!(is_single || refused.stderr.contains("for a pattern"), "{args:?}: {refused:?}");
    }
    assert!(there.copy(&["from/a[1]", &folder]).ends(2).stderr.contains("for a pattern"));
    assert!(precious.exists() && !place.path("back").exists());
    assert_eq!(fs::read_dir(place.path("to/x")).unwrap().count(), 1);
}

#[test]
fn a_source_that_is_emptied_while_it_is_copied_deletes_nothing_on_another_machine() {
    let Some(there) = There::new() else { return };
    let place = &there.place;
    for n in 0..5 {
        place.write(format!("from/{n}"), b"text");
    }
    let to = there.address("to");
    there.receipt(&["from/", &to], 0);
    let held = place.path("held");
    let mut copying = there.command(&["from/", &to, "--delete", "--yes", "--progress", "none"]);
    copying.env("MILLSTREAM_FAILPOINTS", format!("buckets-copied=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    for n in 0..5 {
        fs::remove_file(place.path(&format!("from/{n}"))).unwrap();
    }
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("was in the source when it was listed"), "{said}");
    assert_eq!(
        fs::read_dir(place.path("to"))
            .unwrap()
            .filter(|e| !e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count(),
        5
    );
}

#[test]
fn a_daemon_of_rsync_is_a_source_and_a_destination() {
    let place = Place::new();
    let Some(daemon) = RsyncDaemon::start(&place.path("")) else { return };
    shell(&place.path("from"), TOUR);
    // A daemon does not take names of more than a thousand bytes.
    fs::remove_dir_all(place.path("from/deep")).unwrap();
    place.write("from/odd/with\ttab/a\tb", b"tab");
    let at = |name: &str| format!("{}/{name}", daemon.address());
    place.write("to/extra", b"");
    let sent = place.receipt(&["from/", &at("to"), "--verify", "--delete", "--yes"], 0);
    assert_eq!((&sent["deleted"], &sent["verified"]["problems"]), (&Value::from(1), &Value::from(0)), "{sent}");
    place.is_equal("from", "to");
    place.receipt(&[&at("to"), "back/"], 0);
    place.is_equal("from", "back/to");
    place.is_tidy("");
    assert_eq!(place.receipt(&[&at("to/"), "back/to"], 0)["copied"], 0);
    assert_eq!(place.copy(&["verify", "back"]).ends(0).code, 0);
    for (args, says) in [
        (&["--fsync"][..], "only a daemon answers"),
        (&["--delete", "--yes", "--trash", "/to/trash"], "lies in the destination"),
    ] {
        let refused = place.copy(&[&["from/", &*at("to")], args].concat()).ends(2);
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
    let refused = place.copy(&[&at("none"), "back"]).ends(2);
    assert!(refused.stderr.contains("there is no rsync://127.0.0.1"), "{refused:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_a_failure_in_the_list_of_a_daemon() {
    let place = Place::new();
    let Some(daemon) = RsyncDaemon::start(&place.path("")) else { return };
    shell(&place.path("from"), "echo text > file; ln -s nowhere dead; mkdir out; ln -s nowhere out/dead");
    let old = place.write("to/old", b"");
    let from = format!("{}/from/", daemon.address());
    let rules = ["--exclude", "/out/dead", "--copy-links", "--delete", "--yes"];
    let receipt = place.receipt(&[&[&*from, "to"], &rules[..]].concat(), 1);
    assert_eq!((&receipt["failed"], &receipt["failures"][0]["path"]), (&Value::from(1), &Value::from("dead")));
    assert!(receipt["kept_because"].is_string() && old.exists(), "{receipt}");
    fs::remove_file(place.path("from/dead")).unwrap();
    assert_eq!(place.receipt(&[&[&*from, "to"], &rules[..]].concat(), 0)["deleted"], 1);
}

/// A remote shell that needs no other machine: a script that gets the command as its words.
fn own_shell(place: &Place, name: &str, script: &str) -> String {
    let path = place.write(name, format!("#!/bin/sh\nshift\n{script}\n").as_bytes());
    shell(&place.path(""), &format!("chmod 755 . {name}"));
    path.display().to_string()
}

#[test]
fn what_rsync_leaves_out_there_is_no_success() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let as_nobody = own_shell(&place, "nobody", "exec setpriv --reuid 65534 --clear-groups sh -c \"$*\"");
    // Paths of more than 4,096 bytes are too long for rsync.
    fs::create_dir(place.path("to")).unwrap();
    let long = "n=$(printf '%0200d' 1); for i in $(seq 25); do mkdir $n; cd $n; done; touch file";
    shell(&place.path("from"), &format!("mknod null c 1 3; mkfifo pipe; echo text > file; {long}"));
    shell(&place.path("to"), "chown 65534 .");
    let to = format!("host:{}", place.path("to").display());
    for _ in 0..2 {
        let receipt = place.receipt(&["from/", &to, "--ssh", &as_nobody], 1);
        let failures = receipt["failures"].as_array().unwrap();
        let reason = |path: &str| {
            let failure = failures.iter().find(|failure| failure["path"] == path);
            failure.map(|failure| failure["reason"].as_str().unwrap().to_owned())
        };
        assert_eq!(reason("null").as_deref(), Some("only root can make a device"), "{receipt}");
        assert_eq!((reason("pipe"), reason("file")), (None, None), "{receipt}");
        let here = Command::new("find").arg(place.path("to")).args(["-printf", "x"]).output().unwrap().stdout;
        let arrived = ["copied", "same"].iter().map(|name| receipt[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!(arrived, here.len() as u64, "{receipt}");
    }
}

#[test]
fn names_that_rsync_could_not_check_are_not_asked_for() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    let long = "n=$(printf '%0200d' 1); for i in $(seq 10); do mkdir $n; cd $n; done; touch file";
    shell(&place.path("from"), &format!("echo text > file; {long}"));
    let old = place.write("to/old", b"");
    let from = format!("host:{}/", place.path("from").display());
    let receipt = place.receipt(&[&from, "to", "--delete", "--yes", "--ssh", &plain], 1);
    assert_eq!(receipt["failed"], 2, "the last folder and its file: {receipt}");
    assert!(receipt["failures"][0]["reason"].as_str().unwrap().contains("longer than 1,900 bytes"), "{receipt}");
    assert!(receipt["kept_because"].is_string() && old.exists() && place.path("to/file").exists(), "{receipt}");
}

#[test]
fn a_list_that_is_not_whole_deletes_nothing() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let path = place.path("bin").display().to_string();
    let odd = own_shell(&place, "odd", &format!("PATH={path}:$PATH exec sh -c \"$*\""));
    place.write("bin/find", b"#!/bin/sh\n/usr/bin/find \"$@\"\ncat \"$0.says\" >&2\nexit 1\n");
    shell(&place.path("bin"), "chmod 755 find");
    place.write("from/in/file", b"text");
    let from = format!("host:{}/", place.path("from").display());
    let args = [&*from, "to", "--delete", "--yes", "--ssh", &odd];
    let old = place.write("to/old", b"");
    for (says, path, why) in [
        ("find: './in': No such file or directory\n", "in", "gone when its turn came"),
        ("", ".", "without a word"),
        ("a last word\n", ".", "a last word"),
    ] {
        place.write("bin/find.says", says.as_bytes());
        let receipt = place.receipt(&args, 1);
        let failure = &receipt["failures"][0];
        assert!(failure["path"] == path && failure["reason"].as_str().unwrap().contains(why), "{receipt}");
        assert!(receipt["kept_because"].is_string() && old.exists(), "{receipt}");
    }
    // A file that is gone before it is listed is no loss.
    place.write("bin/find.says", b"find: './in/gone': No such file or directory\n");
    assert_eq!(place.receipt(&args, 0)["deleted"], 1);
}

#[test]
fn nothing_is_sent_through_a_link_that_cannot_be_replaced() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let as_nobody = own_shell(&place, "nobody", "exec setpriv --reuid 65534 --clear-groups sh -c \"$*\"");
    place.write("from/in/link/deep/file", b"text");
    place.write("from/file", b"text");
    place.write("from/kept", b"text");
    let script = "mkdir -p to/in elsewhere/deep; ln -s ../../elsewhere to/in/link; cp -p from/kept to; \
        chmod 600 to/kept; chown 65534 to elsewhere elsewhere/deep";
    shell(&place.path(""), script);
    let to = format!("host:{}", place.path("to").display());
    let receipt = place.receipt(&["from/", &to, "--ssh", &as_nobody], 1);
    let failed: Vec<_> = receipt["failures"].as_array().unwrap().iter().map(|failure| &failure["path"]).collect();
    for path in ["in/link", "in/link/deep", "in/link/deep/file"] {
        assert!(failed.iter().any(|failed| *failed == path), "{path}: {receipt}");
    }
    assert!(receipt.to_string().contains("its folder could not be made"), "rsync was not even asked: {receipt}");
    assert!(!place.path("elsewhere/deep/file").exists() && place.path("to/file").exists(), "{receipt}");
    // The file was there; its rights cannot be set by another user.
    assert!(failed.iter().any(|failed| *failed == "kept"), "{receipt}");
}

#[test]
fn one_failure_does_not_condemn_others_where_times_are_coarse() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let Some(disk) = LoopDisk::mount_coarse(16 << 20) else { return };
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    shell(&place.path("from"), "mkdir in; echo text | tee file in/file > blocked; ln file name; ln -s file link");
    let to = disk.dir.join("to");
    fs::create_dir_all(to.join("blocked/full")).unwrap();
    let to = format!("host:{}", to.display());
    for _ in 0..2 {
        let receipt = place.receipt(&["from/", &to, "--ssh", &plain], 1);
        assert_eq!((&receipt["failed"], &receipt["failures"][0]["path"]), (&Value::from(1), &Value::from("blocked")));
    }
}

#[test]
fn a_copy_between_machines_that_is_stopped_counts_no_false_failures() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    place.write("from/file", b"text");
    place.write("from/blocked", b"text");
    place.write("to/blocked/file", b"old");
    let to = format!("host:{}", place.path("to").display());
    let held = place.path("held");
    let args = ["from/", &to, "--ssh", &plain, "--output", "json", "--progress", "none"];
    let mut copying = place.command(&args);
    copying.env("MILLSTREAM_FAILPOINTS", format!("bucket-copied=wait:{}", held.display()));
    let mut child = copying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    appears(&held, &mut child);
    send("INT", child.id());
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    fs::remove_file(&held).unwrap();
    let output = child.wait_with_output().unwrap();
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &receipt["failed"]), (Some(130), &Value::from(0)), "{said}{receipt}");
    let receipt = place.receipt(&["from/", &to, "--ssh", &plain], 1);
    assert_eq!((&receipt["failed"], &receipt["resumed"]), (&Value::from(1), &Value::from(true)), "{receipt}");
}

#[test]
fn a_comparison_goes_on_beside_what_is_gone_and_behind_what_a_login_prints() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    let noisy = own_shell(&place, "noisy", "echo Welcome; echo 'find: a banner' >&2; exec sh -c \"$*\"");
    let silent = own_shell(&place, "silent", "exit 3");
    let to = |name: &str| format!("host:{}", place.path(name).display());
    fs::create_dir(place.path("all")).unwrap();
    for name in ["all/a/", "all/b/"] {
        place.write(format!("from/{name}/file"), b"text");
        place.receipt(&["from/", &to(name), "--hash", "--ssh", &plain], 0);
    }
    let whole = place.copy(&["verify", &to("all"), "--ssh", &noisy]).ends(0);
    assert_eq!(whole.stdout.matches("no problem").count(), 2, "{whole:?}");
    fs::remove_dir_all(place.path("all/a")).unwrap();
    let one = place.copy(&["verify", &to("all"), "--ssh", &plain]).ends(1);
    assert!(one.stdout.contains(".: it cannot be listed: there is no such folder"), "{one:?}");
    assert_eq!(one.stdout.matches("no problem").count(), 1, "{one:?}");
    let refused = place.copy(&["verify", &to("all"), "--ssh", &silent]).ends(2);
    assert!(refused.stderr.contains("ended without a word (exit status: 3)"), "{refused:?}");
    let refused = place.copy(&["-oProxyCommand=touch x:a", "back"]);
    assert!(refused.code == 2 && !place.path("x").exists(), "{refused:?}");
}

#[test]
fn rights_to_act_as_the_owner_do_not_cross_to_another_one() {
    const NOBODY: u32 = 65_534;
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let as_nobody = own_shell(&place, "nobody", "exec setpriv --reuid 65534 --clear-groups sh -c \"$*\"");
    let as_root = own_shell(&place, "root", "exec sh -c \"$*\"");
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o7777;
    let script = "touch from/tool; chmod 6755 from/tool; mkdir to whole own; chown 65534 to own";
    shell(&place.path(""), script);
    let at = |name: &str| format!("host:{}", place.path(name).display());
    place.receipt(&["from/", &at("to"), "--hash", "--ssh", &as_nobody], 0);
    assert_eq!(mode("to/tool"), 0o755);
    assert_eq!(place.receipt(&["from/", &at("to"), "--ssh", &as_nobody], 0)["same"], 2);
    place.copy(&["verify", &at("to"), "--ssh", &as_nobody]).ends(0);
    if let Some(daemon) = RsyncDaemon::start_as(&place.path("own"), NOBODY) {
        place.receipt(&["from/", &format!("{}/by-daemon", daemon.address())], 0);
        assert_eq!(mode("own/by-daemon/tool"), 0o755);
        place.is_tidy("own");
    }
    // Root keeps owners, and what goes with them.
    place.receipt(&["from/", &at("whole"), "--ssh", &as_root], 0);
    assert_eq!(mode("whole/tool"), 0o6755);
    let mut copying = place.command(&[&at("from/"), "own/to", "--ssh", &as_root]);
    copying.env("MILLSTREAM_HOME", place.path("own/home")).uid(NOBODY).gid(NOBODY);
    if Command::new(copying.get_program()).uid(NOBODY).arg("--version").output().is_err() {
        return skip("another user must reach the binary");
    }
    receipt(copying, 0);
    assert_eq!(mode("own/to/tool"), 0o755);
}

#[test]
fn a_copy_from_another_machine_is_compared_by_its_bytes_after_a_restart() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    for n in 0..20 {
        place.write(format!("from/{n}"), b"text");
    }
    let from = format!("host:{}/", place.path("from").display());
    let args = [&*from, "to", "--ssh", &plain];
    killed(place.command(&args).args(["--progress", "none"]), "buckets-copied=kill");
    shell(&place.path("to"), "touch -r 7 time; printf lost > 7; touch -r time 7; rm time");
    for home in fs::read_dir(place.path("home/copies")).unwrap() {
        fs::write(home.unwrap().path().join("boot"), "another\n").unwrap();
    }
    place.receipt(&args, 0);
    assert_eq!(fs::read(place.path("to/7")).unwrap(), b"text");
    assert_eq!(place.copy(&["verify", "to"]).ends(0).code, 0);
}

#[test]
fn what_was_removed_with_the_whole_destination_there_is_not_missing_in_the_next_copy() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    let to = format!("host:{}", place.path("to").display());
    for name in ["file", "old"] {
        place.write(format!("from/{name}"), b"text");
    }
    let args = ["from/", &to, "--hash", "--ssh", &plain];
    place.receipt(&args, 0);
    fs::remove_file(place.path("from/old")).unwrap();
    fs::remove_dir_all(place.path("to")).unwrap();
    place.receipt(&args, 0);
    place.copy(&["verify", &to, "--ssh", &plain]).ends(0);
}

#[test]
fn nothing_is_deleted_if_the_other_machine_is_this_one_and_one_end_lies_in_the_other() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    let lost = [place.write("a/b/file", b"text"), place.write("a/b/b/file", b"other")];
    std::os::unix::fs::symlink("a/b", place.path("link")).unwrap();
    let at = |name: &str| format!("host:{}", place.path(name).display());
    for (source, to) in [
        ("a/b/", &*at("a")),
        ("link/", &*at("a")),
        ("a/", &*at("link")),
        (&*at("a/b/"), "a"),
        (&*at("link/"), "a"),
        (&*at("a/"), "a/b"),
    ] {
        for more in [&["--dry-run"][..], &["--yes"]] {
            let refused = place.copy(&[&[source, to, "--delete", "--ssh", &plain], more].concat()).ends(2);
            assert!(refused.stderr.contains("is on this machine, and one end of the copy lies in"), "{refused:?}");
        }
        assert!(lost.iter().all(|file| file.exists()), "{source} {to}");
    }
    let to = at("to");
    let beside = ["a/b/", &to, "--delete", "--yes", "--ssh", &plain];
    place.receipt(&beside, 0);
    place.write("to/old", b"old");
    assert_eq!(place.receipt(&beside, 0)["deleted"], 1);
}

#[test]
fn a_folder_that_a_bind_mount_shows_in_both_ends_is_not_deleted_over_a_shell_to_this_machine() {
    if !machine_has(&[Need::Root, Need::RSYNC]) {
        return;
    }
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        return skip("a mount of a command alone needs unshare -m");
    }
    let place = Place::new();
    let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
    let lost = [place.write("from/sub/file", b"text"), place.write("to/in/file", b"text")];
    shell(&place.path(""), "mkdir 'to/a mount' from/m");
    let at = |name: &str| format!("host:{}", place.path(name).display());
    let (from_there, to_there) = (at("from/"), at("to"));
    for (mounts, from, to, code) in [
        ("mount --bind from 'to/a mount'", "from/", &*to_there, 2),
        ("mount --bind from/sub 'to/a mount'", "from/", &*to_there, 2),
        ("mount --bind . 'to/a mount'", "from/", &*to_there, 2),
        ("mount --bind to/in from/m", "from/", &*to_there, 2),
        ("mount --bind from 'to/a mount'", &*from_there, "to", 2),
        ("mount --bind to/in from/m", &*from_there, "to", 1),
    ] {
        let args = [from, to, "--delete", "--yes", "--progress", "none", "--ssh", &plain];
        let script = format!("{mounts} && exec \"$@\"");
        // The mounts end with the command.
        let copying = place.command(&args);
        let ended = run(&mut started_by("unshare", &["-m", "sh", "-c", &script, "sh"], &copying)).ends(code);
        let said = [&*ended.stdout, &*ended.stderr].concat();
        assert!(said.contains("both hold the folder"), "{mounts}, {from}: {ended:?}");
        assert!(lost.iter().all(|file| file.exists()), "{mounts}, {from}");
    }
}

#[test]
fn another_machine_that_takes_two_names_for_the_same_loses_nothing_by_it() {
    let Some(disk) = LoopDisk::mount_folding(32 << 20) else { return };
    let Some(daemon) = RsyncDaemon::start(&disk.dir) else { return };
    let of_shell = format!("host:{}/by-shell", disk.dir.display());
    let of_daemon = format!("{}/by-daemon", daemon.address());
    for (there, name, asks_names) in [(of_shell, "by-shell", true), (of_daemon, "by-daemon", false)] {
        let place = Place::new();
        let plain = own_shell(&place, "plain", "exec sh -c \"$*\"");
        let to = disk.dir.join(name);
        let copying = |more: &[&str]| {
            let shell: &[&str] = if asks_names { &["--ssh", &plain] } else { &[] };
            place.command(&[&["from/", &there], shell, more].concat())
        };
        for name in ["Dir/File", "Dir/kept", "kiz", "k\u{131}z"] {
            place.write(format!("from/{name}"), b"text");
        }
        receipt(copying(&[]), 0);
        fs::rename(place.path("from/Dir"), place.path("from/dir")).unwrap();
        fs::rename(place.path("from/dir/File"), place.path("from/dir/file")).unwrap();
        place.write("from/X", b"capital");
        place.write("from/x", b"small");
        for name in ["old", "Dir/old"] {
            fs::write(to.join(name), "old").unwrap();
        }
        let same = "the destination takes the names X and x for the same";
        if asks_names {
            // The names that are there show it, and nothing is made.
            let dry = run(&mut copying(&["--delete", "--dry-run"])).ends(1).stdout;
            assert!(dry.contains(&format!("failed: x: {same}")) && dry.contains("would delete 2 entries"), "{dry}");
        }
        let done = receipt(copying(&["--delete", "--yes"]), 1);
        assert_eq!((&done["failed"], &done["deleted"]), (&Value::from(1), &Value::from(2)), "{name}: {done}");
        assert_eq!((&done["failures"][0]["path"], &done["failures"][0]["reason"]), (&"x".into(), &same.into()));
        for (file, text) in [("dir/file", "text"), ("dir/kept", "text"), ("k\u{131}z", "text"), ("x", "capital")] {
            assert_eq!(fs::read_to_string(to.join(file)).unwrap(), text, "{name}: {file}");
        }
        let left: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "nothing is left of what was asked: {name}: {left:?}");
    }
}
