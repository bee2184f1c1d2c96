//! What a plan warns of: what on this host a policy would cut, or what would make it mean less than it says.

use crate::nft::listed;
use crate::policy::{Content, Direction, Flags, Mode, Packet, Policy, Ports, meaning};
use crate::rules::TABLE;
use millstream_model::Refusal;
use millstream_model::words::option;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

/// The port of ssh.
const SSH: u16 = 22;

/// What a plan needs to know about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The other end and our end of the ssh session in which this runs.
    pub ssh: Option<(IpAddr, u16, IpAddr, u16)>,
    /// Tables that translate addresses.
    pub translating: BTreeSet<String>,
    /// Chains of others that drop what comes in or goes out.
    pub dropping: BTreeSet<String>,
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
        let text = listed(&["--terse", "--json", "list", "ruleset"]).await?;
        let (mut translating, dropping) = of_ruleset(&text.unwrap_or_default());
        for (file, name) in
            [("/proc/net/ip_tables_names", "iptables-legacy"), ("/proc/net/ip6_tables_names", "ip6tables-legacy")]
        {
            let tables = fs::read_to_string(file).unwrap_or_default();
            translating.extend(tables.lines().any(|table| table == "nat").then(|| name.to_owned()));
        }
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok();
        Ok(Self {
            ssh: std::env::var("SSH_CONNECTION").ok().and_then(|text| ssh(&text)),
            translating,
            dropping,
            filters_bridged: has_bridge() && setting("bridge/bridge-nf-call-iptables") == Some(1_u64),
            tracked_max: setting("netfilter/nf_conntrack_max"),
            unanswered_seconds: setting("netfilter/nf_conntrack_udp_timeout"),
        })
    }
}

fn has_bridge() -> bool {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    devices.into_iter().any(|device| device.path().join("bridge").exists())
}

/// `SSH_CONNECTION`: the client's address and port, and the server's.
fn ssh(text: &str) -> Option<(IpAddr, u16, IpAddr, u16)> {
    let mut words = text.split(' ');
    let mut end = || Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
    let ((peer, from), (host, to)) = (end()?, end()?);
    Some((peer, from, host, to))
}

/// Tables that translate addresses, and chains that drop, of all but our table.
fn of_ruleset(json: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut translating, mut dropping) = (BTreeSet::new(), BTreeSet::new());
    let (mut at_hook, mut of_nat) = (BTreeSet::new(), BTreeSet::new());
    for object in listed["nftables"].as_array().into_iter().flatten() {
        let is_ours = |item: &Value| item["table"] == TABLE;
        let (chain, rule) = (&object["chain"], &object["rule"]);
        if chain.is_object() && !is_ours(chain) {
            let table = format!("{} {}", text(&chain["family"]), text(&chain["table"]));
            let name = format!("{table} {}", text(&chain["name"]));
            // nft does not print what the rules of iptables do in such chains, so the chain decides.
            if chain["type"] == "nat" {
                of_nat.insert(table);
            }
            if matches!(chain["hook"].as_str(), Some("input" | "output")) {
                at_hook.insert(name.clone());
                if chain["policy"] == "drop" {
                    dropping.insert(name.clone());
                }
            }
        }
        if rule.is_object() && !is_ours(rule) {
            let table = format!("{} {}", text(&rule["family"]), text(&rule["table"]));
            let name = format!("{table} {}", text(&rule["chain"]));
            let mut words = rule["expr"].as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
            let drops = |(word, of): (&String, &Value)| {
                matches!(word.as_str(), "drop" | "reject") || (word == "xt" && of["name"] == "REJECT")
            };
            if at_hook.contains(&name) && words.any(drops) {
                dropping.insert(name);
            }
            if of_nat.contains(&table) {
                translating.insert(table);
            }
        }
    }
    (translating, dropping)
}

/// Why a policy is not applied, although it could be.
///
/// # Errors
/// It would lock you out, unless you can reach the host in another way (`has_console`), or it would break what translates
/// addresses.
pub fn may_apply(policy: &Policy, facts: &Facts, has_console: bool) -> Result<(), Refusal> {
    if policy.mode != Mode::Stateful
        && let Some(table) = facts.translating.first()
    {
        return Err(Refusal::new(format!("{table} translates addresses, which needs connections to be tracked"))
            .hint("write mode = \"stateful\" at the beginning of the policy"));
    }
    let port = facts.ssh.map_or(SSH, |(_, _, _, port)| port);
    if !has_console && !policy.services.iter().any(|service| Ports::has(&service.ports.tcp, port)) {
        let option = option("i-have-console");
        return Err(Refusal::new(format!(
            "the policy has no service at port {port}, so ssh would not reach this host"
        ))
        .hint(format!("write [services.ssh] in the policy; or add {option} if you can reach the host without ssh")));
    }
    Ok(())
}

/// What a plan warns of, as sentences.
pub fn warnings(policy: &Policy, facts: &Facts) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((peer, from, host, to)) = facts.ssh {
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
            if policy.mode == Mode::Stateless { "stateless" } else { "hybrid" }
        ));
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
    use std::path::Path;

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
            {"rule": {"family": "ip", "table": "nat", "chain": "DOCKER", "expr": [{"match": {}}, {"xt": null}]}}]}"#;
        let (translating, dropping) = of_ruleset(json);
        assert_eq!(translating.into_iter().collect::<Vec<_>>(), ["ip nat"]);
        assert_eq!(dropping.into_iter().collect::<Vec<_>>(), ["inet other in", "ip filter INPUT"]);
    }

    #[test]
    fn a_session_that_the_policy_would_cut_is_named() {
        let facts = Facts { ssh: ssh("203.0.113.7 50022 192.0.2.1 22"), ..Facts::default() };
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
        let elsewhere = Facts { ssh: ssh("203.0.113.7 50022 192.0.2.1 2222"), ..Facts::default() };
        assert!(may_apply(&ssh_only, &elsewhere, false).unwrap_err().problem.contains("port 2222"));
        let translating = Facts { translating: BTreeSet::from(["ip nat".to_owned()]), ..Facts::default() };
        assert!(may_apply(&ssh_only, &translating, false).unwrap_err().problem.contains("translates addresses"));
    }

    #[test]
    fn modes_without_tracking_warn_of_translation_and_others_of_the_table() {
        let facts = Facts {
            translating: BTreeSet::from(["ip nat".to_owned()]),
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
