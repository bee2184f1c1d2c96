//! What a plan warns of: what on this host a policy would cut, or what would make it mean less than it says.

use crate::nft::asked;
use crate::policy::{Content, Direction, Flags, Mode, Packet, Policy, Ports, Service, meaning};
use crate::rules::TABLE;
use millstream_host::Ssh;
use millstream_model::Refusal;
use millstream_model::words::option;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The port of ssh.
const SSH: u16 = 22;

/// What is loaded by Debian's unit of nftables, and the file that is there if that unit is enabled.
const NFTABLES: [&str; 2] = ["/etc/nftables.conf", "/etc/systemd/system/sysinit.target.wants/nftables.service"];

/// What a plan needs to know about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The connection of ssh in which this runs.
    pub ssh: Option<Ssh>,
    /// Tables that translate addresses.
    pub translating: BTreeSet<String>,
    /// Chains of others that drop what comes in or goes out.
    pub dropping: BTreeSet<String>,
    /// Tables of others that drop packets and ask what connection tracking says.
    pub following: BTreeSet<String>,
    /// Whether nftables.service is enabled, and removes all rules before it loads its own.
    pub is_flushed: bool,
    /// Connections that are tracked now; `None`: nothing can track them.
    pub tracked: Option<u64>,
    /// The ports from which programs of this host ask, as first and last.
    pub asking_ports: Option<(u16, u16)>,
    /// Whether there is a bridge, and its packets pass the filters of hosts.
    pub filters_bridged: bool,
    /// Connections that can be tracked.
    pub tracked_max: Option<u64>,
    /// How long a datagram without an answer is tracked, in seconds.
    pub unanswered_seconds: Option<u64>,
}

impl Facts {
    /// The facts of this host.
    ///
    /// # Errors
    /// nft is missing, or this account may not ask.
    pub async fn read() -> Result<Self, Refusal> {
        let text = asked(&["--terse", "--json", "list", "ruleset"]).await?;
        let mut facts = of_ruleset(&text.unwrap_or_default());
        for (file, name) in
            [("/proc/net/ip_tables_names", "iptables-legacy"), ("/proc/net/ip6_tables_names", "ip6tables-legacy")]
        {
            let tables = fs::read_to_string(file).unwrap_or_default();
            facts.translating.extend(tables.lines().any(|table| table == "nat").then(|| name.to_owned()));
        }
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok();
        let [rules, enabled] = NFTABLES.map(Path::new);
        let flushes = |line: &str| line.trim() == "flush ruleset";
        let ports = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut ports = ports.split_whitespace().map_while(|port| port.parse().ok());
        Ok(Self {
            ssh: Ssh::here(),
            is_flushed: enabled.exists() && fs::read_to_string(rules).is_ok_and(|text| text.lines().any(flushes)),
            tracked: setting("netfilter/nf_conntrack_count"),
            asking_ports: ports.next().zip(ports.next()),
            filters_bridged: has_bridge() && setting("bridge/bridge-nf-call-iptables") == Some(1_u64),
            tracked_max: setting("netfilter/nf_conntrack_max"),
            unanswered_seconds: setting("netfilter/nf_conntrack_udp_timeout"),
            ..facts
        })
    }
}

fn has_bridge() -> bool {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    devices.into_iter().any(|device| device.path().join("bridge").exists())
}

/// Whether an expression of a rule asks what connection tracking says: by itself, or as a match of iptables.
fn follows((word, of): (&String, &Value)) -> bool {
    match word.as_str() {
        "match" => of["left"]["ct"]["key"] == "state",
        "vmap" => of["key"]["ct"]["key"] == "state",
        "xt" => matches!(of["name"].as_str(), Some("conntrack" | "state")),
        _ => false,
    }
}

/// What all tables but ours say: those that translate addresses, the chains that drop, and the tables that do so by what
/// tracking says.
fn of_ruleset(json: &str) -> Facts {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut translating, mut dropping) = (BTreeSet::new(), BTreeSet::new());
    let (mut at_hook, mut of_nat, mut following, mut droppers) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for object in listed["nftables"].as_array().into_iter().flatten() {
        let is_ours = |item: &Value| item["table"] == TABLE && item["family"] == "inet";
        let (chain, rule) = (&object["chain"], &object["rule"]);
        if chain.is_object() && !is_ours(chain) {
            let table = format!("{} {}", text(&chain["family"]), text(&chain["table"]));
            let name = format!("{table} {}", text(&chain["name"]));
            // nft does not print what the rules of iptables do in such chains, so the chain decides.
            if chain["type"] == "nat" {
                of_nat.insert(table.clone());
            }
            if matches!(chain["hook"].as_str(), Some("input" | "output")) {
                at_hook.insert(name.clone());
                if chain["policy"] == "drop" {
                    droppers.insert(table.clone());
                    dropping.insert(name.clone());
                }
            }
        }
        if rule.is_object() && !is_ours(rule) {
            let table = format!("{} {}", text(&rule["family"]), text(&rule["table"]));
            let name = format!("{table} {}", text(&rule["chain"]));
            let words = || rule["expr"].as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
            let drops = |(word, of): (&String, &Value)| {
                matches!(word.as_str(), "drop" | "reject") || (word == "xt" && of["name"] == "REJECT")
            };
            if at_hook.contains(&name) && words().any(drops) {
                droppers.insert(table.clone());
                dropping.insert(name);
            }
            if words().any(follows) {
                following.insert(table.clone());
            }
            if of_nat.contains(&table) {
                translating.insert(table);
            }
        }
    }
    following.retain(|table| droppers.contains(table));
    Facts { translating, dropping, following, ..Facts::default() }
}

/// Why a policy is not applied, although it could be.
///
/// # Errors
/// It would lock you out, unless you can reach the host in another way (`has_console`), or it would break rules of others
/// that need tracking: those that translate addresses, and those that drop what belongs to no tracked connection.
pub fn may_apply(policy: &Policy, facts: &Facts, has_console: bool) -> Result<(), Refusal> {
    if policy.mode != Mode::Stateful
        && let Some(table) = facts.translating.first()
    {
        return Err(Refusal::new(format!("{table} translates addresses, which needs connections to be tracked"))
            .hint("write mode = \"stateful\" at the beginning of the policy"));
    }
    if policy.mode != Mode::Stateful
        && let Some(table) = facts.following.first()
    {
        let mode = mode(policy);
        return Err(Refusal::new(format!(
            "{table} drops packets by what connection tracking says, and mode {mode} turns tracking off"
        ))
        .hint("write mode = \"stateful\" at the beginning of the policy, or remove those rules"));
    }
    let port = facts.ssh.map_or(SSH, |ssh| ssh.to);
    let is_there = |service: &Service| Ports::has(&service.ports.tcp, port) && !policy.is_nobody(&service.from);
    if !has_console && !policy.services.iter().any(is_there) {
        let option = option("i-have-console");
        return Err(Refusal::new(format!(
            "the policy lets nobody reach port {port}, so ssh would not reach this host"
        ))
        .hint(format!("write [services.ssh] in the policy; or add {option} if you can reach the host without ssh")));
    }
    Ok(())
}

fn mode(policy: &Policy) -> &'static str {
    match policy.mode {
        Mode::Stateless => "stateless",
        Mode::Stateful => "stateful",
        Mode::Hybrid => "hybrid",
    }
}

/// What a policy hardly means, as sentences: these need no host.
pub fn doubts(policy: &Policy) -> Vec<String> {
    let empty = policy.services.iter().filter(|service| policy.is_nobody(&service.from));
    empty.map(|service| format!("nobody may reach services.{}: its lists have no addresses", service.name)).collect()
}

/// What a plan warns of, as sentences.
pub fn warnings(policy: &Policy, facts: &Facts) -> Vec<String> {
    let mut warnings = doubts(policy);
    if let Some(Ssh { peer, from, host, to }) = facts.ssh {
        let content = Content::Tcp { from, to, flags: Flags::SYN };
        let (direction, interface) = (Direction::In, String::new());
        let packet = Packet { direction, interface, source: peer, destination: host, content, is_established: false };
        let decision = meaning(policy, &packet);
        if !decision.accepts {
            warnings.push(format!("your ssh connection from {peer} would be dropped by {}", decision.line));
        }
    }
    for client in policy.clients.iter().filter(|client| policy.mode == Mode::Stateless && !client.asks_all) {
        if client.to.is_all && !client.ports.udp.is_empty() {
            warnings.push(format!(
                "clients.{} asks any server: without tracking, anybody can send UDP from its port to ports of yours that no \
                 service has",
                client.name
            ));
        }
    }
    if policy.mode != Mode::Stateful && !facts.translating.is_empty() {
        let tables: Vec<&str> = facts.translating.iter().map(String::as_str).collect();
        let tables = tables.join(", ");
        warnings.push(format!(
            "{tables} translates addresses, as for containers; that needs tracking, which mode {} turns off: use mode stateful",
            mode(policy)
        ));
    }
    if policy.mode != Mode::Stateful {
        warnings.extend(facts.following.iter().map(|table| {
            format!("{table} drops packets by what connection tracking says, which mode {} turns off", mode(policy))
        }));
    }
    if policy.mode != Mode::Stateless && facts.tracked.is_none_or(|tracked| tracked == 0) {
        warnings.push(format!(
            "connections that are open now are not tracked yet, so mode {} cuts them, your ssh session too; new ones work",
            mode(policy)
        ));
    }
    if let Some((first, last)) = facts.asking_ports {
        let meets = |ports: &[(u16, u16)]| ports.iter().any(|(from, to)| *from <= last && first <= *to);
        for service in policy.services.iter().filter(|one| meets(&one.ports.tcp) || meets(&one.ports.udp)) {
            warnings.push(format!(
                "services.{} has ports from {first} to {last}, from which this host asks others: answers to those are \
                 dropped",
                service.name
            ));
        }
    }
    if facts.is_flushed {
        let [rules, _] = NFTABLES;
        warnings.push(format!("nftables.service removes all rules when it is reloaded: {rules} says flush ruleset"));
    }
    for chain in &facts.dropping {
        warnings.push(format!("the chain {chain} drops packets too: what this policy accepts must pass it as well"));
    }
    if facts.filters_bridged {
        let setting = "net.bridge.bridge-nf-call-iptables";
        warnings.push(format!("{setting} is 1: packets between containers pass filters that are meant for hosts"));
    }
    if let (true, Some(most), Some(seconds)) =
        (policy.mode != Mode::Stateless, facts.tracked_max, facts.unanswered_seconds.filter(|seconds| *seconds > 0))
    {
        warnings.push(format!(
            "{most} connections can be tracked: {} datagrams a second from changing sources fill the table, each for \
             {seconds} s",
            most / seconds
        ));
    }
    if let Some(file) = &policy.resolvers_of {
        warnings.push(format!(
            "the resolvers are those of {}: if that changes, names cannot be resolved until the policy is applied again",
            file.display()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.toml");
        fs::write(&file, text).unwrap();
        Policy::read(Path::new(&file), &|_| Ok(Vec::new())).unwrap()
    }

    #[test]
    fn chains_that_drop_and_tables_that_translate_are_found() {
        let json = r#"{"nftables": [
            {"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}},
            {"chain": {"family": "inet", "table": "other", "name": "in", "hook": "input", "policy": "accept"}},
            {"chain": {"family": "inet", "table": "millstream", "name": "incoming", "hook": "input", "policy": "drop"}},
            {"rule": {"family": "inet", "table": "other", "chain": "in", "expr": [{"match": {}}, {"reject": null}]}},
            {"chain": {"family": "ip", "table": "nat", "name": "POSTROUTING", "hook": "postrouting", "type": "nat"}},
            {"chain": {"family": "ip6", "table": "nat", "name": "POSTROUTING", "hook": "postrouting", "type": "nat"}},
            {"rule": {"family": "ip", "table": "nat", "chain": "DOCKER", "expr": [{"match": {}}, {"xt": null}]}},
            {"rule": {"family": "inet", "table": "watching", "chain": "in", "expr": [
                {"match": {"left": {"ct": {"key": "state"}}, "right": "new"}}, {"counter": null}]}},
            {"rule": {"family": "ip", "table": "filter", "chain": "before", "expr": [
                {"xt": {"type": "match", "name": "conntrack"}}, {"accept": null}]}}]}"#;
        let facts = of_ruleset(json);
        assert_eq!(facts.translating.into_iter().collect::<Vec<_>>(), ["ip nat"]);
        assert_eq!(facts.dropping.into_iter().collect::<Vec<_>>(), ["inet other in", "ip filter INPUT"]);
        assert_eq!(facts.following.into_iter().collect::<Vec<_>>(), ["ip filter"], "inet watching drops nothing");
    }

    #[test]
    fn a_session_that_the_policy_would_cut_is_named() {
        let facts = Facts { ssh: Ssh::parse("203.0.113.7 50022 192.0.2.1 22"), ..Facts::default() };
        assert!(warnings(&policy("[services.ssh]"), &facts).is_empty());
        let cut = warnings(&policy("[services.ssh]\nfrom = ['10.0.0.0/8']"), &facts);
        assert_eq!(cut, ["your ssh connection from 203.0.113.7 would be dropped by service-ports"]);
    }

    #[test]
    fn a_policy_that_locks_out_or_breaks_translation_is_refused() {
        let (ssh_only, none) = (policy("[services.ssh]"), policy("[services.http]"));
        let facts = Facts::default();
        assert_eq!(may_apply(&ssh_only, &facts, false), Ok(()));
        assert!(may_apply(&none, &facts, false).unwrap_err().problem.contains("ssh would not reach this host"));
        assert_eq!(may_apply(&none, &facts, true), Ok(()));
        let elsewhere = Facts { ssh: Ssh::parse("203.0.113.7 50022 192.0.2.1 2222"), ..Facts::default() };
        assert!(may_apply(&ssh_only, &elsewhere, false).unwrap_err().problem.contains("port 2222"));
        let translating = Facts { translating: BTreeSet::from(["ip nat".to_owned()]), ..Facts::default() };
        assert!(may_apply(&ssh_only, &translating, false).unwrap_err().problem.contains("translates addresses"));
    }

    #[test]
    fn what_a_policy_would_break_is_named() {
        let warned = |text: &str, facts: Facts| warnings(&policy(text), &facts).join("; ");
        let facts = || Facts { tracked: Some(0), asking_ports: Some((32_768, 60_999)), ..Facts::default() };
        assert!(warned("mode = 'stateful'\n[services.ssh]", facts()).contains("mode stateful cuts them"));
        assert!(warned("[services.x]\ntcp = ['40000-50000']", facts()).contains("from which this host asks others"));
        let nobody = "[lists]\nnone = []\n[services.ssh]\nfrom = ['@none']";
        assert!(warned(nobody, Facts::default()).contains("nobody may reach services.ssh"));
        assert!(may_apply(&policy(nobody), &Facts::default(), false).is_err());
        let following = Facts { following: BTreeSet::from(["ip filter".to_owned()]), ..Facts::default() };
        let refused = may_apply(&policy("[services.ssh]"), &following, false).unwrap_err();
        assert!(refused.problem.contains("ip filter drops packets by what connection tracking says"), "{refused}");
        assert_eq!(may_apply(&policy("mode = 'stateful'\n[services.ssh]"), &following, false), Ok(()));
        assert!(warned("[services.ssh]", Facts { is_flushed: true, ..Facts::default() }).contains("flush ruleset"));
    }

    #[test]
    fn modes_without_tracking_warn_of_translation_and_others_of_the_table() {
        let facts = Facts {
            translating: BTreeSet::from(["ip nat".to_owned()]),
            tracked: Some(1),
            tracked_max: Some(262_144),
            unanswered_seconds: Some(30),
            ..Facts::default()
        };
        let stateless = warnings(&policy("[services.ssh]"), &facts);
        assert!(stateless.len() == 1 && stateless[0].starts_with("ip nat translates addresses"), "{stateless:?}");
        let stateful = warnings(&policy("mode = 'stateful'\n[services.ssh]"), &facts);
        assert!(stateful.len() == 1 && stateful[0].contains("8738 datagrams a second"), "{stateful:?}");
    }
}
