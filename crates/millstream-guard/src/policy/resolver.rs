//! The resolvers that a host asks.

use super::{Addresses, list};
use crate::limits::RESOLVED_BYTES_MAX;
use millstream_host::read_at_most;
use millstream_model::Refusal;
use millstream_model::range::Range;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};

/// Where a host keeps its resolvers.
const RESOLVERS: &str = "/etc/resolv.conf";

/// Where systemd-resolved writes the resolvers that it asks itself, and the addresses at which it answers.
const UPSTREAM: &str = "/run/systemd/resolve/resolv.conf";
const RESOLVED: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54))];

/// The port of resolvers.
const DNS: u16 = 53;

/// The resolvers that a host asks.
#[derive(Debug, Default)]
pub(super) struct Resolvers {
    /// Those elsewhere. None if nobody has named any.
    pub(super) addresses: Addresses,
    /// The file that names them, if the policy does not.
    pub(super) file: Option<PathBuf>,
    /// A resolver of this host itself: whom it asks is not known.
    pub(super) own: Option<IpAddr>,
}

impl Resolvers {
    /// Those that a policy names.
    pub(super) fn named(addresses: Addresses) -> Self {
        let are_own = addresses.lists.is_empty()
            && addresses.ranges.iter().all(|range| is_own(&range.first()) && is_own(&range.last()));
        match addresses.ranges.first().map(|range| range.first()).filter(|_| are_own) {
            Some(own) => Self { own: Some(own), ..Self::default() },
            None => Self { addresses, ..Self::default() },
        }
    }

    /// Those of this host.
    pub(super) fn of_host() -> Self {
        Self::of_files(Path::new(RESOLVERS), Path::new(UPSTREAM))
    }

    /// Those that a file names. If systemd-resolved answers on this host, `upstream` names those that it asks.
    fn of_files(file: &Path, upstream: &Path) -> Self {
        let is_here = |address: &IpAddr| is_own(address) || is_of_this_host(*address);
        let (own, mut elsewhere): (Vec<_>, Vec<_>) = servers(file).into_iter().partition(is_here);
        let is_behind = own.iter().any(|address| RESOLVED.contains(address));
        if is_behind {
            elsewhere.extend(servers(upstream).into_iter().filter(|address| !is_here(address)));
        }
        let file = if is_behind { upstream } else { file };
        // Whom systemd-resolved asks is known, if it says so.
        let is_unknown = |address: &&IpAddr| elsewhere.is_empty() || !RESOLVED.contains(*address);
        let own = own.iter().find(is_unknown).copied();
        let each = |address: IpAddr| Range::new(address, address).ok();
        let ranges = list::merged(elsewhere.into_iter().filter_map(each).collect()).unwrap_or_default();
        Self { addresses: Addresses { ranges, ..Addresses::default() }, file: Some(file.to_owned()), own }
    }

    /// Why there is nobody to ask.
    pub(super) fn missing(&self) -> Refusal {
        let Some(own) = self.own else {
            return Refusal::new(format!("{RESOLVERS} names no resolver to ask"))
                .hint("name them: resolvers = [\"192.0.2.53\"]");
        };
        Refusal::new(format!(
            "the resolver {own} is a program of this host, and the answers to its own questions would be dropped"
        ))
        .hint(
            "name the resolvers that it asks: resolvers = [\"192.0.2.53\"]; if it asks any server, write \
                 to = [\"0.0.0.0/0\", \"::/0\"] in [clients.dns]",
        )
    }
}

/// Whether a resolver at this address is this host itself, wherever that is. No address means the same to glibc.
fn is_own(address: &IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

/// Whether this host has an address: then it answers there itself. Nothing is sent; the kernel only says from which address it
/// would ask.
fn is_of_this_host(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let asked_from = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, DNS))?;
        socket.local_addr()
    };
    asked_from().is_ok_and(|from| from.ip() == address)
}

/// The resolvers that a file names, in the order in which they are asked. As in glibc, what follows an address is a comment.
fn servers(file: &Path) -> Vec<IpAddr> {
    let text = read_at_most(file, RESOLVED_BYTES_MAX, None).unwrap_or_default();
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        // The name of an interface may follow, without which an address of one link means nothing to a program.
        let address = words.next()?.split('%').next()?;
        Some(address.parse::<IpAddr>().ok()?.to_canonical())
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn resolvers_are_those_that_are_asked_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (file, upstream) = (dir.path().join("resolv.conf"), dir.path().join("upstream"));
        fs::write(&upstream, "nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver 127.0.0.1\n").unwrap();
        let found = |text: &str, upstream: &Path| {
            fs::write(&file, text).unwrap();
            let found = Resolvers::of_files(&file, upstream);
            let all: Vec<String> = found.addresses.ranges.iter().map(|range| range.first().to_string()).collect();
            (all.join(" "), found.own.map(|own| own.to_string()), found.file)
        };
        let plain = "# no\n;nameserver 192.0.2.9\nnameserver 192.0.2.53 # main router\nnameserver\t192.0.2.54;x\r\n\
                     nameserver fe80::1%eth0 second\nnameserver\nnameservers 192.0.2.8\nsearch nameserver 192.0.2.7\n";
        assert_eq!(found(plain, &upstream), ("192.0.2.53 fe80::1".to_owned(), None, Some(file.clone())));
        for stub in ["127.0.0.53", "127.0.0.54"] {
            let asked = ("192.0.2.1 2001:db8::1".to_owned(), None, Some(upstream.clone()));
            assert_eq!(found(&format!("nameserver {stub} # stub\n"), &upstream), asked);
        }
        for (own, text) in
            [("127.0.0.1", "nameserver 127.0.0.1\n"), ("::1", "nameserver ::1\n"), ("0.0.0.0", "nameserver 0.0.0.0\n")]
        {
            let (all, of_host, _) = found(text, &upstream);
            assert_eq!((all.as_str(), of_host.as_deref()), ("", Some(own)), "nobody knows whom it asks");
        }
        let (all, of_host, _) = found("nameserver 127.0.0.53\n", Path::new("/nowhere"));
        assert_eq!((all.as_str(), of_host.as_deref()), ("", Some("127.0.0.53")));
        let both = found("nameserver ::1\nnameserver 192.0.2.53\n", &upstream);
        assert_eq!((both.0.as_str(), both.1.as_deref()), ("192.0.2.53", Some("::1")), "it is asked first");
    }
}
