//! Rules in the language of nft.

use super::{
    Action, DIGEST, Hook, Protocol, Rule, Rules, Set, State, TABLE, Test, addresses, illegal_flags, ports, removal,
};
use crate::limits::{LIMIT_SOURCES_MAX, LOG_PER_SECOND};
use crate::policy::{DeniedText, Limit};
use millstream_model::range::Family;
use std::collections::BTreeSet;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_128;

/// Chains with where the kernel asks them.
const CHAINS: [(Hook, &str, &str); 4] = [
    (Hook::BeforeIn, "untracked-in", "type filter hook prerouting priority raw; policy accept;"),
    (Hook::BeforeOut, "untracked-out", "type filter hook output priority raw; policy accept;"),
    (Hook::In, "incoming", "type filter hook input priority filter; policy drop;"),
    (Hook::Out, "outgoing", "type filter hook output priority filter; policy drop;"),
];

/// Bytes that are compared at once.
const RAW_BYTES: usize = 8;

/// Bytes before the text of a datagram, behind the header of IP.
const UDP_HEADER: usize = 8;

/// The script.
pub(super) fn script(rules: &Rules, with_ranges: bool) -> String {
    let elements: usize = rules.sets.values().map(|set| set.ranges.len()).sum();
    let mut text = String::with_capacity(64 * elements + 16_384);
    for (name, set) in &rules.sets {
        write_set(&mut text, name, set, with_ranges);
    }
    let mut written = BTreeSet::new();
    for rule in &rules.rules {
        write_limit(&mut text, rule, &mut written);
    }
    for (hook, name, place) in CHAINS {
        let mut of_hook = rules.rules.iter().filter(|rule| rule.hook == hook).peekable();
        let is_last_resort = matches!(hook, Hook::In | Hook::Out);
        if of_hook.peek().is_none() && !is_last_resort {
            continue;
        }
        let _ = write!(text, "\tchain {name} {{\n\t\t{place}\n");
        for rule in of_hook {
            let _ = writeln!(text, "\t\t{} comment \"{}\"", statement(rule), rule.line);
        }
        if is_last_resort {
            if rules.log {
                let prefix = format!("{TABLE} {name}: ");
                let _ = writeln!(text, "\t\tlimit rate {LOG_PER_SECOND}/second log prefix \"{prefix}\"");
            }
            let _ = writeln!(text, "\t\tcounter drop comment \"everything-else\"");
        }
        text.push_str("\t}\n");
    }
    text.push_str("}\n");
    let digest = rules_digest(&text);
    format!("{}table inet {TABLE} {{\n\tcomment \"{digest}\"\n{text}", removal())
}

/// What tells these rules from others without reading all of them.
fn rules_digest(text: &str) -> String {
    format!("{DIGEST}{:032x}", xxh3_128(text.as_bytes()))
}

fn kind(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    }
}

fn write_set(text: &mut String, name: &str, set: &Set, with_ranges: bool) {
    let flags = if set.is_timed { "interval,timeout" } else { "interval" };
    let _ = write!(text, "\tset {name} {{\n\t\ttype {}\n\t\tflags {flags}\n", kind(set.family));
    if !set.ranges.is_empty() {
        // Who reads the table need not list its elements.
        let _ = writeln!(text, "\t\tcomment \"{}\"", set.digest());
    }
    if with_ranges && !set.ranges.is_empty() {
        text.push_str("\t\telements = {\n");
        for range in &set.ranges {
            let _ = writeln!(text, "\t\t\t{},", addresses(range));
        }
        text.push_str("\t\t}\n");
    }
    text.push_str("\t}\n");
}

/// The set in which the kernel counts what sources do, once for all rules of a limit.
fn write_limit<'a>(text: &mut String, rule: &'a Rule, written: &mut BTreeSet<&'a str>) {
    for test in &rule.tests {
        if let (Test::Over { limit, name }, Some(family)) = (test, rule.family)
            && written.insert(name)
        {
            let kind = kind(family);
            let _ = write!(
                text,
                "\tset {name} {{\n\t\ttype {kind}\n\t\tsize {LIMIT_SOURCES_MAX}\n\t\tflags dynamic,timeout\n\t\ttimeout {}\n\t}}\n",
                forgotten(limit)
            );
        }
    }
}

/// When a source is forgotten: its burst is full again by then.
fn forgotten(limit: &Limit) -> String {
    let seconds = u64::from(limit.unit.seconds());
    format!("{}s", seconds * u64::from(1 + limit.burst.div_ceil(limit.count)))
}

fn statement(rule: &Rule) -> String {
    let tests = rule.tests.iter().map(|test| written(test, rule));
    let family = match rule.family {
        Some(Family::V4) if !rule.tests.iter().any(says_family) => "meta nfproto ipv4".to_owned(),
        Some(Family::V6) if !rule.tests.iter().any(says_family) => "meta nfproto ipv6".to_owned(),
        _ => String::new(),
    };
    let action = match rule.action {
        Action::Accept => "accept",
        Action::Drop => "counter drop",
        Action::Notrack => "notrack",
    };
    std::iter::once(family)
        .chain(tests)
        .chain([action.to_owned()])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether a test holds only for packets of the rule's family.
fn says_family(test: &Test) -> bool {
    matches!(test, Test::Peer { .. } | Test::Icmp(_) | Test::OfNeighbour | Test::LaterFragment | Test::Over { .. })
}

fn written(test: &Test, rule: &Rule) -> String {
    let is_in = matches!(rule.hook, Hook::In | Hook::BeforeIn);
    let ip = match rule.family {
        Some(Family::V6) => "ip6",
        _ => "ip",
    };
    let (peer, own) = if is_in { ("saddr", "dport") } else { ("daddr", "sport") };
    match test {
        // Multicast and broadcast are for this host too.
        Test::ForUs => "fib daddr type { local, broadcast, multicast }".to_owned(),
        Test::Interface(name) => format!("{} \"{name}\"", if is_in { "iifname" } else { "oifname" }),
        // The tests of ports and flags say it.
        Test::Protocol(_) => String::new(),
        Test::Peer { set, is_in } => format!("{ip} {peer} {}@{set}", if *is_in { "" } else { "!= " }),
        Test::Port { ports: list, is_peer } => {
            let side = match (is_peer, own) {
                (false, own) => own,
                (true, "dport") => "sport",
                (true, _) => "dport",
            };
            let protocol = if rule.tests.contains(&Test::Protocol(Protocol::Tcp)) { "tcp" } else { "udp" };
            match ports(list, "-").as_slice() {
                [one] => format!("{protocol} {side} {one}"),
                several => format!("{protocol} {side} {{ {} }}", several.join(", ")),
            }
        }
        Test::Begins(begins) => format!("tcp flags & (syn | ack) {} syn", if *begins { "==" } else { "!=" }),
        Test::IllegalFlags => {
            let illegal: Vec<_> = illegal_flags().map(|bits| format!("{bits:#04x}")).collect();
            format!("tcp flags & (fin | syn | rst | psh | ack | urg) {{ {} }}", illegal.join(", "))
        }
        Test::Icmp(types) => {
            let icmp = if rule.family == Some(Family::V6) { "icmpv6" } else { "icmp" };
            match types.as_slice() {
                [] if icmp == "icmp" => "ip protocol icmp".to_owned(),
                [] => "meta l4proto ipv6-icmp".to_owned(),
                [one] => format!("{icmp} type {one}"),
                several => {
                    let several: Vec<_> = several.iter().map(u8::to_string).collect();
                    format!("{icmp} type {{ {} }}", several.join(", "))
                }
            }
        }
        Test::OfNeighbour => "ip6 hoplimit 255".to_owned(),
        Test::LaterFragment => "frag frag-off != 0".to_owned(),
        Test::State(State::Established) => "ct state established,related".to_owned(),
        Test::State(State::Invalid) => "ct state invalid".to_owned(),
        // Bytes of a datagram, in parts of a size that all versions of nft take.
        Test::Text(DeniedText { text, at: Some(at) }) => {
            let parts = text.as_bytes().chunks(RAW_BYTES).zip((UDP_HEADER + usize::from(*at)..).step_by(RAW_BYTES));
            let part = |(bytes, at): (&[u8], usize)| {
                let number: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("@th,{},{} 0x{number}", 8 * at, 8 * bytes.len())
            };
            parts.map(part).collect::<Vec<_>>().join(" ")
        }
        // `Rules::fit_nft` refuses it before. If that was not asked, nft refuses the whole script.
        Test::Text(DeniedText { at: None, .. }) => "text-anywhere".to_owned(),
        Test::Over { limit, name } => {
            let mask = match rule.family {
                Some(Family::V6) => std::net::Ipv6Addr::from_bits(u128::MAX << (128 - limit.v6)).to_string(),
                _ => std::net::Ipv4Addr::from_bits(u32::MAX << (32 - limit.v4)).to_string(),
            };
            let Limit { count, burst, .. } = limit;
            let unit = limit.unit.name();
            let rate = format!("limit rate over {count}/{unit} burst {burst} packets");
            format!("update @{name} {{ {ip} saddr & {mask} {rate} }}")
        }
    }
}
