//! Policies: what is wrong with one is named with its place, and each line means what it says.

use crate::host::{Host, NEEDS, shell};
use crate::prober::prober;
use millstream_guard::policy::{Content, Direction, Flags, Packet, Policy, meaning};
use millstream_guard::prove::{Form, Subject, prove};
use millstream_guard::rules::Rules;
use millstream_guard::warning::doubts;
use millstream_model::Refusal;
use millstream_testkit::machine_has;
use std::fs;
use std::net::IpAddr;

/// What a small host needs.
pub(crate) const SMALL: &str = "\
resolvers = ['192.0.2.53', '2001:db8::53']
[services.ssh]
[services.postgres]
from = ['10.0.0.0/8']
[clients.dns]
";

/// The article's web server.
pub(crate) const WEB: &str = "\
resolvers = ['192.0.2.53', '2001:db8::53']
[services.ssh]
[services.http]
[clients.dns]
";

/// Reads the text of a policy. None of the stores that it names can be read.
pub(crate) fn read(text: &str) -> Result<Policy, Refusal> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.toml");
    fs::write(&file, text).unwrap();
    Policy::read(&file, &|_| Err(Refusal::new("there is no such store")))
}

/// The same of a policy that can be used.
pub(crate) fn policy(text: &str) -> Policy {
    read(text).unwrap()
}

/// The verdict about the first packet that comes from an address, or with `Out` goes there, and the line that decides.
fn decided(policy: &Policy, direction: Direction, peer: &str, content: Content) -> (bool, String) {
    let peer: IpAddr = peer.parse().unwrap();
    let host: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let (source, destination) = if direction == Direction::In { (peer, host) } else { (host, peer) };
    let interface = if peer.is_loopback() { "lo".to_owned() } else { String::new() };
    let text = Packet::USUAL_TEXT.to_vec();
    let packet = Packet { direction, interface, source, destination, content, text, is_established: false };
    let decision = meaning(policy, &packet);
    (decision.accepts, decision.line)
}

const fn tcp(to: u16) -> Content {
    Content::Tcp { from: 50_000, to, flags: Flags::SYN }
}

const fn udp(from: u16, to: u16) -> Content {
    Content::Udp { from, to }
}

#[test]
fn what_is_wrong_with_a_policy_is_named_with_its_place() {
    for (text, problem) in [
        ("[services.ssh]\nport = 22\n", "unknown field `port`"),
        ("[services.web]\ntcp = [0, 99999]\n", "services.web: tcp: 0 is not a port"),
        ("[services.ssh]\nfrom = ['@office']\n", "there is no list \"office\""),
        ("[lists]\nspam = { store = 'nowhere' }\n", "lists.spam: "),
    ] {
        let refused = read(text).unwrap_err();
        assert!(refused.problem.contains(problem) && refused.problem.contains("policy.toml"), "{refused}");
    }
}

#[test]
fn the_line_that_decides_is_named() {
    let small = policy(SMALL);
    for (direction, peer, content, accepts, line) in [
        (Direction::In, "10.1.2.3", tcp(5_432), true, "services.postgres"),
        (Direction::In, "192.0.2.1", tcp(5_432), false, "service-ports"),
        (Direction::In, "192.0.2.53", udp(53, 40_000), true, "clients.dns"),
        (Direction::In, "192.0.2.54", udp(53, 40_000), false, "everything-else"),
        (Direction::In, "127.0.0.1", tcp(5_432), true, "loopback"),
        (Direction::Out, "192.0.2.53", udp(50_000, 53), true, "clients.dns"),
        (Direction::Out, "192.0.2.54", udp(50_000, 53), false, "everything-else"),
    ] {
        let found = decided(&small, direction, peer, content);
        assert_eq!((found.0, found.1.as_str()), (accepts, line), "{peer} {content:?}");
    }
    let lines = Rules::of(&small).lines();
    for line in ["loopback", "fragments", "packet-too-big", "services.postgres", "clients.dns", "everything-else"] {
        assert!(lines.iter().any(|one| one == line), "{line}: {lines:?}");
    }
}

#[test]
fn a_text_is_denied_anywhere_or_at_its_place() {
    let in_text = |denied: &str, text: &str, peer: &str| {
        let policy = policy(&format!("allow = ['10.0.0.0/8']\n[services.dns]\ndeny_text = {denied}\n"));
        let packet = Packet {
            direction: Direction::In,
            interface: String::new(),
            source: peer.parse().unwrap(),
            destination: IpAddr::from([0, 0, 0, 0]),
            content: udp(50_000, 53),
            text: text.as_bytes().to_vec(),
            is_established: true,
        };
        meaning(&policy, &packet).line
    };
    for (denied, text, line) in [
        ("'bad'", "very bad", "services.dns.text"),
        ("'bad'", "ba d", "services.dns"),
        ("{ text = 'bad', at = 5 }", "very bad", "services.dns.text"),
        ("{ text = 'bad', at = 4 }", "very bad", "services.dns"),
        ("{ text = 'bad', at = 7 }", "very bad", "services.dns"),
        ("{ text = 'bad', at = 99 }", "very bad", "services.dns"),
    ] {
        assert_eq!(in_text(denied, text, "192.0.2.1"), line, "{denied} {text}");
        assert_eq!(in_text(denied, text, "10.0.0.1"), "services.dns", "{denied} {text}");
    }
    let written = |denied: &str| Rules::of(&policy(&format!("[services.dns]\ndeny_text = {denied}\n")));
    let rules = written("{ text = 'abcdefghij', at = 1 }");
    assert!(
        rules.nft().contains("udp dport 53 @th,72,64 0x6162636465666768 @th,136,16 0x696a counter drop"),
        "{}",
        rules.nft()
    );
    let anywhere = written("'ab'").iptables();
    for rule in ["--algo bm --from 28 --hex-string \"|6162|\"", "--algo bm --from 48 --hex-string \"|6162|\""] {
        assert!(anywhere.contains(rule), "{anywhere}");
    }
    assert!(rules.iptables().contains("--from 29 --to 39 --hex-string"), "{}", rules.iptables());
    written("'ab'").fit_nft().unwrap_err();
}

/// A service of TCP leaves answers by UDP alone, and the other way round.
#[test]
fn a_service_drops_only_what_comes_by_its_protocol() {
    let policy = policy(
        "[services.ssh]\n[services.web]\ntcp = [443]\nfrom = ['10.0.0.0/8']\n[services.ntp]\nudp = [123]\n\
         from = ['10.0.0.0/8']\n[clients.quic]\nudp = [443]\nown_ports = [443]\n[clients.ntp]\n",
    );
    let answer = |port: u16| decided(&policy, Direction::In, "192.0.2.9", udp(port, port));
    assert_eq!(answer(443), (true, "clients.quic".to_owned()));
    assert_eq!(answer(123), (false, "service-ports".to_owned()));
    let doubts = doubts(&policy).join("\n");
    assert!(doubts.contains("services.ntp drops answers to clients.ntp, which asks from port 123"), "{doubts}");
    assert!(!doubts.contains("clients.quic"), "{doubts}");
    if machine_has(NEEDS) {
        let report = prove(&policy, Subject::Own(Form::Nft), &prober()).unwrap();
        assert!(report.wrong.is_empty(), "{report:?}");
    }
}

#[test]
fn a_limit_counts_only_the_sources_of_its_service() {
    let policy = policy(
        "[services.a]\ntcp = [5432]\nfrom = ['10.0.0.0/8']\nlimit = '1/hour'\n[services.postgres]\nfrom = ['192.0.2.0/24']\n",
    );
    let rules = Rules::of(&policy).nft();
    let limits: Vec<&str> = rules.lines().filter(|line| line.contains("update @limits.a")).collect();
    assert!(!limits.is_empty() && limits.iter().all(|line| line.contains("saddr @services.a.4")), "{rules}");
}

#[test]
fn a_resolver_of_this_host_is_refused_or_followed() {
    let Some(_host) = Host::of("policy::a_resolver_of_this_host_is_refused_or_followed") else { return };
    let text = "[services.ssh]\n[clients.dns]\n";
    let write = |text: &str| {
        // It may be a link to a file of the machine.
        let _ = fs::remove_file("/etc/resolv.conf");
        fs::write("/etc/resolv.conf", text).unwrap();
    };
    write("nameserver 127.0.0.1\n");
    let refused = read(text).unwrap_err();
    assert!(refused.problem.contains("the resolver 127.0.0.1 is a program of this host"), "{refused}");
    // It may answer at another address of the host.
    shell("ip address add 192.0.2.5/32 dev lo");
    write("nameserver 192.0.2.5\n");
    let refused = read(text).unwrap_err();
    assert!(refused.problem.contains("the resolver 192.0.2.5 is a program of this host"), "{refused}");
    write("nameserver 192.0.2.53 # main router\nnameserver 127.0.0.1\nnameserver 192.0.2.5\n");
    let asked = decided(&policy(text), Direction::Out, "192.0.2.53", udp(50_000, 53));
    assert_eq!(asked, (true, "clients.dns".to_owned()));
}
