//! What is particular to other machines: how they are reached, what they refuse, and what they say.

use crate::place::Place;
use millstream_testkit::{LoopDisk, Need, Proxy, RsyncDaemon, SshServer, machine_has};
use std::fs;
use std::os::unix::fs::symlink;

/// A place, and a remote shell that reaches it. `None`, and a word about it, without rsync.
fn reached() -> Option<(Place, String)> {
    let place = Place::new();
    let plain = place.plain_shell();
    machine_has(&[Need::RSYNC]).then_some((place, plain))
}

#[test]
fn what_another_machine_cannot_do_is_refused_with_the_way_out() {
    let Some((place, plain)) = reached() else { return };
    place.write("from/file", b"text");
    let [to, missing, from, far] = ["to", "none", "from", "far/er/to"].map(|name| place.far(name));
    let [inside, none, dots] = ["to", "trash", "trash/../to"].map(|name| format!("trash={}", place.text(name)));
    let cases: &[(&str, &str, &[&str], &str, &str)] = &[
        ("host:from", "host:to", &[], "both ends lie on other machines", "run the copy on one of them"),
        (&missing, "to", &[&plain], "there is no host:", ""),
        (&from, "to", &[&plain, "exclude=from"], "the rules exclude host:", "end it with a slash"),
        ("rsync://host/a/", "to", &["one-file-system", "delete"], "a daemon does not tell what ", "copy over ssh"),
        ("from/", "rsync://host/a", &["fsync"], "only a daemon answers", ""),
        ("from/", &far, &[&plain], "there is no folder for the destination", "make the folder there first"),
        ("from/file", &to, &[&plain, "delete"], "nothing to delete", ""),
        ("from/", &to, &["shell=/no/shell"], "/no/shell", ""),
        ("from/", "rsync://host/", &[], "names no module of the daemon", "HOST::MODULE"),
        ("from/", &to, &["shell='"], "an open quote", ""),
        ("-oProxyCommand=touch x:a", "back", &[], "there is no ", "HOST:PATH"),
    ];
    for (source, to, words, says, hint) in cases {
        let refused = place.refused(source, to, words);
        assert!(refused.contains(says) && refused.contains(hint), "{source} {to} {words:?}: {refused}");
    }
    // The trash must lie beside the destination there.
    fs::create_dir(place.path("to")).unwrap();
    let trashes =
        [("trash=trash", "no absolute path"), (&*none, "no folder"), (&*inside, "lies in"), (&*dots, "without ..")];
    for (trash, says) in trashes {
        let refused = place.refused("from/", &to, &["delete", trash, &plain]);
        assert!(refused.contains(says), "{trash}: {refused}");
    }
    for (what, says) in [(&*to, "there is no manifest"), ("rsync://host/a", "tells no hashes")] {
        let refused = place.verify(what, &[&plain]).unwrap_err();
        assert!(refused.contains(says), "{what}: {refused}");
    }
    // rsync there would take these for patterns.
    let precious = place.write("to/x/precious", b"precious");
    place.write("from/a[1]", b"text");
    fs::create_dir(place.path("f?")).unwrap();
    let far = |root: &str| place.far(&format!("to/{root}"));
    for (source, to) in [
        ("from/", far("*")),
        (&*far("[x]/"), "back".to_owned()),
        ("f?", far("x")),
        ("from/a[1]", far("x")),
        ("from/", far("n\nl")),
    ] {
        let words: &[&str] = if source.ends_with("a[1]") { &[&plain] } else { &[&plain, "delete"] };
        let refused = place.refused(source, &to, words);
        assert!(refused.contains("for a pattern"), "{source} {to}: {refused}");
    }
    assert!(precious.exists() && !place.path("back").exists());
    assert_eq!(fs::read_dir(place.path("to/x")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_carries_everything_there_and_back_past_refusals_and_says_who_is_not_let_in() {
    let Some(ssh) = SshServer::start() else { return };
    let place = Place::new();
    for n in 0..300 {
        place.write(format!("from/{n}"), &vec![7; 200_000]);
    }
    let to = format!("127.0.0.1:{}", place.text("to"));
    let shell = format!("shell={}", ssh.shell(ssh.port()));
    let refused = place.refused("from/", &to, &["shell=ssh -o BatchMode=yes -p 1"]);
    assert!(refused.contains("Connection refused"), "{refused}");
    let refused = place.refused("from/", &to, &[&shell.replace("-i ", "-i /none/")]);
    assert!(refused.contains("Permission denied") && refused.contains("docs/guides/copy.md"), "{refused}");
    let proxy = Proxy::start(format!("127.0.0.1:{}", ssh.port())).await;
    proxy.set(|traffic| traffic.every_second_closed = true);
    let shell = format!("shell={}", ssh.shell(proxy.address.port()));
    assert_eq!(place.copy("from/", &to, &["workers=4", "hash", "fsync", &shell]).copied, 301);
    let shell = format!("shell={}", ssh.shell(ssh.port()));
    place.copy(&format!("{to}/"), "back", &["verify", &shell]);
    place.is_equal("from", "back");
    place.is_tidy("");
    place.is_whole(&to, &[&shell]);
}

#[test]
fn a_daemon_refuses_what_needs_a_shell_and_names_dead_links() {
    let place = Place::new();
    let Some(daemon) = RsyncDaemon::start(&place.path("")) else { return };
    let at = |name: &str| format!("{}/{name}", daemon.address());
    place.shell("cd from; echo text > file; ln -s nowhere dead; mkdir out; ln -s nowhere out/dead");
    let refused = place.refused("from/", &at("to"), &["delete", "trash=/to/trash"]);
    assert!(refused.contains("lies in the destination"), "{refused}");
    let refused = place.refused(&at("none"), "back", &[]);
    assert!(refused.contains("there is no rsync://127.0.0.1"), "{refused}");
    let old = place.write("to/old", b"");
    let words = ["exclude=/out/dead", "copy-links", "delete"];
    let receipt = place.copy_in_part(&at("from/"), "to", &words);
    assert_eq!((receipt.failed, &*receipt.failures[0].path), (1, "dead"), "{receipt:?}");
    assert!(receipt.kept_because.is_some() && old.exists(), "{receipt:?}");
    fs::remove_file(place.path("from/dead")).unwrap();
    assert_eq!(place.copy(&at("from/"), "to", &words).deleted, 1);
}

#[test]
fn what_was_not_shown_or_was_listed_is_not_deleted_on_another_machine() {
    let Some((place, plain)) = reached() else { return };
    (0..5).for_each(|n| drop(place.write(format!("from/{n}"), b"text")));
    let to = place.far("to");
    place.copy("from/", &to, &[&plain]);
    let shown = place.write("to/shown", b"");
    let rename = || fs::rename(&shown, place.path("to/other")).unwrap();
    let empty = || (0..5).for_each(|n| fs::remove_file(place.path(&format!("from/{n}"))).unwrap());
    let copying = || place.process("from/", &to, &["delete", &plain]);
    let kept = copying().held("deletion-found", rename).unwrap();
    assert!(kept["kept_because"].as_str().unwrap().contains("not what it was when it was shown"), "{kept}");
    let kept = copying().held("buckets-copied", empty).unwrap();
    assert!(kept["kept_because"].as_str().unwrap().contains("was in the source when it was listed"), "{kept}");
    assert!((0..5).all(|n| place.path(&format!("to/{n}")).exists()) && place.path("to/other").exists());
}

#[test]
fn a_folder_that_becomes_a_link_during_the_copy_is_no_success() {
    let Some((place, plain)) = reached() else { return };
    place.write("from/in/file", b"text");
    let replace = |folder: &str| {
        fs::rename(place.path(folder), place.path("aside")).unwrap();
        symlink(place.path("aside"), place.path(folder)).unwrap();
    };
    let sent = place.process("from/", &place.far("to"), &["hash", &plain]);
    let receipt = sent.held("bucket-copied", || replace("from/in")).unwrap();
    let failures = receipt["failures"].as_array().unwrap();
    let of_file = failures.iter().find(|failure| failure["path"] == "in/file").unwrap();
    assert!(of_file["reason"].as_str().unwrap().contains("cannot be read here"), "{receipt}");
    fs::remove_file(place.path("from/in")).unwrap();
    fs::rename(place.path("aside"), place.path("from/in")).unwrap();
    let fetched = place.process(&place.far("from/"), "back", &["hash", &plain]);
    let refused = fetched.held("bucket-copied", || replace("back/in")).unwrap_err();
    assert!(refused.contains("the folder in at the destination"), "{refused}");
}

#[test]
fn names_that_rsync_could_not_check_are_not_asked_for() {
    let Some((place, plain)) = reached() else { return };
    let long = "n=$(printf '%0200d' 1); for i in $(seq 10); do mkdir $n; cd $n; done; touch file";
    place.shell(&format!("cd from; echo text > file; {long}"));
    let old = place.write("to/old", b"");
    let receipt = place.copy_in_part(&place.far("from/"), "to", &["delete", &plain]);
    assert_eq!(receipt.failed, 2, "the last folder and its file: {receipt:?}");
    assert!(receipt.failures[0].reason.contains("longer than 1,900 bytes"), "{receipt:?}");
    assert!(receipt.kept_because.is_some() && old.exists() && place.path("to/file").exists(), "{receipt:?}");
}

#[test]
fn a_list_that_is_not_whole_deletes_nothing() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    place.write("bin/find", b"#!/bin/sh\n/usr/bin/find \"$@\"\ncat \"$0.says\" >&2\nexit 1\n");
    place.shell("chmod 755 bin/find");
    let odd = place.remote_shell("odd", &format!("PATH={}:$PATH exec sh -c \"$*\"", place.text("bin")));
    place.write("from/in/file", b"text");
    let from = place.far("from/");
    let old = place.write("to/old", b"");
    for (says, path, why) in [
        ("find: './in': No such file or directory\n", "in", "gone when its turn came"),
        ("", ".", "without a word"),
        ("a last word\n", ".", "a last word"),
    ] {
        place.write("bin/find.says", says.as_bytes());
        let receipt = place.copy_in_part(&from, "to", &["delete", &odd]);
        let failure = &receipt.failures[0];
        assert!(failure.path == path && failure.reason.contains(why), "{receipt:?}");
        assert!(receipt.kept_because.is_some() && old.exists(), "{receipt:?}");
    }
    // A file that is gone before it is listed is no loss.
    place.write("bin/find.says", b"find: './in/gone': No such file or directory\n");
    assert_eq!(place.copy(&from, "to", &["delete", &odd]).deleted, 1);
}

#[test]
fn a_comparison_goes_on_beside_what_is_gone_and_behind_what_a_login_prints() {
    let Some((place, plain)) = reached() else { return };
    let noisy = place.remote_shell("noisy", "echo Welcome; echo 'find: a banner' >&2; exec sh -c \"$*\"");
    let silent = place.remote_shell("silent", "exit 3");
    fs::create_dir(place.path("all")).unwrap();
    for name in ["all/a/", "all/b/"] {
        place.write(format!("from/{name}/file"), b"text");
        place.copy("from/", &place.far(name), &["hash", &plain]);
    }
    let all = place.far("all");
    let found = place.verify(&all, &[&noisy]).unwrap();
    assert_eq!(found.iter().map(|found| found.problems).collect::<Vec<_>>(), [0, 0], "{found:?}");
    fs::remove_dir_all(place.path("all/a")).unwrap();
    let problems = place.problems(&all, &[&plain]);
    assert!(problems.starts_with(".: it cannot be listed: there is no such folder"), "{problems}");
    assert_eq!(problems.lines().count(), 1, "{problems}");
    let refused = place.verify(&all, &[&silent]).unwrap_err();
    assert!(refused.contains("ended without a word (exit status: 3)"), "{refused}");
}

#[test]
fn nothing_is_deleted_if_the_other_machine_is_this_one_and_one_end_lies_in_the_other() {
    let Some((place, plain)) = reached() else { return };
    let lost = [place.write("a/b/file", b"text"), place.write("a/b/b/file", b"other")];
    symlink("a/b", place.path("link")).unwrap();
    let [a, b, to_link, from_link, inner] = ["a", "a/b/", "link", "link/", "a/"].map(|name| place.far(name));
    for (source, to) in
        [("a/b/", &*a), ("link/", &*a), ("a/", &*to_link), (&*b, "a"), (&*from_link, "a"), (&*inner, "a/b")]
    {
        let refused = place.refused(source, to, &["delete", &plain]);
        assert!(refused.contains("is on this machine, and one end of the copy lies in"), "{source} {to}: {refused}");
        assert!(lost.iter().all(|file| file.exists()), "{source} {to}");
    }
    place.copy("a/b/", &place.far("to"), &["delete", &plain]);
    place.write("to/old", b"old");
    assert_eq!(place.copy("a/b/", &place.far("to"), &["delete", &plain]).deleted, 1);
}

#[test]
fn another_machine_that_takes_two_names_for_the_same_loses_nothing_by_it() {
    let Some(disk) = LoopDisk::mount_folding(32 << 20) else { return };
    let Some(daemon) = RsyncDaemon::start(&disk.dir) else { return };
    let of_shell = format!("host:{}/by-shell", disk.dir.display());
    let of_daemon = format!("{}/by-daemon", daemon.address());
    for (there, name, asks_names) in [(of_shell, "by-shell", true), (of_daemon, "by-daemon", false)] {
        let place = Place::new();
        let plain = place.plain_shell();
        let to = disk.dir.join(name);
        let usual: &[&str] = if asks_names { &[&plain] } else { &[] };
        let deleting = [&["delete"], usual].concat();
        for name in ["Dir/File", "Dir/kept", "kiz", "k\u{131}z"] {
            place.write(format!("from/{name}"), b"text");
        }
        place.copy("from/", &there, usual);
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
            let dry = place.plan("from/", &there, &deleting);
            let is_named = dry.failures.iter().any(|failure| failure.path == "x" && failure.reason == same);
            assert!(is_named && dry.deletion.as_ref().unwrap().entries == 2, "{dry:?}");
        }
        let done = place.copy_in_part("from/", &there, &deleting);
        assert_eq!((done.failed, done.deleted), (1, 2), "{name}: {done:?}");
        assert_eq!((&*done.failures[0].path, &*done.failures[0].reason), ("x", same));
        for (file, text) in [("dir/file", "text"), ("dir/kept", "text"), ("k\u{131}z", "text"), ("x", "capital")] {
            assert_eq!(fs::read_to_string(to.join(file)).unwrap(), text, "{name}: {file}");
        }
        let left: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "nothing is left of what was asked: {name}: {left:?}");
    }
}
