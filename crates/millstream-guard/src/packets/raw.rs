//! Packets whose headers this program writes, so that one socket sends from any address.

use crate::wire::udp;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A raw socket, and a packet from each source.
pub(super) struct Raw {
    socket: OwnedFd,
    target: SocketAddr,
    /// The packets, one behind the other.
    packets: Vec<u8>,
    /// Bytes of a packet.
    length: usize,
    /// Where the next packet begins.
    at: usize,
}

impl Raw {
    /// Packets from the sources that begin with this one.
    pub(super) fn new(first: SocketAddr, target: SocketAddr, sources: u32, payload: &[u8]) -> io::Result<Self> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::RAW, Some(ipproto::RAW))?;
        let (mut packets, mut from) = (Vec::new(), first);
        for _ in 0..sources {
            packets.extend(udp([from, target], payload));
            from.set_ip(super::generator::next(from.ip()));
        }
        // The port of a raw socket is a protocol, and there the header has it.
        let target = SocketAddr::new(target.ip(), 0);
        Ok(Self { socket, target, length: packets.len() / sources.max(1) as usize, packets, at: 0 })
    }

    /// Sends so many packets, each from the next source. Returns how many were sent.
    pub(super) fn send(&mut self, count: usize) -> io::Result<u64> {
        for _ in 0..count {
            let packet = &self.packets[self.at..self.at + self.length];
            while let Err(error) = sendto(&self.socket, packet, SendFlags::empty(), &self.target) {
                if error != Errno::INTR {
                    return Err(error.into());
                }
            }
            self.at = if self.at + self.length == self.packets.len() { 0 } else { self.at + self.length };
        }
        Ok(count as u64)
    }
}
