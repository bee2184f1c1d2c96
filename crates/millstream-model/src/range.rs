//! A range of addresses of one family, and how people write it.

use crate::limits::{SHOWN_CHARACTERS, ZONE_HYPHENS_MAX};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Addresses of 4 bytes.
    #[serde(rename = "4")]
    V4,
    /// Addresses of 16 bytes.
    #[serde(rename = "6")]
    V6,
}

/// Both families, in the order in which they are stored.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Bits of an address.
    pub fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Bytes of an address.
    pub fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// The last address, as a number.
    pub fn last(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// `v4` or `v6`; also the name of its database in a store.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    /// The address with a number. Bits beyond the family's are cut.
    pub fn address(self, number: u128) -> IpAddr {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
            Self::V4 => Ipv4Addr::from_bits(number as u32).into(),
            Self::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }
}

/// An address as a number of its family, most significant byte first.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// All addresses from the first to the last, both included. Ranges are ordered by family, then by first address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// IPv4 or IPv6.
    pub family: Family,
    /// The first address, as a number.
    pub start: u128,
    /// The last address, as a number; not before the first.
    pub end: u128,
}

/// How addresses in an input are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressReading {
    /// Whether `::ffff:1.2.3.4` means `1.2.3.4`.
    pub unmap: bool,
    /// The family of addresses that are written as a number, such as 16777216. `None`: they are refused.
    pub numbers: Option<Family>,
}

impl Range {
    /// The range between two addresses.
    ///
    /// # Errors
    /// They are of two families, or the last is before the first.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, String> {
        let family = Family::of(first);
        if family != Family::of(last) {
            return Err(format!("{first} and {last} are of two families"));
        }
        let (start, end) = (number(first), number(last));
        if end < start {
            return Err(format!("the last address {last} is before the first, {first}"));
        }
        Ok(Self { family, start, end })
    }

    /// The range of a prefix such as `10.0.0.0/8`, given its address and length.
    ///
    /// # Errors
    /// The length is more than the family's, or the address has bits beyond it.
    pub fn of_prefix(address: IpAddr, length: u32) -> Result<Self, String> {
        let family = Family::of(address);
        if length > family.bits() {
            return Err(format!("/{length} is longer than an address of {} bits", family.bits()));
        }
        let start = number(address);
        let host = family.last().checked_shr(length).unwrap_or(0);
        if start & host != 0 {
            let network = family.address(start & !host);
            return Err(format!("{address} has bits beyond /{length}; the network is {network}/{length}"));
        }
        Ok(Self { family, start, end: start | host })
    }

    /// The range between two addresses as they are written.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse_pair(first: &str, last: &str, reading: AddressReading) -> Result<Self, String> {
        Self::new(reading.address(first)?, reading.address(last)?)
    }

    /// One text: `a/length`, `a-b`, or a single address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, reading: AddressReading) -> Result<Self, String> {
        let text = text.trim();
        if let Some((address, length)) = text.split_once('/') {
            let given: IpAddr = reading.address_as_written(address)?;
            let digits = !length.is_empty() && length.len() <= 3 && length.bytes().all(|b| b.is_ascii_digit());
            let length: u32 = length
                .parse()
                .ok()
                .filter(|_| digits)
                .ok_or_else(|| format!("/{:?} is not the length of a prefix", shown(length)))?;
            let range = Self::of_prefix(given, length)?;
            return Ok(if reading.unmap { range.unmapped() } else { range });
        }
        if let Some((first, last)) = reading.ends(text) {
            return Self::parse_pair(first, last, reading);
        }
        let address = reading.address(text)?;
        Self::new(address, address)
    }

    /// The first address.
    pub fn first(self) -> IpAddr {
        self.family.address(self.start)
    }

    /// The last address.
    pub fn last(self) -> IpAddr {
        self.family.address(self.end)
    }

    /// Addresses in it, less one, so that all of IPv6 fits.
    pub fn size_less_one(self) -> u128 {
        self.end - self.start
    }

    /// Whether an address lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        self.family == Family::of(address) && (self.start..=self.end).contains(&number(address))
    }

    /// The prefixes that make it up, as few as possible, in order: address and length.
    pub fn prefixes(self) -> impl Iterator<Item = (IpAddr, u32)> {
        let Self { family, end, .. } = self;
        let mut next = Some(self.start);
        std::iter::from_fn(move || {
            let start = next?;
            // The largest block that begins here and does not pass the end.
            let aligned = if start == 0 { family.bits() } else { start.trailing_zeros().min(family.bits()) };
            let left = end - start;
            let fits = if left == u128::MAX { 128 } else { 127 - (left + 1).leading_zeros() };
            let host_bits = aligned.min(fits);
            let host = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
            next = (start | host).checked_add(1).filter(|next| *next <= end);
            Some((family.address(start), family.bits() - host_bits))
        })
    }

    /// The range of IPv4 that it stands for if it lies in `::ffff:0:0/96`, else itself.
    fn unmapped(self) -> Self {
        const MAPPED: u128 = 0xffff << 32;
        let mapped = |number: u128| number >> 32 == MAPPED >> 32;
        if self.family == Family::V6 && mapped(self.start) && mapped(self.end) {
            return Self { family: Family::V4, start: self.start & 0xffff_ffff, end: self.end & 0xffff_ffff };
        }
        self
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first(), self.last())
    }
}

impl AddressReading {
    /// An address as people write it. A zone id such as `%eth0` is cut.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn address(self, text: &str) -> Result<IpAddr, String> {
        let address = self.address_as_written(text)?;
        Ok(match address {
            IpAddr::V6(v6) if self.unmap => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
            address => address,
        })
    }

    /// The two texts of `a-b`. `None`: it is one address. A zone id may have hyphens, as in `fe80::1%br-lan`.
    fn ends(self, text: &str) -> Option<(&str, &str)> {
        let ends = text.split_once('-')?;
        if !ends.0.contains('%') {
            return Some(ends);
        }
        let mut hyphens = text.match_indices('-').take(ZONE_HYPHENS_MAX).map(|(at, _)| (&text[..at], &text[at + 1..]));
        let is_range = |ends: &(&str, &str)| self.address(ends.0).is_ok() && self.address(ends.1).is_ok();
        // The colon of an address cannot be in a zone id.
        hyphens.find(is_range).or_else(|| ends.1.contains(':').then_some(ends))
    }

    fn address_as_written(self, text: &str) -> Result<IpAddr, String> {
        let text = text.trim();
        if let Some(family) = self.numbers
            && !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_digit())
        {
            let number: Option<u128> = text.parse().ok();
            let fits = number.filter(|number| *number <= family.last());
            return fits
                .map(|number| family.address(number))
                .ok_or_else(|| format!("{} is more than {}", shown(text), family.address(family.last())));
        }
        let address = match text.split_once('%') {
            Some((address, _zone)) if address.contains(':') => address,
            _ => text,
        };
        address.parse().map_err(|_| not_an_address(text))
    }
}

/// Why a text is not an address. A leading zero gets words of its own: some programs read such an octet as octal.
#[cold]
fn not_an_address(text: &str) -> String {
    let octets: Vec<&str> = text.split('.').collect();
    if octets.len() == 4 {
        let number = |octet: &&&str| !octet.is_empty() && octet.bytes().all(|b| b.is_ascii_digit());
        if let Some(octet) = octets.iter().filter(number).find(|octet| octet.len() > 1 && octet.starts_with('0')) {
            return format!("{} has an octet with a leading zero, {}", shown(text), shown(octet));
        }
    }
    if text.is_empty() {
        return "the address is empty".into();
    }
    format!("{:?} is not an IP address", shown(text))
}

/// What a message shows of a text, which may be long.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        Range::parse(text, AddressReading::default()).map(|range| range.to_string())
    }

    #[test]
    fn ranges_are_read_as_people_write_them() {
        for (text, range) in [
            ("1.0.0.0-1.0.129.0", "1.0.0.0-1.0.129.0"),
            (" 1.0.0.0 - 1.0.0.255 ", "1.0.0.0-1.0.0.255"),
            ("10.0.0.0/8", "10.0.0.0-10.255.255.255"),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
            ("1.2.3.4/32", "1.2.3.4-1.2.3.4"),
            ("1.2.3.4", "1.2.3.4-1.2.3.4"),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::/32", "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::1%eth0-fe80::2%eth0", "fe80::1-fe80::2"),
            ("fe80::1%br-lan", "fe80::1-fe80::1"),
            ("fe80::1%br-lan - fe80::2%br-lan", "fe80::1-fe80::2"),
            ("fe80::1-fe80::2%br-lan", "fe80::1-fe80::2"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4-::ffff:1.2.3.4"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(range), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("154.17.129.024", "154.17.129.024 has an octet with a leading zero, 024"),
            ("1.2.3.9-1.2.3.4", "the last address 1.2.3.4 is before the first, 1.2.3.9"),
            ("1.2.3.9-0.0.0.0", "the last address 0.0.0.0 is before the first, 1.2.3.9"),
            ("1.2.3.4-::1", "1.2.3.4 and ::1 are of two families"),
            ("10.0.0.1/8", "10.0.0.1 has bits beyond /8; the network is 10.0.0.0/8"),
            ("10.0.0.0/33", "/33 is longer than an address of 32 bits"),
            ("10.0.0.0/+8", "/\"+8\" is not the length of a prefix"),
            ("10.0.0.0/", "/\"\" is not the length of a prefix"),
            ("", "the address is empty"),
            ("1.2.3", "\"1.2.3\" is not an IP address"),
            ("fe80::1%br-lan-fe80::x", "\"lan-fe80::x\" is not an IP address"),
            ("16777216", "\"16777216\" is not an IP address"),
            ("1.2.3.0%2F24", "\"1.2.3.0%2F24\" is not an IP address"),
        ] {
            assert_eq!(parsed(text), Err(problem.into()), "{text}");
        }
        let long = "1".repeat(1_000);
        let numbers = AddressReading { numbers: Some(Family::V4), ..AddressReading::default() };
        for text in [format!("1.1.1.0{long}"), format!("1.1.1.1/{long}"), format!("::{long}"), long.clone()] {
            for reading in [AddressReading::default(), numbers] {
                let problem = Range::parse(&text, reading).unwrap_err();
                assert!(problem.contains('…') && problem.len() < 200, "{problem}");
            }
        }
    }

    #[test]
    fn mapped_addresses_and_numbers_are_read_on_request() {
        let unmap = AddressReading { unmap: true, ..AddressReading::default() };
        for (text, range) in [
            ("::ffff:1.2.3.4", "1.2.3.4-1.2.3.4"),
            ("::ffff:1.2.3.0/120", "1.2.3.0-1.2.3.255"),
            ("::ffff:0:0/96", "0.0.0.0-255.255.255.255"),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("1.2.3.4", "1.2.3.4-1.2.3.4"),
        ] {
            assert_eq!(Range::parse(text, unmap).map(|r| r.to_string()).as_deref(), Ok(range), "{text}");
        }
        let numbers = |family| AddressReading { numbers: Some(family), ..AddressReading::default() };
        let pair = |family| Range::parse_pair("16777216", "16777471", numbers(family)).map(|r| r.to_string());
        assert_eq!(pair(Family::V4).as_deref(), Ok("1.0.0.0-1.0.0.255"));
        assert_eq!(pair(Family::V6).as_deref(), Ok("::100:0-::100:ff"));
        let much = Range::parse_pair("0", "4294967296", numbers(Family::V4));
        assert_eq!(much, Err("4294967296 is more than 255.255.255.255".into()));
    }

    #[test]
    fn prefixes_make_up_the_range() {
        let prefixes = |text: &str| -> Vec<String> {
            let range = Range::parse(text, AddressReading::default()).unwrap();
            range.prefixes().map(|(address, length)| format!("{address}/{length}")).collect()
        };
        assert_eq!(prefixes("1.0.0.0-1.0.129.0"), ["1.0.0.0/17", "1.0.128.0/24", "1.0.129.0/32"]);
        assert_eq!(prefixes("0.0.0.0/0"), ["0.0.0.0/0"]);
        assert_eq!(prefixes("::/0"), ["::/0"]);
        assert_eq!(prefixes("255.255.255.255"), ["255.255.255.255/32"]);
        assert_eq!(prefixes("0.0.0.1-0.0.0.2"), ["0.0.0.1/32", "0.0.0.2/32"]);
        assert_eq!(prefixes("::1-::4"), ["::1/128", "::2/127", "::4/128"]);
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let (a, b) = (u128::from(rng.u32(..)), u128::from(rng.u32(..)));
            let range = Range { family: Family::V4, start: a.min(b), end: a.max(b) };
            let mut next = range.start;
            for (address, length) in range.prefixes() {
                let part = Range::of_prefix(address, length).unwrap();
                assert_eq!(part.start, next);
                next = part.end + 1;
            }
            assert_eq!(next, range.end + 1);
        }
    }
}
