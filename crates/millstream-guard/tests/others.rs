//! Rules of other programs: those that need tracking are seen wherever they are, and not read without an end.

use crate::host::Host;
use crate::policy::{WEB, policy};
use millstream_guard::warning::{Facts, may_apply, warnings};

/// Scripts of others, after which a policy without tracking could lock somebody out.
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

#[tokio::test]
async fn rules_of_others_that_need_tracking_are_seen_wherever_they_are() {
    let test = "others::rules_of_others_that_need_tracking_are_seen_wherever_they_are";
    let Some(_host) = Host::after(test, &following()) else { return };
    let (policy, facts) = (policy(WEB), Facts::read().await.unwrap());
    let refused = may_apply(&policy, &facts, false).unwrap_err();
    assert!(refused.problem.contains("connection tracking says"), "{refused}");
    assert!(refused.hint.unwrap().contains("mode = \"stateful\""));
    let warned = warnings(&policy, &facts).join("\n");
    assert!(warned.contains("connection tracking says"), "{warned}");
}

/// Scripts of others that do not need tracking for packets of the host, and what is said of their drops.
const HARMLESS: [(&str, &str); 5] = [
    (
        "nft -f - <<'END'\ntable inet o {\nchain f { type filter hook forward priority 0; policy drop; ct state new accept; }\n}\nEND\n",
        "",
    ),
    ("iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP; iptables-legacy -t nat -L", ""),
    ("iptables-nft -A INPUT -m conntrack --ctstate NEW -j LOG", ""),
    ("iptables-legacy -P INPUT DROP", "the chain iptables-legacy filter INPUT drops packets too"),
    ("ip6tables-nft -P INPUT DROP", "the chain ip6 filter INPUT drops packets too"),
];

#[tokio::test]
async fn rules_of_others_that_need_no_tracking_are_in_nobodys_way() {
    let test = "others::rules_of_others_that_need_no_tracking_are_in_nobodys_way";
    let Some(host) = Host::after(test, &HARMLESS.map(|(script, _)| script)) else { return };
    let (policy, facts) = (policy(WEB), Facts::read().await.unwrap());
    let warned = warnings(&policy, &facts).join("\n");
    assert!(!warned.contains("connection tracking says") && !warned.contains("translates"), "{warned}");
    let (_, expected) = HARMLESS[host.script];
    assert!(warned.contains(expected), "{warned}");
    assert_eq!(warned.contains("drops packets too"), !expected.is_empty(), "{warned}");
    may_apply(&policy, &facts, false).unwrap();
}

/// Drops of others that need tracking, and whether a service of the policy or an answer to it can meet them.
const LIMITED: [(&str, bool); 5] = [
    ("nft add rule inet o c tcp dport 9999 ct state invalid drop", false),
    (
        "nft add chain inet o far; nft add rule inet o far ct state invalid drop; nft add rule inet o c tcp dport 9999 jump far",
        false,
    ),
    ("iptables-legacy -A INPUT -p tcp --dport 9999 -m conntrack --ctstate INVALID -j DROP", false),
    ("nft add rule inet o c tcp dport 22 ct state invalid drop", true),
    ("nft add rule inet o c tcp sport 53 ct state invalid drop", true),
];

#[tokio::test]
async fn a_drop_that_no_service_and_no_answer_can_meet_is_no_reason_to_refuse() {
    let base = "nft add table inet o; nft 'add chain inet o c { type filter hook input priority 0; }'";
    let test = "others::a_drop_that_no_service_and_no_answer_can_meet_is_no_reason_to_refuse";
    let scripts = LIMITED.map(|(script, _)| format!("{base}; {script}"));
    let Some(host) = Host::after(test, &scripts) else { return };
    let (policy, facts) = (policy(WEB), Facts::read().await.unwrap());
    let (script, meets) = LIMITED[host.script];
    let warned = warnings(&policy, &facts).join("\n");
    assert!(warned.contains("connection tracking says"), "{script}: {warned}");
    assert_eq!(warned.contains("over the loopback device"), !meets, "{script}: {warned}");
    assert_eq!(may_apply(&policy, &facts, false).is_ok(), !meets, "{script}");
}

#[tokio::test]
async fn a_policy_that_does_not_track_is_refused_where_others_translate_addresses() {
    let test = "others::a_policy_that_does_not_track_is_refused_where_others_translate_addresses";
    let Some(_host) = Host::after(test, &["iptables-nft -t nat -A POSTROUTING -j MASQUERADE"]) else { return };
    let facts = Facts::read().await.unwrap();
    let refused = may_apply(&policy(WEB), &facts, false).unwrap_err();
    assert!(refused.problem.contains("ip nat translates addresses"), "{refused}");
    may_apply(&policy(&format!("mode = 'stateful'\n{WEB}")), &facts, false).unwrap();
}

/// What nft prints is kept in memory.
#[tokio::test]
async fn rules_without_an_end_are_refused() {
    let endless = "mkdir \"$MILLSTREAM_TEST_HOST/bin\"\nprintf '#!/bin/sh\\nexec yes\\n' > \"$MILLSTREAM_TEST_HOST/bin/nft\"\n\
                   chmod 755 \"$MILLSTREAM_TEST_HOST/bin/nft\"\nexport PATH=\"$MILLSTREAM_TEST_HOST/bin:$PATH\"";
    let Some(_host) = Host::after("others::rules_without_an_end_are_refused", &[endless]) else { return };
    let refused = Facts::read().await.unwrap_err();
    assert!(refused.problem.contains("nft prints more than 64 MiB of rules"), "{refused}");
    assert!(refused.hint.is_some());
}
