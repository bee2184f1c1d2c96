//! Services and clients that are known by name.

use super::Ports;

/// A service or a client that is known by name.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    tcp: &'static [u16],
    udp: &'static [u16],
    /// The ports that ask, where a client is one.
    pub(super) own_ports: &'static [(u16, u16)],
    /// Whether answers may come from an address that was not asked, as when a question goes to all servers.
    pub(super) asks_all: bool,
    /// Whether the servers are the resolvers unless the policy names others.
    pub(super) asks_resolvers: bool,
}

/// Ports that programs get without asking for one. Some resolvers choose theirs from all of them.
pub(crate) const UNPRIVILEGED: &[(u16, u16)] = &[(1_024, 65_535)];

const fn known(name: &'static str, tcp: &'static [u16], udp: &'static [u16]) -> Known {
    Known { name, tcp, udp, own_ports: UNPRIVILEGED, asks_all: false, asks_resolvers: false }
}

/// Services by name. The port of `ingest` is the one at which documents come in over HTTP.
pub(super) const SERVICES: &[Known] = &[
    known("ssh", &[22], &[]),
    known("http", &[80], &[]),
    known("https", &[443], &[]),
    known("postgres", &[5_432], &[]),
    known("ingest", &[8_432], &[]),
    known("dns", &[53], &[53]),
];

/// Clients by name.
pub(super) const CLIENTS: &[Known] = &[
    Known { asks_resolvers: true, ..known("dns", &[53], &[53]) },
    // Some programs ask from the port at which they answer.
    Known { own_ports: &[(123, 123), (1_024, 65_535)], ..known("ntp", &[], &[123]) },
    known("http", &[80], &[]),
    known("https", &[443], &[]),
    Known { own_ports: &[(68, 68)], asks_all: true, ..known("dhcp", &[], &[67]) },
    Known { own_ports: &[(546, 546)], asks_all: true, ..known("dhcpv6", &[], &[547]) },
];

impl Known {
    pub(super) fn ports(&self) -> Ports {
        let each = |ports: &[u16]| ports.iter().map(|port| (*port, *port)).collect();
        Ports { tcp: each(self.tcp), udp: each(self.udp) }
    }
}
