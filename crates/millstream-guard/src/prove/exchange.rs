//! Exchanges: a client begins to talk to a service of the host, and the host answers.

use super::network::{CLIENT, HOST, Nets};
use super::talk::{connected, is_ready};
use crate::limits::{EXCHANGE_MAX, EXCHANGES_AT_ONCE};
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

/// The first packets of a client to a service, and the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The line of the service.
    pub(super) line: String,
    pub(super) host: SocketAddr,
    pub(super) client: IpAddr,
    pub(super) is_tcp: bool,
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.is_tcp { "tcp" } else { "udp" };
        write!(f, "{} (port {} of {protocol})", self.line, self.host.port())
    }
}

/// Whether each of them works. What fails takes its time, so several are tried at once.
pub(super) fn which_work(all: &[Exchange], nets: &Nets) -> io::Result<Vec<bool>> {
    let mut works = Vec::with_capacity(all.len());
    for group in all.chunks(EXCHANGES_AT_ONCE) {
        let of_group: Vec<io::Result<bool>> = std::thread::scope(|scope| {
            // Each thread enters networks of its own.
            let threads: Vec<_> = group.iter().map(|one| scope.spawn(move || one.works(nets))).collect();
            let failed = |_| Err(io::Error::other("a thread has ended early"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        for one in of_group {
            works.push(one?);
        }
    }
    Ok(works)
}

impl Exchange {
    fn works(&self, nets: &Nets) -> io::Result<bool> {
        if self.is_tcp { self.connects(nets) } else { self.is_answered(nets) }
    }

    /// Whether a connection comes about on both sides.
    fn connects(&self, nets: &Nets) -> io::Result<bool> {
        nets.enter(HOST)?;
        let listener = TcpListener::bind(self.host)?;
        nets.enter(CLIENT)?;
        let Some(_called) = connected(self.client, self.host, EXCHANGE_MAX)? else { return Ok(false) };
        // The end of the handshake may be dropped.
        is_ready(&listener, PollFlags::IN, EXCHANGE_MAX)
    }

    /// Whether a datagram and the answer to it arrive.
    fn is_answered(&self, nets: &Nets) -> io::Result<bool> {
        nets.enter(HOST)?;
        let server = UdpSocket::bind(self.host)?;
        nets.enter(CLIENT)?;
        let client = UdpSocket::bind(SocketAddr::new(self.client, 0))?;
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(EXCHANGE_MAX))?;
        }
        let mut word = [0; 8];
        client.send_to(b"asked", self.host)?;
        let Ok((_, caller)) = server.recv_from(&mut word) else { return Ok(false) };
        // A filter of the host refuses what it does not let out.
        Ok(server.send_to(b"told", caller).is_ok() && client.recv_from(&mut word).is_ok())
    }
}
