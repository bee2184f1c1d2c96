//! A packet as the bytes that go over the network.

use crate::policy::{Content, Packet};
use std::net::IpAddr;

/// Protocols of IP by number.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;

/// The hop limit of a packet whose sender wants it to cross no router unseen.
const HOPS_OF_NEIGHBOUR: u8 = 255;
const HOPS: u8 = 64;

/// The number of a packet's protocol.
pub(super) fn protocol(packet: &Packet) -> u8 {
    match packet.content {
        Content::Tcp { .. } => TCP,
        Content::Udp { .. } => UDP,
        Content::Icmp { .. } if packet.source.is_ipv4() => ICMP,
        Content::Icmp { .. } => ICMPV6,
        Content::LaterFragment => FRAGMENT,
        Content::Other(protocol) => protocol,
    }
}

/// The packet with its IP header.
pub(super) fn bytes(packet: &Packet) -> Vec<u8> {
    let protocol = protocol(packet);
    let mut payload = payload(packet);
    let sum_at = match packet.content {
        Content::Tcp { .. } => Some(16),
        Content::Udp { .. } => Some(6),
        Content::Icmp { .. } => Some(2),
        Content::LaterFragment | Content::Other(_) => None,
    };
    if let Some(at) = sum_at {
        let with_addresses = protocol != ICMP;
        let sum = checksum(packet, protocol, &payload, with_addresses);
        payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mut bytes = header(packet, protocol, payload.len());
    bytes.extend(payload);
    bytes
}

fn payload(packet: &Packet) -> Vec<u8> {
    match packet.content {
        Content::Tcp { from, to, flags } => {
            let mut tcp = [from.to_be_bytes(), to.to_be_bytes()].concat();
            // Sequence numbers, and a header of five words.
            tcp.extend([0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, flags.0]);
            // A window, and no checksum yet.
            tcp.extend([0x10, 0, 0, 0, 0, 0]);
            tcp
        }
        Content::Udp { from, to } => {
            let mut udp = [from.to_be_bytes(), to.to_be_bytes()].concat();
            udp.extend([0, 12, 0, 0]);
            udp.extend(*b"test");
            udp
        }
        Content::Icmp { kind, .. } => {
            let mut icmp = vec![kind, 0, 0, 0];
            icmp.extend([0; 28]);
            icmp
        }
        // Of UDP, 8 bytes after the beginning.
        Content::LaterFragment => [UDP, 0, 0, 8, 0, 0, 0, 7].into_iter().chain([0; 8]).collect(),
        Content::Other(_) => vec![0; 8],
    }
}

/// The header. The kernel fills in the checksum of IPv4.
fn header(packet: &Packet, protocol: u8, payload: usize) -> Vec<u8> {
    let is_of_neighbour = matches!(packet.content, Content::Icmp { is_of_neighbour: true, .. });
    let hops = if is_of_neighbour { HOPS_OF_NEIGHBOUR } else { HOPS };
    let length = |more: usize| u16::try_from(payload + more).unwrap_or(u16::MAX).to_be_bytes();
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [high, low] = length(20);
            let mut bytes = vec![0x45, 0, high, low, 0, 0, 0, 0, hops, protocol, 0, 0];
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            bytes
        }
        (source, destination) => {
            let [high, low] = length(0);
            let mut bytes = vec![0x60, 0, 0, 0, high, low, protocol, hops];
            for address in [source, destination] {
                if let IpAddr::V6(address) = address {
                    bytes.extend(address.octets());
                }
            }
            bytes
        }
    }
}

/// The checksum of the internet. Source: RFC 1071; the addresses are in it as RFC 9293 and RFC 8200 say.
fn checksum(packet: &Packet, protocol: u8, payload: &[u8], with_addresses: bool) -> u16 {
    let mut all = Vec::with_capacity(payload.len() + 40);
    if with_addresses {
        for address in [packet.source, packet.destination] {
            match address {
                IpAddr::V4(address) => all.extend(address.octets()),
                IpAddr::V6(address) => all.extend(address.octets()),
            }
        }
        all.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        all.extend([0, protocol]);
    }
    all.extend(payload);
    let words = all.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let sum = words.fold(0_u32, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    });
    #[expect(clippy::cast_possible_truncation, reason = "it is folded to 16 bits")]
    let folded = !(sum as u16);
    folded
}
