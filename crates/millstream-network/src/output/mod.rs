//! What programs make of a topology.

mod ip;
mod keyfile;
mod nmcli;
mod nmstate;

pub(crate) use keyfile::file_name;
pub use keyfile::{DIRECTORY, File, files};

use crate::topology::{Link, LinkKind, Topology};

/// A way to write a topology down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Commands of NetworkManager's client.
    Nmcli,
    /// NetworkManager's own files.
    Keyfile,
    /// A state for nmstate, in YAML.
    Nmstate,
    /// Commands of iproute2, which last until the machine is started again.
    Ip,
}

/// The words of a version of NetworkManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// What a port belongs to.
    pub controller: &'static str,
    /// What kind of port it is.
    pub port_type: &'static str,
    /// Whether ports start with what they belong to.
    pub autoconnect_ports: &'static str,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Nmcli, Self::Keyfile, Self::Nmstate, Self::Ip];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nmcli => "nmcli",
            Self::Keyfile => "keyfile",
            Self::Nmstate => "nmstate",
            Self::Ip => "ip",
        }
    }

    /// A topology in this form.
    pub fn text(self, topology: &Topology, words: Words) -> String {
        match self {
            Self::Nmcli => nmcli::commands(topology, words),
            Self::Keyfile => keyfile::text(topology, words),
            Self::Nmstate => nmstate::state(topology),
            Self::Ip => ip::commands(topology),
        }
    }
}

impl Words {
    /// The words until version 1.44.
    pub const OLD: Self =
        Self { controller: "master", port_type: "slave-type", autoconnect_ports: "autoconnect-slaves" };
    /// The words from version 1.46 on.
    pub const NEW: Self =
        Self { controller: "controller", port_type: "port-type", autoconnect_ports: "autoconnect-ports" };

    /// The words of a version such as `1.42.4`. `None`: that is no version.
    pub fn of(version: &str) -> Option<Self> {
        let mut numbers = version.trim().split('.').map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next()?, numbers.next()?);
        Some(if version < (1, 46) { Self::OLD } else { Self::NEW })
    }
}

/// What NetworkManager calls a kind of link.
fn kind(link: &Link) -> &'static str {
    match &link.kind {
        LinkKind::Card => "ethernet",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of the article with a bridge that has the address.
    const HOST: &str = "\
[cards.eth0]
zone = 'trusted'
[cards.eth1]
zone = 'trusted'
[bonds.bond0]
ports = ['eth0', 'eth1']
mode = '802.3ad'
miimon = 100
ipv6 = 'ignore'
zone = 'trusted'
[vlans.'bond0.123']
parent = 'bond0'
id = 123
zone = 'trusted'
[bridges.'br.123']
ports = ['bond0.123']
stp = false
forward_delay = 0
addresses = ['192.0.2.5/24']
gateway = '192.0.2.1'
dns = ['192.0.2.53', '192.0.2.54']
search = ['example.org']
routes = [{ to = '198.51.100.0/24', via = '192.0.2.9', metric = 50 }, { to = '203.0.113.0/24', via = '192.0.2.9' }]
zone = 'public'
";

    fn text(form: Form) -> String {
        form.text(&Topology::parse(HOST).unwrap(), Words::OLD)
    }

    #[test]
    fn commands_of_nmcli_stand_in_the_order_in_which_they_work() {
        let wanted = "\
nmcli connection add type bond con-name bond0 ifname bond0 bond.options mode=802.3ad,miimon=100 ipv4.method disabled \
ipv6.method ignore connection.zone trusted
nmcli connection add type ethernet con-name eth0 ifname eth0 master bond0 slave-type bond connection.zone trusted
nmcli connection add type ethernet con-name eth1 ifname eth1 master bond0 slave-type bond connection.zone trusted
nmcli connection add type bridge con-name br.123 ifname br.123 bridge.stp no bridge.forward-delay 0 ipv4.method manual \
ipv4.addresses 192.0.2.5/24 ipv4.gateway 192.0.2.1 ipv4.dns 192.0.2.53,192.0.2.54 ipv4.dns-search example.org \
ipv4.routes '198.51.100.0/24 192.0.2.9 50,203.0.113.0/24 192.0.2.9' ipv6.method disabled connection.zone public
nmcli connection add type vlan con-name bond0.123 ifname bond0.123 dev bond0 id 123 master br.123 slave-type bridge \
connection.zone trusted
";
        assert_eq!(text(Form::Nmcli), wanted);
        let new = Form::Nmcli.text(&Topology::parse(HOST).unwrap(), Words::NEW);
        assert!(new.contains("ifname eth0 controller bond0 port-type bond"), "{new}");
    }

    #[test]
    fn words_follow_the_version() {
        assert_eq!(Words::of("1.42.4"), Some(Words::OLD));
        assert_eq!(Words::of("1.46.0"), Some(Words::NEW));
        assert_eq!(Words::of("1.9"), Some(Words::OLD));
        assert_eq!(Words::of("2.0.1-dev"), Some(Words::NEW));
        assert_eq!(Words::of("new"), None);
    }

    #[test]
    fn commands_of_ip_make_what_is_below_first() {
        let wanted = "\
ip link add bond0 type bond mode 802.3ad miimon 100
ip link add link bond0 name bond0.123 type vlan id 123
ip link add br.123 type bridge stp_state 0 forward_delay 0
ip link set eth0 down
ip link set eth0 master bond0
ip link set eth1 down
ip link set eth1 master bond0
ip link set bond0.123 master br.123
ip address add 192.0.2.5/24 dev br.123
ip link set eth0 up
ip link set eth1 up
ip link set bond0 up
ip link set bond0.123 up
ip link set br.123 up
ip route add default via 192.0.2.1 dev br.123
ip route add 198.51.100.0/24 via 192.0.2.9 dev br.123 metric 50
ip route add 203.0.113.0/24 via 192.0.2.9 dev br.123
# bond0: ip sets no zones of firewalld, and this is trusted
# eth0: ip sets no zones of firewalld, and this is trusted
# eth1: ip sets no zones of firewalld, and this is trusted
# br.123: ip sets no name servers; write \"nameserver 192.0.2.53\" into /etc/resolv.conf
# br.123: ip sets no name servers; write \"nameserver 192.0.2.54\" into /etc/resolv.conf
# br.123: ip sets no search domains; write \"search example.org\" into /etc/resolv.conf
# br.123: ip sets no zones of firewalld, and this is public
# bond0.123: ip sets no zones of firewalld, and this is trusted
";
        assert_eq!(text(Form::Ip), wanted);
    }

    /// Names in an order in which nothing works if links are made by it.
    const STACKS: [&str; 4] = [
        "[cards.eth0]\n[vlans.inner]\nparent = 'outer'\nid = 5\n[vlans.outer]\nparent = 'eth0'\nid = 6",
        "[bonds.a]\nports = ['eth0.9', 'eth1']\nmode = 'active-backup'\nmiimon = 100\nprimary = 'eth0.9'\nmtu = 1400\n\
         [vlans.'eth0.9']\nparent = 'eth0'\nid = 9\n[cards.eth0]\n[cards.eth1]\nmtu = 1500",
        "[bonds.z]\nports = ['eth0', 'eth1']\nmode = 'active-backup'\nmiimon = 100\nmtu = 9000\n[bridges.a]\nports = ['z']\n\
         [vlans.v]\nparent = 'z'\nid = 4\nmtu = 9000",
        "[bridges.a]\nports = ['v']\n[vlans.v]\nparent = 'z'\nid = 5\n[bridges.z]\nports = ['eth0']\n[bonds.b]\nports = ['w']\n\
         mode = 'broadcast'\n[vlans.w]\nparent = 'a'\nid = 7",
    ];

    #[test]
    fn no_command_of_ip_names_a_link_before_it_is_there() {
        for stack in STACKS {
            let topology = Topology::parse(stack).unwrap();
            let commands = Form::Ip.text(&topology, Words::OLD);
            let cards = topology.links.iter().filter(|link| link.kind == LinkKind::Card);
            let mut there: Vec<&str> = cards.map(|link| link.name.as_str()).collect();
            for command in commands.lines() {
                let words: Vec<&str> = command.split(' ').collect();
                let made = match words.as_slice() {
                    ["ip", "link", "add", "link", _, "name", name, ..] | ["ip", "link", "add", name, ..] => Some(*name),
                    _ => None,
                };
                let mut named = words.iter().filter(|word| topology.link(word).is_some() && Some(**word) != made);
                assert!(named.all(|word| there.contains(word)), "{command}: {commands}");
                there.extend(made);
            }
            assert_eq!(there.len(), topology.links.len(), "{commands}");
            // The larger packets of what lies below come first, and those of a port after its bond's.
            let at = |command: &str| commands.lines().position(|line| line == command).unwrap();
            for link in topology.links.iter().filter(|link| link.mtu.is_some() && !link.ports().is_empty()) {
                let mtu = format!("ip link set {} mtu {}", link.name, link.mtu.unwrap_or_default());
                assert!(
                    link.ports().iter().all(|port| at(&mtu) < at(&format!("ip link set {port} master {}", link.name)))
                );
            }
        }
        let bond = Form::Ip.text(&Topology::parse(STACKS[1]).unwrap(), Words::OLD);
        assert!(bond.contains("ip link set eth1 master a\nip link set eth1 mtu 1500\n"), "{bond}");
    }

    #[test]
    fn a_router_behind_a_host_route_comes_after_it_and_metrics_are_written() {
        let topology = Topology::parse(
            "[cards.eth0]\naddresses = ['203.0.113.7/32']\ngateway = { via = '172.31.1.1', metric = 50 }\n\
             routes = [{ to = '10.0.0.0/8', via = '172.31.1.1' }, { to = '172.31.1.1/32' }]\n\
             [cards.eth1]\naddresses = ['2001:db8::7/128']\ngateway = { via = 'fe80::1', metric = 60 }\n",
        )
        .unwrap();
        let routes = "\
ip route add 172.31.1.1/32 dev eth0
ip route add default via 172.31.1.1 dev eth0 metric 50
ip route add 10.0.0.0/8 via 172.31.1.1 dev eth0
ip -6 route add default via fe80::1 dev eth1 metric 60
";
        let text = |form: Form| form.text(&topology, Words::OLD);
        assert!(text(Form::Ip).ends_with(routes), "{}", text(Form::Ip));
        assert!(text(Form::Nmcli).contains("ipv4.gateway 172.31.1.1 ipv4.route-metric 50 "));
        assert!(text(Form::Nmcli).contains("ipv6.gateway fe80::1 ipv6.route-metric 60"));
        assert!(
            text(Form::Keyfile).contains("\nroute-metric=50\n") && text(Form::Keyfile).contains("\nroute-metric=60\n")
        );
        assert!(text(Form::Nmstate).contains("    next-hop-interface: \"eth0\"\n    metric: 50\n"));
        assert!(text(Form::Nmstate).contains("    next-hop-interface: \"eth1\"\n    metric: 60\n"));
    }

    #[test]
    fn a_state_for_nmstate_has_every_link_route_and_server() {
        let state = text(Form::Nmstate);
        for part in [
            "- name: \"bond0\"\n  type: bond\n  state: up\n",
            "  link-aggregation:\n    mode: \"802.3ad\"\n    port: [\"eth0\", \"eth1\"]\n    options:\n      miimon: \"100\"\n",
            "  vlan:\n    base-iface: \"bond0\"\n    id: 123\n",
            "  type: linux-bridge\n",
            "    port:\n    - name: \"bond0.123\"\n",
            "      - ip: \"192.0.2.5\"\n        prefix-length: 24\n",
            "  - destination: \"0.0.0.0/0\"\n    next-hop-address: \"192.0.2.1\"\n    next-hop-interface: \"br.123\"\n",
            "    metric: 50\n",
            "    server: [\"192.0.2.53\", \"192.0.2.54\"]\n    search: [\"example.org\"]\n",
            "# br.123: nmstate sets no forward-delay without STP, where it has no effect, and this is 0\n",
            "# br.123: nmstate sets no zones of firewalld, and this is public\n",
        ] {
            assert!(state.contains(part), "{part}: {state}");
        }
    }
}
