//! The connection of ssh in which somebody types.

use crate::process::{ancestors, variable_of};
use std::net::IpAddr;

/// What ssh tells the programs of a connection: the addresses and ports of its ends.
const VARIABLE: &str = "SSH_CONNECTION";

/// A connection of ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssh {
    /// The other end's address.
    pub peer: IpAddr,
    /// Its port.
    pub from: u16,
    /// The address of this host.
    pub host: IpAddr,
    /// The port of ssh here.
    pub to: u16,
}

impl Ssh {
    /// The connection in which this runs. The processes above are asked too, because sudo hides it.
    pub fn here() -> Option<Self> {
        let own = std::env::var(VARIABLE).ok();
        let above = || ancestors().into_iter().find_map(|process| variable_of(process.pid, VARIABLE));
        Self::parse(&own.or_else(above)?)
    }

    /// The ends as ssh writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut end = || Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        let ((peer, from), (host, to)) = (end()?, end()?);
        Some(Self { peer, from, host, to })
    }

    /// Whether it comes from this host itself.
    pub fn is_local(self) -> bool {
        self.peer.is_loopback() || self.peer == self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_read_as_ssh_writes_them() {
        let ssh = Ssh::parse("203.0.113.7 50022 192.0.2.1 22").unwrap();
        assert_eq!((ssh.peer.to_string().as_str(), ssh.from, ssh.to), ("203.0.113.7", 50_022, 22));
        assert!(!ssh.is_local() && Ssh::parse("::1 50022 ::1 22").unwrap().is_local());
        assert!(Ssh::parse("192.0.2.1 50022 192.0.2.1 22").unwrap().is_local());
        assert_eq!((Ssh::parse(""), Ssh::parse("203.0.113.7 50022 192.0.2.1")), (None, None));
    }
}
