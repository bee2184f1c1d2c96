//! Mistakes in a topology that can be seen before anything is changed.

mod addresses;
mod bonds;
mod bridges;
mod layers;
mod routes;

use crate::topology::Topology;

/// Every lint. One more is a function in a file beside this one, and a line here.
pub const LINTS: &[Lint] = &[
    addresses::FAMILY_OFF,
    addresses::GATEWAY_OUTSIDE,
    addresses::GATEWAY_OWN,
    addresses::IPV6_IGNORED,
    addresses::NOBODY_TO_ASK,
    addresses::NOT_A_HOST,
    addresses::ROUTER_OUTSIDE,
    addresses::SAME_ADDRESS,
    addresses::SAME_NETWORK,
    bonds::FEW_PORTS,
    bonds::NOT_WATCHED,
    bonds::ONE_LEG_FOR_ALL,
    bonds::PORT_IS_NO_CARD,
    bonds::SWITCH_MUST_SPEAK,
    bonds::UNEVEN_DELAY,
    bridges::LOOP,
    bridges::SLOW_START,
    bridges::TREE_TIMES,
    layers::LARGER_THAN_BELOW,
    layers::PORTS_NOT_STARTED,
    layers::PORT_WITH_ADDRESS,
    layers::SAME_VLAN,
    layers::SMALL_FOR_IPV6,
    routes::DEFAULT_ROUTES,
    routes::SAME_ROUTE,
    routes::UNCLEAR_DEFAULT,
];

/// A mistake that a topology may have.
#[derive(Debug, Clone, Copy)]
pub struct Lint {
    /// Its name.
    pub name: &'static str,
    /// How bad it is.
    pub level: Level,
    /// Why it is a mistake, and what helps.
    pub reason: &'static str,
    find: fn(&Topology) -> Vec<Found>,
}

/// How bad a mistake is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It cannot work.
    Error,
    /// It works, and not as you mean.
    Warning,
    /// To know, or to check elsewhere.
    Note,
}

/// A mistake that a topology has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the lint.
    pub lint: &'static str,
    /// How bad it is.
    pub level: Level,
    /// Where the description has it.
    pub place: String,
    /// What is wrong.
    pub sentence: String,
    /// Why that is a mistake, and what helps.
    pub reason: &'static str,
}

/// The place of a mistake, and what is wrong there.
type Found = (String, String);

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// The mistakes of a topology, the worst first.
pub fn lint(topology: &Topology) -> Vec<Finding> {
    let of = |one: &Lint| {
        let Lint { name, level, reason, find } = *one;
        let found = find(topology).into_iter();
        found.map(move |(place, sentence)| Finding { lint: name, level, place, sentence, reason }).collect::<Vec<_>>()
    };
    let mut all: Vec<Finding> = LINTS.iter().flat_map(of).collect();
    all.sort_by_key(|finding| finding.level);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A host without any mistake: nothing but notes that no description can answer.
    const GOOD: &str = "\
[bonds.bond0]
ports = ['eth0', 'eth1']
mode = 'active-backup'
miimon = 100
autoconnect_ports = true
[vlans.'bond0.123']
parent = 'bond0'
id = 123
[bridges.'br.123']
ports = ['bond0.123']
stp = false
forward_delay = 0
autoconnect_ports = true
addresses = ['192.0.2.5/24']
gateway = '192.0.2.1'
dns = ['192.0.2.53']
";

    fn names(text: &str) -> Vec<&'static str> {
        lint(&Topology::parse(text).unwrap()).iter().map(|finding| finding.lint).collect()
    }

    #[test]
    fn every_mistake_is_found_and_a_look_alike_is_not() {
        assert_eq!(names(GOOD), [""; 0]);
        let with = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            GOOD.replacen(from, to, 1)
        };
        let more = |text: &str| format!("{GOOD}{text}");
        let cases = [
            ("gateway-outside", with("'192.0.2.1'", "'192.0.3.1'"), with("'192.0.2.1'", "'192.0.2.254'")),
            ("gateway-own", with("'192.0.2.1'", "'192.0.2.5'"), with("'192.0.2.1'", "'192.0.2.6'")),
            (
                "default-routes",
                more("[cards.eth2]\naddresses = ['198.51.100.5/24']\ngateway = '198.51.100.1'"),
                more("[cards.eth2]\naddresses = ['2001:db8::5/64']\ngateway = '2001:db8::1'"),
            ),
            (
                "unclear-default",
                more("[cards.eth2]\naddresses = ['198.51.100.5/24']\ngateway = { via = '198.51.100.1', metric = 50 }"),
                with("'192.0.2.1'", "{ via = '192.0.2.1', metric = 50 }") + "[cards.eth2]\nipv4 = 'auto'",
            ),
            (
                "same-route",
                more("routes = [{ to = '10.0.0.0/8', via = '192.0.2.9' }, { to = '10.0.0.0/8', via = '192.0.2.8' }]"),
                more(
                    "routes = [{ to = '10.0.0.0/8', via = '192.0.2.9' }, \
                     { to = '10.0.0.0/8', via = '192.0.2.8', metric = 50 }]",
                ),
            ),
            ("not-a-host", with("2.5/24", "2.0/24"), with("2.5/24", "2.4/31").replace("'192.0.2.1'", "'192.0.2.5'")),
            (
                "same-address",
                more("[cards.eth2]\naddresses = ['192.0.2.5/25']"),
                more("[cards.eth2]\naddresses = ['192.0.2.5/32']"),
            ),
            (
                "same-network",
                more("[cards.eth2]\naddresses = ['192.0.2.129/25']"),
                more(
                    "[cards.eth2]\naddresses = ['192.0.3.5/24', '192.0.2.129/32', '2001:db8::5/64', '2001:db8::6/64']",
                ),
            ),
            (
                "router-outside",
                more("routes = [{ to = '10.0.0.0/8', via = '192.0.9.9' }]"),
                more("routes = [{ to = '10.0.0.0/8', via = '192.0.2.9' }]"),
            ),
            ("family-off", with("'192.0.2.53'", "'192.0.2.53', '2001:db8::53'"), more("search = ['example.org']")),
            ("ipv6-ignored", more("ipv6 = 'ignore'"), more("ipv6 = 'disabled'")),
            ("nobody-to-ask", with("dns = ['192.0.2.53']\n", ""), with("'192.0.2.53'", "'192.0.2.54'")),
            (
                "port-with-address",
                with("id = 123", "id = 123\naddresses = ['198.51.100.5/24']"),
                more("[cards.eth2]\naddresses = ['198.51.100.5/24']"),
            ),
            ("larger-than-below", with("id = 123", "id = 123\nmtu = 9000"), with("id = 123", "id = 123\nmtu = 1400")),
            (
                "small-for-ipv6",
                more("[cards.eth2]\nmtu = 1200\naddresses = ['2001:db8::5/64']"),
                more("[cards.eth2]\nmtu = 1200\naddresses = ['198.51.100.5/24']"),
            ),
            ("ports-not-started", with("autoconnect_ports = true", "autoconnect_ports = false"), GOOD.to_owned()),
            (
                "same-vlan",
                more("[vlans.again]\nparent = 'bond0'\nid = 123"),
                more("[vlans.other]\nparent = 'bond0'\nid = 124"),
            ),
            ("few-ports", with("['eth0', 'eth1']", "['eth0']"), GOOD.to_owned()),
            ("not-watched", with("miimon = 100\n", ""), with("miimon = 100", "miimon = 50")),
            ("switch-must-speak", with("active-backup", "802.3ad"), GOOD.to_owned()),
            (
                "one-leg-for-all",
                with("'active-backup'", "'802.3ad'"),
                with("'active-backup'", "'802.3ad'\ntransmit_hash = 'layer3+4'"),
            ),
            (
                "uneven-delay",
                with("miimon = 100", "miimon = 100\nup_delay = 150"),
                with("miimon = 100", "miimon = 100\nup_delay = 200"),
            ),
            (
                "port-is-no-card",
                more(
                    "[vlans.eth2]\nparent = 'eth9'\nid = 5\n[cards.eth9]\n[bonds.b]\nports = ['eth2']\nmode = 'broadcast'",
                ),
                more("[cards.eth2]\n[bonds.b]\nports = ['eth2']\nmode = 'broadcast'"),
            ),
            (
                "loop",
                more("[bridges.b]\nstp = false\nports = ['eth2', 'eth3']"),
                more("[bridges.b]\nports = ['eth2', 'eth3']"),
            ),
            ("slow-start", with("stp = false\nforward_delay = 0", "stp = true"), GOOD.to_owned()),
            (
                "tree-times",
                more("[bridges.b]\nports = ['eth2']\nforward_delay = 4\nmax_age = 20"),
                more("[bridges.b]\nports = ['eth2']\nforward_delay = 15\nmax_age = 20"),
            ),
        ];
        for (name, wrong, look_alike) in &cases {
            assert!(names(wrong).contains(name), "{name} is not found: {:?}", names(wrong));
            assert!(!names(look_alike).contains(name), "{name} is found where it is not");
        }
        let tried: BTreeSet<&str> = cases.iter().map(|(name, ..)| *name).collect();
        let all: BTreeSet<&str> = LINTS.iter().map(|lint| lint.name).collect();
        assert_eq!(tried, all);
        assert_eq!(all.len(), LINTS.len(), "two lints have one name");
    }

    /// Two links: the first one with this text, the second one with that.
    fn two(first: &str, second: &str) -> String {
        format!("[cards.eth0]\n{first}\n[cards.eth1]\n{second}\n")
    }

    #[test]
    fn what_is_legal_is_no_mistake() {
        let hosted = |to: &str| {
            format!(
                "addresses = ['203.0.113.7/32']\ngateway = '172.31.1.1'\nroutes = [{{ to = '{to}' }}]\ndns = ['192.0.2.53']"
            )
        };
        let uplinks = |second: &str| {
            two(
                "addresses = ['192.0.2.5/24']\ngateway = { via = '192.0.2.1', metric = 50 }\ndns = ['192.0.2.53']",
                &format!("addresses = ['198.51.100.5/24']\n{second}"),
            )
        };
        let bond = |rest: &str| {
            let bond =
                "[bonds.b]\nports = ['eth0', 'eth1']\nmode = 'active-backup'\nmiimon = 100\nautoconnect_ports = true";
            format!("{bond}\nmtu = 9000\n{rest}")
        };
        for legal in [
            two(&hosted("172.31.1.1/32"), ""),
            two(&hosted("172.31.0.0/16"), ""),
            two(
                "addresses = ['2001:db8::7/128']\ngateway = '2001:db8:1::1'\nroutes = [{ to = '2001:db8:1::1/128' }, \
                 { to = '2001:db8:2::/48', via = '2001:db8:1::1' }]\ndns = ['2001:db8::53']",
                "",
            ),
            two("addresses = ['fe80::1/64']", "addresses = ['fe80::1/64']"),
            two("addresses = ['169.254.0.1/16']", "addresses = ['169.254.0.1/16']"),
            two("addresses = ['192.0.2.5/32']", "addresses = ['192.0.2.5/32']"),
            two("addresses = ['192.0.2.5/24']", "addresses = ['192.0.2.5/32']"),
            two("addresses = ['2001:db8::5/128']", "addresses = ['2001:db8::5/128']"),
            uplinks("gateway = { via = '198.51.100.1', metric = 60 }"),
            uplinks("routes = [{ to = '0.0.0.0/0', via = '198.51.100.1', metric = 60 }]"),
            uplinks("routes = [{ to = '192.0.2.0/24', via = '198.51.100.1', metric = 60 }]"),
            two("ipv4 = 'auto'", "ipv6 = 'auto'"),
            two("ipv4 = 'auto'\nipv6 = 'auto'", "addresses = ['192.0.2.5/24', '2001:db8::5/64']"),
            two(
                "ipv4 = 'auto'",
                "ipv4 = 'auto'\naddresses = ['192.0.2.5/24']\ngateway = { via = '192.0.2.1', metric = 50 }",
            ),
            bond(""),
            bond("[vlans.v]\nparent = 'b'\nid = 5\nmtu = 9000"),
            bond("[cards.eth0]\nmtu = 9000"),
        ] {
            assert_eq!(names(&legal), [""; 0], "{legal}");
        }
    }

    #[test]
    fn what_a_family_or_a_route_has_no_place_for_is_named() {
        let v6 = "addresses = ['2001:db8::5/64']\n";
        let port = |rest: &str| format!("[bridges.br]\nports = ['eth0']\nstp = false\n[cards.eth0]\n{rest}");
        let bond = |rest: &str| {
            let bond = "[bonds.b]\nports = ['eth0', 'v']\nmode = 'active-backup'\nmiimon = 100\nmtu = 9000";
            format!("{bond}\n[vlans.v]\nparent = 'eth2'\nid = 5\n[cards.eth2]\n{rest}")
        };
        for (name, wrong, sentence) in [
            ("family-off", two(&format!("{v6}dns = ['192.0.2.53']"), ""), "the name server 192.0.2.53 is of IPv4"),
            ("family-off", two("routes = [{ to = '2001:db8:5::/48' }]", ""), "the route to 2001:db8:5::/48 is of IPv6"),
            ("family-off", two("search = ['example.org']", ""), "it has search domains, and neither IPv4 nor IPv6"),
            ("family-off", two("ipv6 = 'ignore'\ndns = ['2001:db8::53']", ""), "2001:db8::53 is of IPv6"),
            ("port-with-address", port("dns = ['192.0.2.53']"), "it is a port of br, and has name servers of its own"),
            ("port-with-address", port("search = ['a.org']"), "it is a port of br, and has search domains of its own"),
            ("port-with-address", port("routes = [{ to = '10.0.0.0/8' }]"), "and has routes of its own"),
            (
                "router-outside",
                two(&format!("{v6}routes = [{{ to = '::/0', via = '2001:db8:1::1' }}]"), ""),
                "2001:db8:1::1",
            ),
            (
                "gateway-outside",
                two("addresses = ['192.0.2.5/24']\ngateway = '198.51.100.1'", "routes = [{ to = '198.51.100.1/32' }]"),
                "the gateway 198.51.100.1",
            ),
            ("not-a-host", two("addresses = ['192.0.2.5/24']\ngateway = '192.0.2.255'", ""), "192.0.2.255/24"),
            ("same-address", two("addresses = ['fe80::1/64', 'fe80::1/64']", ""), "it has the address fe80::1 twice"),
            (
                "same-network",
                two("addresses = ['192.0.2.5/24', '192.0.2.7/24']", "addresses = ['192.0.2.6/24']"),
                "its network 192.0.2.0/24 lies in 192.0.2.0/24 of eth",
            ),
            (
                "same-network",
                two("addresses = ['2001:db8:0:5::1/64']", "addresses = ['2001:db8::1/48', '10.0.0.1/8']"),
                "its network 2001:db8:0:5::/64 lies in 2001:db8::/48 of eth1",
            ),
            (
                "same-route",
                two(
                    "addresses = ['192.0.2.5/24']\ngateway = { via = '192.0.2.1', metric = 50 }\n\
                     routes = [{ to = '10.0.0.0/8', via = '192.0.2.9' }]",
                    "addresses = ['198.51.100.5/24']\n\
                     routes = [{ to = '10.0.0.0/8', via = '198.51.100.9', metric = 50 }]",
                ),
                "eth0 has a route to 10.0.0.0/8 with the same metric, too: NetworkManager gives",
            ),
            (
                "default-routes",
                two(&format!("{v6}gateway = 'fe80::1'"), "ipv6 = 'auto'\nroutes = [{ to = '::/0', metric = 1024 }]"),
                "eth0 has a route to ::/0",
            ),
            (
                "same-route",
                two(
                    "addresses = ['192.0.2.5/24']",
                    "addresses = ['198.51.100.5/24']\nroutes = [{ to = '192.0.2.0/24' }]",
                ),
                "eth0 has a route to 192.0.2.0/24",
            ),
            ("unclear-default", two(&format!("{v6}gateway = 'fe80::1'"), "ipv6 = 'auto'"), "eth1 may have one, too"),
            ("unclear-default", two("ipv4 = 'auto'", "ipv4 = 'auto'"), "asks for addresses of IPv4, as eth0 does"),
            ("unclear-default", two("ipv6 = 'auto'", "ipv6 = 'auto'"), "asks for addresses of IPv6, as eth0 does"),
            (
                "small-for-ipv6",
                format!("[cards.eth0]\nmtu = 1200\n[vlans.v]\nparent = 'eth0'\nid = 5\n{v6}"),
                "packets of 1200 bytes",
            ),
            ("larger-than-below", bond(""), "its packets of 9000 bytes are larger than those of eth2 (1500 bytes)"),
            (
                "larger-than-below",
                bond("mtu = 9000\n[cards.eth0]\nmtu = 1500"),
                "its packets of 9000 bytes are larger than those of eth0 (1500 bytes)",
            ),
        ] {
            let found = lint(&Topology::parse(&wrong).unwrap());
            let is_meant = |one: &Finding| one.lint == name && one.sentence.contains(sentence);
            assert!(found.iter().any(is_meant), "{wrong}: {found:?}");
        }
    }
}
