//! A port that no other test takes.

use crate::limits::{PORT_TRIES_MAX, PORTS};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// A TCP port of 127.0.0.1 for one test's server. No other test gets it while this lives, not even while the server
/// is stopped.
///
/// It is held by a UDP socket of the same number: a server does not notice it, and the kernel closes it in every case.
#[derive(Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    _held: UdpSocket,
}

impl Port {
    /// A free one.
    #[expect(clippy::new_without_default, reason = "a port is taken")]
    pub fn new() -> Self {
        (0..PORT_TRIES_MAX).find_map(|_| Self::take(fastrand::u16(PORTS))).expect("a port is free")
    }

    fn take(number: u16) -> Option<Self> {
        let held = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_nobody_elses_until_it_is_dropped() {
        let port = Port::new();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number)).expect("its owner may listen");
        drop(server);
        assert!(Port::take(port.number).is_none());
        let number = port.number;
        drop(port);
        assert!(Port::take(number).is_some());
    }
}
