//! The lines of a policy: what decides about a packet, by name, and why it is there.

/// Lines that every policy has, in the order in which they are asked, each with its reason. The lines of services and
/// clients have the names of their tables, such as `services.ssh`.
pub const LINES: &[(&str, &str)] = &[
    ("no-tracking", "packets of this host are not tracked, so there is no table that could be full"),
    ("loopback", "programs of this host talk to each other, for example to a database"),
    ("neighbour-discovery", "IPv6 finds its neighbours and routers by it; only neighbours can send it"),
    ("multicast-listener", "routers ask by it who wants which groups, without which neighbour discovery can fail"),
    ("deny", "the policy denies this source"),
    ("denied", "this source is denied for a time"),
    ("fragments", "IPv6 fragments after the first have no ports; without the first one they are never put together"),
    ("packet-too-big", "a router says by it that IPv6 packets are too large; without it, connections stand still"),
    (
        "destination-unreachable",
        "a router says by it that IPv4 packets are too large; without it, connections stand still",
    ),
    ("time-exceeded", "routers say by it that a packet went in circles or was malformed"),
    ("established", "the packet belongs to a connection that a line has accepted, or is an error about one"),
    ("invalid", "connection tracking cannot make sense of the packet"),
    ("ping", "the host answers echo requests"),
    ("outgoing-icmp", "the host may report errors and send echo requests, and gets the answers"),
    ("send-all", "the policy lets this host send everything"),
    ("illegal-flags", "no connection has these flags of TCP; scanners send them"),
    ("service-ports", "the port belongs to a service that does not accept this packet"),
    ("everything-else", "no line accepts it"),
];

/// Why a line is there.
pub fn reason(line: &str) -> String {
    if let Some((_, why)) = LINES.iter().find(|(name, _)| *name == line) {
        return (*why).to_owned();
    }
    match line.split_once('.') {
        Some(("services", name)) => match name.split_once('.') {
            Some((name, "limit")) => format!("the source begins with {name} more often than its limit says"),
            Some((name, _)) => format!("the datagram holds the text that {name} denies"),
            None => format!("the service {name} accepts this source"),
        },
        Some(("clients", name)) => format!("it is a request of the client {name}, or the answer to one"),
        _ => String::new(),
    }
}
