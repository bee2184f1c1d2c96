//! `guard`: rules decide as the policy says, in every form, and what is missing from them is found.

use crate::process::{Run, millstream};
use millstream_host::{Ended, Sandbox};
use millstream_testkit::{Need, machine_has, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_millstream");

/// What the tests need that load rules, in networks of their own.
pub(crate) const NEEDS: &[Need] = &[Need::Networks, Need::NFT, Need::IPTABLES];

/// What a small host needs.
pub(crate) const SMALL: &str = "\
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
pub(crate) fn file(name: &str, text: &str) -> (TempDir, String) {
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
    if !machine_has(NEEDS) {
        return;
    }
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
    if !machine_has(NEEDS) {
        return;
    }
    let (_dir, policy) = file("policy.toml", SMALL);
    let rules = millstream(&["guard", "show", &policy]).ends(0).stdout;
    for (line, found) in [
        ("\t\tiifname \"lo\"", "failed: a datagram over the loopback device to 127.0.0.1:5432"),
        ("hoplimit 255", "dropped, but neighbour-discovery accepts it"),
        ("frag-off", "in fragments"),
        ("icmpv6 type 2 ", "through a router with smaller packets"),
        ("\t\ticmp type 3 ", "through a router with smaller packets"),
        ("comment \"illegal-flags\"", "passed, but illegal-flags drops it"),
        ("tcp dport { 22, 5432 }", "passed, but service-ports drops it: tcp"),
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
    if !machine_has(NEEDS) {
        return;
    }
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
            assert!(run.stdout.contains(one), "{one}: {run:?}");
        }
    }
    // The handshake begins and never ends.
    let run = proved(WEB, "iptables -P INPUT DROP\niptables -A INPUT -p tcp --syn -j ACCEPT\n").ends(1);
    let talks: Vec<&str> = run.stdout.lines().filter(|line| line.contains("failed: ")).collect();
    assert!(talks.iter().any(|line| line.contains("200000 bytes from 198.18.1.2:80")), "{talks:?}");
    // It lets large answers through and tracks nothing, both of IPv4 alone.
    let run = proved(WEB, stateless);
    let has = |text: &str| run.stdout.contains(text);
    assert!(has("connections are tracked") && !has("200000 bytes from 198.18"), "{run:?}");
}

/// Of many services, each is tried, although not every combination of packets can be sent.
#[test]
fn one_wrong_rule_among_many_services_is_found() {
    if !machine_has(NEEDS) {
        return;
    }
    let services: String = (0..40)
        .map(|n| format!("[services.s{n}]\ntcp = [{}]\nudp = [{}]\nfrom = ['10.{n}.0.0/16']\n", 2_000 + n, 3_000 + n))
        .collect();
    let (_dir, policy) = file("policy.toml", &services);
    let rules = millstream(&["guard", "show", &policy]).ends(0).stdout;
    let (_rules_dir, whole) = file("rules.nft", &rules);
    assert_eq!(proved(&services, &format!("nft -f {whole}")).code, 0);
    // One service accepts everybody by UDP, and another one nobody by TCP.
    let is_open = |line: &str| line.contains("udp dport 3037") && line.contains("accept");
    let is_shut = |line: &str| line.contains("tcp dport 2012") && line.contains("accept");
    assert!(rules.lines().any(is_open) && rules.lines().any(is_shut), "{rules}");
    let open = |line: &str| if is_open(line) { line.replace("ip saddr @services.s37.4 ", "") } else { line.to_owned() };
    let wrong: Vec<String> = rules.lines().filter(|line| !is_shut(line)).map(open).collect();
    let (_wrong_dir, wrong) = file("wrong.nft", &wrong.join("\n"));
    let run = proved(&services, &format!("nft -f {wrong}")).ends(1);
    for found in ["port 3037", "dropped, but services.s12 accepts it"] {
        assert!(run.stdout.contains(found), "{found}: {run:?}");
    }
}

#[test]
fn a_limit_counts_only_the_sources_of_its_service() {
    let (_dir, policy) = file(
        "policy.toml",
        "[services.a]\ntcp = [5432]\nfrom = ['10.0.0.0/8']\nlimit = '1/hour'\n[services.postgres]\nfrom = ['192.0.2.0/24']\n",
    );
    let rules = millstream(&["guard", "show", &policy]).ends(0).stdout;
    let limits: Vec<&str> = rules.lines().filter(|line| line.contains("update @limits.a")).collect();
    assert!(!limits.is_empty() && limits.iter().all(|line| line.contains("saddr @services.a.4")), "{rules}");
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
    assert!(explain(&["127.0.0.1", "5432"]).starts_with("accepted by loopback: "));
    assert!(explain(&["::ffff:10.1.2.3", "5432"]).starts_with("accepted by services.postgres: "));
    assert!(explain(&["192.0.2.53", "53", "--udp", "--out"]).starts_with("accepted by clients.dns: "));
    assert!(explain(&["192.0.2.54", "53", "--udp", "--out"]).starts_with("dropped by everything-else"));
    for line in ["loopback", "fragments", "packet-too-big", "services.postgres", "clients.dns", "everything-else"] {
        assert!(lines.lines().any(|one| one.starts_with(&format!("{line} "))), "{line}: {lines}");
    }
}

/// A service of TCP leaves answers by UDP alone, and the other way round.
#[test]
fn a_service_drops_only_what_comes_by_its_protocol() {
    let text = "[services.ssh]\n[services.web]\ntcp = [443]\nfrom = ['10.0.0.0/8']\n[services.ntp]\nudp = [123]\n\
                from = ['10.0.0.0/8']\n[clients.quic]\nudp = [443]\nown_ports = [443]\n[clients.ntp]\n";
    let (_dir, policy) = file("policy.toml", text);
    let explain = |args: &[&str]| millstream(&[&["guard", "explain", &policy], args].concat()).ends(0).stdout;
    let quic = explain(&["192.0.2.9", "443", "--udp", "--from-port", "443"]);
    assert!(quic.starts_with("accepted by clients.quic: "), "{quic}");
    let ntp = explain(&["192.0.2.9", "123", "--udp", "--from-port", "123"]);
    assert!(ntp.starts_with("dropped by service-ports: "), "{ntp}");
    if !machine_has(NEEDS) {
        return;
    }
    let checked = millstream(&["guard", "check", &policy]).ends(0);
    assert!(
        checked.stderr.contains("services.ntp drops answers to clients.ntp, which asks from port 123"),
        "{checked:?}"
    );
    assert!(!checked.stderr.contains("clients.quic"), "{checked:?}");
    millstream(&["guard", "prove", &policy]).ends(0);
}

/// Once a datagram is answered, tracking knows all further ones. They count all the same.
#[test]
fn a_limit_of_datagrams_holds_after_an_answer() {
    if !machine_has(NEEDS) {
        return;
    }
    for (mode, form) in [("stateful", "nft"), ("stateful", "iptables-legacy"), ("hybrid", "nft"), ("stateless", "nft")]
    {
        let text = format!("mode = '{mode}'\n[services.ssh]\n[services.syslog]\nudp = [5140]\nlimit = '10/minute'\n");
        let (_dir, policy) = file("policy.toml", &text);
        let run = millstream(&["guard", "prove", &policy, "--as", form]);
        assert!(run.code == 0 && run.stdout.contains("all as the policy says"), "{mode} {form}: {run:?}");
    }
}

/// Lists of addresses that no packet should have hold those with which a proof usually works.
#[test]
fn a_policy_that_denies_the_usual_addresses_of_a_proof_is_proved() {
    if !machine_has(NEEDS) {
        return;
    }
    let text = "resolvers = ['9.9.9.9']\ndeny = ['@bogons']\n[lists]\nbogons = ['0.0.0.0/8', '10.0.0.0/8', '127.0.0.0/8', \
                '192.0.2.0/24', '198.18.0.0/15', '203.0.113.0/24', '224.0.0.0/3', '::/8', '2001:db8::/32', 'fc00::/7', \
                'fe80::/10']\n[services.ssh]\n[clients.dns]\n[clients.https]\n";
    let (_dir, policy) = file("policy.toml", text);
    for form in ["nft", "iptables-nft"] {
        let run = millstream(&["guard", "prove", &policy, "--as", form]);
        assert!(run.code == 0 && run.stdout.contains("10 conversations"), "{form}: {run:?}");
    }
    // No address is left for a router whose answers may come in.
    let (_dir, policy) = file(
        "policy.toml",
        "deny = ['0.0.0.0/0', '::/0']\nallow = ['203.0.113.0/24', '2001:db8:5::/48']\n[services.ssh]\n[clients.https]\n",
    );
    let run = millstream(&["guard", "prove", &policy]);
    assert!(run.code == 0 && run.stdout.contains("all as the policy says"), "{run:?}");
}

#[test]
fn a_resolver_of_this_host_is_refused_or_followed() {
    let Some(host) = Host::new() else { return };
    let policy = host.policy("policy.toml", "[services.ssh]\n[clients.dns]\n");
    let write = |text: &str| {
        let file = host.dir.path().join("etc/resolv.conf");
        // It may be a link to a file of the machine.
        let _ = fs::remove_file(&file);
        fs::write(file, text).unwrap();
    };
    write("nameserver 127.0.0.1\n");
    for command in ["check", "plan", "prove"] {
        let refused = host.guard(&[command, &policy], "");
        assert!(
            refused.status.code() == Some(2)
                && refused.stderr.contains("the resolver 127.0.0.1 is a program of this host"),
            "{command}: {refused:?}"
        );
    }
    // It may answer at another address of the host.
    host.sandbox.run(0, "ip", ["address", "add", "192.0.2.5/32", "dev", "lo"]).unwrap();
    write("nameserver 192.0.2.5\n");
    let refused = host.guard(&["check", &policy], "");
    assert!(refused.stderr.contains("the resolver 192.0.2.5 is a program of this host"), "{refused:?}");
    write("nameserver 192.0.2.53 # main router\nnameserver 127.0.0.1\nnameserver 192.0.2.5\n");
    let out = host.guard(&["explain", &policy, "192.0.2.53", "53", "--udp", "--out"], "").succeeded().unwrap();
    assert!(out.stdout.starts_with("accepted by clients.dns: "), "{out:?}");
}

/// Commands of others in a network, after which a policy without tracking could lock somebody out.
fn following() -> Vec<String> {
    let of_nft = |hook: &str, rules: &str| {
        format!(
            "nft -f - <<'END'\ntable inet o {{\nmap verdicts {{ type inet_service : verdict; }}\nchain far {{ reject; }}\n\
             chain base {{ type filter hook {hook}; {rules}; }}\n}}\nEND\n"
        )
    };
    let open = "input priority 0; policy accept";
    let mut scripts = vec![
        of_nft(open, "ct state established accept; jump far"),
        of_nft(open, "ct state established accept; tcp dport 1-1000 goto far"),
        of_nft(open, "ct state established accept; tcp dport vmap { 80 : drop, 81 : accept }"),
        of_nft(open, "ct state established accept; tcp dport vmap @verdicts"),
        of_nft("prerouting priority -150; policy drop", "ct state established accept"),
        of_nft("output priority 7; policy drop", "ct state new accept"),
        of_nft("postrouting priority 7; policy drop", "ct state new accept"),
        // Marks lead from a question in one place to a drop in another.
        of_nft(open, "meta mark 5 drop")
            + "nft add table ip p\nnft 'add chain ip p early { type filter hook prerouting priority -150; }'\n\
               nft add rule ip p early meta mark set ct mark\n",
    ];
    for question in [
        "ct mark 5 accept",
        "ct direction original accept",
        "ct status assured accept",
        "ct original ip saddr 10.0.0.1 accept",
        "ct state . tcp dport vmap { new . 22 : accept }",
    ] {
        scripts.push(of_nft("input priority 3; policy drop", question));
    }
    for iptables in ["iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"] {
        for rules in [
            "-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT; IPTABLES -P INPUT DROP",
            "-N c; IPTABLES -A INPUT -j c; IPTABLES -A c -m conntrack --ctstate INVALID -j DROP",
            "-t raw -A PREROUTING -p udp -j DROP; IPTABLES -t mangle -A INPUT -m conntrack --ctstate NEW -j ACCEPT",
        ] {
            scripts.push(format!("IPTABLES {rules}").replace("IPTABLES", iptables));
        }
    }
    scripts
}

#[test]
fn rules_of_others_that_need_tracking_are_seen_wherever_they_are() {
    if !machine_has(&[&[Need::Root], NEEDS].concat()) {
        return;
    }
    let (dir, policy) = file("policy.toml", WEB);
    let guard = |script: &str, args: &[&str]| {
        let sandbox = Sandbox::make(1).unwrap();
        sandbox.run(0, "sh", ["-ec", script]).unwrap();
        let mut command = sandbox.command(0, PROGRAM);
        command.arg("guard").args(args).env("MILLSTREAM_HOME", dir.path().join("home")).env_remove("SSH_CONNECTION");
        let ended = command.run_blocking().unwrap();
        let tables = sandbox.run(0, "nft", ["list", "tables"]).unwrap().stdout;
        assert!(!tables.contains("inet millstream"), "{script}: {ended:?}");
        ended
    };
    for script in following() {
        let refused = guard(&script, &["apply", &policy, "--yes"]);
        let is_named =
            refused.stderr.contains("connection tracking says") && refused.stderr.contains("mode = \"stateful\"");
        assert!(refused.status.code() == Some(2) && is_named, "{script}: {refused:?}");
        let planned = guard(&script, &["plan", &policy]);
        assert!(planned.stderr.contains("connection tracking says"), "{script}: {planned:?}");
    }
    let forward = "nft -f - <<'END'\ntable inet o {\nchain f { type filter hook forward priority 0; policy drop; ct state new accept; }\n\
                   }\nEND\n";
    for (script, warning) in [
        (forward, ""),
        ("iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP; iptables-legacy -t nat -L", ""),
        ("iptables-nft -A INPUT -m conntrack --ctstate NEW -j LOG", ""),
        ("iptables-legacy -P INPUT DROP", "the chain iptables-legacy filter INPUT drops packets too"),
        ("ip6tables-nft -P INPUT DROP", "the chain ip6 filter INPUT drops packets too"),
    ] {
        let planned = guard(script, &["plan", &policy]).succeeded().unwrap();
        let tracks = planned.stderr.contains("connection tracking says") || planned.stderr.contains("translates");
        assert!(!tracks && planned.stderr.contains(warning), "{script}: {planned:?}");
        assert_eq!(planned.stderr.contains("drops packets too"), !warning.is_empty(), "{script}: {planned:?}");
    }
    // What no service and no answer can meet is warned of, and is no reason to refuse.
    for (script, meets) in [
        ("nft add rule inet o c tcp dport 9999 ct state invalid drop", false),
        (
            "nft add chain inet o far; nft add rule inet o far ct state invalid drop; nft add rule inet o c tcp dport 9999 jump far",
            false,
        ),
        ("iptables-legacy -A INPUT -p tcp --dport 9999 -m conntrack --ctstate INVALID -j DROP", false),
        ("nft add rule inet o c tcp dport 22 ct state invalid drop", true),
        ("nft add rule inet o c tcp sport 53 ct state invalid drop", true),
    ] {
        let base = "nft add table inet o; nft 'add chain inet o c { type filter hook input priority 0; }'";
        let planned = guard(&format!("{base}; {script}"), &["plan", &policy]);
        assert!(planned.stderr.contains("connection tracking says"), "{script}: {planned:?}");
        assert_eq!(planned.stderr.contains("over the loopback device"), !meets, "{script}: {planned:?}");
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
    if !machine_has(NEEDS) {
        return;
    }
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
    sandbox.run(0, "iptables-nft", ["-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"]).unwrap();
    let refused = millstream(&["apply", &policy, "--yes"]);
    assert!(refused.status.code() == Some(2) && refused.stderr.contains("ip nat translates addresses"), "{refused:?}");

    millstream(&["deny", "203.0.113.0/24", "--for", "1h"]).succeeded().unwrap();
    let again = millstream(&["deny", "203.0.113.7", "--for", "1h"]);
    assert!(again.status.code() == Some(2) && again.stderr.contains("denied for a time already"), "{again:?}");
    let denied = sandbox.run(0, "nft", ["list", "set", "inet", "millstream", "denied.4"]).unwrap().stdout;
    assert!(denied.contains("203.0.113.0/24 timeout 1h"), "{denied}");
    let listed = millstream(&["deny"]).succeeded().unwrap().stdout;
    assert!(listed.contains("203.0.113.0/24"), "{listed}");
    let own = sandbox
        .command(0, PROGRAM)
        .args(["guard", "deny", "198.51.100.0/24", "--for", "1h"])
        .env("SSH_CONNECTION", "198.51.100.7 50022 192.0.2.1 22")
        .run_blocking()
        .unwrap();
    assert!(own.status.code() == Some(2) && own.stderr.contains("your own ssh connection"), "{own:?}");
    millstream(&["deny", "203.0.113.0/24", "--remove"]).succeeded().unwrap();
    let again = millstream(&["deny", "203.0.113.0/24", "--remove"]);
    assert!(again.status.code() == Some(2) && again.stderr.contains("is not denied for a time"), "{again:?}");
    assert!(millstream(&["deny"]).stderr.contains("nothing is denied"));
    let status = millstream(&["status", "--output", "json"]).succeeded().unwrap().stdout;
    assert!(status.contains("everything-else") && status.contains("service-ports"), "{status}");
}

/// This host as another one: a network of its own, its own files below `/etc`, and its own journal.
pub(crate) struct Host {
    pub(crate) sandbox: Sandbox,
    dir: TempDir,
}

impl Host {
    /// `None`, after a skip, where it cannot be made. Only root can read all of `/etc`.
    pub(crate) fn new() -> Option<Self> {
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

    pub(crate) fn guard(&self, args: &[&str], failpoints: &str) -> Ended {
        let mut command = self.command(PROGRAM);
        command.arg("guard").args(args).env("MILLSTREAM_FAILPOINTS", failpoints);
        command.run_blocking().unwrap()
    }

    /// The rules of a policy, which is written to a file first.
    pub(crate) fn policy(&self, name: &str, text: &str) -> String {
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

const LOST: &str = "[services.http]\n";

#[test]
fn rules_are_applied_confirmed_and_taken_back() {
    let Some(host) = Host::new() else { return };
    let (small, web) = (host.policy("small.toml", SMALL), host.policy("web.toml", WEB));
    let asked = host.guard(&["apply", &small], "");
    assert!(asked.status.code() == Some(2) && asked.stderr.contains("--yes"), "{asked:?}");
    let lost = host.policy("lost.toml", LOST);
    let refused = host.guard(&["apply", &lost, "--yes"], "");
    assert!(
        refused.status.code() == Some(2) && refused.stderr.contains("ssh would not reach this host"),
        "{refused:?}"
    );
    assert_eq!(host.rules(), "");

    let applied = host.guard(&["apply", &small, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    assert!(applied.stderr.contains("millstream guard confirm 1"), "{applied:?}");
    let first = host.rules();
    assert!(first.contains("services.postgres") && host.etc("millstream/guard.nft").is_none());
    let second = host.guard(&["apply", &web, "--yes"], "");
    assert!(second.status.code() == Some(2) && second.stderr.contains("millstream guard undo 1"), "{second:?}");
    host.guard(&["confirm"], "").succeeded().unwrap();
    let loaded = host.etc("millstream/guard.nft").unwrap();
    assert!(host.etc("systemd/system/millstream-guard.service").unwrap().contains("Before=network-pre.target"));
    assert!(host.etc("systemd/system/sysinit.target.d/millstream-guard.conf").is_some());
    // What is loaded at a start is what is in effect.
    let other = Sandbox::make(1).unwrap();
    other.command(0, "nft").args(["-f", "-"]).input(loaded).run_blocking().and_then(Ended::succeeded).unwrap();
    assert_eq!(other.run(0, "nft", ["--stateless", "list", "ruleset"]).unwrap().stdout, first);

    // Denied sources stay denied, and rules of others stay.
    host.guard(&["deny", "203.0.113.7", "--for", "10h"], "").succeeded().unwrap();
    host.sandbox.run(0, "nft", ["add", "table", "ip", "other"]).unwrap();
    host.guard(&["apply", &web, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    assert!(host.rules().contains("203.0.113.7 timeout 10h") && host.rules().contains("services.http"));
    host.guard(&["undo"], "").succeeded().unwrap();
    let now = host.rules();
    assert!(
        now.contains("table ip other") && now.contains("services.postgres") && !now.contains("services.http"),
        "{now}"
    );
    host.guard(&["undo", "1"], "").succeeded().unwrap();
    assert_eq!(host.rules().trim(), "table ip other {\n}");
    assert!(
        host.etc("millstream/guard.nft").is_none() && host.etc("systemd/system/millstream-guard.service").is_none()
    );
}

/// What is denied while a change waits must not stand in the way of the rules that come back.
#[test]
fn rules_come_back_whatever_was_denied_meanwhile() {
    let Some(host) = Host::new() else { return };
    let (small, web) = (host.policy("small.toml", SMALL), host.policy("web.toml", WEB));
    // Nothing on this host remembers these rules: they were loaded by hand.
    let rules = host.guard(&["show", &small], "").succeeded().unwrap().stdout;
    host.sandbox.command(0, "nft").args(["-f", "-"]).input(rules).run_blocking().and_then(Ended::succeeded).unwrap();
    host.guard(&["deny", "10.0.0.5", "--for", "2h"], "").succeeded().unwrap();
    host.guard(&["apply", &web, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    host.guard(&["deny", "10.0.0.5", "--remove"], "").succeeded().unwrap();
    host.guard(&["deny", "10.0.0.0/24", "--for", "1h"], "").succeeded().unwrap();
    host.guard(&["undo"], "").succeeded().unwrap();
    let now = host.rules();
    assert!(now.contains("services.postgres") && now.contains("10.0.0.0/24 timeout 1h"), "{now}");
    assert!(!now.contains("10.0.0.5"), "{now}");
}

#[test]
fn of_two_changes_the_later_one_is_undone_first() {
    let Some(host) = Host::new() else { return };
    let (small, web) = (host.policy("small.toml", SMALL), host.policy("web.toml", WEB));
    for policy in [&small, &web] {
        host.guard(&["apply", policy, "--yes"], "").succeeded().unwrap();
        host.guard(&["confirm"], "").succeeded().unwrap();
    }
    let refused = host.guard(&["undo", "1"], "");
    assert!(refused.status.code() == Some(2) && refused.stderr.contains("millstream guard undo 2"), "{refused:?}");
    // Both changes wrote the same unit.
    let refused = host.guard(&["undo", "1", "--keep"], "");
    assert!(refused.status.code() == Some(2) && refused.stderr.contains("millstream guard undo 2"), "{refused:?}");
    assert!(host.etc("millstream/guard.nft").unwrap().contains("services.http"));
    for file in ["systemd/system/millstream-guard.service", "systemd/system/sysinit.target.d/millstream-guard.conf"] {
        assert!(host.etc(file).is_some(), "{file}");
    }
    let none = host.guard(&["undo"], "");
    assert!(none.stderr.contains("millstream guard undo 2 takes back what was confirmed last"), "{none:?}");
    host.guard(&["undo", "2"], "").succeeded().unwrap();
    assert!(host.rules().contains("services.postgres"));
    host.guard(&["undo", "1"], "").succeeded().unwrap();
    assert_eq!(host.rules(), "");
    assert!(host.etc("millstream/guard.nft").is_none());
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

/// A confirmation counts only over a connection that began after the rules took effect.
#[tokio::test]
async fn an_old_connection_confirms_nothing() {
    let Some(host) = Host::new() else { return };
    let small = host.policy("small.toml", SMALL);
    // What serves a connection is known by its name.
    let server = host.dir.path().join("sshd");
    fs::copy("/bin/sh", &server).unwrap();
    let (gate, said) = (host.dir.path().join("gate"), host.dir.path().join("said"));
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let confirm = format!("{PROGRAM} guard confirm; echo ended $?");
    let script = format!("exec > {} 2>&1; {wait}; {confirm}", said.display());
    let mut old = host.command(server.to_str().unwrap());
    let mut old = old.args(["-c", &script]).start().unwrap();
    // It began in an earlier second.
    let begun = std::time::SystemTime::now();
    until("a second passes", async || begun.elapsed().unwrap().as_secs() > 1).await;
    host.guard(&["apply", &small, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    fs::write(&gate, "").unwrap();
    until("the old one has tried", async || fs::read_to_string(&said).is_ok_and(|said| said.contains("ended"))).await;
    old.finish();
    let text = fs::read_to_string(&said).unwrap();
    assert!(text.contains("this connection is older than the rules") && text.contains("ended 2"), "{text}");

    let applied = std::time::SystemTime::now();
    until("a second passes", async || applied.elapsed().unwrap().as_secs() > 1).await;
    let new = host.command(server.to_str().unwrap()).args(["-c", &format!("{confirm}; true")]).run_blocking().unwrap();
    assert!(new.stdout.contains("ended 0"), "{new:?}");
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
