//! The network in which a policy is proved: a client, a router, and the host.

use crate::policy::Policy;
use millstream_host::{End, Sandbox};
use millstream_model::Refusal;
use millstream_model::range::{Family, number};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;

pub(super) const CLIENT: usize = 0;
pub(super) const ROUTER: usize = 1;
pub(super) const HOST: usize = 2;

/// The networks of a proof.
pub(super) struct Nets([File; 3]);

impl Nets {
    pub(super) fn open([client, router, host]: &[PathBuf; 3]) -> io::Result<Self> {
        Ok(Self([File::open(client)?, File::open(router)?, File::open(host)?]))
    }

    /// Lets this thread make its next sockets in a network.
    pub(super) fn enter(&self, network: usize) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0[network].as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// The interface of the host that no line of a policy names.
pub(super) const PLAIN: &str = "prove0";

/// Settings of each network: packets with any source are taken, and connections find the size of packets by ICMP alone.
const SETTINGS: &str = "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done; \
                        echo 0 > /proc/sys/net/ipv4/tcp_mtu_probing";
/// The router forwards, and never holds back that a packet is too large: older kernels count such answers of all networks
/// together.
const FORWARDING: &str = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; \
                          echo 0 > /proc/sys/net/ipv4/icmp_ratemask";

/// Bytes of a packet between host and router. Beyond the router they are 1,500.
const WIDE: &str = "9000";

/// What the client says that it takes in one packet of TCP, although the router's packets are smaller.
const SEGMENT: &str = "advmss 8900";

/// What the addresses of a proof begin with: two bytes of IPv4, two of IPv6. What the policy denies does not reach the host,
/// and routers and the host itself must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ground {
    v4: [u8; 2],
    v6: u16,
}

impl Ground {
    /// The usual one: addresses for tests, and of networks of one's own. Lists of addresses that no packet should have hold
    /// both, and then others are taken, which are usual elsewhere.
    fn of(policy: &Policy) -> Self {
        let others = (1_u8..=223).filter(|first| *first != 127).map(|first| [first, 18]);
        let v4 = std::iter::once([198, 18]).chain(others).find(|[first, second]| {
            let end = |last| Ipv4Addr::new(*first, *second, last, last).into();
            !is_denied(policy, end(0), end(u8::MAX))
        });
        let others = (0x2400_u16..=0x3f00).step_by(0x100);
        let v6 = std::iter::once(0xfd53).chain(others).find(|first| {
            let end = |rest: [u16; 5]| {
                let [a, b, c, d, e] = rest;
                Ipv6Addr::new(*first, 0, 0, a, b, c, d, e).into()
            };
            !is_denied(policy, end([0; 5]), end([u16::from(u8::MAX), u16::MAX, u16::MAX, u16::MAX, u16::MAX]))
        });
        Self { v4: v4.unwrap_or([198, 18]), v6: v6.unwrap_or(0xfd53) }
    }

    /// Whether an address is one of these.
    pub(super) fn has(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.octets().starts_with(&self.v4),
            IpAddr::V6(v6) => v6.segments()[0] == self.v6,
        }
    }

    fn v4(self, third: u8, last: u8) -> IpAddr {
        Ipv4Addr::new(self.v4[0], self.v4[1], third, last).into()
    }

    fn v6(self, fourth: u8, last: u8) -> IpAddr {
        Ipv6Addr::new(self.v6, 0, 0, fourth.into(), 0, 0, 0, last.into()).into()
    }
}

/// Whether a policy denies an address between these two, both included.
fn is_denied(policy: &Policy, first: IpAddr, last: IpAddr) -> bool {
    let (family, first, last) = (Family::of(first), number(first), number(last));
    let lists = policy.deny.lists.iter().filter_map(|list| policy.lists.get(list));
    let mut ranges = lists.chain([&policy.deny.ranges]).flatten();
    policy.deny.is_all || ranges.any(|one| one.family == family && one.start <= last && first <= one.end)
}

/// A cable between the router and an interface of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cable {
    /// The interface of the host.
    pub(super) interface: String,
    /// What all addresses of this proof begin with.
    pub(super) ground: Ground,
    /// The host's addresses there.
    pub(super) host: [IpAddr; 2],
    /// The router's.
    pub(super) router: [IpAddr; 2],
}

impl Cable {
    fn new(ground: Ground, n: u8, interface: &str) -> Self {
        let ends = |last| [ground.v4(n, last), ground.v6(n, last)];
        Self { interface: interface.to_owned(), ground, host: ends(2), router: ends(1) }
    }

    /// The cable between the router and the client of the same proof.
    pub(super) fn outside(&self) -> Self {
        Self::new(self.ground, 0, "outside")
    }

    pub(super) fn host(&self, family: Family) -> IpAddr {
        self.host[family as usize]
    }

    pub(super) fn router(&self, family: Family) -> IpAddr {
        self.router[family as usize]
    }
}

/// The files of the networks of a sandbox.
pub(super) fn paths(sandbox: &Sandbox) -> [PathBuf; 3] {
    [CLIENT, ROUTER, HOST].map(|network| sandbox.path(network))
}

/// The cables for a policy: one for each interface that it names, and before them one for all others, `plain`.
pub(super) fn cables(policy: &Policy, plain: &str) -> Vec<Cable> {
    let of_services = policy.services.iter().filter_map(|service| service.interface.as_deref());
    let of_clients = policy.clients.iter().filter_map(|client| client.interface.as_deref());
    let names: BTreeSet<&str> = of_services.chain(of_clients).filter(|name| *name != plain).collect();
    let ground = Ground::of(policy);
    std::iter::once(plain).chain(names).zip(1..=u8::MAX).map(|(name, n)| Cable::new(ground, n, name)).collect()
}

/// Makes the network. The client has the addresses `client` for conversations; it sends packets from any address.
pub(super) fn make(cables: &[Cable], client: &[IpAddr]) -> Result<Sandbox, Refusal> {
    let mut sandbox = Sandbox::make(3)?;
    let shell = |sandbox: &Sandbox, network, script: &str| sandbox.run(network, "sh", ["-c", script]).map(|_| ());
    shell(&sandbox, ROUTER, FORWARDING)?;
    let outside = cables[0].outside();
    let join = |sandbox: &mut Sandbox, cable: &Cable, near: usize, router: &str| {
        let with_length = |[v4, v6]: [IpAddr; 2]| [format!("{v4}/24"), format!("{v6}/64")];
        let (near_addresses, router_addresses) = (with_length(cable.host), with_length(cable.router));
        let [near_addresses, router_addresses] =
            [&near_addresses, &router_addresses].map(|all| all.each_ref().map(String::as_str));
        sandbox.join([
            End { network: Some(near), device: &cable.interface, addresses: &near_addresses },
            End { network: Some(ROUTER), device: router, addresses: &router_addresses },
        ])
    };
    join(&mut sandbox, &outside, CLIENT, "outside")?;
    for (n, cable) in cables.iter().enumerate() {
        join(&mut sandbox, cable, HOST, &format!("host{n}"))?;
    }
    // Each knows where the other is, also where a filter would drop the question.
    let mut known = String::new();
    neighbours(&sandbox, &outside, CLIENT, "outside")?;
    for (n, cable) in cables.iter().enumerate() {
        neighbours(&sandbox, cable, HOST, &format!("host{n}"))?;
        // What the host sends from an address goes out by that interface.
        for (ip, family) in [("ip", Family::V4), ("ip -6", Family::V6)] {
            let (from, router) = (cable.host(family), cable.router(family));
            let (interface, table) = (&cable.interface, 100 + n);
            known += &format!("{ip} route add default via {router} dev {interface} table {table}\n");
            known += &format!("{ip} rule add from {from} lookup {table}\n");
            if n == 0 {
                known += &format!("{ip} route add default via {router} dev {interface}\n");
            }
        }
        known += &format!("ip link set {} mtu {WIDE}\n", cable.interface);
    }
    shell(&sandbox, HOST, &format!("set -e\n{known}{SETTINGS}"))?;
    let routes = |[v4, v6]: &[IpAddr; 2], more: &str| {
        format!(
            "ip route add default via {v4} dev outside {more}\nip -6 route add default via {v6} dev outside {more}\n"
        )
    };
    let mut router = routes(&outside.host, "");
    (0..cables.len()).for_each(|n| router += &format!("ip link set host{n} mtu {WIDE}\n"));
    shell(&sandbox, ROUTER, &format!("set -e\n{router}{SETTINGS}"))?;
    let own = client.iter().map(|address| format!("ip address add {address} dev lo{}\n", nodad(*address)));
    let own: String = own.collect();
    let client = routes(&outside.router, SEGMENT) + &own;
    shell(&sandbox, CLIENT, &format!("set -e\n{client}{SETTINGS}"))?;
    Ok(sandbox)
}

fn nodad(address: IpAddr) -> &'static str {
    if address.is_ipv6() { " nodad" } else { "" }
}

/// Lets the two ends of a cable know each other's hardware address.
fn neighbours(sandbox: &Sandbox, cable: &Cable, near: usize, router: &str) -> Result<(), Refusal> {
    let hardware = |network, device: &str| -> Result<String, Refusal> {
        let shown = sandbox.run(network, "ip", ["-brief", "link", "show", "dev", device])?.stdout;
        shown
            .split_whitespace()
            .nth(2)
            .map(str::to_owned)
            .ok_or_else(|| Refusal::new(format!("{device} has no address")))
    };
    let (near_hardware, router_hardware) = (hardware(near, &cable.interface)?, hardware(ROUTER, router)?);
    let set = |network, device: &str, address: IpAddr, hardware: &str| {
        let address = address.to_string();
        let args = ["neigh", "replace", &address, "lladdr", hardware, "dev", device, "nud", "permanent"];
        sandbox.run(network, "ip", args).map(|_| ())
    };
    for n in 0..2 {
        set(near, &cable.interface, cable.router[n], &router_hardware)?;
        set(ROUTER, router, cable.host[n], &near_hardware)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_addresses_of_a_proof_are_not_denied() {
        let dir = tempfile::tempdir().unwrap();
        let ground = |deny: &str| {
            let file = dir.path().join("policy.toml");
            std::fs::write(&file, format!("deny = [{deny}]\n[services.ssh]\n")).unwrap();
            Ground::of(&Policy::read(Path::new(&file), &|_| Ok(Vec::new())).unwrap())
        };
        let usual = Ground { v4: [198, 18], v6: 0xfd53 };
        assert_eq!(ground(""), usual);
        assert_eq!(ground("'198.19.0.0/16', 'fd54::/16', '192.0.2.0/24'"), usual);
        assert_eq!(ground("'198.18.255.255', 'fd53:0:0:ff::7'"), Ground { v4: [1, 18], v6: 0x2400 });
        assert_eq!(ground("'198.18.0.0/15', '1.0.0.0/8', 'fc00::/7', '2400::/12'"), Ground { v4: [2, 18], v6: 0x2500 });
        assert_eq!(ground("'0.0.0.0/0', '::/0'"), usual, "nothing can be better");
    }
}
