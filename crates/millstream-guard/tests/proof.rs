//! Rules are proved by packets: those of a policy decide as it says, in every form, and what is missing from others is found.

use crate::host::NEEDS;
use crate::policy::{SMALL, WEB, policy};
use crate::prober::prober;
use millstream_guard::policy::Policy;
use millstream_guard::prove::{Form, Report, Subject, prove};
use millstream_guard::rules::Rules;
use millstream_testkit::machine_has;
use std::fs;
use std::path::{Path, PathBuf};

/// What did not go as a policy means, each on a line of its own.
fn wrong(report: &Report) -> String {
    report.wrong.iter().map(|one| format!("{one}\n")).collect()
}

/// Proves rules that a shell script makes.
fn proved(policy: &Policy, script: &str) -> Report {
    prove(policy, Subject::Script(script), &prober()).unwrap()
}

/// A script that gives nft these rules.
fn of_nft(rules: &str) -> String {
    format!("nft -f - <<'END'\n{rules}\nEND\n")
}

#[track_caller]
fn is_proved(policy: &Policy, form: Form, about: &str) -> Report {
    let report = prove(policy, Subject::Own(form), &prober()).unwrap();
    assert!(report.packets > 0 && report.wrong.is_empty(), "{about} {}: {}", form.name(), wrong(&report));
    report
}

#[test]
fn the_example_is_proved_in_every_form_and_mode() {
    if !machine_has(NEEDS) {
        return;
    }
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/guard/host.toml");
    let text = fs::read_to_string(&example).unwrap();
    for (mode, forms) in [
        ("stateless", &Form::ALL[..]),
        ("stateful", &[Form::Nft, Form::IptablesNft]),
        ("hybrid", &[Form::Nft, Form::IptablesLegacy]),
    ] {
        let text = text.replace("mode = \"stateless\"", &format!("mode = \"{mode}\""));
        let hot = if mode == "hybrid" { "[services.http]\nhot = true" } else { "[services.http]" };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("host.toml");
        fs::write(&file, text.replace("[services.http]", hot)).unwrap();
        fs::copy(example.with_file_name("blocked.txt"), dir.path().join("blocked.txt")).unwrap();
        let policy = Policy::read(&file, &|_: &Path| Ok(Vec::new())).unwrap();
        for form in forms {
            is_proved(&policy, *form, mode);
        }
    }
}

#[test]
fn a_rule_that_is_missing_is_found() {
    if !machine_has(NEEDS) {
        return;
    }
    let policy = policy(SMALL);
    let rules = Rules::of(&policy).nft();
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
        let wrong = wrong(&proved(&policy, &of_nft(&lines.join("\n"))));
        assert!(wrong.contains(found), "{line}: {wrong:.3000}");
    }
    assert_eq!(wrong(&proved(&policy, &of_nft(&rules))), "");
    let report = proved(&policy, &Rules::of(&policy).iptables());
    assert!(report.packets > 1_000 && report.wrong.is_empty(), "{}", wrong(&report));
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
    let (web, stateful) = (policy(WEB), policy(&format!("mode = 'stateful'\n{WEB}")));
    let loopback = "failed: a datagram over the loopback device to 127.0.0.1:5432";
    // None of them has a rule for IPv6.
    let open = "passed, but everything-else drops it: tcp (syn) from 2001:db8:ffff::77";
    for (policy, script, found) in [
        (&stateful, two_lines, ["dropped, but services.http accepts it", loopback, open]),
        (&stateful, web_server, ["dropped, but ping accepts it", loopback, open]),
        (&web, stateless, ["udp from 203.0.113.77 port 53 to 198.18.1.2 port 5432", loopback, open]),
    ] {
        let wrong = wrong(&proved(policy, script));
        for one in found {
            assert!(wrong.contains(one), "{one}: {wrong}");
        }
    }
    // The handshake begins and never ends.
    let halves = wrong(&proved(&web, "iptables -P INPUT DROP\niptables -A INPUT -p tcp --syn -j ACCEPT\n"));
    let mut talks = halves.lines().filter(|line| line.contains("failed: "));
    assert!(talks.any(|line| line.contains("200000 bytes from 198.18.1.2:80")), "{halves}");
    // It lets large answers through and tracks nothing, both of IPv4 alone.
    let wrong = wrong(&proved(&web, stateless));
    assert!(wrong.contains("connections are tracked") && !wrong.contains("200000 bytes from 198.18"), "{wrong}");
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
    let policy = policy(&services);
    let rules = Rules::of(&policy).nft();
    // They are too long for a word of a command.
    let dir = tempfile::tempdir().unwrap();
    let by_file = |name: &str, rules: &str| {
        let file = dir.path().join(name);
        fs::write(&file, rules).unwrap();
        wrong(&proved(&policy, &format!("nft -f {}", file.display())))
    };
    assert_eq!(by_file("whole", &rules), "");
    // One service accepts everybody by UDP, and another one nobody by TCP.
    let is_open = |line: &str| line.contains("udp dport 3037") && line.contains("accept");
    let is_shut = |line: &str| line.contains("tcp dport 2012") && line.contains("accept");
    assert!(rules.lines().any(is_open) && rules.lines().any(is_shut), "{rules}");
    let open = |line: &str| if is_open(line) { line.replace("ip saddr @services.s37.4 ", "") } else { line.to_owned() };
    let planted: Vec<String> = rules.lines().filter(|line| !is_shut(line)).map(open).collect();
    let wrong = by_file("wrong", &planted.join("\n"));
    for found in ["port 3037", "dropped, but services.s12 accepts it"] {
        assert!(wrong.contains(found), "{found}: {wrong}");
    }
}

/// Once a datagram is answered, tracking knows all further ones. They count all the same.
#[test]
fn a_limit_of_datagrams_holds_after_an_answer() {
    if !machine_has(NEEDS) {
        return;
    }
    for (mode, form) in
        [("stateful", Form::Nft), ("stateful", Form::IptablesLegacy), ("hybrid", Form::Nft), ("stateless", Form::Nft)]
    {
        let text = format!("mode = '{mode}'\n[services.ssh]\n[services.syslog]\nudp = [5140]\nlimit = '10/minute'\n");
        is_proved(&policy(&text), form, mode);
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
    for form in [Form::Nft, Form::IptablesNft] {
        assert_eq!(is_proved(&policy(text), form, "bogons").talks, 10);
    }
    // No address is left for a router whose answers may come in.
    let text = "deny = ['0.0.0.0/0', '::/0']\nallow = ['203.0.113.0/24', '2001:db8:5::/48']\n[services.ssh]\n[clients.https]\n";
    is_proved(&policy(text), Form::Nft, "all but a few");
}
