//! Packets of IP as the bytes that go over the network.

use std::net::{IpAddr, SocketAddr};

/// Protocols of IP by number.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const ICMPV6: u8 = 58;

/// Routers that a packet may pass: as many as Linux lets it.
pub(crate) const HOPS: u8 = 64;

/// What is around the payload of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) hops: u8,
    /// Where the payload has its checksum, if it has one.
    pub(crate) sum_at: Option<usize>,
}

/// A packet: its header, then the payload with its checksum.
pub(crate) fn packet(header: Header, mut payload: Vec<u8>) -> Vec<u8> {
    let Header { protocol, hops, .. } = header;
    let addresses = [header.source, header.destination].map(octets).concat();
    if let Some(at) = header.sum_at {
        // Addresses, protocol and length are part of the sum, in any order; not so for ICMP of IPv4.
        let around = [&addresses[..], &[0, protocol], &length(payload.len())].concat();
        let sum = checksum(&if protocol == ICMP { payload.clone() } else { [&around, &payload[..]].concat() });
        // Zero would mean that there is no sum.
        let sum = if protocol == UDP && sum == [0, 0] { [0xff; 2] } else { sum };
        payload[at..at + 2].copy_from_slice(&sum);
    }
    let header = if header.source.is_ipv4() {
        // Version and length, service, total length, identity, "do not fragment", hops, protocol, sum.
        let [high, low] = length(20 + payload.len());
        let mut header = [&[0x45, 0, high, low, 0, 0, 0x40, 0, hops, protocol, 0, 0], &addresses[..]].concat();
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        header
    } else {
        // Version, class and flow, length of what follows, protocol, hops.
        let [high, low] = length(payload.len());
        [&[0x60, 0, 0, 0, high, low, protocol, hops], &addresses[..]].concat()
    };
    [header, payload].concat()
}

/// A datagram of UDP without its checksum, which stands at [`UDP_SUM`].
pub(crate) fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &length(8 + payload.len()), &[0, 0], payload].concat()
}

/// Where a datagram has its checksum.
pub(crate) const UDP_SUM: usize = 6;

/// A packet with a datagram of UDP.
pub(crate) fn udp([from, to]: [SocketAddr; 2], payload: &[u8]) -> Vec<u8> {
    let header = Header { source: from.ip(), destination: to.ip(), protocol: UDP, hops: HOPS, sum_at: Some(UDP_SUM) };
    packet(header, datagram(from.port(), to.port(), payload))
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
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 2] {
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
}
