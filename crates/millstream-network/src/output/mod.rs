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
ip link set eth0 down
ip link set eth0 master bond0
ip link set eth1 down
ip link set eth1 master bond0
ip link add br.123 type bridge stp_state 0 forward_delay 0
ip link add link bond0 name bond0.123 type vlan id 123
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
";
        assert_eq!(text(Form::Ip), wanted);
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
        ] {
            assert!(state.contains(part), "{part}: {state}");
        }
    }
}
