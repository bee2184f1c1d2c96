//! Tests of reading the rules of others.

use super::*;
use crate::policy::Ports;

/// What nft lists of one chain at a hook, and one that nothing leads to but these rules.
fn of_nft(hook: &str, rules: &[(&str, &str)]) -> Others {
    let mut text = format!(
        r#"{{"nftables": [{{"chain": {{"family": "inet", "table": "o", "name": "base", "hook": "{hook}", "policy": "accept"}}}},
           {{"chain": {{"family": "inet", "table": "o", "name": "far"}}}}"#
    );
    for (chain, expression) in rules {
        text += &format!(
            r#", {{"rule": {{"family": "inet", "table": "o", "chain": "{chain}", "handle": 7, "expr": [{expression}]}}}}"#
        );
    }
    let mut reading = Reading::default();
    reading.nft(&(text + "]}")).unwrap();
    reading.end()
}

fn of_legacy(saved: &str) -> Others {
    let mut reading = Reading::default();
    reading.legacy("iptables-legacy", "filter\n", saved);
    reading.end()
}

fn rules(limited: &[Limited]) -> Vec<&str> {
    limited.iter().map(|one| one.rule.as_str()).collect()
}

#[test]
fn every_way_to_ask_what_tracking_says_is_seen() {
    for expression in [
        r#"{"match": {"left": {"ct": {"key": "state"}}, "right": "new"}}"#,
        r#"{"match": {"left": {"ct": {"key": "ip saddr", "dir": "original"}}, "right": "1.2.3.4"}}"#,
        r#"{"match": {"left": {"&": [{"ct": {"key": "mark"}}, 1]}, "right": 1}}"#,
        r#"{"match": {"left": {"concat": [{"payload": {}}, {"ct": {"key": "mark"}}]}, "right": "@set"}}"#,
        r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"ct": {"key": "mark"}}}}"#,
        r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"map": {"key": {"ct": {"key": "state"}}, "data": "@m"}}}}"#,
        r#"{"vmap": {"key": {"concat": [{"ct": {"key": "state"}}, {"payload": {}}]}, "data": {"set": []}}}"#,
        r#"{"ct count": {"val": 5, "inv": true}}"#,
        r#"{"set": {"op": "add", "elem": {"payload": {}}, "set": "@s", "stmt": [{"ct count": {"val": 5}}]}}"#,
        r#"{"xt": {"type": "match", "name": "connlimit"}}"#,
        r#"{"xt": {"type": "target", "name": "CONNMARK"}}"#,
        r#"{"xt": null}"#,
    ] {
        let others = of_nft("prerouting", &[("base", expression)]);
        let asking = Some("the rule with handle 7 in the chain inet o base");
        assert_eq!(others.question.as_deref(), asking, "{expression}");
        assert_eq!(of_nft("forward", &[("base", expression)]), Others::default(), "{expression}");
    }
    for expression in [
        r#"{"mangle": {"key": {"ct": {"key": "mark"}}, "value": {"meta": {"key": "mark"}}}}"#,
        r#"{"match": {"left": {"meta": {"key": "mark"}}, "right": 1}}, {"counter": null}, {"accept": null}"#,
        r#"{"xt": {"type": "match", "name": "comment"}}, {"xt": {"type": "target", "name": "LOG"}}"#,
        r#"{"mangle": {"key": {"tcp option": {"name": "maxseg"}}, "value": {"rt": {"key": "mtu"}}}}"#,
    ] {
        assert_eq!(of_nft("input", &[("base", expression)]), Others::default(), "{expression}");
    }
}

#[test]
fn every_way_to_turn_tracking_off_is_seen() {
    for expression in [r#"{"match": {}}, {"notrack": null}"#, r#"{"xt": {"type": "target", "name": "CT"}}"#] {
        let mut others = of_nft("prerouting", &[("base", expression)]);
        let rules: Vec<String> = others.untracking.drain(..).map(|one| one.rule).collect();
        assert_eq!(rules, ["the rule with handle 7 in the chain inet o base"], "{expression}");
        assert_eq!(others, Others::default(), "{expression}");
        assert_eq!(of_nft("forward", &[("base", expression)]), Others::default(), "{expression}");
    }
    let raw = |rule: &str| of_legacy(&format!("*filter\n*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {rule}\n"));
    for rule in ["-p udp -m udp --dport 53 -j CT --notrack", "-j NOTRACK"] {
        assert!(raw(rule).untracking.iter().any(|one| one.rule.contains(rule)), "{rule}");
    }
    assert_eq!(raw("-p tcp -m tcp --dport 21 -j CT --helper ftp"), Others::default());
}

#[test]
fn a_rule_that_turns_tracking_off_is_about_every_service_that_it_does_not_exclude() {
    let ssh = Ports { tcp: vec![(22, 22)], udp: Vec::new() };
    let is_about = |others: &Others| others.untracking.iter().any(|one| one.is_about(&ssh));
    let port = |field: &str, right: &str| {
        let left = format!(r#"{{"payload": {{"protocol": "tcp", "field": "{field}"}}}}"#);
        format!(r#"{{"match": {{"op": "==", "left": {left}, "right": {right}}}}}"#)
    };
    let of = |left: &str, right: &str| format!(r#"{{"match": {{"op": "==", "left": {left}, "right": {right}}}}}"#);
    let far = r#"{"jump": {"target": "far"}}"#;
    for (hook, limits, expected) in [
        ("prerouting", port("dport", "22"), true),
        ("prerouting", port("dport", "53"), false),
        ("prerouting", port("dport", r#"{"set": [{"range": [20, 30]}, 80]}"#), true),
        ("prerouting", port("dport", r#"{"set": [80, 443]}"#), false),
        ("prerouting", port("dport", r#""@ports""#), true),
        ("prerouting", port("dport", "53").replace("==", "!="), true),
        ("prerouting", port("sport", "53"), true),
        ("output", port("sport", "53"), false),
        ("output", port("sport", "22"), true),
        ("output", port("dport", "53"), true),
        ("prerouting", of(r#"{"meta": {"key": "l4proto"}}"#, r#""udp""#), false),
        ("prerouting", of(r#"{"payload": {"protocol": "ip", "field": "protocol"}}"#, "17"), false),
        ("prerouting", of(r#"{"payload": {"protocol": "ip", "field": "saddr"}}"#, r#""192.0.2.1""#), true),
        ("prerouting", of(r#"{"meta": {"key": "iifname"}}"#, r#""eth0""#), true),
        ("prerouting", of(r#"{"meta": {"key": "iifname"}}"#, r#""lo""#), false),
    ] {
        for untracking in [r#"{"notrack": null}"#, r#"{"xt": {"type": "target", "name": "CT"}}"#] {
            let rule = format!("{limits}, {untracking}");
            assert_eq!(is_about(&of_nft(hook, &[("base", &rule)])), expected, "{hook}: {rule}");
            assert_eq!(is_about(&of_nft(hook, &[("base", far), ("far", &rule)])), expected, "{hook}: {rule}");
        }
    }
    let late = format!(r#"{{"notrack": null}}, {}"#, port("dport", "53"));
    assert!(is_about(&of_nft("prerouting", &[("base", &late)])), "it limits what comes after it");
    for (rule, expected) in [
        ("PREROUTING -i v0 -p tcp -m tcp --dport 22 -j CT --notrack", true),
        ("PREROUTING -s 192.0.2.0/24 -j NOTRACK", true),
        ("PREROUTING -p tcp -m tcp ! --dport 53 -j CT --notrack", true),
        ("PREROUTING -p tcp -m multiport --dports 20:30,80 -j CT --notrack", true),
        ("PREROUTING -p tcp -m multiport --dports 80,443 -j CT --notrack", false),
        ("PREROUTING -p tcp -m tcp --dport 1024:65535 -j CT --notrack", false),
        ("PREROUTING -p udp -j CT --notrack", false),
        ("PREROUTING ! -p udp -j CT --notrack", true),
        ("PREROUTING -i lo -j CT --notrack", false),
        ("OUTPUT -p tcp -m tcp --sport 53 -j CT --notrack", false),
        ("OUTPUT -p tcp -m tcp --dport 53 -j CT --notrack", true),
    ] {
        let chains = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]";
        assert_eq!(is_about(&of_legacy(&format!("*filter\n*raw\n{chains}\n-A {rule}\n"))), expected, "{rule}");
    }
}

#[test]
fn a_rule_that_drops_is_about_what_it_does_not_exclude() {
    let ssh = Ports { tcp: vec![(22, 22)], udp: Vec::new() };
    let is_about = |others: &Others| others.drops.iter().any(|one| one.is_about(&ssh));
    let port = |port: u16| {
        let left = r#"{"payload": {"protocol": "tcp", "field": "dport"}}"#;
        format!(r#"{{"match": {{"op": "==", "left": {left}, "right": {port}}}}}"#)
    };
    let invalid = r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}}"#;
    for drop in [
        r#"{"drop": null}"#,
        r#"{"reject": null}"#,
        r#"{"xt": {"type": "target", "name": "REJECT"}}"#,
        r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}"#,
        r#"{"vmap": {"key": {"meta": {"key": "mark"}}, "data": "@verdicts"}}"#,
        r#"{"vmap": {"key": {"meta": {"key": "mark"}}, "data": {"set": [[1, {"drop": null}]]}}}"#,
    ] {
        for (limited, expected) in [(port(9_999), false), (port(22), true), (r#"{"counter": null}"#.to_owned(), true)] {
            let rule = format!("{limited}, {invalid}, {drop}");
            let others = of_nft("input", &[("base", &rule)]);
            assert_eq!((is_about(&others), others.drops.len()), (expected, 1), "{rule}");
            assert!(others.question.is_some() && others.dropping.contains("inet o base"), "{rule}");
        }
        for (limited, expected) in [(port(9_999), false), (port(22), true)] {
            for way in [r#"{"jump": {"target": "far"}}"#, r#"{"vmap": {"key": {"payload": {}}, "data": "@verdicts"}}"#]
            {
                let (way, rule) = (format!("{limited}, {way}"), format!("{invalid}, {drop}"));
                let others = of_nft("input", &[("base", &way), ("far", &rule)]);
                assert_eq!((is_about(&others), others.question.is_some()), (expected, true), "{way}: {rule}");
            }
        }
        let late = format!("{drop}, {}", port(9_999));
        assert!(is_about(&of_nft("input", &[("base", &late)])), "it limits what comes after it: {late}");
    }
    for (rule, expected) in [
        ("INPUT -p tcp -m tcp --dport 9999 -m conntrack --ctstate INVALID -j DROP", false),
        ("INPUT -p tcp -m multiport --dports 9999,10000:10010 -m conntrack --ctstate INVALID -j REJECT", false),
        ("INPUT -p tcp -m multiport --dports 20:30 -m conntrack --ctstate INVALID -j DROP", true),
        ("INPUT -p udp -m conntrack --ctstate INVALID -j DROP", false),
        ("INPUT -p tcp -m tcp ! --dport 9999 -m conntrack --ctstate INVALID -j DROP", true),
        ("INPUT -s 192.0.2.1 -m conntrack --ctstate INVALID -j DROP", true),
        ("OUTPUT -p tcp -m tcp --sport 9999 -m conntrack --ctstate INVALID -j DROP", false),
        ("OUTPUT -p tcp -m tcp --dport 9999 -m conntrack --ctstate INVALID -j DROP", true),
    ] {
        let others = of_legacy(&format!("*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A {rule}\n"));
        assert_eq!((is_about(&others), others.question.is_some()), (expected, true), "{rule}");
    }
    let chains = "*filter\n:INPUT ACCEPT [0:0]\n:c - [0:0]\n-A c -m conntrack --ctstate INVALID -j DROP\n";
    for (port, expected) in [(9_999, false), (22, true)] {
        let others = of_legacy(&format!("{chains}-A INPUT -p tcp -m tcp --dport {port} -j c\n"));
        assert_eq!(is_about(&others), expected, "{port}");
    }
    assert!(is_about(&of_legacy(&format!("{chains}-A INPUT -p tcp -m tcp --dport 9999 -j c\n-A INPUT -j c\n"))));
    assert!(is_about(&of_legacy("*filter\n:INPUT DROP [0:0]\n")), "a policy is about all");
}

#[test]
fn every_way_to_a_drop_is_seen() {
    let far = ("far", r#"{"reject": null}"#);
    for way in [
        r#"{"jump": {"target": "far"}}"#,
        r#"{"match": {}}, {"goto": {"target": "far"}}"#,
        r#"{"vmap": {"key": {"payload": {}}, "data": {"set": [[80, {"accept": null}], [81, {"jump": {"target": "far"}}]]}}}"#,
        r#"{"vmap": {"key": {"payload": {}}, "data": {"set": [[80, {"drop": null}]]}}}"#,
        r#"{"vmap": {"key": {"payload": {}}, "data": "@verdicts"}}"#,
        r#"{"drop": null}"#,
        r#"{"queue": {"num": 1}}"#,
        r#"{"synproxy": {"mss": 1460}}"#,
        r#"{"xt": {"type": "target", "name": "REJECT"}}"#,
        r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}"#,
        r#"{"mangle": {"key": {"payload": {"protocol": "ip", "field": "daddr"}}, "value": "10.0.0.1"}}"#,
    ] {
        for hook in ["ingress", "prerouting", "input", "output", "postrouting", "egress"] {
            let others = of_nft(hook, &[("base", way), far]);
            assert!(!others.drops.is_empty(), "{hook}: {way}");
            assert_eq!(others.dropping.iter().collect::<Vec<_>>(), ["inet o base"], "{hook}: {way}");
        }
        assert_eq!(of_nft("forward", &[("base", way), far]), Others::default(), "{way}");
    }
    assert_eq!(of_nft("input", &[("base", r#"{"accept": null}"#), far]), Others::default(), "nothing leads there");
}

#[test]
fn chains_of_iptables_nft_and_tables_that_translate_are_found() {
    let json = r#"{"nftables": [
        {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}},
        {"chain": {"family": "inet", "table": "millstream", "name": "incoming", "hook": "input", "policy": "drop"}},
        {"rule": {"family": "inet", "table": "millstream", "chain": "incoming", "expr": [{"ct": {"key": "state"}}]}},
        {"chain": {"family": "arp", "table": "filter", "name": "in", "hook": "input", "policy": "drop"}},
        {"chain": {"family": "ip", "table": "nat", "name": "POSTROUTING", "hook": "postrouting", "type": "nat"}},
        {"chain": {"family": "ip6", "table": "nat", "name": "POSTROUTING", "hook": "postrouting", "type": "nat"}},
        {"rule": {"family": "ip", "table": "nat", "chain": "DOCKER", "expr": [{"match": {}}, {"xt": null}]}}]}"#;
    let mut reading = Reading::default();
    reading.nft(json).unwrap();
    let others = reading.end();
    assert_eq!(others.translating.into_iter().collect::<Vec<_>>(), ["ip nat"]);
    assert_eq!(others.dropping.into_iter().collect::<Vec<_>>(), ["ip filter INPUT"]);
    assert_eq!(rules(&others.drops), ["the policy of the chain ip filter INPUT"]);
    assert_eq!(others.question, None);
    assert!(Reading::default().nft("no JSON").unwrap_err().problem.contains("cannot be read"));
}

#[test]
fn the_older_iptables_is_read() {
    let saved = "# a comment\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:c - [0:0]\n:unused - [0:0]\n";
    assert_eq!(of_legacy(&format!("{saved}-A unused -m conntrack --ctstate INVALID -j DROP\n")), Others::default());
    assert_eq!(of_legacy(&format!("{saved}-A FORWARD -m state --state NEW -j DROP\nCOMMIT\n")), Others::default());
    let harmless = "-A INPUT -p tcp -m tcp --dport 22 -m comment --comment \"a -j DROP \\\" -m state\" -j ACCEPT\n";
    assert_eq!(of_legacy(&format!("{saved}{harmless}-A INPUT\n")), Others::default());

    let others = of_legacy(&format!("{saved}-A INPUT -g c\n-A c -m conntrack --ctstate INVALID -j DROP\n"));
    let rule = "the rule -A c -m conntrack --ctstate INVALID -j DROP of iptables-legacy filter";
    assert_eq!((rules(&others.drops), others.question.as_deref()), (vec![rule], Some(rule)));
    assert_eq!(others.dropping.into_iter().collect::<Vec<_>>(), ["iptables-legacy filter INPUT"]);
    let others = of_legacy("*filter\n:INPUT DROP [0:0]\n");
    assert_eq!(rules(&others.drops), ["the policy of the chain iptables-legacy filter INPUT"]);
    assert_eq!(others.question, None);
    let others = of_legacy("*filter\n*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j CONNMARK --restore-mark\n");
    assert!(others.question.is_some() && !others.drops.is_empty());
    let others = of_legacy("*filter\n*nat\n:POSTROUTING ACCEPT [0:0]\n");
    assert_eq!(others, Others::default(), "an empty table translates nothing");
    let others = of_legacy("*filter\n*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -j MASQUERADE\n");
    assert_eq!(others.translating.into_iter().collect::<Vec<_>>(), ["iptables-legacy"]);
    let others = of_legacy("*nat\n");
    assert!(!others.drops.is_empty() && others.question.unwrap().contains("its table filter was not printed"));
}
