//! Rules in the language of iptables.

use super::{Action, Hook, Protocol, Rule, Rules, Set, State, TABLE, Test, ports};
use crate::limits::{LOG_PER_SECOND, MULTIPORT_MAX, PREFIXES_MAX};
use crate::policy::{DeniedText, Flags, Limit};
use millstream_model::range::{FAMILIES, Family};
use std::fmt::Write;

/// Tests of combinations of flags that no connection has: which flags are looked at, and which of them are set.
const ILLEGAL: [(Flags, Flags); 7] = [
    (Flags(63), Flags(0)),
    (Flags::FIN.and(Flags::SYN), Flags::FIN.and(Flags::SYN)),
    (Flags::SYN.and(Flags::RST), Flags::SYN.and(Flags::RST)),
    (Flags::FIN.and(Flags::RST), Flags::FIN.and(Flags::RST)),
    (Flags::FIN.and(Flags::ACK), Flags::FIN),
    (Flags::PSH.and(Flags::ACK), Flags::PSH),
    (Flags::URG.and(Flags::ACK), Flags::URG),
];

/// Bytes of the headers before the text of a datagram, by family.
const HEADERS: [u16; 2] = [20 + 8, 40 + 8];

/// The chain that fragments of IPv6 pass: iptables cannot ask for those after the first.
const FRAGMENTS: &str = "FRAGMENTS";

/// What the programs read.
pub(super) fn inputs(rules: &Rules) -> [(&'static str, String); 3] {
    let [v4, v6] = FAMILIES.map(|family| tables(rules, family));
    [("ipset", sets(rules)), ("iptables-restore", v4), ("ip6tables-restore", v6)]
}

/// A script of the shell that gives them to the programs.
pub(super) fn script(rules: &Rules) -> String {
    let mut text = "#!/bin/sh\n# Replaces all rules of the tables raw and filter.\nset -e\n".to_owned();
    for (program, input) in inputs(rules) {
        let program = if program == "ipset" { "ipset -exist restore" } else { program };
        if !input.is_empty() {
            let _ = write!(text, "{program} <<'END'\n{input}END\n");
        }
    }
    text
}

fn sets(rules: &Rules) -> String {
    let mut text = String::new();
    for (name, Set { family, ranges, is_timed }) in &rules.sets {
        let family = match family {
            Family::V4 => "inet",
            Family::V6 => "inet6",
        };
        if *is_timed {
            let _ = writeln!(text, "create {name} hash:net family {family} timeout 0");
            continue;
        }
        // A set that rules use cannot be removed, so the new one is filled beside it and takes its place.
        let created = format!("hash:net family {family} maxelem {PREFIXES_MAX}");
        let _ = write!(text, "create {name} {created}\ncreate {name}.n {created}\nflush {name}.n\n");
        for (address, length) in ranges.iter().flat_map(|range| range.prefixes()) {
            // A prefix of length 0 is none for ipset.
            for (address, length) in halves(address, length) {
                let _ = writeln!(text, "add {name}.n {address}/{length}");
            }
        }
        let _ = write!(text, "swap {name} {name}.n\ndestroy {name}.n\n");
    }
    text
}

/// The whole family as its two halves; any other prefix as it is.
fn halves(address: std::net::IpAddr, length: u32) -> Vec<(std::net::IpAddr, u32)> {
    if length > 0 {
        return vec![(address, length)];
    }
    let family = Family::of(address);
    vec![(address, 1), (family.address(1 << (family.bits() - 1)), 1)]
}

fn tables(rules: &Rules, family: Family) -> String {
    let mut text = String::new();
    for (table, chains) in [
        ("raw", [(Hook::BeforeIn, "PREROUTING"), (Hook::BeforeOut, "OUTPUT")]),
        ("filter", [(Hook::In, "INPUT"), (Hook::Out, "OUTPUT")]),
    ] {
        let is_filter = table == "filter";
        let policy = if is_filter { "DROP" } else { "ACCEPT" };
        let _ = writeln!(text, "*{table}");
        for (_, chain) in chains {
            let _ = writeln!(text, ":{chain} {policy} [0:0]");
        }
        if is_filter && family == Family::V6 {
            let _ = writeln!(
                text,
                ":{FRAGMENTS} - [0:0]\n-A {FRAGMENTS} -m frag --fragfirst -j RETURN\n-A {FRAGMENTS} -j ACCEPT"
            );
        }
        for (hook, chain) in chains {
            let of_hook = |rule: &&Rule| rule.hook == hook && rule.family.is_none_or(|one| one == family);
            for rule in rules.rules.iter().filter(of_hook) {
                for tests in lines(rule, family) {
                    let _ =
                        writeln!(text, "-A {chain}{tests} -m comment --comment \"{}\" -j {}", rule.line, target(rule));
                }
            }
            if is_filter {
                if rules.log {
                    let prefix = format!("{TABLE} {}: ", chain.to_ascii_lowercase());
                    let _ = writeln!(
                        text,
                        "-A {chain} -m limit --limit {LOG_PER_SECOND}/second -j LOG --log-prefix \"{prefix}\""
                    );
                }
                let _ = writeln!(text, "-A {chain} -m comment --comment everything-else -j DROP");
            }
        }
        text.push_str("COMMIT\n");
    }
    text
}

fn target(rule: &Rule) -> &'static str {
    match rule.action {
        Action::Accept if rule.tests.contains(&Test::LaterFragment) => FRAGMENTS,
        Action::Accept => "ACCEPT",
        Action::Drop => "DROP",
        Action::Notrack => "CT --notrack",
    }
}

/// The tests of a rule as options. A rule becomes several where one line cannot hold all of its alternatives.
fn lines(rule: &Rule, family: Family) -> Vec<String> {
    let mut lines = vec![String::new()];
    for test in &rule.tests {
        let alternatives = written(test, rule, family);
        lines = lines.iter().flat_map(|line| alternatives.iter().map(move |one| format!("{line} {one}"))).collect();
    }
    lines
}

fn written(test: &Test, rule: &Rule, family: Family) -> Vec<String> {
    let is_in = matches!(rule.hook, Hook::In | Hook::BeforeIn);
    let side = if is_in { "src" } else { "dst" };
    let one = match test {
        // Multicast and broadcast are for this host too.
        Test::ForUs => {
            let types: &[&str] =
                if family == Family::V4 { &["LOCAL", "BROADCAST", "MULTICAST"] } else { &["LOCAL", "MULTICAST"] };
            return types.iter().map(|kind| format!("-m addrtype --dst-type {kind}")).collect();
        }
        Test::Interface(name) => format!("-{} {name}", if is_in { 'i' } else { 'o' }),
        Test::Protocol(Protocol::Tcp) => "-p tcp".to_owned(),
        Test::Protocol(Protocol::Udp) => "-p udp".to_owned(),
        Test::Peer { set, is_in } => {
            let not = if *is_in { "" } else { "! " };
            format!("-m set {not}--match-set {set} {side}")
        }
        Test::Port { ports: list, is_peer } => {
            let side = if is_in == *is_peer { "sports" } else { "dports" };
            return multiport(list).into_iter().map(|ports| format!("-m multiport --{side} {ports}")).collect();
        }
        Test::Begins(begins) => format!("-m tcp {}--tcp-flags SYN,ACK SYN", if *begins { "" } else { "! " }),
        Test::IllegalFlags => {
            let written = |flags: Flags| if flags.0 == 0 { "NONE".to_owned() } else { names(flags) };
            let each =
                |(mask, set): &(Flags, Flags)| format!("-m tcp --tcp-flags {} {}", written(*mask), written(*set));
            return ILLEGAL.iter().map(each).collect();
        }
        Test::Icmp(types) => {
            let (protocol, option) = match family {
                Family::V4 => ("-p icmp", "-m icmp --icmp-type"),
                Family::V6 => ("-p ipv6-icmp", "-m icmp6 --icmpv6-type"),
            };
            if !types.is_empty() {
                return types.iter().map(|kind| format!("{protocol} {option} {kind}")).collect();
            }
            protocol.to_owned()
        }
        Test::OfNeighbour => "-m hl --hl-eq 255".to_owned(),
        Test::LaterFragment => "-m ipv6header --header frag --soft".to_owned(),
        Test::State(State::Established) => "-m conntrack --ctstate ESTABLISHED,RELATED".to_owned(),
        Test::State(State::Invalid) => "-m conntrack --ctstate INVALID".to_owned(),
        Test::Text(DeniedText { text, at }) => {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            let begin = HEADERS[family as usize] + at.unwrap_or(0);
            let end = at.map(|_| format!(" --to {}", usize::from(begin) + text.len())).unwrap_or_default();
            format!("-m string --algo bm --from {begin}{end} --hex-string \"|{hex}|\"")
        }
        Test::Over { limit, name } => {
            let Limit { count, burst, .. } = limit;
            let bits = if family == Family::V4 { limit.v4 } else { limit.v6 };
            format!(
                "-m hashlimit --hashlimit-name {name} --hashlimit-mode srcip --hashlimit-srcmask {bits} \
                 --hashlimit-above {count}/{} --hashlimit-burst {burst}",
                limit.unit.name()
            )
        }
    };
    vec![one]
}

fn names(flags: Flags) -> String {
    let set: Vec<String> =
        Flags::ALL.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name.to_ascii_uppercase()).collect();
    set.join(",")
}

/// Lists of ports that one rule can hold: a range counts twice.
fn multiport(list: &[(u16, u16)]) -> Vec<String> {
    let mut lists = Vec::new();
    let (mut current, mut used) = (Vec::new(), 0);
    for port in list {
        let needed = if port.0 == port.1 { 1 } else { 2 };
        if used + needed > MULTIPORT_MAX {
            lists.push(ports(&current, ":").join(","));
            (current, used) = (Vec::new(), 0);
        }
        current.push(*port);
        used += needed;
    }
    lists.push(ports(&current, ":").join(","));
    lists
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::illegal_flags;

    #[test]
    fn the_tests_of_iptables_find_the_same_illegal_flags() {
        let found: Vec<u8> = (0..64).filter(|bits| ILLEGAL.iter().any(|(mask, set)| bits & mask.0 == set.0)).collect();
        assert_eq!(found, illegal_flags().collect::<Vec<_>>());
    }

    #[test]
    fn long_lists_of_ports_are_split() {
        let ports: Vec<(u16, u16)> = (1..=15).map(|n| (n * 10, n * 10 + u16::from(n == 15))).collect();
        assert_eq!(multiport(&ports), ["10,20,30,40,50,60,70,80,90,100,110,120,130,140", "150:151"]);
    }
}
