//! Trying the services of a policy beside the rules of others, before anything is loaded on the host.
//!
//! A copy of these rules and the rules of the policy are loaded into a network of their own. What others decide by addresses or
//! devices of the host is not the same there, so only one thing is a finding: a service that works beside the others' rules
//! alone, and not once the policy is there, too.

use super::exchange::Exchange;
use super::network::{Cable, HOST, PLAIN};
use super::probes::{FREE, packet, peers};
use super::{Form, Task, network};
use crate::limits::{EXCHANGES_MAX, INTERFACE_BYTES_MAX, SAMPLE_RANGES, SUSPECTS_MAX};
use crate::others::Copied;
use crate::policy::{Content, Direction, Flags, Mode, Policy, meaning};
use crate::prober::Prober;
use crate::rules::Rules;
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Range};
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Refuses a policy beside which the rules of others that are in effect here would cut off a service. What is refused here needs
/// no deadline. Returns why that was not tried, if it was not.
///
/// # Errors
/// A service would be cut off.
pub async fn try_beside(policy: &Policy, prober: &Prober) -> Result<Option<String>, Refusal> {
    let lost = Copied::read().await.and_then(|others| lost_beside(policy, &others, prober));
    match lost {
        Ok(lost) if lost.is_empty() => Ok(None),
        Ok(lost) => Err(Refusal::new(format!(
            "beside the rules of other programs, this policy would cut off {}; without it, they let that in",
            lost.join(", ")
        ))
        .hint(match policy.mode {
            Mode::Stateful => "remove the rules that turn connection tracking off, or write mode = \"stateless\"",
            Mode::Stateless | Mode::Hybrid => "write mode = \"stateful\", or remove the rules that need tracking",
        })),
        Err(refusal) => {
            let why = refusal.problem;
            Ok(Some(format!("the services were not tried beside a copy of the rules of other programs: {why}")))
        }
    }
}

/// The services of a policy that can be reached beside the rules of others alone, and not beside both.
///
/// # Errors
/// No network can be made, a program is missing, or the rules of others cannot be loaded there.
pub fn lost_beside(policy: &Policy, others: &Copied, prober: &Prober) -> Result<Vec<String>, Refusal> {
    let policy = small(policy);
    let cables = network::cables(&policy, &way_out());
    let exchanges = exchanges(&policy, &cables);
    let works = |exchanges: &[Exchange], with_policy: bool| -> Result<Vec<bool>, Refusal> {
        let sandbox = network::make(&cables, &clients(exchanges))?;
        others.load(&sandbox, HOST)?;
        if with_policy {
            Form::Nft.load(&sandbox, HOST, &Rules::of(&policy))?;
        }
        let task = Task {
            networks: network::paths(&sandbox),
            cables: cables.clone(),
            packets: Vec::new(),
            talks: Vec::new(),
            exchanges: exchanges.to_vec(),
        };
        Ok(task.passed(&sandbox, prober)?.exchanges)
    };
    let with = works(&exchanges, true)?;
    if with.iter().all(|works| *works) {
        return Ok(Vec::new());
    }
    let without = works(&exchanges, false)?;
    let both = exchanges.iter().zip(with.into_iter().zip(without));
    let suspects = both.filter(|(_, both)| *both == (false, true)).map(|(exchange, _)| exchange);
    let mut lost: Vec<String> = Vec::new();
    for suspect in suspects.take(SUSPECTS_MAX) {
        // Rules of others may limit how many come at once, so each is tried alone.
        let alone = |with_policy| works(std::slice::from_ref(suspect), with_policy);
        let shown = suspect.to_string();
        if !lost.contains(&shown) && alone(true)? == [false] && alone(false)? == [true] {
            lost.push(shown);
        }
    }
    Ok(lost)
}

/// The same policy with few addresses and without limits: what others do to packets does not depend on these.
fn small(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.lists.values_mut().for_each(few);
    few(&mut policy.allow.ranges);
    few(&mut policy.deny.ranges);
    for service in &mut policy.services {
        few(&mut service.from.ranges);
        service.limit = None;
        service.deny_text = None;
    }
    policy.clients.iter_mut().for_each(|client| few(&mut client.to.ranges));
    policy
}

fn few(ranges: &mut Vec<Range>) {
    let mut kept = [0; 2];
    ranges.retain(|range| {
        kept[range.family as usize] += 1;
        kept[range.family as usize] <= SAMPLE_RANGES
    });
}

/// One exchange for each protocol and family of a service. Each port is tried once.
fn exchanges(policy: &Policy, cables: &[Cable]) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    for service in &policy.services {
        let is_there = |cable: &&Cable| service.interface.as_ref().is_none_or(|name| *name == cable.interface);
        let Some(cable) = cables.iter().find(is_there) else { continue };
        let line = format!("services.{}", service.name);
        for family in FAMILIES {
            let peers = peers(policy, cable.ground, family);
            for (is_tcp, ports) in [(true, &service.ports.tcp), (false, &service.ports.udp)] {
                let Some((port, _)) = ports.first() else { continue };
                let content = match is_tcp {
                    true => Content::Tcp { from: FREE, to: *port, flags: Flags::SYN },
                    false => Content::Udp { from: FREE, to: *port },
                };
                let is_fit = |peer: &&IpAddr| {
                    let decision = meaning(policy, &packet(Direction::In, cable, **peer, content));
                    decision.accepts && decision.line == line
                };
                let Some(client) = peers.iter().find(is_fit).copied() else { continue };
                let host = SocketAddr::new(cable.host(family), *port);
                if !all.iter().any(|one| (one.host, one.is_tcp) == (host, is_tcp)) {
                    all.push(Exchange { line: line.clone(), host, client, is_tcp });
                }
            }
        }
    }
    all.truncate(EXCHANGES_MAX);
    all
}

fn clients(exchanges: &[Exchange]) -> Vec<IpAddr> {
    let mut seen = HashSet::new();
    exchanges.iter().map(|one| one.client).filter(|client| seen.insert(*client)).collect()
}

/// The device by which this host reaches all other networks, so that rules of others that name it count.
fn way_out() -> String {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    way_out_of(&routes).unwrap_or_else(|| PLAIN.to_owned())
}

fn way_out_of(routes: &str) -> Option<String> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    // Its name is written into scripts.
    let is_usable =
        |name: &str| name.len() <= INTERFACE_BYTES_MAX && !name.starts_with('-') && name.bytes().all(is_plain);
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_default = words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000");
        words.first().filter(|name| is_default && is_usable(name)).map(|name| (*name).to_owned())
    };
    routes.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn policy(text: &str) -> Policy {
        let dir = tempfile::tempdir().unwrap();
        let file: PathBuf = dir.path().join("policy.toml");
        fs::write(&file, text).unwrap();
        Policy::read(&file, &|_| Ok(Vec::new())).unwrap()
    }

    #[test]
    fn each_service_is_tried_by_each_protocol_where_it_counts() {
        let policy = policy(
            "resolvers = ['192.0.2.53']\ndeny = ['203.0.113.0/24']\n[services.ssh]\nlimit = '1/hour'\n\
             [services.dns]\nfrom = ['10.0.0.0/8']\n[services.twice]\ntcp = [22]\nfrom = ['10.0.0.0/8']\n\
             [services.inner]\nudp = ['500-600']\ninterface = 'eth1'\n[clients.dns]\n",
        );
        let policy = small(&policy);
        assert!(policy.services.iter().all(|service| service.limit.is_none()));
        let cables = network::cables(&policy, "eth0");
        let names: Vec<&str> = cables.iter().map(|cable| cable.interface.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1"]);
        assert_eq!(network::cables(&policy, "eth1").len(), 1, "a device is there once");
        let all = exchanges(&policy, &cables);
        let mut shown: Vec<String> =
            all.iter().map(|one| format!("{one} {}", if one.host.is_ipv4() { "v4" } else { "v6" })).collect();
        shown.sort();
        let wanted = [
            "services.dns (port 53 of tcp) v4",
            "services.dns (port 53 of udp) v4",
            "services.inner (port 500 of udp) v4",
            "services.inner (port 500 of udp) v6",
            "services.ssh (port 22 of tcp) v4",
            "services.ssh (port 22 of tcp) v6",
        ];
        assert_eq!(shown, wanted);
        assert!(all.iter().all(|one| !policy.has(&policy.deny, one.client)), "{all:?}");
    }

    #[test]
    fn few_addresses_of_each_family_are_kept() {
        let list: Vec<String> =
            (0..9).flat_map(|n| [format!("'10.{n}.0.0/24'"), format!("'2001:db8:{n}::/64'")]).collect();
        let policy = policy(&format!("[lists]\nl = [{}]\n[services.ssh]\nfrom = ['@l']\n", list.join(", ")));
        assert_eq!((policy.lists["l"].len(), small(&policy).lists["l"].len()), (18, 2 * SAMPLE_RANGES));
    }

    #[test]
    fn the_way_out_has_the_default_route() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let line =
            |name: &str, to: &str, mask: &str| format!("{name}\t{to}\t0102A8C0\t0003\t0\t0\t0\t{mask}\t0\t0\t0\n");
        let (near, far) = (line("eth1", "0002A8C0", "00FFFFFF"), line("eth0", "00000000", "00000000"));
        assert_eq!(way_out_of(&format!("{head}{near}{far}")).as_deref(), Some("eth0"));
        assert_eq!(way_out_of(&format!("{head}{near}")), None);
        assert_eq!(way_out_of(&line("$(id)", "00000000", "00000000")), None);
        assert_eq!(way_out_of(&line("tun0", "00000000", "00000080")), None, "half of all networks");
    }
}
