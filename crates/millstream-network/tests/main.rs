//! Our files beside those of NetworkManager's own client, and its refusals beside ours.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod generated;
mod kernel;

use millstream_network::output::{File, Form, Words, files};
use millstream_network::topology::Topology;
use millstream_testkit::networkmanager;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// Topologies with what NetworkManager writes in different ways.
const TOPOLOGIES: &[&str] = &[
    include_str!("../../../examples/network/vlan.toml"),
    include_str!("../../../examples/network/bridge.toml"),
    include_str!("../../../examples/network/guests.toml"),
    "[cards.eth0]\naddresses = ['192.0.2.5/24']\ngateway = '192.0.2.1'\ndns = ['192.0.2.53', '192.0.2.54']",
    "[cards.eth0]\naddresses = ['192.0.2.5/24', '192.0.2.6/24', '198.51.100.5/25']\ngateway = '192.0.2.1'\nmtu = 9000",
    "[cards.eth0]\naddresses = ['2001:db8::5/64', '2001:db8::6/64']\ngateway = 'fe80::1'\ndns = ['2001:db8::53']",
    "[cards.eth0]\naddresses = ['192.0.2.5/24', '2001:db8::5/64']\ngateway = ['192.0.2.1', '2001:db8::1']",
    "[cards.eth0]\nipv4 = 'auto'\nipv6 = 'auto'",
    "[cards.eth0]\nipv4 = 'auto'\nipv6 = 'ignore'\nzone = 'public'",
    "[cards.eth0]\naddresses = ['192.0.2.5/24']\nroutes = [{ to = '198.51.100.0/24', via = '192.0.2.9' }, \
     { to = '203.0.113.0/24', via = '192.0.2.9', metric = 50 }, { to = '10.0.0.0/8' }]",
    "[cards.eth0]\naddresses = ['2001:db8::5/64']\nroutes = [{ to = '2001:db8:1::/48', via = '2001:db8::9', metric = 100 }]",
    "[cards.eth0]\naddresses = ['192.0.2.5/24']\nsearch = ['example.org', 'example.net']\ndns = ['192.0.2.53']",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'active-backup'\nmiimon = 100\nup_delay = 200\ndown_delay = 200\n\
     primary = 'eth0'\nautoconnect_ports = true",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'active-backup'\narp_interval = 1000\n\
     arp_targets = ['192.0.2.1', '192.0.2.2']\nmtu = 9000",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = '802.3ad'\nmiimon = 100\nlacp_rate = 'fast'\n\
     transmit_hash = 'layer3+4'\nmin_links = 1",
    "[bonds.b]\nports = ['eth0', 'eth1', 'eth2']\nmode = 'balance-xor'\nmiimon = 50\ntransmit_hash = 'layer2+3'",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'balance-alb'\nmiimon = 100\naddresses = ['192.0.2.5/24']",
    "[bridges.br]\nports = ['eth0']\nforward_delay = 4\nhello_time = 1\nmax_age = 6\npriority = 4096\nipv4 = 'auto'",
    "[bridges.br]\nports = ['eth0']\nforward_delay = 15\nhello_time = 2\nmax_age = 20\npriority = 32768\nmtu = 1400",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'balance-rr'\nmiimon = 100\n[bridges.br]\nports = ['b']\nstp = false\n\
     addresses = ['192.0.2.5/24']\n[vlans.v]\nparent = 'br'\nid = 4094\nmtu = 1400\nipv6 = 'auto'",
    "[cards.eth0]\naddresses = ['203.0.113.7/32']\ngateway = { via = '172.31.1.1', metric = 50 }\n\
     routes = [{ to = '172.31.1.1/32' }, { to = '10.0.0.0/8', metric = 60 }, { to = '0.0.0.0/0', via = '172.31.1.1', metric = 70 }]",
    "[cards.eth0]\naddresses = ['2001:db8::7/128']\ngateway = { via = 'fe80::1', metric = 0 }\n\
     routes = [{ to = '2001:db8:1::/48', metric = 60 }]",
    "[cards.eth0]\naddresses = ['fe80::1/64']\n[cards.eth1]\naddresses = ['fe80::1/64']\ndns = ['fe80::53']",
    "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'balance-xor'\nmiimon = 100\ntransmit_hash = 'vlan+srcmac'\nmtu = 9000\n\
     [bridges.br]\nports = ['b']\nstp = false\nforward_delay = 2",
];

/// Runs a command of a shell in which `nmcli` makes files, and asks no daemon.
fn offline(unpacked: &Path, command: &str) -> Output {
    let command = command.replacen("nmcli ", "nmcli --offline ", 1);
    let path = format!("{}:{}", unpacked.join("usr/bin").display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", &command])
        .env("PATH", path)
        .env("LD_LIBRARY_PATH", unpacked.join("usr/lib/x86_64-linux-gnu"))
        .env("LC_ALL", "C")
        .output()
        .unwrap()
}

type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// The sections of a keyfile without the uuid, which is another one each time.
fn sections(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            current = name.to_owned();
            sections.entry(current.clone()).or_default();
        } else if let Some((key, value)) = line.split_once('=').filter(|(key, _)| *key != "uuid") {
            // A warning may stand before the first section.
            if let Some(section) = sections.get_mut(&current) {
                section.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    sections
}

#[test]
fn keyfiles_are_those_that_networkmanager_writes_itself() {
    let Some(unpacked) = networkmanager() else { return };
    assert_eq!(TOPOLOGIES.len(), 24);
    for text in TOPOLOGIES {
        written_by_both(&unpacked, text);
    }
}

/// Our files of a topology are those that NetworkManager's client makes of our commands.
fn written_by_both(unpacked: &Path, text: &str) {
    let topology = Topology::parse(text).unwrap();
    let commands = Form::Nmcli.text(&topology, Words::OLD);
    let files = files(&topology, Words::OLD);
    assert_eq!(commands.lines().count(), files.len());
    for (command, File { name, text: ours }) in commands.lines().zip(&files) {
        let ended = offline(unpacked, command);
        let theirs = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(sections(ours), sections(&theirs), "{name} of {text}");
    }
}

/// Inputs that NetworkManager's client refuses, each as its arguments and as a topology, and a part of our sentence.
const REFUSED: &[(&str, &str, &str)] = &[
    ("vlan con-name v ifname v dev e id 5000", "[cards.e]\n[vlans.v]\nparent = 'e'\nid = 5000", "those are 1 to 4094"),
    ("vlan con-name v ifname v dev e id 4095", "[cards.e]\n[vlans.v]\nparent = 'e'\nid = 4095", "those are 1 to 4094"),
    ("vlan con-name v ifname v id 5", "[vlans.v]\nid = 5", "vlans.v: missing field `parent`"),
    ("ethernet con-name e ifname abcdefghijklmnop", "[cards.abcdefghijklmnop]", "has 16 bytes, and Linux takes 15"),
    ("ethernet con-name e ifname 'a b'", "[cards.'a b']", "has a character that no name of a link should have"),
    ("ethernet con-name e ifname a/b", "[cards.'a/b']", "has a character that no name of a link should have"),
    ("ethernet con-name e ifname all", "[cards.all]", "means something else to the kernel"),
    (
        "bond con-name b ifname b bond.options mode=bogus",
        "[bonds.b]\nports = []\nmode = 'bogus'",
        "unknown variant `bogus`",
    ),
    (
        "bond con-name b ifname b bond.options mode=active-backup,arp_interval=100",
        "[bonds.b]\nports = []\nmode = 'active-backup'\narp_interval = 100",
        "arp_interval: there is nobody to ask",
    ),
    (
        "bond con-name b ifname b bond.options mode=active-backup,arp_interval=100,miimon=100,arp_ip_target=192.0.2.1",
        "[bonds.b]\nports = []\nmode = 'active-backup'\narp_interval = 100\nmiimon = 100\narp_targets = ['192.0.2.1']",
        "miimon and arp_interval exclude each other",
    ),
    (
        "bond con-name b ifname b bond.options mode=802.3ad,primary=eth0",
        "[bonds.b]\nports = ['eth0']\nmode = '802.3ad'\nprimary = 'eth0'",
        "a bond of mode 802.3ad prefers no card",
    ),
    (
        "bond con-name b ifname b bond.options mode=active-backup,lacp_rate=fast",
        "[bonds.b]\nports = []\nmode = 'active-backup'\nlacp_rate = 'fast'",
        "does not speak LACP",
    ),
    (
        "bond con-name b ifname b bond.options mode=802.3ad,miimon=x",
        "[bonds.b]\nports = []\nmode = '802.3ad'\nmiimon = 'x'",
        "bonds.b: invalid type: string \"x\"",
    ),
    (
        "ethernet con-name e ifname e ipv4.method manual ipv4.addresses 192.0.2.5/33",
        "[cards.e]\naddresses = ['192.0.2.5/33']",
        "192.0.2.5/33: the prefix has 0 to 32 bits, not 33",
    ),
    (
        "ethernet con-name e ifname e ipv4.method manual ipv4.addresses 192.0.2.500/24",
        "[cards.e]\naddresses = ['192.0.2.500/24']",
        "\"192.0.2.500\" is not an IP address",
    ),
    ("ethernet con-name e ifname e ipv4.method manual", "[cards.e]\nipv4 = 'manual'", "manual needs addresses"),
    (
        "ethernet con-name e ifname e ipv4.method disabled ipv4.addresses 192.0.2.5/24",
        "[cards.e]\nipv4 = 'disabled'\naddresses = ['192.0.2.5/24']",
        "there are addresses, although it is off",
    ),
    (
        "ethernet con-name e ifname e ipv4.method manual ipv4.gateway 192.0.2.1",
        "[cards.e]\ngateway = '192.0.2.1'",
        "there is a gateway, and no address",
    ),
    (
        "bridge con-name b ifname b bridge.priority 70000",
        "[bridges.b]\npriority = 70000",
        "70000 is not one of 0 to 65535",
    ),
    (
        "bridge con-name b ifname b bridge.stp no bridge.forward-delay 1",
        "[bridges.b]\nstp = false\nforward_delay = 1",
        "1 is not one of 2 to 30",
    ),
    ("ethernet con-name e ifname e ipv4.method ignore", "[cards.e]\nipv4 = 'ignore'", "ignore is for IPv6 alone"),
    (
        "bond con-name b ifname b bond.options mode=active-backup,arp_interval=100,arp_ip_target=2001:db8::1",
        "[bonds.b]\nports = []\nmode = 'active-backup'\narp_interval = 100\narp_targets = ['2001:db8::1']",
        "is not an address of IPv4",
    ),
    ("bridge con-name b ifname b bridge.forward-delay 1", "[bridges.b]\nforward_delay = 1", "1 is not one of 2 to 30"),
    ("bridge con-name b ifname b bridge.hello-time 0", "[bridges.b]\nhello_time = 0", "0 is not one of 1 to 10"),
    (
        "ethernet con-name e ifname e ipv4.method manual ipv4.addresses 192.0.2.5/24 ipv4.routes '198.51.100.0/40 192.0.2.9'",
        "[cards.e]\naddresses = ['192.0.2.5/24']\nroutes = [{ to = '198.51.100.0/40', via = '192.0.2.9' }]",
        "the prefix has 0 to 32 bits, not 40",
    ),
    ("ethernet con-name e ifname e ipv4.method bogus", "[cards.e]\nipv4 = 'bogus'", "unknown variant `bogus`"),
    (
        "ethernet con-name e ifname e ethernet.mtu 99999999999",
        "[cards.e]\nmtu = 99999999999",
        "is not one of 68 to 65535",
    ),
];

#[test]
fn what_networkmanager_refuses_is_refused_with_its_place() {
    let unpacked = networkmanager();
    for (args, text, sentence) in REFUSED {
        if let Some(unpacked) = &unpacked {
            let ended = offline(unpacked, &format!("nmcli connection add type {args}"));
            assert!(!ended.status.success(), "nmcli takes {args}");
        }
        let refusal = Topology::parse(text).unwrap_err();
        assert!(refusal.problem.contains(sentence), "{text}: {refusal}");
        let is_placed = ["cards", "bonds", "vlans", "bridges"].iter().any(|table| refusal.problem.starts_with(table));
        assert!(is_placed, "{text}: {refusal}");
    }
}
