//! The frame of a packet, as it comes from a cable.

use crate::wire::udp;
use std::net::SocketAddr;

/// A frame between two hardware addresses with a packet of UDP.
pub(super) fn frame(hardware: [[u8; 6]; 2], [from, to]: [SocketAddr; 2], payload: &[u8]) -> Vec<u8> {
    let [source, target] = hardware;
    let kind = if from.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&target[..], &source, &kind, &udp([from, to], payload)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum;

    /// A receiver sums up everything, the checksum too, and wants zero.
    #[test]
    fn a_receiver_finds_the_sums_of_a_frame_right() {
        for (from, to, header) in [("192.0.2.1:40009", "192.0.2.2:9", 20), ("[fd76::1]:40009", "[fd76::2]:9", 40)] {
            let ends = [from, to].map(|end| end.parse().unwrap());
            let frame = frame([[2; 6], [4; 6]], ends, b"odd");
            assert_eq!((frame.len(), &frame[..12]), (14 + header + 8 + 3, &[[4; 6], [2; 6]].concat()[..]));
            let (ip, udp) = frame[14..].split_at(header);
            assert!(header == 40 || checksum(ip) == [0, 0]);
            let addresses = if header == 20 { &ip[12..] } else { &ip[8..] };
            let summed = [addresses, &[0, 17, 0, 11], udp].concat();
            assert_eq!((checksum(&summed), &udp[..6]), ([0, 0], &[0x9c, 0x49, 0, 9, 0, 11][..]));
        }
    }
}
