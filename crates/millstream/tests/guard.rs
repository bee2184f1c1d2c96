//! `guard`: rules decide as the policy says, in every form, and what is missing from them is found.

use crate::process::{Run, millstream};
use millstream_host::{Ended, Sandbox};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millstream");

/// What a small host needs.
const SMALL: &str = "\
resolvers = ['192.0.2.53', '2001:db8::53']
[services.ssh]
[services.postgres]
from = ['10.0.0.0/8']
[clients.dns]
";

/// The article's web server.
const WEB: &str = "\
resolvers = ['192.0.2.53', '2001:db8::53']
[services.ssh]
[services.http]
[clients.dns]
";

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guard/host.toml")
}

/// A file in a directory of its own.
fn file(name: &str, text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

/// Rules that somebody else wrote, proved by a policy.
fn proved(policy: &str, script: &str) -> Run {
    let (_dir, policy) = file("policy.toml", policy);
    let (_dir, script) = file("rules.sh", script);
    millstream(&["guard", "prove", &policy, "--rules", &script, "--output", "json"])
}

#[test]
fn the_example_is_proved_in_every_form_and_mode() {
    let text = fs::read_to_string(example()).unwrap();
    let blocked = example().with_file_name("blocked.txt");
    for (mode, forms) in [
        ("stateless", &["nft", "nft-json", "iptables-nft", "iptables-legacy"][..]),
        ("stateful", &["nft", "iptables-nft"]),
        ("hybrid", &["nft", "iptables-legacy"]),
    ] {
        let text = text.replace("mode = \"stateless\"", &format!("mode = \"{mode}\""));
        let hot = if mode == "hybrid" { "[services.http]\nhot = true" } else { "[services.http]" };
        let (dir, policy) = file("host.toml", &text.replace("[services.http]", hot));
        fs::copy(&blocked, dir.path().join("blocked.txt")).unwrap();
        for form in forms {
            let run = millstream(&["guard", "prove", &policy, "--as", form]);
            assert_eq!(run.code, 0, "{mode} {form}: {run:?}");
            assert!(
                run.stdout.starts_with(&format!("{form}: ")) && run.stdout.contains("all as the policy says"),
                "{run:?}"
            );
        }
    }
}

#[test]
fn a_rule_that_is_missing_is_found() {
    let (_dir, policy) = file("policy.toml", SMALL);
    let rules = millstream(&["guard", "show", &policy]).ends(0).stdout;
    for (line, found) in [
        ("\t\tiifname \"lo\"", "failed: a datagram over the loopback device to 127.0.0.1:5432"),
        ("hoplimit 255", "dropped, but neighbour-discovery accepts it"),
        ("frag-off", "in fragments"),
        ("icmpv6 type 2 ", "through a router with smaller packets"),
        ("\t\ticmp type 3 ", "through a router with smaller packets"),
        ("comment \"illegal-flags\"", "passed, but illegal-flags drops it"),
        ("udp dport { 22, 5432 }", "passed, but service-ports drops it: udp from 192.0.2.53 port 53 to"),
        ("\t\tnotrack comment", "connections are tracked, but the policy tracks none"),
        ("tcp sport 22", "dropped, but services.ssh accepts it"),
    ] {
        let lines: Vec<&str> = rules.lines().filter(|one| !one.contains(line)).collect();
        assert_eq!(lines.len() + 1, rules.lines().count(), "{line}");
        let run = proved(SMALL, &format!("nft -f - <<'END'\n{}\nEND\n", lines.join("\n"))).ends(1);
        assert!(run.stdout.contains(found), "{line}: {}", &run.stdout[..run.stdout.len().min(3_000)]);
    }
    let run = proved(SMALL, &format!("nft -f - <<'END'\n{rules}END\n")).ends(0);
    assert!(run.json()["wrong"].as_array().unwrap().is_empty());
    let script = millstream(&["guard", "show", &policy, "--as", "iptables"]).ends(0).stdout;
    assert!(proved(SMALL, &script).ends(0).json()["packets"].as_u64() > Some(1_000));
}

/// Three scripts as articles have them. Each protects a web server, and fails where it says.
#[test]
fn scripts_of_articles_are_proved_and_fail_where_they_must() {
    let two_lines = "\
iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
iptables -P INPUT DROP
";
    let web_server = "\
iptables -P INPUT DROP
iptables -P OUTPUT DROP
for chain in INPUT OUTPUT; do iptables -A $chain -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT; done
iptables -A INPUT -p tcp -m multiport --dports 22,80 -m conntrack --ctstate NEW -j ACCEPT
iptables -A OUTPUT -p udp --dport 53 -m conntrack --ctstate NEW -j ACCEPT
iptables -A OUTPUT -p tcp --dport 53 -m conntrack --ctstate NEW -j ACCEPT
";
    let stateless = "\
iptables -t raw -A PREROUTING -j CT --notrack
iptables -t raw -A OUTPUT -j CT --notrack
iptables -P INPUT DROP
iptables -P OUTPUT DROP
for chain in INPUT OUTPUT; do iptables -A $chain -p tcp ! --syn -j ACCEPT; done
iptables -A INPUT -p icmp --icmp-type destination-unreachable -j ACCEPT
iptables -A INPUT -p tcp -m multiport --dports 22,80 -j ACCEPT
iptables -A OUTPUT -p udp --dport 53 -j ACCEPT
iptables -A OUTPUT -p tcp --dport 53 -j ACCEPT
iptables -A INPUT -p udp --sport 53 -j ACCEPT
";
    let stateful = format!("mode = 'stateful'\n{WEB}");
    let loopback = "failed: a datagram over the loopback device to 127.0.0.1:5432";
    // None of them has a rule for IPv6.
    let open = "passed, but everything-else drops it: tcp (syn) from 2001:db8:ffff::77";
    for (policy, script, found) in [
        (stateful.as_str(), two_lines, &["dropped, but services.http accepts it", loopback, open][..]),
        (stateful.as_str(), web_server, &["dropped, but ping accepts it", loopback, open]),
        (WEB, stateless, &["udp from 203.0.113.77 port 53 to 198.18.1.2 port 5432", loopback, open]),
    ] {
        let run = proved(policy, script).ends(1);
        for one in found.iter() {
            assert!(run.stdout.contains(one), "{one}: {}", &run.stdout[..run.stdout.len().min(3_000)]);
        }
    }
    // It lets large answers through and tracks nothing, both of IPv4 alone.
    let wrong = proved(WEB, stateless).json()["wrong"].to_string();
    assert!(wrong.contains("connections are tracked") && !wrong.contains("200000 bytes from 198.18"), "{wrong}");
}

#[test]
fn the_line_that_decides_is_named() {
    let (_dir, policy) = file("policy.toml", SMALL);
    let explain = |args: &[&str]| millstream(&[&["guard", "explain", &policy], args].concat()).ends(0).stdout;
    assert!(explain(&["10.1.2.3", "5432"]).starts_with("accepted by services.postgres: "));
    assert!(explain(&["192.0.2.1", "5432"]).starts_with("dropped by service-ports: "));
    assert!(explain(&["192.0.2.53", "40000", "--udp", "--from-port", "53"]).starts_with("accepted by clients.dns: "));
    assert!(explain(&["192.0.2.54", "40000", "--udp", "--from-port", "53"]).starts_with("dropped by everything-else"));
    let lines = explain(&[]);
    for line in ["loopback", "fragments", "packet-too-big", "services.postgres", "clients.dns", "everything-else"] {
        assert!(lines.lines().any(|one| one.starts_with(&format!("{line} "))), "{line}: {lines}");
    }
}

#[test]
fn what_is_wrong_with_a_policy_is_named_with_its_place() {
    for (text, problem) in [
        ("[services.ssh]\nport = 22\n", "unknown field `port`"),
        ("[services.web]\ntcp = [0, 99999]\n", "services.web: tcp: 0 is not a port"),
        ("[services.ssh]\nfrom = ['@office']\n", "there is no list \"office\""),
        ("[lists]\nspam = { store = 'nowhere' }\n", "lists.spam: "),
    ] {
        let (_dir, policy) = file("policy.toml", text);
        let run = millstream(&["guard", "check", &policy]).ends(2);
        assert!(run.stderr.contains(problem) && run.stderr.contains("policy.toml"), "{run:?}");
    }
    let run = millstream(&["guard", "check", "/nowhere/policy.toml"]).ends(2);
    assert!(run.stderr.contains("cannot read /nowhere/policy.toml"), "{run:?}");
}

/// In a network of its own, this host is another one.
#[test]
fn a_host_is_planned_for_watched_and_denies_at_once() {
    let sandbox = Sandbox::make(1).unwrap();
    let (_dir, policy) = file("policy.toml", SMALL);
    let millstream = |args: &[&str]| sandbox.command(0, PROGRAM).arg("guard").args(args).run_blocking().unwrap();
    let none = millstream(&["status"]);
    assert!(none.status.code() == Some(2) && none.stderr.contains("no policy is in effect"), "{none:?}");
    let plan = millstream(&["plan", &policy]);
    assert!(plan.stdout.contains("+ iifname \"lo\" accept comment \"loopback\""), "{plan:?}");
    let rules = millstream(&["show", &policy]).succeeded().unwrap().stdout;
    let load = |rules: &str| sandbox.command(0, "nft").args(["-f", "-"]).input(rules).run_blocking();
    load(&rules).and_then(Ended::succeeded).unwrap();
    let plan = millstream(&["plan", &policy]);
    assert!(plan.stdout.is_empty() && plan.stderr.contains("in effect already"), "{plan:?}");
    let other = "table ip other {\nchain in { type filter hook input priority 5; policy drop; }\n}\n";
    load(other).and_then(Ended::succeeded).unwrap();
    let plan = millstream(&["plan", &policy]);
    assert!(plan.stderr.contains("the chain ip other in drops packets too"), "{plan:?}");

    millstream(&["deny", "203.0.113.0/24", "--for", "1h"]).succeeded().unwrap();
    let again = millstream(&["deny", "203.0.113.7", "--for", "1h"]);
    assert!(again.status.code() == Some(2) && again.stderr.contains("denied for a time already"), "{again:?}");
    let denied = sandbox.run(0, "nft", ["list", "set", "inet", "millstream", "denied.4"]).unwrap().stdout;
    assert!(denied.contains("203.0.113.0/24 timeout 1h"), "{denied}");
    let status = millstream(&["status", "--output", "json"]).succeeded().unwrap().stdout;
    assert!(status.contains("everything-else") && status.contains("service-ports"), "{status}");
}
