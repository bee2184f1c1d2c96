//! `guard`: how its commands end and what they print, and that a kill at any point leaves a host that can be reached.

use crate::process::millstream;
use millstream_host::{Ended, Sandbox};
use millstream_testkit::{Need, machine_has, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millstream");

/// What the tests need that load rules, in networks of their own.
const NEEDS: &[Need] = &[Need::Networks, Need::NFT, Need::IPTABLES];

/// What a small host needs.
const SMALL: &str = "\
resolvers = ['192.0.2.53', '2001:db8::53']
[services.ssh]
[services.postgres]
from = ['10.0.0.0/8']
[clients.dns]
";

/// A policy that lets nobody reach ssh.
const LOST: &str = "[services.http]\n";

/// A file in a directory of its own.
fn file(name: &str, text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn a_policy_is_read_shown_and_explained() {
    let (_dir, policy) = file("policy.toml", SMALL);
    let explain = |args: &[&str]| millstream(&[&["guard", "explain", &policy], args].concat()).ends(0).stdout;
    assert!(explain(&["192.0.2.1", "5432"]).starts_with("dropped by service-ports: "));
    assert!(explain(&["192.0.2.53", "40000", "--udp", "--from-port", "53"]).starts_with("accepted by clients.dns: "));
    assert!(explain(&["192.0.2.54", "53", "--udp", "--out"]).starts_with("dropped by everything-else"));
    // What the address says of the packet: its device, and its family.
    assert!(explain(&["127.0.0.1", "5432"]).starts_with("accepted by loopback: "));
    assert!(explain(&["::ffff:10.1.2.3", "5432"]).starts_with("accepted by services.postgres: "));
    let lines = explain(&[]);
    for line in ["loopback", "services.postgres", "everything-else"] {
        assert!(lines.lines().any(|one| one.starts_with(&format!("{line} "))), "{line}: {lines}");
    }
    assert!(millstream(&["guard", "show", &policy]).ends(0).stdout.contains("table inet millstream {"));
    assert!(millstream(&["guard", "show", &policy, "--as", "iptables"]).ends(0).stdout.contains("iptables"));
    let missing = millstream(&["guard", "check", "/nowhere/policy.toml"]).ends(2);
    assert!(missing.stderr.contains("cannot read /nowhere/policy.toml"), "{missing:?}");
}

#[test]
fn a_proof_ends_with_1_if_something_passed_that_should_not() {
    if !machine_has(NEEDS) {
        return;
    }
    let (_dir, policy) = file("policy.toml", SMALL);
    let checked = millstream(&["guard", "check", &policy]).ends(0);
    assert!(
        checked.stdout.contains("2 services, 1 client, ") && checked.stdout.contains("nft takes them"),
        "{checked:?}"
    );
    let proved = millstream(&["guard", "prove", &policy]).ends(0);
    assert!(proved.stdout.starts_with("nft: ") && proved.stdout.contains("all as the policy says"), "{proved:?}");
    let (_rules_dir, script) = file("rules.sh", "iptables -P INPUT DROP\n");
    let wrong = millstream(&["guard", "prove", &policy, "--rules", &script, "--output", "json"]).ends(1);
    assert!(wrong.json()["packets"].as_u64() > Some(1_000) && !wrong.json()["wrong"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_planned_dropped_and_denied_is_printed() {
    if !machine_has(NEEDS) {
        return;
    }
    let sandbox = Sandbox::make(1).unwrap();
    let (_dir, policy) = file("policy.toml", SMALL);
    let millstream = |args: &[&str]| sandbox.command(0, PROGRAM).arg("guard").args(args).run_blocking().unwrap();
    let none = millstream(&["status"]);
    assert!(none.status.code() == Some(2) && none.stderr.contains("no policy is in effect"), "{none:?}");
    let plan = millstream(&["plan", &policy]).succeeded().unwrap();
    assert!(plan.stdout.contains("+ iifname \"lo\" accept comment \"loopback\""), "{plan:?}");
    let rules = millstream(&["show", &policy]).succeeded().unwrap().stdout;
    sandbox.feed(0, "nft", ["-f", "-"], rules).unwrap();
    let plan = millstream(&["plan", &policy]).succeeded().unwrap();
    assert!(plan.stdout.is_empty() && plan.stderr.contains("in effect already"), "{plan:?}");
    millstream(&["deny", "203.0.113.0/24", "--for", "1h"]).succeeded().unwrap();
    let again = millstream(&["deny", "203.0.113.7", "--for", "1h"]);
    let is_named = again.stderr.contains("denied for a time already") && again.stderr.contains("millstream guard deny");
    assert!(again.status.code() == Some(2) && is_named, "{again:?}");
    assert!(millstream(&["deny"]).succeeded().unwrap().stdout.contains("203.0.113.0/24"));
    millstream(&["deny", "203.0.113.0/24", "--remove"]).succeeded().unwrap();
    assert!(millstream(&["deny"]).succeeded().unwrap().stderr.contains("nothing is denied"));
    let status = millstream(&["status", "--output", "json"]).succeeded().unwrap().stdout;
    assert!(status.contains("everything-else") && status.contains("service-ports"), "{status}");
}

/// This host as another one: a network of its own, its own files below `/etc`, and its own journal.
struct Host {
    sandbox: Sandbox,
    dir: TempDir,
}

impl Host {
    /// `None`, after a skip, where it cannot be made. Only root can read all of `/etc`.
    fn new() -> Option<Self> {
        if !machine_has(&[&[Need::Root], NEEDS].concat()) {
            return None;
        }
        let host = Self { sandbox: Sandbox::make(1).unwrap(), dir: tempfile::tempdir().unwrap() };
        let copied = host.sandbox.run(0, "cp", ["-a", "/etc", host.dir.path().to_str().unwrap()]);
        copied.unwrap();
        fs::create_dir_all(host.dir.path().join("etc/systemd/system")).unwrap();
        Some(host)
    }

    /// A program there.
    fn command(&self, program: &str) -> millstream_host::Command {
        let etc = self.dir.path().join("etc");
        let script = format!("mount --bind {} /etc && exec \"$@\"", etc.display());
        let mut command = self.sandbox.command(0, "unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", program]);
        command.env("MILLSTREAM_HOME", self.dir.path().join("home"));
        command.env_remove("SSH_CONNECTION");
        command
    }

    fn guard(&self, args: &[&str], failpoints: &str) -> Ended {
        let mut command = self.command(PROGRAM);
        command.arg("guard").args(args).env("MILLSTREAM_FAILPOINTS", failpoints);
        command.run_blocking().unwrap()
    }

    /// The rules of a policy, which is written to a file first.
    fn policy(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// All rules that are in effect.
    fn rules(&self) -> String {
        self.sandbox.run(0, "nft", ["--stateless", "list", "ruleset"]).unwrap().stdout
    }

    fn etc(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join("etc").join(name)).ok()
    }
}

/// What stands in the way of a policy ends a command with 2 and names the next one.
#[test]
fn a_policy_is_applied_and_taken_back_by_commands() {
    let Some(host) = Host::new() else { return };
    let (small, lost) = (host.policy("small.toml", SMALL), host.policy("lost.toml", LOST));
    let refused = |args: &[&str], why: &str| {
        let refused = host.guard(args, "");
        assert!(refused.status.code() == Some(2) && refused.stderr.contains(why), "{why}: {refused:?}");
    };
    refused(&["apply", &small], "--yes");
    refused(&["apply", &lost, "--yes"], "add --i-have-console");
    assert_eq!(host.rules(), "");
    let device = "ip link add here type veth peer name there\nnft add table ip o\n\
                  nft add chain ip o c '{ type filter hook input priority 3; }'\nnft add rule ip o c iif here counter\n";
    host.sandbox.run(0, "sh", ["-ec", device]).unwrap();
    let applied = host.guard(&["apply", &small, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    let untried = "warning: the services were not tried beside a copy of the rules of other programs";
    assert!(applied.stderr.contains(untried), "{applied:?}");
    assert!(applied.stderr.contains("millstream guard confirm 1"), "{applied:?}");
    refused(&["apply", &lost, "--yes", "--i-have-console"], "millstream guard undo 1");
    host.guard(&["confirm"], "").succeeded().unwrap();
    assert!(host.etc("millstream/guard.nft").is_some());
    refused(&["undo"], "millstream guard undo 1 takes back what was confirmed last");
    host.guard(&["undo", "1"], "").succeeded().unwrap();
    assert!(host.etc("millstream/guard.nft").is_none() && !host.rules().contains("inet millstream"));
}

/// The tool is killed at every point, nobody confirms, and somebody adds rules meanwhile: ours are what they were.
#[tokio::test]
async fn a_lock_out_ends_by_itself() {
    for point in ["change-planned", "change-written", "change-verified"] {
        let Some(host) = Host::new() else { return };
        let (small, lost) = (host.policy("small.toml", SMALL), host.policy("lost.toml", LOST));
        host.guard(&["apply", &small, "--yes"], "").succeeded().unwrap();
        host.guard(&["confirm"], "").succeeded().unwrap();
        let before = host.rules();
        let args = ["apply", &lost, "--yes", "--i-have-console", "--confirm-within", "1s"];
        let killed = host.guard(&args, &format!("{point}=kill"));
        assert!(!killed.status.success(), "{point}: {killed:?}");
        host.sandbox.run(0, "nft", ["add", "table", "ip", "other"]).unwrap();
        if point == "change-planned" {
            // The watchdog was not started yet, and nothing was touched.
            host.guard(&["undo"], "").succeeded().unwrap();
        }
        until("our rules are back", async || {
            let changes = host.command(PROGRAM).args(["doctor", "changes"]).run_blocking().unwrap().stdout;
            changes.contains("2  undone")
        })
        .await;
        assert_eq!(host.rules().replace("table ip other {\n}\n", ""), before, "{point}");
    }
}

/// A unit of systemd works in the machine's network. A change in another one is watched over from there.
#[test]
fn what_watches_over_a_change_stays_in_its_network() {
    let Some(host) = Host::new() else { return };
    let small = host.policy("small.toml", SMALL);
    let asked = host.dir.path().join("asked");
    let programs = host.dir.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
        asked.display()
    );
    fs::write(programs.join("systemd-run"), script).unwrap();
    fs::set_permissions(programs.join("systemd-run"), fs::Permissions::from_mode(0o755)).unwrap();
    let with_systemd = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";
    let mut command = host.command("sh");
    command.args(["-c", with_systemd, "sh", PROGRAM, "guard", "apply", &small, "--yes", "--confirm-within", "1h"]);
    command.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    command.run_blocking().unwrap().succeeded().unwrap();
    let asked = fs::read_to_string(&asked).unwrap();
    assert!(asked.contains("--scope") && !asked.contains("--pipe"), "{asked}");
    host.guard(&["undo"], "").succeeded().unwrap();
    assert_eq!(host.rules(), "");
}

#[test]
fn a_kill_during_confirm_and_undo_can_be_repeated() {
    for point in
        ["line-recorded", "line-written", "change-confirmed", "change-reopened", "line-restored", "value-restored"]
    {
        let Some(host) = Host::new() else { return };
        let small = host.policy("small.toml", SMALL);
        host.guard(&["apply", &small, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
        let failpoints = format!("{point}=kill");
        if host.guard(&["confirm"], &failpoints).status.success() {
            let killed = host.guard(&["undo", "1"], &failpoints);
            assert!(!killed.status.success(), "{point} is passed: {killed:?}");
        } else {
            host.guard(&["confirm", "1"], "").succeeded().unwrap();
        }
        host.guard(&["undo", "1"], "").succeeded().unwrap();
        assert_eq!(host.rules(), "", "{point}");
        assert!(host.etc("millstream/guard.nft").is_none(), "{point}");
    }
}
