//! Homes and data directories that somebody else has prepared: what is in them is not believed.

use crate::process::{Run, command, run};
use millstream_host::Ended;
use millstream_local::server_account;
use millstream_testkit::{Feature, LocalHome, Need, build_with, default_build, machine_has, skip};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What runs a program as another account.
const SETPRIV: Need = Need::Program { name: "setpriv", package: "util-linux" };

/// Two users who are not root.
const NOBODY: &str = "65534";
const ANOTHER: &str = "65533";

/// What the victim of a link holds.
const PRECIOUS: &str = "root::0:0\n";

/// A directory in which everybody may make files, as in `/tmp`, with a file of ours.
struct Shared {
    dir: TempDir,
}

impl Shared {
    /// `None`, after a skip, if the tests are not root's.
    fn new() -> Option<Self> {
        if !machine_has(&[Need::Root, SETPRIV]) {
            return None;
        }
        let shared = Self { dir: tempfile::tempdir().unwrap() };
        set_mode(shared.dir.path(), 0o1777);
        fs::write(shared.victim(), PRECIOUS).unwrap();
        set_mode(&shared.victim(), 0o644);
        Some(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn victim(&self) -> PathBuf {
        self.path("victim")
    }

    fn assert_unharmed(&self) {
        assert_eq!(fs::read_to_string(self.victim()).unwrap(), PRECIOUS);
        assert_eq!(mode(&self.victim()), 0o644);
    }

    /// Runs lines of shell there, as a user who is not root.
    fn shell_of(&self, user: &str, lines: &str) {
        let mut shell = as_user(user, "sh");
        let ended = shell.args(["-ec", lines]).current_dir(self.dir.path()).status();
        assert!(ended.unwrap().success(), "{lines}");
    }

    /// Runs the binary with a home there.
    fn run(&self, home: &str, args: &[&str]) -> Run {
        run(command(args).env("MILLSTREAM_HOME", self.path(home)))
    }
}

fn as_user(user: &str, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", program]);
    command
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A change in a journal that makes an undo write an own text into a file.
fn forged(victim: &Path) -> String {
    let same = fs::read_to_string("/proc/sys/vm/swappiness").unwrap_or_default();
    let entry = json!({
        "number": 1, "kind": "sysctl", "target": "vm.swappiness", "before": same.trim(), "value": same.trim(),
        "reason": "forged", "state": "verified", "planned": 0, "confirm_seconds": null, "deadline": null, "boot": "",
        "identity": null, "line": null, "files": [{ "file": victim, "had_before": true }],
    });
    entry.to_string()
}

#[test]
fn the_home_of_another_user_is_refused_before_anything_in_it_is_opened() {
    let Some(shared) = Shared::new() else { return };
    shared.shell_of(NOBODY, "mkdir h; ln -s ../victim h/lock");
    let refused = shared.run("h", &["db", "start"]).ends(2);
    let (home, hint) = (shared.path("h"), "set MILLSTREAM_HOME to a directory that only you may change");
    assert!(refused.stderr.contains(&format!("{} belongs to ", home.display())), "{refused:?}");
    assert!(refused.stderr.contains("hint: run this as ") && refused.stderr.contains(hint), "{refused:?}");
    shared.assert_unharmed();

    shared.shell_of(NOBODY, "mkdir h/data; echo 18 >h/data/PG_VERSION; rm h/lock; ln -s ../victim h/stopped");
    let refused = shared.run("h", &["db", "stop"]).ends(2);
    assert!(refused.stderr.contains("who could change what is there"), "{refused:?}");
    shared.assert_unharmed();
}

#[test]
fn the_doctor_uses_settings_of_another_user_only_if_they_are_named() {
    let Some(shared) = Shared::new() else { return };
    shared.shell_of(NOBODY, "mkdir theirs; echo '[threshold.none]' | tee doctor.toml >theirs/doctor.toml");
    let doctor = |dir: &str, more: &[&str]| {
        let args = [&["doctor", "--check", "disk-full"], more].concat();
        run(command(&args).env("MILLSTREAM_HOME", shared.path("home")).current_dir(shared.path(dir)))
    };
    for dir in ["", "theirs"] {
        let ran = doctor(dir, &[]);
        let is_read = ran.stderr.contains("error: doctor.toml: ");
        assert!(ran.stderr.contains("doctor.toml is not used: ") && !is_read, "{ran:?}");
        let named = doctor(dir, &["--config", "doctor.toml"]).ends(2);
        assert!(named.stderr.contains("error: doctor.toml: "), "{named:?}");
    }
    fs::create_dir(shared.path("ours")).unwrap();
    fs::write(shared.path("ours/doctor.toml"), "[threshold.none]\n").unwrap();
    let ours = doctor("ours", &[]).ends(2);
    assert!(ours.stderr.contains("error: doctor.toml: "), "{ours:?}");
}

#[test]
fn the_journal_of_another_user_is_not_undone() {
    let Some(shared) = Shared::new() else { return };
    let beside =
        "printf '%s\\n' root::0:0 >h/changes/000001.beside-file-0.new; echo evil::0:0 >h/changes/000001.beside-file-0";
    let entry = forged(&shared.victim());
    shared.shell_of(NOBODY, &format!("mkdir -p h/changes; printf %s '{entry}' >h/changes/000001.json; {beside}"));
    for args in [&["doctor", "undo", "1"][..], &["doctor", "undo", "1", "--keep"], &["doctor", "changes"]] {
        let refused = shared.run("h", args).ends(2);
        assert!(refused.stderr.contains("who could change what is there"), "{args:?}: {refused:?}");
    }
    // In a home of root's it would be read. No change of this kind writes such a file.
    assert!(Command::new("chown").args(["-R", "0:0"]).arg(shared.path("h")).status().unwrap().success());
    let refused = shared.run("h", &["doctor", "undo", "1"]).ends(2);
    let says = format!("change 1 names {}, which no change of the kind sysctl writes", shared.victim().display());
    assert!(refused.stderr.contains(&says), "{refused:?}");
    shared.assert_unharmed();
}

#[test]
fn a_home_is_refused_wherever_somebody_else_could_put_another_one() {
    let Some(shared) = Shared::new() else { return };
    shared.shell_of(NOBODY, "mkdir -m 755 theirs");
    for name in ["theirs/h", "own", "group", "inner", "inner/h"] {
        fs::create_dir(shared.path(name)).unwrap();
    }
    shared.shell_of(NOBODY, "ln -s own their-link");
    symlink("own", shared.path("own-link")).unwrap();
    set_mode(&shared.path("group"), 0o770);
    set_mode(&shared.path("inner"), 0o777);
    for (home, problem) in [
        ("theirs", "theirs belongs to "),
        ("theirs/h", "theirs belongs to "),
        ("theirs/new", "theirs belongs to "),
        ("their-link", "their-link belongs to "),
        ("their-link/new", "their-link belongs to "),
        ("group", "others than its owner may write to "),
        ("inner/h", "others than its owner may write to "),
        ("inner/new", "others than its owner may write to "),
        ("", "others than its owner may write to "),
    ] {
        let refused = shared.run(home, &["db", "status"]).ends(2);
        assert!(refused.stderr.contains(problem) && refused.stderr.contains("set MILLSTREAM_HOME"), "{refused:?}");
    }
    assert!(!shared.path("theirs/new").exists() && !shared.path("inner/new").exists());
    for home in ["own", "own-link", "new", "own/deep/new"] {
        shared.run(home, &["db", "status"]).ends(1);
    }

    fs::create_dir(shared.path("own/copies")).unwrap();
    set_mode(&shared.path("own/copies"), 0o777);
    let (from, to) = (shared.path("own").display().to_string(), shared.path("to").display().to_string());
    let refused = shared.run("own", &["copy", &from, &to]).ends(2);
    assert!(
        refused.stderr.contains("hint: look at what others have put there, and then run: chmod go-w "),
        "{refused:?}"
    );
    assert!(!shared.path("to").exists());
}

/// As under `sudo -E -u`, which keeps the variables of the caller.
#[test]
fn the_xdg_directory_of_another_user_is_refused() {
    let Some(shared) = Shared::new() else { return };
    shared.shell_of(ANOTHER, "mkdir -m 755 xdg");
    let program = env!("CARGO_BIN_EXE_millstream");
    let status = |xdg: &str| {
        let mut command = as_user(NOBODY, program);
        command.args(["db", "status"]).env_remove("MILLSTREAM_HOME").env("XDG_DATA_HOME", shared.path(xdg));
        run(&mut command)
    };
    if !as_user(NOBODY, program).arg("--version").output().unwrap().status.success() {
        return skip("another user must reach the binary");
    }
    let refused = status("xdg").ends(2);
    assert!(
        refused.stderr.contains("xdg belongs to ") && refused.stderr.contains("set MILLSTREAM_HOME"),
        "{refused:?}"
    );
    shared.shell_of(NOBODY, "mkdir own");
    status("own").ends(1);

    // As Kubernetes makes a volume for a group (fsGroup).
    let volume = shared.path("volume");
    fs::create_dir(&volume).unwrap();
    chown(&volume, None, Some(2_000)).unwrap();
    set_mode(&volume, 0o2775);
    let refused = status("volume").ends(2);
    let shown = volume.display();
    for says in [
        format!("{shown}: it belongs to root, and its mode 2775 lets group 2000 write\n"),
        format!("run: chown {NOBODY} {shown} && chmod g-w {shown}; or set MILLSTREAM_HOME"),
    ] {
        assert!(refused.stderr.contains(&says), "{says}: {refused:?}");
    }
}

/// Every entry below a directory.
fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() && !path.is_symlink() { [vec![path.clone()], below(&path)].concat() } else { vec![path] }
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_home_is_private_whatever_the_umask_is() {
    let (local, dir) = (LocalHome::new(), tempfile::tempdir().unwrap());
    let open = |home: &Path, args: &[&str]| {
        let plain = command(args);
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
        for name in ["MILLSTREAM_DB", "DATABASE_URL"] {
            shell.env_remove(name);
        }
        run(shell.env("MILLSTREAM_HOME", home)).ends(0)
    };
    let bin = default_build().await.installation.bin.to_str().unwrap();
    open(&local.dir, &["db", "start", "--postgres-bin", bin]);
    open(&local.dir, &["db", "stop"]);
    let home = dir.path().join("above/home");
    fs::create_dir(dir.path().join("from")).unwrap();
    fs::write(dir.path().join("from/file"), "text").unwrap();
    let [from, to] = ["from/", "to"].map(|name| dir.path().join(name).display().to_string());
    open(&home, &["copy", &from, &to, "--progress", "none"]);
    for path in [below(&local.dir), below(&dir.path().join("above"))].concat() {
        let facts = fs::symlink_metadata(&path).unwrap();
        assert!(facts.is_symlink() || facts.mode() & 0o022 == 0, "{}: {:o}", path.display(), facts.mode());
    }
    assert_eq!(mode(&home.join("copies")), 0o700);
    let notes = below(&home.join("copies"));
    assert!(notes.iter().any(|path| path.ends_with("manifest")), "{notes:?}");
    assert!(notes.iter().filter(|path| path.is_file()).all(|path| mode(path) == 0o600), "{notes:?}");
    for name in ["password", "lock", "stopped"] {
        assert_eq!(mode(&local.dir.join(name)), 0o600, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_not_taken_from_where_a_file_of_the_servers_account_says() {
    let Some(build) = build_with(&[Feature::Psql]).await else { return };
    let bin = &build.installation.bin;
    let local = LocalHome::new();
    let millstream = |args: &[&str]| run(command(args).env("MILLSTREAM_HOME", &local.dir));
    millstream(&["db", "start", "--postgres-bin", bin.to_str().unwrap()]).ends(0);
    let evil = tempfile::Builder::new().permissions(Permissions::from_mode(0o777)).tempdir().unwrap();
    set_mode(evil.path(), 0o777);
    let script = "printf '#!/bin/sh\\nid -u >%s/ran\\n' \"$1\" >\"$1/psql\"; chmod 755 \"$1/psql\"
        echo \"$1/postgres \\\"-D\\\" \\\"x\\\"\" >\"$2/postmaster.opts\"";
    let mut account = server_account().unwrap().command("/bin/sh");
    let written = account.args(["-ec", script, "sh"]).arg(evil.path()).arg(local.dir.join("data")).run_blocking();
    written.and_then(Ended::succeeded).unwrap();
    let shown = millstream(&["db", "psql", "-X", "-A", "-t", "-c", "select 6 * 7"]).ends(0);
    assert_eq!(shown.stdout, "42\n");
    assert!(!evil.path().join("ran").exists());
    let status = millstream(&["db", "status", "--output", "json"]).ends(0).json();
    assert_eq!(status["server"]["bin"], json!(bin.canonicalize().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_the_data_directory_are_not_followed() {
    let local = LocalHome::new();
    let millstream = |args: &[&str]| run(command(args).env("MILLSTREAM_HOME", &local.dir));
    let bin = default_build().await.installation.bin.to_str().unwrap();
    millstream(&["db", "start", "--postgres-bin", bin]).ends(0);
    millstream(&["db", "stop"]).ends(0);
    let secret = local.dir.join("secret");
    fs::write(&secret, "4711\nsecret\n").unwrap();
    set_mode(&secret, 0o600);
    for name in ["postmaster.pid", "PG_VERSION"] {
        let script = "cd \"$1\"; [ ! -e $3 ] || mv $3 $3.kept; ln -s \"$2\" $3";
        let mut account = server_account().unwrap().command("/bin/sh");
        account.args(["-ec", script, "sh"]).arg(local.dir.join("data")).arg(&secret).arg(name);
        account.run_blocking().and_then(Ended::succeeded).unwrap();
        for args in [&["db", "status"][..], &["db", "start"]] {
            let refused = millstream(args).ends(2);
            assert!(refused.stderr.contains(&format!("{name}: it is a link")), "{refused:?}");
            assert!(!refused.stderr.contains("4711") && !refused.stdout.contains("4711"), "{refused:?}");
        }
        fs::remove_file(local.dir.join("data").join(name)).unwrap();
    }
}
