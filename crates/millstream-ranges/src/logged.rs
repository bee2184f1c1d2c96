//! Addresses as programs write them into logs: with a port, in brackets, as a list.

use std::net::{IpAddr, Ipv6Addr};

/// Which address of a list is meant, such as one of the header `X-Forwarded-For`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which {
    /// There must be only one.
    #[default]
    Only,
    /// The first: the client, as far as the proxies can be trusted.
    First,
    /// The last: who spoke to the last proxy.
    Last,
    /// Each of them.
    All,
}

/// The addresses of a text, separated by commas. `None` for an entry that is not an address, such as `unknown`.
pub fn addresses(text: &str) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    text.split(',').map(address)
}

/// One address: `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`, with spaces around it. A zone
/// id is cut, and `::ffff:1.2.3.4` is 1.2.3.4: a server that listens to both families writes IPv4 so.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let found = if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let port = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        v6(inside).filter(|_| port)?.into()
    } else if let Ok(address) = text.parse() {
        address
    } else if let Some((address, port)) = text.rsplit_once(':')
        && !address.contains(':')
    {
        IpAddr::V4(address.parse().ok().filter(|_| is_port(port))?)
    } else {
        v6(text)?.into()
    };
    Some(found.to_canonical())
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    text.split_once('%').map_or(text, |(address, _zone)| address).parse().ok()
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_as_they_are_logged() {
        for (text, found) in [
            ("1.2.3.4", Some("1.2.3.4")),
            (" 1.2.3.4 ", Some("1.2.3.4")),
            ("1.2.3.4:8080", Some("1.2.3.4")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[fe80::1%eth0]:80", Some("fe80::1")),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("[::ffff:1.2.3.4]:80", Some("1.2.3.4")),
            ("", None),
            ("unknown", None),
            ("_hidden", None),
            ("1.2.3.4:", None),
            ("1.2.3.4:80:80", None),
            ("1.2.3.4:99999", None),
            ("1.2.3.4:+1", None),
            ("1.2.3.04", None),
            ("[1.2.3.4]:80", None),
            ("[2001:db8::1]x", None),
            ("[2001:db8::1", None),
            ("2001:db8::1]", None),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), found, "{text}");
        }
        let list: Vec<_> = addresses("203.0.113.7, unknown, [2001:db8::1]:443").collect();
        assert_eq!(list, ["203.0.113.7".parse().ok(), None, "2001:db8::1".parse().ok()]);
    }
}
