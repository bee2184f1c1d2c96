//! Rules are proved by packets: those of a policy decide as it says, in every form, and what is missing from others is found.

use crate::host::NEEDS;
use crate::policy::{SMALL, WEB, policy};
use crate::prober::prober;
use millstream_guard::import::{Text, import};
use millstream_guard::policy::Policy;
use millstream_guard::prove::{Form, Report, Subject, Wrong, prove};
use millstream_guard::rules::Rules;
use millstream_testkit::machine_has;
use std::collections::BTreeSet;
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

/// A stateful script that says all that a policy does, as iptables-save and ip6tables-save print it.
const WHOLE: [&str; 2] = [
    "# Generated by iptables-save v1.8.9\n*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n\
     -A INPUT -i lo -j ACCEPT\n-A INPUT -s 203.0.113.0/24 -j DROP\n-A INPUT -p icmp -m icmp --icmp-type 3 -j ACCEPT\n\
     -A INPUT -p icmp -m icmp --icmp-type 11 -j ACCEPT\n-A INPUT -p icmp -m icmp --icmp-type 12 -j ACCEPT\n\
     -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -m conntrack --ctstate INVALID -j DROP\n\
     -A INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT\n\
     -A INPUT -p tcp -m tcp --dport 22 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT\n\
     -A INPUT -s 192.0.2.128/25 -p tcp -m tcp --dport 80 -j DROP\n\
     -A INPUT -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT\n\
     -A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -p icmp -j ACCEPT\n\
     -A OUTPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A OUTPUT -p udp -m udp --dport 53 -j ACCEPT\n\
     -A OUTPUT -p tcp -m tcp --dport 53 -j ACCEPT\nCOMMIT\n",
    "# Generated by ip6tables-save v1.8.9\n*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n\
     -A INPUT -i lo -j ACCEPT\n-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 134 -m hl --hl-eq 255 -j ACCEPT\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 135 -m hl --hl-eq 255 -j ACCEPT\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 136 -m hl --hl-eq 255 -j ACCEPT\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 130 -j ACCEPT\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 1 -j ACCEPT\n-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 2 -j ACCEPT\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 3 -j ACCEPT\n-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 4 -j ACCEPT\n\
     -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -m conntrack --ctstate INVALID -j DROP\n\
     -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT\n\
     -A INPUT -p tcp -m tcp --dport 22 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT\n\
     -A INPUT -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT\n\
     -A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -p ipv6-icmp -j ACCEPT\n\
     -A OUTPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A OUTPUT -p udp -m udp --dport 53 -j ACCEPT\n\
     -A OUTPUT -p tcp -m tcp --dport 53 -j ACCEPT\nCOMMIT\n",
];

/// The same as one table of nft. This host sends everything.
const WHOLE_NFT: &str = "\
table inet filter {
	set bad {
		type ipv4_addr
		flags interval
		elements = { 203.0.113.0/24 }
	}

	chain input {
		type filter hook input priority filter; policy drop;
		iif \"lo\" accept
		icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
		icmpv6 type mld-listener-query accept
		ip saddr @bad drop
		icmp type { destination-unreachable, time-exceeded, parameter-problem } accept
		icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept
		ct state vmap { invalid : drop, established : accept, related : accept }
		icmp type echo-request accept
		icmpv6 type echo-request accept
		tcp flags & (fin | syn | rst | ack) != syn drop
		tcp dport { 22, 80 } accept
		ip saddr 10.0.0.0/8 udp dport 5140 accept
	}
}
";

fn imported(texts: &[&str]) -> millstream_guard::import::Import {
    let text = |text: &&str| Text { file: "rules".to_owned(), text: (*text).to_owned() };
    import(&texts.iter().map(text).collect::<Vec<_>>()).unwrap()
}

/// The policy that was made of a script decides as the script does, and needs no word to be left out.
#[test]
fn an_imported_policy_is_proved_equal_to_its_script() {
    if !machine_has(NEEDS) {
        return;
    }
    let [v4, v6] = WHOLE;
    let iptables = format!("iptables-restore <<'END'\n{v4}END\nip6tables-restore <<'END'\n{v6}END\n");
    for (texts, script) in [(&WHOLE[..], iptables), (&[WHOLE_NFT], of_nft(WHOLE_NFT))] {
        let import = imported(texts);
        assert!(import.left_out.is_empty() && import.remarks.is_empty(), "{import:?}");
        assert!(import.differences.is_empty(), "{}: {:?}", import.text, import.differences);
        assert_eq!(wrong(&proved(&import.policy, &script)), "", "{}", import.text);
        is_proved(&import.policy, Form::Nft, "imported");
    }
}

/// Where a script says less than every policy, the lines that import names are those that a proof by the kernel finds.
#[test]
fn what_an_import_says_to_differ_is_what_a_proof_finds() {
    if !machine_has(NEEDS) {
        return;
    }
    let text = "# Generated by iptables-save v1.8.9\n*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n\
                -A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n\
                -A INPUT -p tcp -m multiport --dports 22,80 -m state --state NEW -j ACCEPT\n\
                -A OUTPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n\
                -A OUTPUT -p udp -m udp --dport 53 -m state --state NEW -j ACCEPT\n\
                -A OUTPUT -p tcp -m tcp --dport 53 -m state --state NEW -j ACCEPT\nCOMMIT\n";
    let import = imported(&[text]);
    assert!(import.left_out.is_empty(), "{import:?}");
    let said: BTreeSet<(String, bool)> = import
        .differences
        .iter()
        .map(|one| (one.line.clone(), one.accepts))
        .filter(|(line, _)| line != "loopback")
        .collect();
    let report = proved(&import.policy, &format!("iptables-restore <<'END'\n{text}END\n"));
    let of_v4 = report.wrong.iter().filter_map(|one| match one {
        Wrong::Packet { packet, meant } if packet.source.is_ipv4() => Some((meant.line.clone(), meant.accepts)),
        _ => None,
    });
    let found: BTreeSet<(String, bool)> = of_v4.collect();
    assert_eq!(said, found, "{}", wrong(&report));
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

/// A text is denied in each form that has words for it, also once a datagram was answered, and `allow` exempts from it.
#[test]
fn a_denied_text_is_proved_in_each_form_that_can_look_for_it() {
    if !machine_has(NEEDS) {
        return;
    }
    let at_place = "{ text = 'attack at dawn', at = 3 }";
    let both = [Form::IptablesNft, Form::IptablesLegacy];
    for (mode, denied, forms) in [
        ("stateless", "'\"needle|\\'", &both[..]),
        ("stateful", "'x'", &both[..1]),
        ("stateless", at_place, &Form::ALL[..]),
        ("stateful", at_place, &[Form::Nft]),
        // It is part of what a proof sends otherwise.
        ("hybrid", "{ text = 'test', at = 0 }", &[Form::Nft, Form::IptablesNft]),
    ] {
        let text = format!(
            "mode = '{mode}'\nallow = ['198.51.100.0/24']\n[services.ssh]\n[services.syslog]\nudp = [5140]\n\
             deny_text = {denied}\n[services.metrics]\nudp = [8125]\nfrom = ['10.0.0.0/8', '2001:db8:5::/48']\n\
             deny_text = {denied}\n"
        );
        let policy = policy(&text);
        for form in forms {
            is_proved(&policy, *form, denied);
        }
    }
    let anywhere = policy("[services.dns]\ndeny_text = 'x'\n");
    let refused = prove(&anywhere, Subject::Own(Form::Nft), &prober()).unwrap_err();
    assert!(refused.problem.starts_with("services.dns.text: nft cannot look for a text"), "{refused}");
    assert!(refused.hint.unwrap().contains("at = 0"));
    // A rule that is missing is found.
    let rules = Rules::of(&policy("[services.ssh]\n[services.dns]\ndeny_text = { text = 'needle', at = 0 }\n")).nft();
    let lines: Vec<&str> = rules.lines().filter(|one| !one.contains("services.dns.text")).collect();
    assert!(lines.len() < rules.lines().count(), "{rules}");
    let denying = policy("[services.ssh]\n[services.dns]\ndeny_text = { text = 'needle', at = 0 }\n");
    let wrong = wrong(&proved(&denying, &of_nft(&lines.join("\n"))));
    assert!(wrong.contains("passed, but services.dns.text drops it: udp") && wrong.contains("needle"), "{wrong:.3000}");
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
