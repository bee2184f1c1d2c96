//! The services of a policy are tried beside the rules of other programs, before anything is loaded.

use crate::host::{Host, NEEDS, listed, shell};
use crate::policy::policy;
use crate::prober::prober;
use millstream_guard::others::Copied;
use millstream_guard::prove::{lost_beside, try_beside};
use millstream_guard::warning::{Facts, may_apply, warnings};
use millstream_testkit::machine_has;

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
    let (ssh, dns) = ("services.ssh (port 22 of tcp)", "services.dns (port 53 of udp)");
    let news = of_nft("input", "ct state established accept; ct state new tcp dport 22 accept");
    let limited = of_nft("input", "ct state established accept; tcp dport 22 limit rate 1/hour burst 1 packets accept");
    let untracked = "table ip o {\nchain early { type filter hook prerouting priority -300; tcp dport 22 notrack; }\n\
                     chain out { type filter hook output priority -300; tcp sport 22 notrack; }\n}\n";
    let untracked = Copied { nft: untracked.to_owned(), ..Copied::default() };
    for (text, others, found) in [
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
        assert_eq!(lost_beside(&policy(text), others, &prober()).unwrap(), found, "{text}: {others:?}");
    }
    let unreadable = Copied { nft: "table ip o { chain c { iif far counter; }; }\n".to_owned(), ..Copied::default() };
    lost_beside(&policy(SSH), &unreadable, &prober()).unwrap_err();
}

#[tokio::test]
async fn rules_of_others_are_copied_in_every_form_and_a_copy_that_cannot_be_made_is_said() {
    let test = "beside::rules_of_others_are_copied_in_every_form_and_a_copy_that_cannot_be_made_is_said";
    let Some(_host) = Host::of(test) else { return };
    let policy = policy(&format!("mode = 'stateful'\n{SSH}"));
    shell(
        "nft -f - <<'END'\ntable inet o {\nset s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }\n\
         chain c { type filter hook input priority 3; ip saddr @s counter; ct state established accept; }\n}\nEND\n\
         iptables-nft -t nat -A POSTROUTING -j MASQUERADE\n\
         ip6tables-nft -A INPUT -m conntrack --ctstate INVALID -j DROP\n\
         ipset create listed hash:net\nipset add listed 10.0.0.0/8\n\
         iptables-nft -A INPUT -m set --match-set listed src -j ACCEPT\n\
         iptables-legacy -A INPUT -p tcp -m multiport --dports 9,10 -j ACCEPT\n",
    );
    assert_eq!(try_beside(&policy, &prober()).await.unwrap(), None);
    shell("ip link add here type veth peer name there\nnft add rule inet o c iif here counter\n");
    let why = try_beside(&policy, &prober()).await.unwrap().unwrap();
    assert!(why.starts_with("the services were not tried beside a copy of the rules of other programs: "), "{why}");
}

/// Rules of others that do not track the packets of a service.
fn raw(port: u16) -> String {
    format!(
        "nft -f - <<'END'\ntable ip o{port} {{\n\
         chain early {{ type filter hook prerouting priority -300; tcp dport {port} notrack; }}\n\
         chain out {{ type filter hook output priority -300; tcp sport {port} notrack; }}\n}}\nEND\n"
    )
}

#[tokio::test]
async fn a_policy_that_tracks_is_refused_where_others_do_not_track_its_service() {
    let test = "beside::a_policy_that_tracks_is_refused_where_others_do_not_track_its_service";
    let Some(_host) = Host::of(test) else { return };
    let policy = policy(&format!("mode = 'stateful'\n{SSH}"));
    shell(&raw(53));
    let facts = Facts::read().await.unwrap();
    let warned = warnings(&policy, &facts).join("\n");
    assert!(warned.contains("may turn connection tracking off"), "{warned}");
    may_apply(&policy, &facts, false).unwrap();
    assert_eq!(try_beside(&policy, &prober()).await.unwrap(), None);
    // No trial meets the addresses and devices of your clients, so the rules decide.
    for (rule, undo) in [
        (
            "nft add chain ip o53 c '{ type filter hook prerouting priority -300; }'; \
             nft add rule ip o53 c ip saddr 192.0.2.0/24 tcp dport 22 notrack",
            "nft flush chain ip o53 c; nft delete chain ip o53 c",
        ),
        ("iptables-legacy -t raw -A PREROUTING -i v0 -p tcp --dport 22 -j CT --notrack", "iptables-legacy -t raw -F"),
    ] {
        shell(rule);
        let refused = may_apply(&policy, &Facts::read().await.unwrap(), false).unwrap_err();
        assert!(refused.problem.contains("may turn connection tracking off for services.ssh"), "{rule}: {refused}");
        assert!(refused.hint.unwrap().contains("mode = \"stateless\""), "{rule}");
        shell(undo);
    }
    shell(&raw(22));
    may_apply(&policy, &Facts::read().await.unwrap(), true).unwrap();
    let refused = try_beside(&policy, &prober()).await.unwrap_err();
    assert!(refused.problem.contains("this policy would cut off services.ssh (port 22 of tcp)"), "{refused}");
    assert!(refused.hint.unwrap().contains("mode = \"stateless\""));
    assert!(!listed().contains("inet millstream"), "nothing was loaded: {}", listed());
}
