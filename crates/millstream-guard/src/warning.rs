//! What a plan warns of: what on this host a policy would cut, or what would make it mean less than it says.

use crate::limits::{RESOLVED_BYTES_MAX, SCRIPT_BYTES_MAX};
use crate::others::{Limited, Others};
use crate::policy::{Client, Content, Direction, Flags, Mode, Packet, Policy, Ports, Service, UNPRIVILEGED, meaning};
use millstream_host::{Ssh, read_at_most};
use millstream_model::Refusal;
use std::fs;
use std::path::{Path, PathBuf};

/// The port of ssh.
const SSH: u16 = 22;

/// What stands there if the unit of nftables is enabled, by Debian or by Red Hat: a link to the unit.
const NFTABLES_UNITS: [&str; 2] = [
    "/etc/systemd/system/sysinit.target.wants/nftables.service",
    "/etc/systemd/system/multi-user.target.wants/nftables.service",
];

/// What such a unit loads.
const NFTABLES_RULES: [&str; 2] = ["/etc/nftables.conf", "/etc/sysconfig/nftables.conf"];

/// Where systemd-resolved reads its settings: a file, and files in the directory beside it, of which the last one counts.
const RESOLVED: [&str; 4] = [
    "/usr/lib/systemd/resolved.conf",
    "/usr/local/lib/systemd/resolved.conf",
    "/run/systemd/resolved.conf",
    "/etc/systemd/resolved.conf",
];

/// The ports at which resolvers answer, and at which they do by TLS. Source: RFC 7858.
const DNS: u16 = 53;
const DNS_BY_TLS: u16 = 853;

/// What a plan needs to know about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The connection of ssh in which this runs.
    pub ssh: Option<Ssh>,
    /// What the rules of other programs do.
    pub others: Others,
    /// The file by which nftables.service, which is enabled, removes all rules.
    pub flushed_by: Option<PathBuf>,
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
    /// The file by which systemd-resolved asks its resolvers by TLS, if it may do so.
    pub asks_by_tls: Option<PathBuf>,
}

impl Facts {
    /// The facts of this host.
    ///
    /// # Errors
    /// As [`Others::read`].
    pub async fn read() -> Result<Self, Refusal> {
        let others = Others::read().await?;
        let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok();
        let ports = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut ports = ports.split_whitespace().map_while(|port| port.parse().ok());
        Ok(Self {
            ssh: Ssh::here(),
            others,
            flushed_by: flushed_by(&NFTABLES_UNITS.map(Path::new), &NFTABLES_RULES.map(Path::new)),
            tracked: setting("netfilter/nf_conntrack_count"),
            asking_ports: ports.next().zip(ports.next()),
            filters_bridged: has_bridge() && setting("bridge/bridge-nf-call-iptables") == Some(1_u64),
            tracked_max: setting("netfilter/nf_conntrack_max"),
            unanswered_seconds: setting("netfilter/nf_conntrack_udp_timeout"),
            asks_by_tls: asks_by_tls(&RESOLVED.map(PathBuf::from)),
        })
    }
}

/// The file with a setting of systemd-resolved that lets it ask by TLS, of these and those in the directories beside them. A
/// setting that another file takes back is found, too: the answer is a warning.
fn asks_by_tls(files: &[PathBuf]) -> Option<PathBuf> {
    let asks = |file: &PathBuf| {
        let text = read_at_most(file, RESOLVED_BYTES_MAX, None).unwrap_or_default();
        let mut values =
            text.lines().filter_map(|line| line.trim().strip_prefix("DNSOverTLS")?.trim().strip_prefix('='));
        let last = values.next_back().map(|value| value.trim().to_ascii_lowercase());
        last.is_some_and(|value| !["", "0", "f", "false", "n", "no", "off"].contains(&value.as_str()))
    };
    let beside = |file: &PathBuf| {
        let mut folder = file.clone().into_os_string();
        folder.push(".d");
        let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        found.filter(|path| path.extension().is_some_and(|extension| extension == "conf")).collect::<Vec<_>>()
    };
    files.iter().flat_map(|file| std::iter::once(file.clone()).chain(beside(file))).find(asks)
}

/// The file of an enabled unit of nftables, or of the rules that it loads, that removes the rules of all programs.
fn flushed_by(units: &[&Path], rules: &[&Path]) -> Option<PathBuf> {
    let enabled = units.iter().find(|unit| unit.exists())?;
    let flushes = |file: &&&Path| {
        let text = read_at_most(file, SCRIPT_BYTES_MAX, None).unwrap_or_default();
        text.lines().any(|line| !line.trim().starts_with('#') && line.contains("flush ruleset"))
    };
    rules.iter().chain([enabled]).find(flushes).map(|file| file.to_path_buf())
}

fn has_bridge() -> bool {
    let devices = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    devices.into_iter().any(|device| device.path().join("bridge").exists())
}

/// Why a policy is not applied, although it could be.
///
/// # Errors
/// It would lock you out, unless you can reach the host in another way (`has_console`): nobody may reach ssh, or rules of others
/// may turn tracking off for a service of a policy that needs it. Or it would break rules of others that need tracking: those
/// that translate addresses, and those that may drop a packet of which tracking knows nothing.
pub fn may_apply(policy: &Policy, facts: &Facts, has_console: bool) -> Result<(), Refusal> {
    if policy.mode != Mode::Stateful
        && let Some(table) = facts.others.translating.first()
    {
        return Err(Refusal::new(format!("{table} translates addresses, which needs connections to be tracked"))
            .hint("write mode = \"stateful\" at the beginning of the policy"));
    }
    if let Some(sentence) = drop_without_tracking(policy, facts, |rule| may_meet(rule, policy, facts)) {
        return Err(Refusal::new(sentence)
            .hint("write mode = \"stateful\" at the beginning of the policy, or remove one of these rules"));
    }
    let untracked = facts.others.untracking.iter().find_map(|one| {
        let is_about = |service: &&Service| policy.tracks(service) && one.is_about(&service.ports);
        Some((one, policy.services.iter().find(is_about)?))
    });
    if !has_console && let Some((one, service)) = untracked {
        let (rule, name, mode) = (&one.rule, &service.name, mode(policy));
        return Err(Refusal::new(format!(
            "{rule} may turn connection tracking off for services.{name}, and mode {mode} drops packets that are not \
             tracked"
        ))
        .hint(
            "remove that rule or limit it to ports of no service, or write mode = \"stateless\" at the beginning of \
             the policy; or add --i-have-console if you can reach the host without ssh",
        ));
    }
    let port = facts.ssh.map_or(SSH, |ssh| ssh.to);
    let is_there = |service: &Service| Ports::has(&service.ports.tcp, port) && !policy.is_nobody(&service.from);
    if !has_console && !policy.services.iter().any(is_there) {
        return Err(Refusal::new(format!(
            "the policy lets nobody reach port {port}, so ssh would not reach this host"
        ))
        .hint("write [services.ssh] in the policy; or add --i-have-console if you can reach the host without ssh"));
    }
    Ok(())
}

/// What rules of others that are `met` may do to packets that this policy does not let the kernel track. If they ask what
/// tracking says in one place and drop in another, a mark or a set may lead from one to the other, so both together are enough.
/// Without a question, they decide as before.
fn drop_without_tracking(policy: &Policy, facts: &Facts, met: impl Fn(&Limited) -> bool) -> Option<String> {
    let Others { drops, question: Some(question), .. } = &facts.others else { return None };
    if policy.mode == Mode::Stateful {
        return None;
    }
    let mut drops = drops.iter().filter(|one| met(one));
    let first = drops.next()?;
    let drop = &std::iter::once(first).chain(drops).find(|one| one.rule == *question).unwrap_or(first).rule;
    let mode = mode(policy);
    Some(match drop == question {
        true => format!("{drop} may drop packets by what connection tracking says, and mode {mode} turns tracking off"),
        false => format!(
            "{question} asks what connection tracking says, which mode {mode} turns off, and {drop} may drop packets then"
        ),
    })
}

/// Whether a rule may meet packets that the policy lets in or out and that are not tracked. A program of this host that talks
/// over the loopback device at ports of no service may meet it all the same.
fn may_meet(rule: &Limited, policy: &Policy, facts: &Facts) -> bool {
    if policy.services.iter().any(|service| rule.is_about(&service.ports)) {
        return true;
    }
    // The kernel asks from a part of those ports.
    let own = |range: &(u16, u16)| facts.asking_ports.filter(|_| UNPRIVILEGED.contains(range)).unwrap_or(*range);
    let is_about = |client: &Client| {
        let own_ports: Vec<(u16, u16)> = client.own_ports.iter().map(own).collect();
        rule.is_about_client(client, &own_ports)
    };
    // In mode hybrid, all this is tracked.
    policy.mode == Mode::Stateless
        && (rule.is_of_loopback() || rule.is_about_icmp() || policy.clients.iter().any(is_about))
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
    let mut doubts: Vec<String> = empty
        .map(|service| format!("nobody may reach services.{}: its lists have no addresses", service.name))
        .collect();
    for client in &policy.clients {
        let meeting =
            policy.services.iter().filter_map(|service| Some((service, shared_port(policy, service, client)?)));
        doubts.extend(meeting.map(|(service, port)| {
            format!(
                "services.{} drops answers to clients.{}, which asks from port {port} too, unless they come from whom the \
                 service accepts: widen its from, or use mode stateful",
                service.name, client.name
            )
        }));
    }
    doubts
}

/// A port from which a client asks on purpose, although it belongs to a service that drops answers which come there.
fn shared_port(policy: &Policy, service: &Service, client: &Client) -> Option<u16> {
    let accepts_all = service.from.is_all && service.interface.is_none();
    // With tracking, answers come in before any service is asked. A question to all servers has answers that no tracking knows.
    if accepts_all || (policy.tracks(service) && !client.asks_all) {
        return None;
    }
    let (of_service, of_client) = (&service.ports, &client.ports);
    let pairs = [(&of_service.tcp, &of_client.tcp), (&of_service.udp, &of_client.udp)];
    let of_protocol = pairs.into_iter().filter(|(_, asked)| !asked.is_empty()).flat_map(|(ports, _)| ports);
    let own = client.own_ports.iter().filter(|range| !UNPRIVILEGED.contains(range));
    of_protocol.into_iter().find_map(|(first, last)| {
        own.clone().find(|(from, to)| from <= last && first <= to).map(|(from, _)| *from.max(first))
    })
}

/// What a plan warns of, as sentences.
pub fn warnings(policy: &Policy, facts: &Facts) -> Vec<String> {
    let mut warnings = doubts(policy);
    if let Some(Ssh { peer, from, host, to }) = facts.ssh {
        let content = Content::Tcp { from, to, flags: Flags::SYN };
        let (direction, interface) = (Direction::In, String::new());
        let text = Vec::new();
        let packet =
            Packet { direction, interface, source: peer, destination: host, content, text, is_established: false };
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
    if policy.mode != Mode::Stateful && !facts.others.translating.is_empty() {
        let tables: Vec<&str> = facts.others.translating.iter().map(String::as_str).collect();
        let tables = tables.join(", ");
        warnings.push(format!(
            "{tables} translates addresses, as for containers; that needs tracking, which mode {} turns off: use mode stateful",
            mode(policy)
        ));
    }
    let met = |rule: &Limited| may_meet(rule, policy, facts);
    let dropping = drop_without_tracking(policy, facts, met).or_else(|| {
        let sentence = drop_without_tracking(policy, facts, |rule| policy.mode == Mode::Stateless && !met(rule))?;
        Some(format!("{sentence}: no service has its ports, but a program of this host may over the loopback device"))
    });
    warnings.extend(dropping);
    if let Some(one) = facts.others.untracking.first().filter(|_| policy.mode != Mode::Stateless) {
        let rule = &one.rule;
        warnings.push(format!(
            "{rule} may turn connection tracking off, and mode {} drops the answers of connections that are not tracked",
            mode(policy)
        ));
    }
    if policy.mode != Mode::Stateless && facts.tracked.is_none_or(|tracked| tracked == 0) {
        warnings.push(format!(
            "connections that are open now are not tracked yet, so mode {} cuts them, your ssh session too; new ones work",
            mode(policy)
        ));
    }
    if let Some((first, last)) = facts.asking_ports {
        let meets = |ports: &[(u16, u16)]| ports.iter().any(|(from, to)| *from <= last && first <= *to);
        let drops = |one: &&Service| !policy.tracks(one) && (meets(&one.ports.tcp) || meets(&one.ports.udp));
        for service in policy.services.iter().filter(drops) {
            warnings.push(format!(
                "services.{} has ports from {first} to {last}, from which this host asks others: answers to those are \
                 dropped",
                service.name
            ));
        }
    }
    if let Some(file) = &facts.flushed_by {
        warnings.push(format!(
            "nftables.service removes all rules when it is stopped or reloaded: {} says flush ruleset",
            file.display()
        ));
    }
    for chain in &facts.others.dropping {
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
    let asks = |port: u16| policy.clients.iter().any(|client| Ports::has(&client.ports.tcp, port));
    if let Some(file) = facts.asks_by_tls.as_ref().filter(|_| asks(DNS) && !asks(DNS_BY_TLS) && !policy.send_all) {
        warnings.push(format!(
            "{} lets systemd-resolved ask by TLS at port {DNS_BY_TLS}, and no client may: give one the port, as in \
             [clients.dot] tcp = [{DNS_BY_TLS}] to = [..]",
            file.display()
        ));
    }
    if let Some(file) = &policy.resolvers_of {
        warnings.push(format!(
            "the resolvers are those of {}: if that changes, names cannot be resolved until the policy is applied again",
            file.display()
        ));
    }
    if let Some(own) = policy.own_resolver {
        warnings.push(format!(
            "the resolver {own} is a program of this host: it works only if it asks one of the resolvers that the policy names; \
             name those that it asks: resolvers = [\"192.0.2.53\"]"
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

    fn translating() -> Others {
        Others { translating: ["ip nat".to_owned()].into(), ..Others::default() }
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
        let translating = Facts { others: translating(), ..Facts::default() };
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
        assert!(
            warned("[services.ssh]", Facts { flushed_by: Some("/f".into()), ..Facts::default() })
                .contains("flush ruleset")
        );
    }

    #[test]
    fn modes_without_tracking_warn_of_translation_and_others_of_the_table() {
        let facts = Facts {
            others: translating(),
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

    #[test]
    fn a_drop_and_a_question_to_tracking_need_a_mode_that_tracks() {
        let facts = |drop: Option<&str>, question: Option<&str>| Facts {
            others: Others {
                drops: drop.map(|rule| Limited::of_words(rule, &[])).into_iter().collect(),
                question: question.map(str::to_owned),
                ..Others::default()
            },
            tracked: Some(1),
            ..Facts::default()
        };
        let [stateless, hybrid, stateful] =
            ["stateless", "hybrid", "stateful"].map(|mode| policy(&format!("mode = '{mode}'\n[services.ssh]")));
        for (drop, question, problem) in [
            ("rule 1", "rule 1", "rule 1 may drop packets by what connection tracking says, and mode "),
            ("rule 1", "rule 2", "rule 2 asks what connection tracking says, which mode "),
        ] {
            let both = facts(Some(drop), Some(question));
            for policy in [&stateless, &hybrid] {
                let refused = may_apply(policy, &both, false).unwrap_err();
                assert!(refused.problem.starts_with(problem) && refused.hint.is_some(), "{refused}");
                assert_eq!(warnings(policy, &both).iter().filter(|one| one.starts_with(problem)).count(), 1);
            }
            assert_eq!(may_apply(&stateful, &both, false), Ok(()));
        }
        for alone in [facts(Some("rule 1"), None), facts(None, Some("rule 2"))] {
            assert_eq!(may_apply(&stateless, &alone, false), Ok(()), "nothing changes for these rules");
        }
    }

    #[test]
    fn a_drop_of_other_packets_is_no_reason_to_refuse() {
        let facts = |words: &[&str], asking_ports: Option<(u16, u16)>| Facts {
            others: Others {
                drops: vec![Limited::of_words("rule 1", words)],
                question: Some("rule 1".into()),
                ..Others::default()
            },
            asking_ports,
            ..Facts::default()
        };
        let (ssh, asks) = ("[services.ssh]", "[services.ssh]\n[clients.web]\ntcp = [443]");
        let asking = Some((32_768, 60_999));
        for (text, words, ports, meets) in [
            (ssh, &["-p", "tcp", "--dport", "9999"][..], asking, false),
            (ssh, &["-p", "tcp", "--dports", "9999,10000:10010"], None, false),
            (ssh, &["-p", "tcp", "--dport", "22"], asking, true),
            (ssh, &["-p", "tcp", "--sport", "9999"], asking, true),
            (ssh, &["-p", "udp"], asking, false),
            (ssh, &["-p", "sctp"], asking, false),
            (ssh, &["-p", "icmp"], asking, true),
            (ssh, &["-i", "lo"], asking, true),
            (ssh, &["-s", "192.0.2.1"], asking, true),
            (asks, &["-p", "tcp", "--dport", "9999"], asking, false),
            (asks, &["-p", "tcp", "--dport", "9999"], None, true),
            (asks, &["-p", "tcp", "--dport", "40000"], asking, true),
            (asks, &["-p", "tcp", "--sport", "80", "--dport", "40000"], asking, false),
            (asks, &["-p", "tcp", "--sport", "443", "--dport", "1024:65535"], asking, true),
            (asks, &["-p", "udp"], asking, false),
        ] {
            let (policy, facts) = (policy(text), facts(words, ports));
            let refused = may_apply(&policy, &facts, false);
            assert_eq!(refused.is_err(), meets, "{text} {words:?}: {refused:?}");
            let warned = warnings(&policy, &facts).join("; ");
            assert!(warned.contains("rule 1 may drop packets by what connection tracking says"), "{warned}");
            assert_eq!(warned.contains("over the loopback device"), !meets, "{words:?}: {warned}");
        }
        let hybrid = policy("mode = 'hybrid'\n[services.ssh]\n[clients.web]\ntcp = [443]");
        let answers = facts(&["-p", "tcp", "--sport", "443", "--dport", "40000"], asking);
        assert_eq!(may_apply(&hybrid, &answers, false), Ok(()), "answers are tracked");
    }

    #[test]
    fn a_unit_that_flushes_all_rules_is_found_if_it_is_enabled() {
        let dir = tempfile::tempdir().unwrap();
        let [unit, rules] = ["unit", "rules"].map(|name| dir.path().join(name));
        let found = || flushed_by(&[Path::new("/nowhere"), &unit], &[&rules, Path::new("/nowhere")]);
        fs::write(&rules, "# flush ruleset\nflush ruleset\n").unwrap();
        assert_eq!(found(), None, "the unit is not enabled");
        fs::write(&unit, "ExecStart=nft -f rules\n").unwrap();
        assert_eq!(found(), Some(rules.clone()));
        fs::write(&rules, "# flush ruleset\n").unwrap();
        assert_eq!(found(), None);
        fs::write(&unit, "ExecReload=nft 'flush ruleset; include \"rules\";'\n").unwrap();
        assert_eq!(found(), Some(unit.clone()));
    }

    #[test]
    fn a_mode_that_tracks_needs_tracking_of_its_services_and_warns_of_other_rules_that_turn_it_off() {
        let facts = |limits: &[&str]| {
            let others = Others { untracking: vec![Limited::of_words("rule 1", limits)], ..Others::default() };
            Facts { others, tracked: Some(1), ..Facts::default() }
        };
        let (of_ssh, of_dns) = (facts(&["-i", "v0"]), facts(&["-p", "udp", "--dport", "53"]));
        for (mode, count) in [("stateless", 0), ("stateful", 1), ("hybrid", 1)] {
            let policy = policy(&format!("mode = '{mode}'\n[services.ssh]"));
            for facts in [&of_ssh, &of_dns] {
                let warned = warnings(&policy, facts);
                let meant = |one: &&String| one.starts_with("rule 1 may turn connection tracking off");
                assert_eq!(warned.iter().filter(meant).count(), count, "{warned:?}");
            }
            assert_eq!(may_apply(&policy, &of_dns, false), Ok(()));
            let said = may_apply(&policy, &of_ssh, false).map_err(|refusal| refusal.problem);
            let refused =
                said.is_err_and(|said| said.starts_with("rule 1 may turn connection tracking off for services.ssh"));
            assert_eq!(refused, count > 0, "{mode}");
            assert_eq!(may_apply(&policy, &of_ssh, true), Ok(()));
        }
        let hot = policy("mode = 'hybrid'\n[services.ssh]\nhot = true");
        assert_eq!(may_apply(&hot, &of_ssh, false), Ok(()), "it is not tracked");
    }

    #[test]
    fn a_resolver_of_this_host_before_others_is_named() {
        let mut policy = policy("[services.ssh]");
        let warned = |policy: &Policy| warnings(policy, &Facts::default()).join("; ");
        assert!(!warned(&policy).contains("is a program of this host"));
        policy.own_resolver = Some(std::net::Ipv4Addr::LOCALHOST.into());
        assert!(warned(&policy).contains("the resolver 127.0.0.1 is a program of this host"));
    }

    #[test]
    fn a_resolver_that_is_asked_by_tls_needs_a_client_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("resolved.conf");
        let found = || asks_by_tls(&[dir.path().join("none.conf"), main.clone()]);
        for (text, asks) in [
            ("[Resolve]\n#DNSOverTLS=yes\nDNS=192.0.2.53\n", false),
            ("[Resolve]\nDNSOverTLS=yes\nDNSOverTLS = no\n", false),
            ("[Resolve]\nDNSOverTLS = opportunistic\n", true),
            ("[Resolve]\nDNSOverTLS=yes", true),
        ] {
            fs::write(&main, text).unwrap();
            assert_eq!(found().is_some(), asks, "{text}");
        }
        fs::write(&main, "").unwrap();
        fs::create_dir(dir.path().join("resolved.conf.d")).unwrap();
        fs::write(dir.path().join("resolved.conf.d/10-tls.conf"), "[Resolve]\nDNSOverTLS=yes\n").unwrap();
        fs::write(dir.path().join("resolved.conf.d/20.bak"), "[Resolve]\nDNSOverTLS=yes\n").unwrap();
        assert_eq!(found(), Some(dir.path().join("resolved.conf.d/10-tls.conf")));

        let warned = |text: &str| {
            let facts = Facts { asks_by_tls: Some(main.clone()), ..Facts::default() };
            warnings(&policy(&format!("resolvers = ['192.0.2.53']\n[services.ssh]\n{text}")), &facts).join("; ")
        };
        assert!(warned("[clients.dns]").contains("ask by TLS at port 853, and no client may"));
        let dot = "[clients.dns]\n[clients.dot]\ntcp = [853]\nto = ['192.0.2.53']";
        assert!(!warned(dot).contains("TLS") && !warned("").contains("TLS"));
    }

    #[test]
    fn a_client_that_asks_from_the_port_of_a_service_is_named() {
        let doubted = |text: &str| doubts(&policy(text)).join("; ");
        let ntp = "[services.ntp]\nudp = [123]\nfrom = ['10.0.0.0/8']\n[clients.ntp]";
        let ike =
            "[services.ike]\nudp = [500]\ninterface = 'eth1'\n[clients.ike]\nudp = [500]\nown_ports = ['490-510']";
        for (text, port) in [(ntp, "123"), (ike, "500")] {
            let says = doubted(text);
            assert!(says.contains(&format!("which asks from port {port} too")), "{says}");
            assert_eq!(doubted(&format!("mode = 'stateful'\n{text}")), "", "tracking knows the answers");
        }
        for text in [
            "[services.ntp]\nudp = [123]\n[clients.ntp]",
            "[services.web]\ntcp = [443]\nfrom = ['10.0.0.0/8']\n[clients.quic]\nudp = [443]\nown_ports = [443]",
            "[services.postgres]\nfrom = ['10.0.0.0/8']\n[clients.https]",
        ] {
            assert_eq!(doubted(text), "", "{text}");
        }
        let hot = "mode = 'hybrid'\n[services.ntp]\nudp = [123]\nfrom = ['10.0.0.0/8']\nhot = true\n[clients.ntp]";
        assert!(doubted(hot).contains("port 123 too"));
    }
}
