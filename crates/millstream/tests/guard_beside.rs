//! `guard apply` beside the rules of other programs: they are read up to a limit, and services are tried with a copy of them.

use crate::guard::{Host, NEEDS, PROGRAM, SMALL, file};
use millstream_guard::others::Copied;
use millstream_guard::policy::Policy;
use millstream_guard::prove::lost_beside;
use millstream_host::Command;
use millstream_testkit::machine_has;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SSH: &str = "[services.ssh]\n";
const DNS: &str = "[services.dns]\n";

/// Rules of others in one chain of nft.
fn of_nft(hook: &str, rules: &str) -> Copied {
    let nft = format!(
        "table inet o {{\nchain base {{ type filter hook {hook} priority 0; policy drop; iifname \"lo\" accept; {rules}; }}\n}}\n"
    );
    Copied { nft, ..Copied::default() }
}

/// The same for iptables.
fn of_iptables(program: &'static str) -> Copied {
    let rules = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
                 -A INPUT -p tcp -m conntrack --ctstate NEW,ESTABLISHED -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    Copied { saved: vec![(program, rules.to_owned())], ..Copied::default() }
}

#[test]
fn a_service_that_others_would_drop_is_found_before_anything_is_loaded() {
    if !machine_has(NEEDS) {
        return;
    }
    let lost = |policy: &str, others: &Copied| {
        let (_dir, path) = file("policy.toml", policy);
        let policy = Policy::read(Path::new(&path), &|_| Ok(Vec::new())).unwrap();
        lost_beside(&policy, others, Path::new(PROGRAM)).unwrap()
    };
    let (ssh, dns) = ("services.ssh (port 22 of tcp)", "services.dns (port 53 of udp)");
    let news = of_nft("input", "ct state established accept; ct state new tcp dport 22 accept");
    let limited = of_nft("input", "ct state established accept; tcp dport 22 limit rate 1/hour burst 1 packets accept");
    let untracked = "table ip o {\nchain early { type filter hook prerouting priority -300; tcp dport 22 notrack; }\n\
                     chain out { type filter hook output priority -300; tcp sport 22 notrack; }\n}\n";
    let untracked = Copied { nft: untracked.to_owned(), ..Copied::default() };
    for (policy, others, found) in [
        (SSH, &Copied::default(), &[][..]),
        (SSH, &news, &[ssh]),
        (&format!("mode = 'stateful'\n{SSH}"), &news, &[]),
        (&format!("mode = 'hybrid'\n{SSH}hot = true\n"), &news, &[ssh]),
        (SSH, &of_nft("input", "tcp dport 22 accept"), &[]),
        (&format!("mode = 'stateful'\n{SSH}"), &untracked, &[ssh]),
        (SSH, &untracked, &[]),
        // The limit of others is reached by what is tried, and not by the policy.
        (&format!("mode = 'stateful'\n{SSH}"), &limited, &[]),
        // It did not work before, either.
        (SSH, &of_nft("input", "tcp dport 80 accept"), &[]),
        (SSH, &of_nft("output", "ct state established accept"), &[ssh]),
        (DNS, &of_nft("input", "ct state new,established udp dport 53 accept"), &[dns]),
        (SSH, &of_iptables("iptables-nft-restore"), &[ssh]),
        (SSH, &of_iptables("iptables-legacy-restore"), &[ssh]),
    ] {
        assert_eq!(lost(policy, others), found, "{policy}: {others:?}");
    }
    let unreadable = Copied { nft: "table ip o { chain c { iif far counter; }; }\n".to_owned(), ..Copied::default() };
    let (_dir, path) = file("policy.toml", SSH);
    let policy = Policy::read(Path::new(&path), &|_| Ok(Vec::new())).unwrap();
    lost_beside(&policy, &unreadable, Path::new(PROGRAM)).unwrap_err();
}

#[test]
fn rules_of_others_are_copied_in_every_form_and_a_copy_that_cannot_be_made_is_said() {
    let Some(host) = Host::new() else { return };
    let policy = host.policy("policy.toml", &format!("mode = 'stateful'\n{SSH}"));
    let apply = || {
        let applied = host.guard(&["apply", &policy, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
        host.guard(&["undo"], "").succeeded().unwrap();
        applied.stderr
    };
    let others = "nft -f - <<'END'\ntable inet o {\nset s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }\n\
                  chain c { type filter hook input priority 3; ip saddr @s counter; ct state established accept; }\n}\nEND\n\
                  iptables-nft -t nat -A POSTROUTING -j MASQUERADE\n\
                  ip6tables-nft -A INPUT -m conntrack --ctstate INVALID -j DROP\n\
                  ipset create listed hash:net\nipset add listed 10.0.0.0/8\n\
                  iptables-nft -A INPUT -m set --match-set listed src -j ACCEPT\n\
                  iptables-legacy -A INPUT -p tcp -m multiport --dports 9,10 -j ACCEPT\n";
    host.sandbox.run(0, "sh", ["-ec", others]).unwrap();
    let said = apply();
    assert!(!said.contains("were not tried"), "{said}");
    let of_device = "ip link add here type veth peer name there\nnft add rule inet o c iif here counter\n";
    host.sandbox.run(0, "sh", ["-ec", of_device]).unwrap();
    let said = apply();
    assert!(
        said.contains("warning: the services were not tried beside a copy of the rules of other programs"),
        "{said}"
    );
}

#[test]
fn a_policy_that_tracks_is_refused_where_others_do_not_track_its_service() {
    let Some(host) = Host::new() else { return };
    let policy = host.policy("policy.toml", &format!("mode = 'stateful'\n{SSH}"));
    let raw = |port: u16| {
        format!(
            "nft -f - <<'END'\ntable ip o{port} {{\n\
             chain early {{ type filter hook prerouting priority -300; tcp dport {port} notrack; }}\n\
             chain out {{ type filter hook output priority -300; tcp sport {port} notrack; }}\n}}\nEND\n"
        )
    };
    host.sandbox.run(0, "sh", ["-ec", &raw(53)]).unwrap();
    let applied = host.guard(&["apply", &policy, "--yes", "--confirm-within", "1h"], "").succeeded().unwrap();
    assert!(applied.stderr.contains("may turn connection tracking off"), "{applied:?}");
    host.guard(&["undo"], "").succeeded().unwrap();
    // No trial meets the addresses and devices of your clients, so the rules decide.
    let of_clients = [
        "nft add chain ip o53 c '{ type filter hook prerouting priority -300; }'; \
                       nft add rule ip o53 c ip saddr 192.0.2.0/24 tcp dport 22 notrack",
        "iptables-legacy -t raw -A PREROUTING -i v0 -p tcp --dport 22 -j CT --notrack",
    ];
    let undone = ["nft flush chain ip o53 c; nft delete chain ip o53 c", "iptables-legacy -t raw -F"];
    for (rule, undo) in of_clients.into_iter().zip(undone) {
        host.sandbox.run(0, "sh", ["-ec", rule]).unwrap();
        let refused = host.guard(&["apply", &policy, "--yes"], "");
        let is_named = refused.stderr.contains("may turn connection tracking off for services.ssh");
        assert!(
            refused.status.code() == Some(2) && is_named && refused.stderr.contains("stateless"),
            "{rule}: {refused:?}"
        );
        host.sandbox.run(0, "sh", ["-ec", undo]).unwrap();
    }
    host.sandbox.run(0, "sh", ["-ec", &raw(22)]).unwrap();
    let refused = host.guard(&["apply", &policy, "--yes", "--i-have-console"], "");
    let is_named = refused.stderr.contains("this policy would cut off services.ssh (port 22 of tcp)");
    assert!(refused.status.code() == Some(2) && is_named && refused.stderr.contains("stateless"), "{refused:?}");
    let tables = host.sandbox.run(0, "nft", ["list", "tables"]).unwrap().stdout;
    assert!(!tables.contains("inet millstream"), "nothing was loaded: {tables}");
}

/// What nft prints is kept in memory.
#[test]
fn rules_without_an_end_are_refused() {
    let (dir, policy) = file("policy.toml", SMALL);
    let nft = dir.path().join("nft");
    fs::write(&nft, "#!/bin/sh\nexec yes\n").unwrap();
    fs::set_permissions(&nft, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["guard", "plan", &policy]);
    command.env("PATH", format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap()));
    let refused = command.run_blocking().unwrap();
    let is_named = refused.stderr.contains("nft prints more than 64 MiB of rules") && refused.stderr.contains("hint: ");
    assert!(refused.status.code() == Some(2) && is_named, "{refused:?}");
}
