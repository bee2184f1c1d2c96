//! Conversations of a proof: what single packets do not show.

use super::network::{CLIENT, HOST, Nets};
use crate::limits::{FRAGMENTED_BYTES, LARGE_BYTES, TALK_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// A conversation between host and client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Talk {
    /// A datagram over the loopback device.
    Loopback(SocketAddr),
    /// So many bytes of TCP from the host to the client. On the way, a router says that packets are too large.
    Large {
        host: SocketAddr,
        client: SocketAddr,
        /// Whether the client begins.
        is_served: bool,
    },
    /// A datagram from the client that is sent in fragments.
    Fragments { client: SocketAddr, host: SocketAddr },
}

impl fmt::Display for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => write!(f, "a datagram over the loopback device to {address}"),
            Self::Large { host, client, .. } => {
                write!(f, "{LARGE_BYTES} bytes from {host} to {client}, through a router with smaller packets")
            }
            Self::Fragments { client, host } => {
                write!(f, "a datagram of {FRAGMENTED_BYTES} bytes from {client} to {host}, in fragments")
            }
        }
    }
}

impl Talk {
    pub(super) fn succeeds(&self, nets: &Nets) -> io::Result<bool> {
        match *self {
            Self::Loopback(address) => loopback(nets, address),
            Self::Large { host, client, is_served } => {
                let (server, caller) = if is_served { (host, client) } else { (client, host) };
                large(nets, server, caller.ip(), is_served)
            }
            Self::Fragments { client, host } => fragments(nets, client, host),
        }
    }
}

fn loopback(nets: &Nets, address: SocketAddr) -> io::Result<bool> {
    nets.enter(HOST)?;
    let receiver = UdpSocket::bind(address)?;
    let sender = UdpSocket::bind(SocketAddr::new(address.ip(), 0))?;
    // Over this device, a packet has arrived when it was sent.
    receiver.set_nonblocking(true)?;
    if sender.send_to(b"hello", address).is_err_and(|error| error.raw_os_error() != Some(Errno::PERM.raw_os_error())) {
        return Err(io::Error::other("a datagram cannot be sent over the loopback device"));
    }
    Ok(receiver.recv(&mut [0; 16]).is_ok())
}

/// Whether all bytes arrive that the host sends.
fn large(nets: &Nets, server: SocketAddr, caller: IpAddr, is_served: bool) -> io::Result<bool> {
    let (at_server, at_caller) = if is_served { (HOST, CLIENT) } else { (CLIENT, HOST) };
    nets.enter(at_server)?;
    let listener = TcpListener::bind(server)?;
    nets.enter(at_caller)?;
    let Some(called) = connected(caller, server, TALK_MAX)? else { return Ok(false) };
    // The end of the handshake may be dropped.
    if !is_ready(&listener, PollFlags::IN, TALK_MAX)? {
        return Ok(false);
    }
    let (accepted, _) = listener.accept()?;
    let (host, client) = if is_served { (accepted, called) } else { (called, accepted) };
    host.set_write_timeout(Some(TALK_MAX))?;
    client.set_read_timeout(Some(TALK_MAX))?;
    let sending = std::thread::spawn(move || (&host).write_all(&vec![b'x'; LARGE_BYTES]).map(|()| host));
    let (mut received, mut part) = (0, vec![0; 1 << 16]);
    while received < LARGE_BYTES {
        match (&client).read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(more) => received += more,
        }
    }
    drop(client);
    let _ = sending.join();
    Ok(received == LARGE_BYTES)
}

/// Whether a socket is ready in time: else a conversation counts as failed.
pub(super) fn is_ready(socket: &impl AsFd, flags: PollFlags, limit: Duration) -> io::Result<bool> {
    let limit = Timespec { tv_sec: limit.as_secs().try_into().unwrap_or(1), tv_nsec: 0 };
    Ok(poll(&mut [PollFd::new(socket, flags)], Some(&limit))? > 0)
}

/// A connection from an address. `None`: nobody answers.
pub(super) fn connected(from: IpAddr, to: SocketAddr, limit: Duration) -> io::Result<Option<TcpStream>> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    let is_connected = match connect(&socket, &to) {
        Ok(()) => true,
        Err(Errno::INPROGRESS) => is_ready(&socket, PollFlags::OUT, limit)? && socket_error(&socket)?.is_ok(),
        Err(_) => false,
    };
    if !is_connected {
        return Ok(None);
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(Some(stream))
}

fn fragments(nets: &Nets, client: SocketAddr, host: SocketAddr) -> io::Result<bool> {
    nets.enter(HOST)?;
    let receiver = UdpSocket::bind(host)?;
    receiver.set_read_timeout(Some(TALK_MAX))?;
    nets.enter(CLIENT)?;
    let sender = UdpSocket::bind(client)?;
    sender.send_to(&vec![b'x'; FRAGMENTED_BYTES], host)?;
    Ok(receiver.recv(&mut vec![0; FRAGMENTED_BYTES]).is_ok_and(|received| received == FRAGMENTED_BYTES))
}
