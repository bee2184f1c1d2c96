//! The frame of a packet, as it comes from a cable.

use std::net::{IpAddr, SocketAddr};

/// The number of UDP among protocols.
const UDP: u8 = 17;

/// Routers that a packet may pass: as many as Linux lets it.
const HOPS: u8 = 64;

/// A frame between two hardware addresses with a packet of UDP.
pub(super) fn frame(hardware: [[u8; 6]; 2], [from, to]: [SocketAddr; 2], payload: &[u8]) -> Vec<u8> {
    let length = length(8 + payload.len());
    let addresses = [from.ip(), to.ip()].map(octets).concat();
    let mut udp = [&from.port().to_be_bytes()[..], &to.port().to_be_bytes(), &length, &[0, 0], payload].concat();
    // Addresses, protocol and length are part of the sum, in any order.
    let sum = checksum(&[&addresses, &[0, UDP][..], &length, &udp].concat());
    // Zero would mean that there is no sum.
    let sum = if sum == [0, 0] { [0xff; 2] } else { sum };
    udp[6..8].copy_from_slice(&sum);
    let (kind, header) = if from.is_ipv4() {
        // Version and length, service, total length, identity, "do not fragment", hops, protocol, sum.
        let [high, low] = self::length(20 + udp.len());
        let mut header = [&[0x45, 0, high, low, 0, 0, 0x40, 0, HOPS, UDP, 0, 0], &addresses[..]].concat();
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        ([0x08, 0x00], header)
    } else {
        // Version, class and flow, length of what follows, protocol, hops.
        let header = [&[0x60, 0, 0, 0, length[0], length[1], UDP, HOPS], &addresses[..]].concat();
        ([0x86, 0xdd], header)
    };
    let [source, target] = hardware;
    [&target[..], &source, &kind, &header, &udp].concat()
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The sum of RFC 1071.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    // Carries count as ones, so the sum is the rest of a division. Only a sum of nothing is zero.
    let rest = match bytes.chunks(2).map(word).sum::<u64>() {
        0 => 0,
        sum => (sum - 1) % 0xffff + 1,
    };
    (!u16::try_from(rest).unwrap_or(0)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_published_examples() {
        // RFC 1071, and a header whose sum is b861.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), [0x22, 0x0d]);
        let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199];
        assert_eq!(checksum(&header), [0xb8, 0x61]);
        assert_eq!((checksum(&[]), checksum(&[0xff, 0xff]), checksum(&[0x12])), ([0xff; 2], [0; 2], [0xed, 0xff]));
    }

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
