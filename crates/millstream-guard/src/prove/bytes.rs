//! A packet of a proof as bytes.

use crate::policy::{Content, Packet};
use crate::wire::{self, FRAGMENT, HOPS, Header, ICMP, ICMPV6, TCP, UDP, UDP_SUM, datagram};

/// The hop limit of a packet whose sender wants to know whether a router forwards it.
const HOPS_OF_NEIGHBOUR: u8 = 255;

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
    let is_of_neighbour = matches!(packet.content, Content::Icmp { is_of_neighbour: true, .. });
    let (payload, sum_at) = payload(packet);
    let header = Header {
        source: packet.source,
        destination: packet.destination,
        protocol: protocol(packet),
        hops: if is_of_neighbour { HOPS_OF_NEIGHBOUR } else { HOPS },
        sum_at,
    };
    wire::packet(header, payload)
}

/// What is in the packet, and where it has its checksum.
fn payload(packet: &Packet) -> (Vec<u8>, Option<usize>) {
    match packet.content {
        Content::Tcp { from, to, flags } => {
            // Sequence numbers, a header of five words, a window, and no checksum yet.
            let rest = [0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, flags.0, 0x10, 0, 0, 0, 0, 0];
            ([&from.to_be_bytes()[..], &to.to_be_bytes(), &rest].concat(), Some(16))
        }
        Content::Udp { from, to } => (datagram(from, to, &packet.text), Some(UDP_SUM)),
        Content::Icmp { kind, .. } => ([&[kind, 0, 0, 0][..], &[0; 28]].concat(), Some(2)),
        // Of UDP, 8 bytes after the beginning.
        Content::LaterFragment => ([&[UDP, 0, 0, 8, 0, 0, 0, 7][..], &[0; 8]].concat(), None),
        Content::Other(_) => (vec![0; 8], None),
    }
}
